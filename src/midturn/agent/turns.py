"""What an agent runs its turns with. Whoever only names an agent, in an import or an annotation, needs none of this."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, contextmanager
from copy import copy
from typing import Any, Literal, Self, TypeAlias, TypedDict, Unpack

from msgspec.structs import replace

from midturn.agent.history import HistoryMessage, begin_with
from midturn.agent.result import RunResult, finished, schema_of
from midturn.agent.turn_stream import WATCHING, OnEvent, Relay, SyncTurnStream, TurnStream, Watching
from midturn.compose.agent import AgentParts, compose_agent
from midturn.compose.given import (
    GivenTool,
    check_instructions,
    check_may_answer,
    check_model,
    check_prompter,
    check_store,
    limits_of,
    tools_of,
)
from midturn.compose.given_policies import GivenDetached, GivenRoute, detached_of, routes_of
from midturn.compose.models import Models
from midturn.compose.run_parts import RunParts
from midturn.core.json_value import JsonObject
from midturn.core.limits import Limits
from midturn.core.plain_text import check_text, check_text_or_none
from midturn.core.turn.inputs import TurnRequested
from midturn.errors import TurnOpen
from midturn.journal import Journal
from midturn.models.library_model import LibraryModel
from midturn.models.wrapper import SPENT, Spent
from midturn.ports import Model
from midturn.prompter import Prompter
from midturn.runtime.session import Session
from midturn.store.admission import MayAnswer
from midturn.store.store import ConversationStore

Wanted: TypeAlias = JsonObject | type | None
"""The type of an answer, or its JSON Schema."""


class Given(TypedDict):
    """What an agent is made of, beside its model (see `Agent`)."""

    tools: Sequence[GivenTool]
    instructions: str | Callable[[Any], str]
    prompter: Prompter | None
    detached: GivenDetached
    routes: Mapping[str, GivenRoute] | None
    limits: Limits | Mapping[str, object] | None
    store: ConversationStore | None
    may_answer: MayAnswer | None
    schema: Wanted


class ResumeOptions(TypedDict, total=False):
    """How a turn is continued (see `Agent.resume`)."""

    deps: Any
    prompter: Prompter | None
    schema: Wanted


class RunOptions(ResumeOptions, total=False):
    """How a turn is run (see `Agent.run`)."""

    conversation: str | None
    history: Sequence[HistoryMessage] | None
    author: str | None


class Turns:
    """The turns of one agent: begun, continued, watched, and worked off."""

    def __init__(self, model: Model | LibraryModel | str, **given: Unpack[Given]) -> None:
        """Put together what was given, as `Agent` takes it.

        Raises:
            ConfigError: A model, tool, route, limit or policy is not one; the message says what is allowed.
            QuestionError: No JSON Schema can be made from `schema`.
            TypeError: Something of an altogether different kind was passed.
        """
        self._models = Models(llm={}, display=Relay())
        own = tools_of(given["tools"])
        self._parts = AgentParts(
            model=self._models.named(model) if isinstance(model, str) else self._models.around(check_model(model)),
            tools=own,
            detached=detached_of(given["detached"], own),
            routes=routes_of(given["routes"], own),
            limits=limits_of(given["limits"]),
            models=self._models,
        )
        self._instructions = check_instructions(given["instructions"])
        self._prompter = check_prompter(given["prompter"])
        self._may_answer = check_may_answer(given["may_answer"])
        self._schema = given["schema"]
        if self._schema is not None:
            schema_of(self._schema)  # what cannot be a schema is said here, and not by a run
        self.store = self._guarded(_in_memory(self._parts.limits) if given["store"] is None else check_store(given["store"]))
        """Where the conversations are."""

    async def run(self, text: str, on_event: OnEvent | None, **how: Unpack[RunOptions]) -> RunResult[Any]:
        """Run one turn to its end (see `Agent.run`)."""
        if on_event is not None:
            async with self.stream(text, **how) as events:
                return await events.watched(on_event)
        requested = self._requested(text, how)
        async with await self._journal(how.get("conversation"), text) as journal:
            await begin_with(journal, how.get("history") or ())
            return await self._unwatched(journal, how, requested)

    async def resume(self, conversation: str, on_event: OnEvent | None, **how: Unpack[ResumeOptions]) -> RunResult[Any]:
        """Continue the open turn of a conversation (see `Agent.resume`)."""
        if on_event is not None:
            async with self.stream_resume(conversation, **how) as events:
                return await events.watched(on_event)
        _check_shape(how)
        async with await self.store.open(conversation) as journal:
            return await self._unwatched(journal, how, None)

    @asynccontextmanager
    async def stream(self, text: str, **how: Unpack[RunOptions]) -> AsyncGenerator[TurnStream]:
        """Run one turn, and watch it (see `Agent.stream`)."""
        requested = self._requested(text, how)
        async with await self._journal(how.get("conversation"), text) as journal:
            await begin_with(journal, how.get("history") or ())
            async with self._streamed(journal, how, requested) as events:
                yield events

    @asynccontextmanager
    async def stream_resume(self, conversation: str, **how: Unpack[ResumeOptions]) -> AsyncGenerator[TurnStream]:
        """Continue the open turn of a conversation, and watch it (see `Agent.stream_resume`)."""
        _check_shape(how)
        async with await self.store.open(conversation) as journal, self._streamed(journal, how, None) as events:
            yield events

    @contextmanager
    def in_thread(self, stream: AbstractAsyncContextManager[TurnStream]) -> Generator[SyncTurnStream]:
        """Have a turn run in a thread of its own, and watch it from this one."""
        from midturn.runtime.loop_thread import loop_thread  # who has a loop needs none

        with loop_thread() as thread, thread.entered(aclosing(self)), thread.entered(stream) as events:
            yield SyncTurnStream(events, thread)

    async def work(self, at_once: int, deps: object, engine: Literal["none", "dbos"]) -> None:
        """Go on with turns that are due, until cancelled (see `Agent.work`)."""
        from midturn.agent.worker import worker_of  # most programs leave that to a process of its own

        run = self._run(None, deps)
        worker = worker_of(engine)(self.store, lambda journal: _finish(journal, self._session(journal, run), None), at_once)
        await worker.run()

    def with_store(self, store: ConversationStore) -> Self:
        """Return the same on another store, guarded by the same `may_answer`."""
        other = copy(self)
        other.store = self._guarded(store)
        return other

    async def aclose(self) -> None:
        """Close what was opened to reach models."""
        await self._models.aclose()

    async def _unwatched(self, journal: Journal, how: ResumeOptions, requested: TurnRequested | None) -> RunResult[Any]:
        """Run a turn here, in the task of whoever waits for it: nobody watches, so no task of its own is needed."""
        session = self._session(journal, self._run(how.get("prompter"), how.get("deps")))
        watched = WATCHING.set(None)
        try:
            return await _finish(journal, session, requested, self._wanted(how))
        finally:
            WATCHING.reset(watched)

    @asynccontextmanager
    async def _streamed(self, journal: Journal, how: ResumeOptions, requested: TurnRequested | None) -> AsyncGenerator[TurnStream]:
        """Run a turn beside whoever watches it."""
        watching = Watching(journal)
        run = self._run(how.get("prompter"), how.get("deps"))
        session = self._session(journal, replace(run, display=watching))
        WATCHING.set(watching)  # the task takes a copy of this context along
        events = TurnStream(journal.conversation, watching, asyncio.create_task(_finish(journal, session, requested, self._wanted(how))))
        try:
            yield events
        finally:
            await events.stop()

    def _wanted(self, how: ResumeOptions) -> Wanted:
        """Return the shape of the answer: what this run was given, or else the agent."""
        wanted = how.get("schema")
        return self._schema if wanted is None else wanted

    def _requested(self, text: str, how: RunOptions) -> TurnRequested:
        check_text("text", text)
        check_text_or_none("author", how.get("author"))
        wanted = self._wanted(how)
        return TurnRequested(text, author=how.get("author"), schema=None if wanted is None else schema_of(wanted))

    def _guarded(self, store: ConversationStore) -> ConversationStore:
        return store if self._may_answer is None else store.guarded(self._may_answer)

    def _run(self, prompter: Prompter | None, deps: object) -> RunParts:
        return RunParts(prompter=self._prompter if prompter is None else check_prompter(prompter), deps=deps)

    async def _journal(self, conversation: str | None, text: str) -> Journal:
        return await (self.store.create(text) if conversation is None else self.store.open(conversation))

    def _session(self, journal: Journal, run: RunParts) -> Session:
        instructions = self._instructions if isinstance(self._instructions, str) else self._instructions(run.deps)
        return compose_agent(replace(self._parts, instructions=instructions), run, journal)


def _in_memory(limits: Limits) -> ConversationStore:
    from midturn.store.memory_store import MemoryStore  # who brings a store needs no other

    return MemoryStore(limits)


def _check_shape(how: ResumeOptions) -> None:
    """Refuse what cannot be the shape of an answer before the turn goes on, and not when its answer is there."""
    wanted = how.get("schema")
    if wanted is not None:
        schema_of(wanted)


async def _finish(journal: Journal, session: Session, requested: TurnRequested | None, wanted: Wanted = None) -> RunResult[Any]:
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
