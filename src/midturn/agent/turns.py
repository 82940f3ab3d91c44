"""Runs the turns of an agent. Imported on first use, because many programs import `Agent` only
for annotations.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    aclosing,
    asynccontextmanager,
    contextmanager,
)
from copy import copy
from functools import cache, partial
from hashlib import sha256
from typing import Any, Literal, Self, TypeAlias, TypedDict, Unpack, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from midturn.agent.assembly import arguments as program
from midturn.agent.assembly.agent import AgentDefinition, build_session
from midturn.agent.assembly.models import Models
from midturn.agent.assembly.program_servers import ProgramServers, ServerUse
from midturn.agent.assembly.reviewers import IN_A_ROUTE, Reviewers, reviews_itself
from midturn.agent.given_secrets import GivenSecret, create_secret_prompter
from midturn.agent.message_replies import (
    OnOpen,
    check_on_open,
    recorded_as_reply,
    reply_with_message,
)
from midturn.agent.nested import NestedRun, nested_journal, wanted_child
from midturn.agent.result import HistoryMessage, RunResult, build_result, record_history, schema_of
from midturn.agent.turn_stream import (
    CURRENT_DISPLAY,
    OnEvent,
    OnWork,
    SharedDisplay,
    StreamDisplay,
    Streamed,
    SyncTurnStream,
    TurnStream,
    calls_ended_by_people,
    recorded_since,
)
from midturn.agent.worker import worker_class
from midturn.errors import ConfigError, DepsMissing, MidturnError, StoreLocked, TurnOpen
from midturn.events.open_question import OpenQuestion
from midturn.events.types import TurnEnd, user_requests
from midturn.events.window import Window, last_turn, open_turn
from midturn.exchange import Spent
from midturn.journal import Journal
from midturn.mcp.spec import McpServer
from midturn.models.provider_model import LibraryModel
from midturn.models.wrapper import SPENT
from midturn.ports import Model
from midturn.prompter import Prompter
from midturn.question.json_value import Json, JsonObject, Limits, as_json, json_problem
from midturn.question.text import check_text, check_text_or_none
from midturn.runtime.driver import RunEnding
from midturn.runtime.keyed_turn import check_key, keyed_turn
from midturn.runtime.loop_thread import loop_thread
from midturn.runtime.nesting import NestingContext, ParentCall, parent_call
from midturn.runtime.run_options import RunOptions
from midturn.runtime.session import Session
from midturn.runtime.session_context import DEPS
from midturn.stores.authorization import MayAnswer
from midturn.stores.memory_conversations import MemoryStore
from midturn.stores.store import ConversationStore
from midturn.stores.sync_forms import in_a_loop
from midturn.tools.function import FunctionTool
from midturn.tools.names import missing_deps
from midturn.tools.parameters import argument_type_of
from midturn.turn.inputs import TurnRequested
from midturn.turn.view import TurnView

AnswerSchema: TypeAlias = JsonObject | type | None
"""Type of an answer, or its JSON Schema."""


_LOG = logging.getLogger("midturn.agent")
_MAX_METADATA = 16 * 1024  # maximum size of a message's metadata, in bytes


class AgentArguments(TypedDict):
    """Arguments of `Agent`, except the model."""

    tools: Sequence[program.GivenTool]
    mcp: Sequence[McpServer]
    instructions: str | Callable[[Any], str]
    prompter: Prompter | None
    detached: program.GivenDetached | None
    routes: Mapping[str, program.GivenRoute] | None
    limits: Limits | Mapping[str, object] | None
    store: ConversationStore | None
    may_answer: MayAnswer | None
    schema: AnswerSchema


class AnyArguments(TypedDict, total=False):
    """Options of every run of a turn."""

    deps: Any
    prompter: Prompter | None
    schema: AnswerSchema


class ResumeArguments(AnyArguments, total=False):
    """Options of a resumed turn. See `Agent.resume`."""

    secrets: Mapping[str, GivenSecret] | None
    user: str | None


class RunArguments(AnyArguments, total=False):
    """Options of a new turn. See `Agent.run`."""

    conversation: str | None
    history: Sequence[HistoryMessage] | None
    author: str | None
    key: str | None
    metadata: JsonObject | None
    on_open: OnOpen


class AgentRunner:
    """Starts, resumes, streams and continues the turns of one agent."""

    def __init__(self, model: Model | LibraryModel | str, **given: Unpack[AgentArguments]) -> None:
        """Assemble an agent from the arguments of `Agent`.

        Raises:
            ConfigError: A model, tool, route, limit or policy is invalid. The message contains
                the allowed values.
            QuestionError: `schema` cannot be converted to a JSON Schema.
            TypeError: An argument has an unsupported type.
        """
        self._models = Models(llm={}, display=SharedDisplay())
        own = program.tools_of(given["tools"])
        self.servers = servers = ProgramServers(
            given["mcp"], [tool.definition.name for tool in own]
        )
        """The MCP servers."""
        main = (
            self._models.named(model)
            if isinstance(model, str)
            else self._models.around(program.check_model(model))
        )
        reviewers = Reviewers(self._models, main, model)
        self._settings = AgentDefinition(
            model=main,
            tools=own,
            detached=program.detached_of(
                "defer" if given["detached"] is None else given["detached"], own, servers.may_have
            ),
            routes=program.routes_of(given["routes"], own, reviewers, servers.may_have),
            limits=program.limits_of(given["limits"]),
            models=self._models,
        )
        named = {
            *self._settings.detached.tools,
            *(key.partition(".")[0] for key in self._settings.routes),
        }
        servers.expected = sorted(named - {tool.definition.name for tool in own})
        same = reviewers.same_as_author
        self.warnings = [reviews_itself(same, main.name, IN_A_ROUTE)] if same else []
        """Warnings about the arguments, to be raised in the program."""
        self._instructions = program.check_instructions(given["instructions"])
        self._prompter = program.check_prompter(given["prompter"])
        self._check_rules(self._prompter)
        if (
            self._prompter is not None and not servers.names
        ):  # the tools of servers are known only after the servers are connected
            from midturn.agent.prompters import misspelled_tools  # needed only with a prompter

            self.warnings += misspelled_tools(
                self._prompter, [tool.definition.name for tool in own]
            )
        self._may_answer = program.check_may_answer(given["may_answer"])
        self.has_store = given["store"] is not None
        """Whether a store was passed as an argument."""
        self._has_policy = given["detached"] is not None
        self._has_limits = given["limits"] is not None
        self._schema = given["schema"]
        if self._schema is not None:
            schema_of(self._schema)  # report an invalid schema now, not in the first run
        self.store = self._with_authorizer(
            _in_memory(self._settings.limits)
            if given["store"] is None
            else program.check_store(given["store"])
        )
        """The store with the conversations."""

    @property
    def shown(self) -> str:
        """Model and tools, for the `repr` of the agent."""
        model = self._settings.model.name if self._settings.model else ""
        return f"model={model!r} tools={[tool.definition.name for tool in self._settings.tools]!r}"

    async def run(
        self, text: str, on_event: OnEvent | None, **how: Unpack[RunArguments]
    ) -> RunResult[Any]:
        """Run one turn. See `Agent.run`."""
        outer = parent_call()
        if outer is None:
            await asyncio.sleep(
                0
            )  # let a pending cancellation take effect before anything is stored, whatever the kind of store
        work = self._run_one(text, on_event, how)
        return await (outer.run(work) if outer else work)

    async def _run_one(
        self, text: str, on_event: OnEvent | None, how: RunArguments
    ) -> RunResult[Any]:
        if on_event is not None:
            async with self.stream(text, **how) as events:
                return await events.watched(on_event)
        async with self._prepare(text, how) as (prepared, requested):
            return await self._run_without_stream(prepared, how, requested)

    def run_here(
        self, text: str, on_event: OnEvent | None, **how: Unpack[RunArguments]
    ) -> RunResult[Any]:
        """Run one turn in a thread without an event loop. In a thread that runs a tool, the turn
        becomes a child of the tool's turn.
        """
        outer = parent_call()
        if outer:
            return outer.run_in_thread(self.run(text, on_event, **how))

        async def once() -> RunResult[Any]:
            async with aclosing(self):
                return await self.run(text, on_event, **how)

        return in_a_loop(once())

    async def resume(
        self, conversation: str, on_event: OnEvent | None, **how: Unpack[ResumeArguments]
    ) -> RunResult[Any]:
        """Continue the open turn of a conversation. See `Agent.resume`."""
        if on_event is not None:
            async with self.stream_resume(conversation, **how) as events:
                return await events.watched(on_event)
        resuming = await self._prepare_resume(conversation, how)
        async with self.servers.connected(), await self.store.open_root(conversation) as journal:
            return await self._run_without_stream(_PreparedTurn(journal), resuming, None)

    @asynccontextmanager
    async def stream(
        self, text: str, *, with_events: bool = False, **how: Unpack[RunArguments]
    ) -> AsyncGenerator[TurnStream]:
        """Run one turn and stream its events. See `Agent.stream`."""
        async with self._prepare(text, how) as (prepared, requested):
            first = _calls_ended_by_people(prepared.journal) if requested is None else ()
            async with self._start_stream(
                prepared, how, requested, first, with_events=with_events
            ) as events:
                yield events

    @asynccontextmanager
    async def stream_resume(
        self,
        conversation: str,
        *,
        with_events: bool = False,
        after: int | None = None,
        **how: Unpack[ResumeArguments],
    ) -> AsyncGenerator[TurnStream]:
        """Continue the open turn of a conversation and stream its events. See
        `Agent.stream_resume`.
        """
        resuming = await self._prepare_resume(conversation, how)
        async with self.servers.connected(), await self.store.open_root(conversation) as journal:
            first = (
                _calls_ended_by_people(journal)
                if after is None
                else [*recorded_since(journal.events, journal.conversation, after)]
            )
            async with self._start_stream(
                _PreparedTurn(journal),
                resuming,
                None,
                first,
                with_events=with_events or after is not None,
            ) as events:
                yield events

    async def _prepare_resume(self, conversation: str, how: ResumeArguments) -> AnyArguments:
        """Check the arguments before the turn continues, and create a prompter for the secrets."""
        wanted, prompter, secrets = how.get("schema"), how.get("prompter"), how.get("secrets")
        self._check_rules(prompter)
        self._check_attached(attached=bool(secrets) or prompter is not None)
        if wanted is not None:
            schema_of(wanted)
        if secrets:
            otherwise = self._prompter if prompter is None else program.check_prompter(prompter)
            prompter = await create_secret_prompter(
                self.store, conversation, secrets, how.get("user"), otherwise
            )
        return {"deps": how.get("deps"), "prompter": prompter, "schema": wanted}

    @contextmanager
    def in_thread(
        self, stream: AbstractAsyncContextManager[TurnStream]
    ) -> Generator[SyncTurnStream]:
        """Run a turn in a separate thread and stream its events in this thread."""
        with (
            loop_thread() as thread,
            thread.entered(aclosing(self)),
            thread.entered(stream) as events,
        ):
            yield SyncTurnStream(events, thread)

    async def work(
        self,
        at_once: int,
        deps: object,
        deps_for: DepsFor | None,
        engine: Literal["none", "dbos"],
        on_event: OnWork | None,
    ) -> None:
        """Continue ready turns until cancelled. See `Agent.work`."""
        self._check_attached()
        if deps is not None and deps_for is not None:
            raise ConfigError(
                "`deps` and `deps_for` cannot be combined. Pass the dependencies of all turns, or"
                " the function that returns them."
            )

        async def options(journal: Journal) -> AnyArguments:
            if deps_for is None:
                return {"deps": deps}
            window = open_turn(journal.events)
            author = (
                next((request.author for request in user_requests(window.events)), None)
                if window
                else None
            )
            made = deps_for(journal.conversation, author)
            return {
                "deps": await cast("Awaitable[object]", made) if inspect.isawaitable(made) else made
            }

        async def segment(journal: Journal) -> None:
            prepared = _PreparedTurn(journal)
            await _finish(
                prepared, self._session(prepared, self._run(prepared, await options(journal))), None
            )

        async def watched(journal: Journal) -> None:
            async with self._start_stream(
                _PreparedTurn(journal),
                await options(journal),
                None,
                _calls_ended_by_people(journal),
            ) as events:
                await events.watched(partial(cast("OnWork", on_event), journal.conversation))

        async with self.servers.connected():
            await worker_class(engine)(
                self.store, segment if on_event is None else watched, at_once
            ).run()

    def with_store(self, store: ConversationStore) -> Self:
        """Return a copy that uses another store, with the same `may_answer`."""
        other = copy(self)
        other.store = self._with_authorizer(store)
        other.has_store = True
        return other

    async def give_back(self, lease: ServerUse) -> None:
        """Release the MCP servers that an `async with agent` block kept running."""
        await asyncio.to_thread(self.servers.give_back, lease)

    async def aclose(self) -> None:
        """Close the connections to models."""
        await self._models.aclose()

    async def _run_without_stream(
        self, prepared: _PreparedTurn, how: AnyArguments, requested: TurnRequested | None
    ) -> RunResult[Any]:
        """Run a turn in the current task. A run without a stream needs no separate task."""
        if ended := prepared.recorded_end:
            return _recorded_result(prepared, ended, self._answer_schema(how))
        session = self._session(prepared, self._run(prepared, how))
        watched = CURRENT_DISPLAY.set(None)
        try:
            return await self._with_nested_questions(
                prepared, await _finish(prepared, session, requested, self._answer_schema(how))
            )
        finally:
            CURRENT_DISPLAY.reset(watched)

    async def _with_nested_questions(
        self, prepared: _PreparedTurn, result: RunResult[Any]
    ) -> RunResult[Any]:
        """Add the questions of nested agents to a result.

        Raises:
            MidturnError: The turn runs inside a tool and waits for answers in a different store.
        """
        if result.status != "suspended":
            return result
        if prepared.outer:
            raise MidturnError(
                f"The agent inside this tool waits for answers to {len(result.pending)} question(s)"
                f" in a store of its own (conversation {result.conversation}), where the outer turn"
                " cannot continue it. Create the inner agent without a store, or with the same"
                " store, so that its questions are asked in the outer turn."
            )
        if not self.has_store:
            _warn_about_memory_store()
        if not TurnView.last(prepared.journal.events).open_children:
            return result
        below = [
            question
            for question in await self.store.pending(result.conversation)
            if question.conversation != result.conversation
        ]
        return replace(result, pending=(*result.pending, *below)) if below else result

    @asynccontextmanager
    async def _start_stream(
        self,
        prepared: _PreparedTurn,
        how: AnyArguments,
        requested: TurnRequested | None,
        first: Sequence[Streamed] = (),
        *,
        with_events: bool = False,
    ) -> AsyncGenerator[TurnStream]:
        """Run a turn in its own task and stream its events. The stream begins with the events in
        `first`, which were recorded before this run.
        """
        display_of_stream = StreamDisplay(prepared.journal, with_events=with_events)
        ended = prepared.recorded_end
        for event in first:
            display_of_stream.seen.put_nowait(event)
        session = (
            None
            if ended
            else self._session(
                prepared, replace(self._run(prepared, how), display=display_of_stream)
            )
        )
        CURRENT_DISPLAY.set(display_of_stream)  # the task inherits this context

        async def run() -> RunResult[Any]:
            if ended:
                return _recorded_result(prepared, ended, self._answer_schema(how))
            return await self._with_nested_questions(
                prepared,
                await _finish(
                    prepared, cast("Session", session), requested, self._answer_schema(how)
                ),
            )

        events = TurnStream(
            prepared.journal.conversation, display_of_stream, asyncio.create_task(run())
        )
        try:
            yield events
        finally:
            await events.stop()

    def _answer_schema(self, how: AnyArguments) -> AnswerSchema:
        """Return the schema of the answer: the schema of the run, or the schema of the agent if
        the run has none.
        """
        wanted = how.get("schema")
        return self._schema if wanted is None else wanted

    def _requested(self, text: str, how: RunArguments) -> TurnRequested:
        check_text("text", text)
        check_text_or_none("author", how.get("author"))
        wanted = self._answer_schema(how)
        return TurnRequested(
            text,
            author=how.get("author"),
            schema=None if wanted is None else schema_of(wanted),
            metadata=_checked_metadata(how.get("metadata"), self._settings.limits),
        )

    def _check_attached(self, *, attached: bool = False) -> None:
        """Check that a prompter may answer in this process, before anything is locked. In the
        user's store, only a person may answer.

        Raises:
            PersonNeeded: The store is in the user's data directory, and this process was started by
                a tool or an agent.
        """
        if attached or self._prompter is not None:
            self.store.require_person()

    def _check_rules(self, prompter: Prompter | None) -> None:
        """Check that rules use only arguments that exist in their tools.

        Raises:
            ConfigError: A rule would never match.
        """
        if prompter is not None:
            # imported here, because only agents with a prompter need it
            from midturn.agent.prompters import check_rules

            check_rules(
                prompter,
                [*self._settings.tools, *(each.tool for each in self.servers.tools.values())],
            )

    def _check_deps(self, how: AnyArguments) -> None:
        """Check that a new turn has the `deps` that its tools need.

        Raises:
            ConfigError: A tool or the instructions need `deps`, and none were passed to the run.
        """
        if how.get("deps") is not None:
            return
        if not isinstance(self._instructions, str) and (
            wanted := argument_type_of(self._instructions)
        ):
            raise ConfigError(
                f"`instructions` takes a `{wanted}`, but the run has no `deps`. Pass `deps=…`."
            )
        for tool in self._settings.tools:
            wanted = (
                cast("FunctionTool[..., object]", tool).deps_type
                if isinstance(tool, FunctionTool)
                else ""
            )
            if wanted:
                raise ConfigError(missing_deps(tool.definition.name, wanted))

    def _with_authorizer(self, store: ConversationStore) -> ConversationStore:
        return store if self._may_answer is None else store.with_authorizer(self._may_answer)

    @asynccontextmanager
    async def _prepare(
        self, text: str, how: RunArguments
    ) -> AsyncGenerator[tuple[_PreparedTurn, TurnRequested | None]]:
        """Lock the conversation of a new turn, with the MCP servers connected."""
        async with self.servers.connected(), self._lock_conversation(text, how) as prepared:
            yield prepared

    @asynccontextmanager
    async def _lock_conversation(
        self, text: str, how: RunArguments
    ) -> AsyncGenerator[tuple[_PreparedTurn, TurnRequested | None]]:
        """Lock the conversation of a new turn. Inside a tool of another agent, this is the new or
        existing conversation of the call's nested turn.
        """
        requested, outer, named = self._requested(text, how), parent_call(), how.get("conversation")
        key, on_open = how.get("key"), how.get("on_open", "error")
        _check_findable(key, named, outer)
        check_on_open(on_open, key)
        self._check_rules(how.get("prompter"))
        self._check_attached(attached=how.get("prompter") is not None)
        if on_open == "reply" and outer is None and named is not None and not how.get("history"):
            taken = await reply_with_message(self.store, named, text, how.get("author"))
            if taken:
                async with self._prepare_replied(named, taken) as prepared:
                    yield prepared, None
                return
        if key is None and outer is None:
            self._check_deps(how)
        if outer is None or not self._shares_store(outer):
            async with await self._journal(named, text) as journal:
                known = None if key is None else keyed_turn(journal.events, key, text)
                if known is None:
                    self._check_deps(how)
                    await record_history(journal, how.get("history") or ())
                yield (
                    _PreparedTurn(journal, outer, window=known, key=key or ""),
                    None if known else requested,
                )
            return
        store = cast("ConversationStore", outer.nesting.store)
        wanted = wanted_child(outer, self._identity(), text, named)
        async with nested_journal(store, outer, wanted, text, is_named=named is not None) as (
            nested,
            journal,
        ):
            window = nested.window(journal.events)
            if window is None:
                self._check_deps(how)
                await record_history(journal, () if journal.events else how.get("history") or ())
            yield _PreparedTurn(journal, outer, nested, window), None if window else requested

    @asynccontextmanager
    async def _prepare_replied(
        self, conversation: str, taken: tuple[OpenQuestion, ...]
    ) -> AsyncGenerator[_PreparedTurn]:
        """Lock the conversation of a turn that received a message as a reply. Another process may
        have ended this turn already.

        Raises:
            StoreLocked: Another process is continuing the turn.
        """
        async with AsyncExitStack() as held:
            try:
                journal = await held.enter_async_context(await self.store.open_root(conversation))
            except StoreLocked as locked:
                raise StoreLocked(
                    f"{locked} {recorded_as_reply(taken)}", locked.holder, locked.since
                ) from None
            yield _PreparedTurn(journal, window=last_turn(journal.events))

    def _shares_store(self, outer: ParentCall) -> bool:
        """Return whether this agent uses the same store as the outer turn."""
        return (
            not self.has_store
            or self.store.port.place == cast("ConversationStore", outer.nesting.store).port.place
        )

    def _identity(self) -> str:
        """Return a fingerprint that distinguishes this agent from others in the same call."""
        says = (
            self._instructions
            if isinstance(self._instructions, str)
            else self._instructions.__qualname__
        )
        offered = sorted(
            [*(tool.definition.name for tool in self._settings.tools), *self.servers.names]
        )
        model = self._settings.model.name if self._settings.model else ""
        return sha256(msgspec.json.encode([model, offered, says])).hexdigest()[:16]

    def _run(self, prepared: _PreparedTurn, how: AnyArguments) -> RunOptions:
        """Return the options of a run: its prompter, its parent, and the settings that nested
        agents inherit.
        """
        outer, nested, given = prepared.outer, prepared.nested, how.get("prompter")
        prompter = self._prompter if given is None else program.check_prompter(given)
        if prompter is None and outer:
            prompter = outer.nesting.prompter
        root, end = prepared.journal.conversation, self.store.end_children
        nesting = (
            outer.inherited() if outer else NestingContext(store=self.store, end=end, root=root)
        )
        if nested is None:
            nesting = replace(nesting, store=self.store, end=end, root=root, family={})
        nesting = replace(
            nesting, prompter=prompter, detached=self._policy(outer), limits=self._limits(outer)
        )
        parent = nested.outer.parent(nested.child) if nested else None
        deps = how.get("deps")
        return RunOptions(
            prompter=prompter,
            deps=deps,
            no_deps="" if deps is not None else _missing_deps(prepared),
            nesting=nesting,
            host=nested,
            parent=parent,
            key=prepared.key,
        )

    def _policy(self, outer: ParentCall | None) -> program.Detached:
        return (
            self._settings.detached
            if outer is None or self._has_policy
            else cast("program.Detached", outer.nesting.detached)
        )

    def _limits(self, outer: ParentCall | None) -> Limits:
        """Return the limits of a run. Inside a tool, the limits of the outer turn also apply."""
        own = self._settings.limits
        if outer is None:
            return own
        outer_limits = outer.nesting.limits
        if not self._has_limits:
            return outer_limits
        return replace(
            own,
            cycles=min(own.cycles, outer_limits.cycles),
            shown=min(own.shown, outer_limits.shown),
        )

    async def _journal(self, conversation: str | None, text: str) -> Journal:
        return await (
            self.store.create(text) if conversation is None else self.store.open(conversation)
        )

    def _session(self, prepared: _PreparedTurn, run: RunOptions) -> Session:
        if run.no_deps and not isinstance(self._instructions, str):
            raise DepsMissing(run.no_deps)
        instructions = (
            self._instructions
            if isinstance(self._instructions, str)
            else self._instructions(run.deps)
        )
        parts = replace(
            self._settings,
            instructions=instructions,
            detached=self._policy(prepared.outer),
            limits=self._limits(prepared.outer),
            server_tools=self.servers.tools,
        )
        return build_session(parts, run, prepared.journal)


DepsFor: TypeAlias = "Callable[[str, str | None], object]"
"""Returns the `deps` of a turn. The arguments are the id of the conversation and the author of the
turn's message. Sync or async.
"""


class _PreparedTurn(Struct, frozen=True):
    """A locked conversation for a turn.

    `outer` is the call that contains this turn, and `nested` is the record of this turn in the
    call. `window` contains the events of the turn, if it exists already. `key` is the caller's
    key of the turn.
    """

    journal: Journal
    outer: ParentCall | None = None
    nested: NestedRun | None = None
    window: Window | None = None
    key: str = ""

    @property
    def recorded_end(self) -> TurnEnd | None:
        """The recorded end of the turn, if the turn was found by its key and is over."""
        found = self.window is not None and self.nested is None and not self.window.open
        return TurnView(self.window).record.ended if found else None


def _check_findable(key: str | None, conversation: str | None, outer: ParentCall | None) -> None:
    """Check that a turn with a key can be found again by the key.

    Raises:
        ConfigError: The key is invalid, no conversation is given, or the turn runs inside a tool.
    """
    if key is None:
        return
    check_key(key)
    if outer is not None:
        raise ConfigError(
            "`key` cannot be used inside a tool. There, the turn of an agent is identified by its"
            " call and never starts twice. Omit it."
        )
    if conversation is None:
        raise ConfigError(
            f"The `key` {key!r} needs a conversation. Create one first: `conversation=await"
            " store.new(title)`."
        )


def _checked_metadata(metadata: JsonObject | None, limits: Limits) -> dict[str, Json] | None:
    """Return the metadata of a message.

    Raises:
        ConfigError: The metadata is not a JSON object, or it is too large.
    """
    if metadata is None:
        return None
    given = cast("Json", as_json(metadata))
    problem = json_problem(given, limits.json_depth)
    if problem or not isinstance(given, Mapping):
        raise ConfigError(
            f"`metadata` must be a JSON object: {problem or f'it is a `{type(metadata).__name__}`'}."
        )
    size = len(msgspec.json.encode(given))
    if size > _MAX_METADATA:
        raise ConfigError(
            f"`metadata` has {size:,} bytes as JSON; at most {_MAX_METADATA:,} are recorded with a"
            " message. Keep the data in your program and pass its ID."
        )
    return dict(given)


def _calls_ended_by_people(journal: Journal) -> list[Streamed]:
    """Return the events for the calls that people ended since the last model request."""
    return [*calls_ended_by_people(journal.events, journal.conversation)]


def _missing_deps(prepared: _PreparedTurn) -> str:
    """Return the error for tools that need `deps`, if the turn was started with `deps`. Otherwise
    return an empty string.
    """
    window = prepared.window or open_turn(prepared.journal.events)
    if not window or not (window.events[0].metadata or {}).get(DEPS):
        return ""
    return (
        f"The turn of conversation {prepared.journal.conversation} was started with `deps` but is"
        " continued without them, and its tool needs them. The call stays open, with its approval"
        " and answers. Pass them: `agent.resume(conversation, deps=…)`, or `agent.work(deps=…)` in"
        " a worker."
    )


@cache
def _warn_about_memory_store() -> None:
    """Warn once per process that a turn is suspended in a memory store, which is lost when the
    process ends.
    """
    _LOG.warning(
        "A turn waits for an answer in the memory of this process. It is lost when the process"
        ' ends. Pass `store=midturn.open_store("conversations")` to keep it on disk, or'
        " `store=midturn.MemoryStore()` to keep it in memory without this warning."
    )


def _in_memory(limits: Limits) -> ConversationStore:
    return MemoryStore(limits)


def _recorded_result(
    prepared: _PreparedTurn, ended: TurnEnd, wanted: AnswerSchema
) -> RunResult[Any]:
    """Build the result of a finished turn from its recorded events. No code of the turn runs."""
    return build_result(
        prepared.journal.conversation,
        TurnView(prepared.window),
        RunEnding(ended.status, ended.error),
        wanted,
        (),
    )


async def _finish(
    prepared: _PreparedTurn,
    session: Session,
    requested: TurnRequested | None,
    wanted: AnswerSchema = None,
) -> RunResult[Any]:
    """Run or resume a turn, and return its result.

    Raises:
        TurnOpen: The last turn is still open.
        StoreError: The store cannot be written.
        NotOpen: There is no turn to resume.
        ModelError: The model was unavailable after all retries. The turn is open.
    """
    conversation, nested = prepared.journal.conversation, prepared.nested
    if nested and prepared.window and (ending := nested.recorded_end(prepared.window)):
        await nested.over(ending.status)
        return build_result(conversation, TurnView(prepared.window), ending, wanted, ())
    spent: list[Spent] = []
    outside = SPENT.set(spent)
    try:
        ending = await (session.run(requested) if requested else session.resume())
    except TurnOpen as error:
        advice = (
            f"Continue it with `await agent.resume({conversation!r})`, or end it: answer one of its"
            ' questions with `cancel=True`. With `on_open="reply"`, the message becomes the reply'
            " to its author's questions, except approvals and secrets."
        )
        raise TurnOpen(
            f"{error} {advice}", conversation=conversation, text=error.text, pending=error.pending
        ) from None
    finally:
        SPENT.reset(outside)
    if nested:
        await nested.over(ending.status)
    return build_result(conversation, session.view, ending, wanted, spent)
