"""`Agent`: a model, its tools, and whoever answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from copy import copy
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypedDict, cast, overload

from msgspec.structs import replace

from midturn.agent.history import HistoryMessage, begin_with
from midturn.agent.result import RunResult, finished, schema_of
from midturn.agent.turn_stream import WATCHING, OnEvent, Relay, SyncTurnStream, TurnStream, Watching
from midturn.agent.worker import worker_of
from midturn.compose import AgentParts, RunParts, compose_agent
from midturn.compose.given import (
    GivenTarget,
    GivenTool,
    check_instructions,
    check_model,
    check_prompter,
    limits_of,
    policy_of,
    routes_of,
    tools_of,
)
from midturn.compose.models import Models
from midturn.core.json_value import Json, JsonObject
from midturn.core.limits import Limits
from midturn.core.routing.policy import DetachedPolicy
from midturn.core.turn.inputs import TurnRequested
from midturn.errors import TurnOpen
from midturn.models.library_model import LibraryModel
from midturn.models.wrapper import SPENT, Spent
from midturn.ports import Journal, Model
from midturn.prompter import Prompter
from midturn.runtime.session import Session
from midturn.store.admission import MayAnswer
from midturn.store.store import ConversationStore
from midturn.store.stores import MemoryStore
from midturn.store.sync_forms import refuse_inside_a_loop

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Deps = TypeVar("Deps", default=Any)
    Answer = TypeVar("Answer")
else:
    from typing import TypeVar

    Deps = TypeVar("Deps")
    Answer = TypeVar("Answer")


class _Options(TypedDict, total=False):
    """How a turn is run (see `Agent.run`) or continued."""

    conversation: str | None
    history: Sequence[HistoryMessage] | None
    deps: Any
    author: str | None
    prompter: Prompter | None
    schema: JsonObject | type | None


class Agent(Generic[Deps]):
    """Runs turns of conversations in a store. It reads no configuration, and opens no terminal unless a prompter does.

    Nobody is attached unless a prompter is passed; what then happens to a question says `detached`. The default, `defer`,
    leaves the turn waiting: no model ever answers for somebody's customer by accident. The tools are yours alone: to let the model ask
    the user something itself, add `midturn.ask_user` to them.

    Whatever is async has a `_sync` form for programs without an event loop, and for threads of one. With `Agent[Shop](…)`, a type checker
    finds a `deps` that is no `Shop`.
    """

    def __init__(  # noqa: PLR0913  a public signature
        self,
        model: Model | LibraryModel | str,
        *,
        tools: Sequence[GivenTool] = (),
        instructions: str | Callable[[Deps], str] = "",
        prompter: Prompter | None = None,
        detached: DetachedPolicy = "defer",
        routes: Mapping[str, GivenTarget] | None = None,
        limits: Limits | Mapping[str, object] | None = None,
        store: ConversationStore | None = None,
        may_answer: MayAnswer | None = None,
    ) -> None:
        """Put an agent together.

        Args:
            model: A model, or the id of one (`anthropic/claude-sonnet-5-5`, `scripted:play.toml`), or any model object of pydantic-ai.
                One that fails for a moment is asked again.
            tools: What the model may call: functions under `@midturn.tool`, plain functions, or objects with the methods of `Tool`.
            instructions: The system prompt, or a function of `deps` that returns it, called for each run.
            prompter: Who answers for the user, unless `run` names another.
            detached: What happens to questions while nobody is attached: `defer`, `auto`, `defaults` or `deny`.
            routes: Who is to answer, by `<tool>.<question>` or `<tool>.*`: `user`, `assistant`, `assistant_with_escalation`, a `Target`,
                or a table of assistant settings with `escalation`. Everything else goes to the user.
            limits: The limits: `Limits(…)`, or a mapping of those that differ.
            store: Where conversations are kept; in memory where none is given.
            may_answer: Has the last word on every answer through `agent.store`, or handed over to a turn of this agent: sync or async, it
                is given the open question and the `user` of `store.answer`; where it says no, that raises `AnswerError`.

        Raises:
            ConfigError: A model, tool, route, limit or policy is not one; the message says what is allowed.
            TypeError: Something of an altogether different kind was passed.
        """
        self._models = Models(llm={}, display=Relay())
        own = tools_of(tools)
        self._parts = AgentParts(
            model=self._models.named(model) if isinstance(model, str) else self._models.around(check_model(model)),
            tools=own,
            detached=policy_of(detached),
            routes=routes_of(routes, own),
            limits=limits_of(limits),
            models=self._models,
        )
        self._instructions = check_instructions(instructions)
        self._prompter = check_prompter(prompter)
        self._may_answer = may_answer
        self.store: ConversationStore = self._guarded(MemoryStore(self._parts.limits) if store is None else store)
        """The conversations, their open questions (`pending`), and the way to answer them (`answer`)."""

    @overload
    async def run(
        self,
        text: str,
        *,
        conversation: str | None = None,
        history: Sequence[HistoryMessage] | None = None,
        deps: Deps | None = None,
        author: str | None = None,
        prompter: Prompter | None = None,
        schema: None = None,
        on_event: OnEvent | None = None,
    ) -> RunResult[None]: ...

    @overload
    async def run(
        self,
        text: str,
        *,
        conversation: str | None = None,
        history: Sequence[HistoryMessage] | None = None,
        deps: Deps | None = None,
        author: str | None = None,
        prompter: Prompter | None = None,
        schema: type[Answer],
        on_event: OnEvent | None = None,
    ) -> RunResult[Answer]: ...

    @overload
    async def run(
        self,
        text: str,
        *,
        conversation: str | None = None,
        history: Sequence[HistoryMessage] | None = None,
        deps: Deps | None = None,
        author: str | None = None,
        prompter: Prompter | None = None,
        schema: JsonObject,
        on_event: OnEvent | None = None,
    ) -> RunResult[Json]: ...

    async def run(  # noqa: PLR0913  a public signature
        self,
        text: str,
        *,
        conversation: str | None = None,
        history: Sequence[HistoryMessage] | None = None,
        deps: Deps | None = None,
        author: str | None = None,
        prompter: Prompter | None = None,
        schema: JsonObject | type | None = None,
        on_event: OnEvent | None = None,
    ) -> RunResult[Any]:
        """Run one turn: in `conversation`, or in a new one. Cancelling the task leaves the turn open, to be resumed.

        Args:
            text: What the user says.
            conversation: The id of a conversation whose last turn has ended; a new one where none is given.
            history: Earlier messages with which a new conversation begins, the user's first: `[{"role": "user", "content": "…"}, …]`;
                they are recorded as turns that are over.
            deps: What tools find as `ctx.deps`.
            author: Who says it; recorded.
            prompter: Who answers in this run, in place of the agent's own.
            schema: The type of the answer (a dataclass, a struct, a Pydantic model, …), or its JSON Schema; the answer is then in
                `RunResult.structured`, as a value of the type.
            on_event: Hears of everything as it happens, as `stream` yields it; sync or async. What it raises stops the run, and leaves the
                turn open.

        Raises:
            TurnOpen: The last turn of the conversation waits to be continued.
            StoreError: The conversation cannot be written.
            StoreLocked: Another process, or another run, writes it.
            ModelError: The model stayed down after its retries; the turn is open, and `error.conversation` says where.
        """
        how = _Options(conversation=conversation, history=history, deps=deps, author=author, prompter=prompter, schema=schema)
        return await self._ran(text, how, on_event)

    @overload
    def run_sync(
        self,
        text: str,
        *,
        conversation: str | None = None,
        history: Sequence[HistoryMessage] | None = None,
        deps: Deps | None = None,
        author: str | None = None,
        prompter: Prompter | None = None,
        schema: None = None,
        on_event: OnEvent | None = None,
    ) -> RunResult[None]: ...

    @overload
    def run_sync(
        self,
        text: str,
        *,
        conversation: str | None = None,
        history: Sequence[HistoryMessage] | None = None,
        deps: Deps | None = None,
        author: str | None = None,
        prompter: Prompter | None = None,
        schema: type[Answer],
        on_event: OnEvent | None = None,
    ) -> RunResult[Answer]: ...

    @overload
    def run_sync(
        self,
        text: str,
        *,
        conversation: str | None = None,
        history: Sequence[HistoryMessage] | None = None,
        deps: Deps | None = None,
        author: str | None = None,
        prompter: Prompter | None = None,
        schema: JsonObject,
        on_event: OnEvent | None = None,
    ) -> RunResult[Json]: ...

    def run_sync(  # noqa: PLR0913  a public signature
        self,
        text: str,
        *,
        conversation: str | None = None,
        history: Sequence[HistoryMessage] | None = None,
        deps: Deps | None = None,
        author: str | None = None,
        prompter: Prompter | None = None,
        schema: JsonObject | type | None = None,
        on_event: OnEvent | None = None,
    ) -> RunResult[Any]:
        """Run one turn from a program without an event loop; otherwise like `run`. Ctrl-C leaves the turn open.

        Raises:
            RuntimeError: An event loop is running in this thread; use `await agent.run(…)` there.
        """
        refuse_inside_a_loop("run_sync", "await agent.run(…)")
        how = _Options(conversation=conversation, history=history, deps=deps, author=author, prompter=prompter, schema=schema)

        async def once() -> RunResult[Any]:
            async with self:
                return await self._ran(text, how, on_event)

        return asyncio.run(once())

    async def resume(
        self, conversation: str, *, deps: Deps | None = None, prompter: Prompter | None = None, on_event: OnEvent | None = None
    ) -> RunResult[Any]:
        """Continue the open turn of a conversation exactly where it stopped.

        Args:
            conversation: The id of the conversation.
            deps: What tools find as `ctx.deps`.
            prompter: Who answers in this run, in place of the agent's own.
            on_event: Hears of everything as it happens, as for `run`.

        Raises:
            NotOpen: Its last turn has ended.
            StoreError: There is no such conversation, or it cannot be written.
            StoreLocked: Another process, or another run, writes it.
            ModelError: The model stayed down after its retries; the turn is open and can be resumed.
        """
        if on_event is not None:
            async with self.stream_resume(conversation, deps=deps, prompter=prompter) as events:
                return await events.watched(on_event)
        async with await self.store.open(conversation) as journal:
            return await self._unwatched(journal, _Options(deps=deps, prompter=prompter), None)

    def resume_sync(
        self, conversation: str, *, deps: Deps | None = None, prompter: Prompter | None = None, on_event: OnEvent | None = None
    ) -> RunResult[Any]:
        """Continue the open turn of a conversation in a program without an event loop; otherwise like `resume`.

        Raises:
            RuntimeError: An event loop is running in this thread; use `await agent.resume(…)` there.
        """
        refuse_inside_a_loop("resume_sync", "await agent.resume(…)")

        async def once() -> RunResult[Any]:
            async with self:
                return await self.resume(conversation, deps=deps, prompter=prompter, on_event=on_event)

        return asyncio.run(once())

    @asynccontextmanager
    async def stream(  # noqa: PLR0913  a public signature
        self,
        text: str,
        *,
        conversation: str | None = None,
        history: Sequence[HistoryMessage] | None = None,
        deps: Deps | None = None,
        author: str | None = None,
        prompter: Prompter | None = None,
        schema: JsonObject | type | None = None,
    ) -> AsyncGenerator[TurnStream]:
        """Run one turn, and watch it: `async with agent.stream(…) as events: async for event in events: …`.

        The events are `TextDelta`, `ReasoningDelta`, `ModelRetried`, `ToolStarted`, `Asked`, `QuestionAnswered`, `ToolFinished`, and at
        last `TurnEnded` with the result.
        Leaving the block early stops the run and leaves the turn open. Errors are those of `run`, raised while iterating.

        Args:
            text: What the user says.
            conversation: The id of a conversation whose last turn has ended; a new one where none is given.
            history: Earlier messages with which a new conversation begins, as for `run`.
            deps: What tools find as `ctx.deps`.
            author: Who says it; recorded.
            prompter: Who answers in this run, in place of the agent's own.
            schema: The type of the answer, or its JSON Schema, as for `run`.
        """
        how = _Options(conversation=conversation, history=history, deps=deps, author=author, prompter=prompter, schema=schema)
        requested = _requested(text, how)
        async with await self._journal(conversation, text) as journal:
            await begin_with(journal, history or ())
            async with self._streamed(journal, how, requested) as events:
                yield events

    @contextmanager
    def stream_sync(  # noqa: PLR0913  a public signature
        self,
        text: str,
        *,
        conversation: str | None = None,
        history: Sequence[HistoryMessage] | None = None,
        deps: Deps | None = None,
        author: str | None = None,
        prompter: Prompter | None = None,
        schema: JsonObject | type | None = None,
    ) -> Generator[SyncTurnStream]:
        """Run one turn, and watch it, in a program without an event loop: `with agent.stream_sync(…) as events: for event in events: …`.

        It goes on in a thread of its own while you do something else. Otherwise like `stream`.

        Args:
            text: What the user says.
            conversation: The id of a conversation whose last turn has ended; a new one where none is given.
            history: Earlier messages with which a new conversation begins, as for `run`.
            deps: What tools find as `ctx.deps`.
            author: Who says it; recorded.
            prompter: Who answers in this run, in place of the agent's own.
            schema: The type of the answer, or its JSON Schema, as for `run`.

        Raises:
            RuntimeError: An event loop is running in this thread; use `async with agent.stream(…)` there.
        """
        refuse_inside_a_loop("stream_sync", "async with agent.stream(…)")
        from midturn.runtime.loop_thread import loop_thread  # who has a loop needs none

        how = _Options(conversation=conversation, history=history, deps=deps, author=author, prompter=prompter, schema=schema)
        with loop_thread() as thread, thread.entered(self), thread.entered(self.stream(text, **how)) as events:
            yield SyncTurnStream(events, thread)

    @asynccontextmanager
    async def stream_resume(
        self, conversation: str, *, deps: Deps | None = None, prompter: Prompter | None = None
    ) -> AsyncGenerator[TurnStream]:
        """Continue the open turn of a conversation, and watch it as `stream` does. Errors are those of `resume`.

        Args:
            conversation: The id of the conversation.
            deps: What tools find as `ctx.deps`.
            prompter: Who answers in this run, in place of the agent's own.
        """
        options = _Options(deps=deps, prompter=prompter)
        async with await self.store.open(conversation) as journal, self._streamed(journal, options, None) as events:
            yield events

    @contextmanager
    def stream_resume_sync(
        self, conversation: str, *, deps: Deps | None = None, prompter: Prompter | None = None
    ) -> Generator[SyncTurnStream]:
        """Continue the open turn of a conversation, and watch it, in a program without an event loop (see `stream_sync`).

        Args:
            conversation: The id of the conversation.
            deps: What tools find as `ctx.deps`.
            prompter: Who answers in this run, in place of the agent's own.

        Raises:
            RuntimeError: An event loop is running in this thread; use `async with agent.stream_resume(…)` there.
        """
        refuse_inside_a_loop("stream_resume_sync", "async with agent.stream_resume(…)")
        from midturn.runtime.loop_thread import loop_thread  # as above

        resumed = self.stream_resume(conversation, deps=deps, prompter=prompter)
        with loop_thread() as thread, thread.entered(self), thread.entered(resumed) as events:
            yield SyncTurnStream(events, thread)

    async def _ran(self, text: str, how: _Options, on_event: OnEvent | None) -> RunResult[Any]:
        if on_event is not None:
            async with self.stream(text, **how) as events:
                return await events.watched(on_event)
        requested = _requested(text, how)
        async with await self._journal(how.get("conversation"), text) as journal:
            await begin_with(journal, how.get("history") or ())
            return await self._unwatched(journal, how, requested)

    async def _unwatched(self, journal: Journal, how: _Options, requested: TurnRequested | None) -> RunResult[Any]:
        """Run a turn here, in the task of whoever waits for it: nobody watches, so no task of its own is needed."""
        session = self._session(journal, self._run(how.get("prompter"), how.get("deps")))
        watched = WATCHING.set(None)
        try:
            return await _finish(journal, session, requested, how.get("schema"))
        finally:
            WATCHING.reset(watched)

    @asynccontextmanager
    async def _streamed(self, journal: Journal, how: _Options, requested: TurnRequested | None) -> AsyncGenerator[TurnStream]:
        """Run a turn beside whoever watches it."""
        watching = Watching(journal)
        run = self._run(how.get("prompter"), how.get("deps"))
        session = self._session(journal, replace(run, display=watching))
        wanted = how.get("schema")
        WATCHING.set(watching)  # the task takes a copy of this context along
        events = TurnStream(journal.conversation, watching, asyncio.create_task(_finish(journal, session, requested, wanted)))
        try:
            yield events
        finally:
            await events.stop()

    async def work(self, *, at_once: int = 16, deps: Deps | None = None, engine: Literal["none", "dbos"] = "none") -> None:
        """Go on with turns that are due, until cancelled: in this program what `midturn worker` is as a process of its own.

        Due is an open turn that does not wait for a person alone: a question of it was answered, its process died, or its model was down
        (then after a pause that doubles). Any number of workers share a store; each conversation is with one of them. Cancelling hands
        every turn back at once. Tools run at least once, always with the same `ctx.idempotency_key`. See docs/machines.md.

        Args:
            at_once: How many turns run at the same time.
            deps: What tools find as `ctx.deps`.
            engine: `dbos` runs the same work as DBOS workflows (extra `midturn[dbos]`, a store in PostgreSQL).
        """
        run = self._run(None, deps)
        worker = worker_of(engine)(self.store, lambda journal: _finish(journal, self._session(journal, run), None), at_once)
        await worker.run()

    def work_sync(self, *, at_once: int = 16, deps: Deps | None = None, engine: Literal["none", "dbos"] = "none") -> None:
        """Go on with turns that are due, in a program without an event loop, until Ctrl-C (see `work`).

        Raises:
            RuntimeError: An event loop is running in this thread; use `await agent.work(…)` there.
        """
        refuse_inside_a_loop("work_sync", "await agent.work(…)")
        asyncio.run(self.work(at_once=at_once, deps=deps, engine=engine))

    def with_store(self, store: ConversationStore) -> Self:
        """Return the same agent on another store, guarded by the same `may_answer`.

        Args:
            store: The other store.
        """
        other = copy(self)
        other.store = self._guarded(store)
        return other

    def _guarded(self, store: ConversationStore) -> ConversationStore:
        return store if self._may_answer is None else store.guarded(self._may_answer)

    async def aclose(self) -> None:
        """Close what was opened to reach models; the agent can be used again all the same."""
        await self._models.aclose()

    def aclose_sync(self) -> None:
        """Close what was opened to reach models, in a program without an event loop (see `aclose`).

        Raises:
            RuntimeError: An event loop is running in this thread; use `await agent.aclose()` there.
        """
        refuse_inside_a_loop("agent.aclose_sync", "agent.aclose()")
        asyncio.run(self.aclose())

    def __enter__(self) -> Self:
        refuse_inside_a_loop("with agent", "async with agent")
        return self

    def __exit__(self, *_: object) -> None:
        self.aclose_sync()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _run(self, prompter: Prompter | None, deps: object) -> RunParts:
        return RunParts(prompter=self._prompter if prompter is None else check_prompter(prompter), deps=deps)

    async def _journal(self, conversation: str | None, text: str) -> Journal:
        return await (self.store.create(text) if conversation is None else self.store.open(conversation))

    def _session(self, journal: Journal, run: RunParts) -> Session:
        instructions = self._instructions if isinstance(self._instructions, str) else self._instructions(cast("Deps", run.deps))
        return compose_agent(replace(self._parts, instructions=instructions), run, journal)


def _requested(text: str, how: _Options) -> TurnRequested:
    wanted = how.get("schema")
    return TurnRequested(text, author=how.get("author"), schema=None if wanted is None else schema_of(wanted))


async def _finish(
    journal: Journal, session: Session, requested: TurnRequested | None, wanted: JsonObject | type | None = None
) -> RunResult[Any]:
    """Run or resume a turn, and read what it came to.

    Raises:
        TurnOpen: The last turn is still open.
        StoreError: The disk refused.
        NotOpen: There is nothing to resume.
        ModelError: The model stayed down; the turn is open.
    """
    conversation = journal.conversation
    spent: list[Spent] = []
    outside = SPENT.set(spent)
    try:
        ending = await (session.run(requested) if requested else session.resume())
    except TurnOpen as error:
        advice = f"Go on with it: `await agent.resume({conversation!r})`. Or end it: answer one of its questions with `cancel=True`."
        raise TurnOpen(f"{error} {advice}", conversation=conversation) from None
    finally:
        SPENT.reset(outside)
    return finished(conversation, session.window, ending, wanted, spent)
