"""`Agent`: a model, its tools, and whoever answers (spec 8b)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing

from midturn.agent.happenings import Streamed, TurnEnded, streamed
from midturn.agent.result import RunResult, result_of
from midturn.compose import AgentParts, RunParts, compose_agent, model_named
from midturn.core.json_value import JsonObject
from midturn.core.limits import DEFAULT_LIMITS, Limits
from midturn.core.routing.policy import DetachedPolicy, Target, TargetKind
from midturn.core.turn.inputs import TurnRequested
from midturn.errors import ModelError
from midturn.ports import Happening, Model, Tool
from midturn.runtime.driver import Ending
from midturn.runtime.prompter import Prompter
from midturn.runtime.session import Session
from midturn.store.memory_store import MemoryStore
from midturn.store.store import ConversationJournal, ConversationStore


class Agent:
    """Runs turns of conversations in a store. It reads no configuration, and opens no terminal unless a prompter does.

    Nobody is attached unless a prompter is passed; what then happens to a question says `detached` (spec 2.3). The default, `defer`,
    leaves the turn waiting: no model ever answers for somebody's customer by accident.
    """

    def __init__(  # noqa: PLR0913  the signature of spec 8b
        self,
        model: Model | str,
        *,
        tools: Sequence[Tool] = (),
        instructions: str = "",
        prompter: Prompter | None = None,
        detached: DetachedPolicy = "defer",
        routes: Mapping[str, TargetKind | Target | JsonObject] | None = None,
        limits: Limits = DEFAULT_LIMITS,
        store: ConversationStore | None = None,
    ) -> None:
        """Put an agent together.

        Args:
            model: A model, or the id of one (`anthropic/claude-sonnet-5-5`, `scripted:play.toml`).
            tools: What the model may call.
            instructions: The system prompt.
            prompter: Who answers for the user, unless `run` names another.
            detached: What happens to questions while nobody is attached.
            routes: Who is to answer, by `<tool>.<question>`; everything else goes to the user.
            limits: The limits of spec 2.6 and 9.7.
            store: Where conversations are kept; in memory where none is given.
        """
        self._parts = AgentParts(
            model=model_named(model) if isinstance(model, str) else model,
            tools=tools,
            instructions=instructions,
            detached=detached,
            routes=routes or {},
            limits=limits,
        )
        self._prompter = prompter
        self.store: ConversationStore = store or MemoryStore()

    async def run(
        self,
        text: str,
        *,
        conversation: str | None = None,
        deps: object = None,
        author: str | None = None,
        prompter: Prompter | None = None,
        schema: JsonObject | None = None,
    ) -> RunResult:
        """Run one turn: in `conversation`, or in a new one. Cancelling the task leaves the turn open, to be resumed.

        Raises:
            StoreError: The conversation cannot be written, is held elsewhere, or waits to be resumed.
            ModelError: The model stayed down after its retries; the turn is open and can be resumed.
        """
        requested = TurnRequested(text, author=author, schema=schema)
        run = RunParts(prompter=prompter or self._prompter, deps=deps)
        with closing(self._journal(conversation, text)) as journal:
            return await _finish(journal, self._session(journal, run), requested)

    def run_sync(self, text: str, *, conversation: str | None = None, deps: object = None, prompter: Prompter | None = None) -> RunResult:
        """Run one turn from a program without an event loop; otherwise like `run`."""
        return asyncio.run(self.run(text, conversation=conversation, deps=deps, prompter=prompter))

    async def resume(self, conversation: str, *, deps: object = None, prompter: Prompter | None = None) -> RunResult:
        """Continue the open turn of a conversation exactly where it stopped (spec 7.4).

        Raises:
            NotOpen: Its last turn has ended.
            StoreError: The conversation cannot be written, or is held elsewhere.
            ModelError: The model stayed down after its retries; the turn is open and can be resumed.
        """
        with closing(self.store.open(conversation)) as journal:
            return await _finish(journal, self._session(journal, RunParts(prompter=prompter or self._prompter, deps=deps)), None)

    @asynccontextmanager
    async def stream(self, text: str, *, conversation: str | None = None, deps: object = None) -> AsyncGenerator[AsyncIterator[Streamed]]:
        """Run one turn, and watch it: `async with agent.stream(…) as events: async for event in events: …`.

        Leaving the block early stops the run and leaves the turn open.
        """
        queue: asyncio.Queue[Streamed | None] = asyncio.Queue()
        with closing(self._journal(conversation, text)) as journal:
            session = self._session(journal, RunParts(prompter=self._prompter, display=_Watching(queue, journal), deps=deps))
            task = asyncio.create_task(_finish(journal, session, TurnRequested(text)))
            task.add_done_callback(lambda _: queue.put_nowait(None))
            try:
                yield _events(queue, task)
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    def _journal(self, conversation: str | None, text: str) -> ConversationJournal:
        return self.store.create(text) if conversation is None else self.store.open(conversation)

    def _session(self, journal: ConversationJournal, run: RunParts) -> Session:
        return compose_agent(self._parts, run, journal)


class _Watching:
    """A display that hands on what a program wants to know."""

    def __init__(self, queue: asyncio.Queue[Streamed | None], journal: ConversationJournal) -> None:
        self._queue = queue
        self._journal = journal

    def show(self, happening: Happening) -> None:
        """Hand on what happened."""
        event = streamed(happening, self._journal.conversation, self._journal.events)
        if event:
            self._queue.put_nowait(event)


async def _finish(journal: ConversationJournal, session: Session, requested: TurnRequested | None) -> RunResult:
    """Run or resume a turn, and read what it came to."""
    ending: Ending = await (session.run(requested) if requested else session.resume())
    if ending.status == "open":
        raise ModelError(f"{ending.error} The turn of conversation {journal.conversation} is open and can be resumed.")
    return result_of(journal.conversation, session.window, ending)


async def _events(queue: asyncio.Queue[Streamed | None], task: asyncio.Task[RunResult]) -> AsyncIterator[Streamed]:
    while event := await queue.get():
        yield event
    yield TurnEnded(await task)
