"""The part of an agent that runs its turns: not loaded where an agent is only named, in an import or an annotation."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, aclosing, asynccontextmanager, contextmanager
from copy import copy
from functools import cache, partial
from hashlib import sha256
from typing import Any, Literal, Self, TypeAlias, TypedDict, Unpack, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from midturn.agent.assembly import arguments as program
from midturn.agent.assembly.agent import AgentSettings, compose_agent
from midturn.agent.assembly.models import Models
from midturn.agent.assembly.program_servers import Lease, ProgramServers
from midturn.agent.assembly.reviewers import IN_A_ROUTE, Reviewers, reviews_itself
from midturn.agent.assembly.session import DEPS, RunParts
from midturn.agent.given_secrets import GivenSecret, given_secrets
from midturn.agent.message_replies import OnOpen, check_on_open, recorded_as_reply, reply_with_message
from midturn.agent.nested import NestedRun, nested_journal, wanted_child
from midturn.agent.result import HistoryMessage, RunResult, begin_with, finished, schema_of
from midturn.agent.turn_stream import WATCHING, OnEvent, OnWork, Relay, SyncTurnStream, ToolFinished, TurnStream, Watching, ended_by_people
from midturn.agent.worker import worker_of
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
from midturn.question.json_value import JsonObject, Limits
from midturn.question.text import check_text, check_text_or_none
from midturn.runtime.driver import RunEnding, Session
from midturn.runtime.keyed_turn import check_key, keyed_turn
from midturn.runtime.loop_thread import loop_thread
from midturn.runtime.nesting import Nest, OuterCall, outer_call
from midturn.stores.authorization import MayAnswer
from midturn.stores.memory_conversations import MemoryStore
from midturn.stores.store import ConversationStore
from midturn.stores.sync_forms import in_a_loop
from midturn.tools.function import FunctionTool
from midturn.tools.names import missing_deps
from midturn.tools.parameters import argument_type_of
from midturn.turn.step import TurnRequested
from midturn.turn.view import TurnView

Wanted: TypeAlias = JsonObject | type | None
"""The type of an answer, or its JSON Schema."""


_LOG = logging.getLogger("midturn.agent")


class AgentArguments(TypedDict):
    """Parts of an agent, beside its model (see `Agent`)."""

    tools: Sequence[program.GivenTool]
    mcp: Sequence[McpServer]
    instructions: str | Callable[[Any], str]
    prompter: Prompter | None
    detached: program.GivenDetached | None
    routes: Mapping[str, program.GivenRoute] | None
    limits: Limits | Mapping[str, object] | None
    store: ConversationStore | None
    may_answer: MayAnswer | None
    schema: Wanted


class AnyOptions(TypedDict, total=False):
    """Settings of a turn that is run or continued."""

    deps: Any
    prompter: Prompter | None
    schema: Wanted


class ResumeOptions(AnyOptions, total=False):
    """Settings of a turn that is continued (see `Agent.resume`)."""

    secrets: Mapping[str, GivenSecret] | None
    user: str | None


class RunOptions(AnyOptions, total=False):
    """Settings of a turn that is run (see `Agent.run`)."""

    conversation: str | None
    history: Sequence[HistoryMessage] | None
    author: str | None
    key: str | None
    on_open: OnOpen


class Turns:
    """The turns of one agent: begun, continued, watched, and worked off."""

    def __init__(self, model: Model | LibraryModel | str, **given: Unpack[AgentArguments]) -> None:
        """Put together what was given, as `Agent` takes it.

        Raises:
            ConfigError: A model, tool, route, limit or policy is not one; the message says what is allowed.
            QuestionError: No JSON Schema can be made from `schema`.
            TypeError: Something of an altogether different kind was passed.
        """
        self._models = Models(llm={}, display=Relay())
        own = program.tools_of(given["tools"])
        self.servers = servers = ProgramServers(given["mcp"], [tool.definition.name for tool in own])
        """The MCP servers."""
        main = self._models.named(model) if isinstance(model, str) else self._models.around(program.check_model(model))
        reviewers = Reviewers(self._models, main, model)
        self._settings = AgentSettings(
            model=main,
            tools=own,
            detached=program.detached_of("defer" if given["detached"] is None else given["detached"], own, servers.may_have),
            routes=program.routes_of(given["routes"], own, reviewers, servers.may_have),
            limits=program.limits_of(given["limits"]),
            models=self._models,
        )
        named = {*self._settings.detached.tools, *(key.partition(".")[0] for key in self._settings.routes)}
        servers.expected = sorted(named - {tool.definition.name for tool in own})
        same = reviewers.same_as_author
        self.warnings = [reviews_itself(same, main.name, IN_A_ROUTE)] if same else []
        """What the program should know about its arguments."""
        self._instructions = program.check_instructions(given["instructions"])
        self._prompter = program.check_prompter(given["prompter"])
        self._check_rules(self._prompter)
        if self._prompter is not None and not servers.names:  # the tools of servers are known when they are connected
            from midturn.agent.prompters import misspelt_tools  # as in `_check_rules`

            self.warnings += misspelt_tools(self._prompter, [tool.definition.name for tool in own])
        self._may_answer = program.check_may_answer(given["may_answer"])
        self.has_store = given["store"] is not None
        """Whether it was given a store of its own."""
        self._has_policy = given["detached"] is not None
        self._has_limits = given["limits"] is not None
        self._schema = given["schema"]
        if self._schema is not None:
            schema_of(self._schema)  # what cannot be a schema is said here, and not by a run
        self.store = self._guarded(_in_memory(self._settings.limits) if given["store"] is None else program.check_store(given["store"]))
        """The store of the conversations."""

    @property
    def shown(self) -> str:
        """The model and the tools, for the `repr` of the agent."""
        model = self._settings.model.name if self._settings.model else ""
        return f"model={model!r} tools={[tool.definition.name for tool in self._settings.tools]!r}"

    async def run(self, text: str, on_event: OnEvent | None, **how: Unpack[RunOptions]) -> RunResult[Any]:
        """Run one turn to its end (see `Agent.run`)."""
        outer = outer_call()
        if outer is None:
            await asyncio.sleep(0)  # a run that is cancelled before it begins leaves nothing, whether or not its store waits for a network
        work = self._run_one(text, on_event, how)
        return await (outer.run(work) if outer else work)

    async def _run_one(self, text: str, on_event: OnEvent | None, how: RunOptions) -> RunResult[Any]:
        if on_event is not None:
            async with self.stream(text, **how) as events:
                return await events.watched(on_event)
        async with self._begun(text, how) as (begun, requested):
            return await self._unwatched(begun, how, requested)

    def run_here(self, text: str, on_event: OnEvent | None, **how: Unpack[RunOptions]) -> RunResult[Any]:
        """Run one turn in a thread without an event loop; in that of a tool, as a part of the turn around it."""
        outer = outer_call()
        if outer:
            return outer.run_in_thread(self.run(text, on_event, **how))

        async def once() -> RunResult[Any]:
            async with aclosing(self):
                return await self.run(text, on_event, **how)

        return in_a_loop(once())

    async def resume(self, conversation: str, on_event: OnEvent | None, **how: Unpack[ResumeOptions]) -> RunResult[Any]:
        """Continue the open turn of a conversation (see `Agent.resume`)."""
        if on_event is not None:
            async with self.stream_resume(conversation, **how) as events:
                return await events.watched(on_event)
        resuming = await self._resuming(conversation, how)
        async with self.servers.connected(), await self.store.open_root(conversation) as journal:
            return await self._unwatched(_Begun(journal), resuming, None)

    @asynccontextmanager
    async def stream(self, text: str, **how: Unpack[RunOptions]) -> AsyncGenerator[TurnStream]:
        """Run one turn, and watch it (see `Agent.stream`)."""
        async with self._begun(text, how) as (begun, requested):
            ended = [*ended_by_people(begun.journal.events)] if requested is None else ()
            async with self._streamed(begun, how, requested, ended) as events:
                yield events

    @asynccontextmanager
    async def stream_resume(self, conversation: str, **how: Unpack[ResumeOptions]) -> AsyncGenerator[TurnStream]:
        """Continue the open turn of a conversation, and watch it (see `Agent.stream_resume`)."""
        resuming = await self._resuming(conversation, how)
        async with self.servers.connected(), await self.store.open_root(conversation) as journal:
            ended = [*ended_by_people(journal.events)]
            async with self._streamed(_Begun(journal), resuming, None, ended) as events:
                yield events

    async def _resuming(self, conversation: str, how: ResumeOptions) -> AnyOptions:
        """Check before the turn goes on what would be wrong when its answer is there; secrets become who answers."""
        wanted, prompter, secrets = how.get("schema"), how.get("prompter"), how.get("secrets")
        self._check_rules(prompter)
        self._check_attached(attached=bool(secrets) or prompter is not None)
        if wanted is not None:
            schema_of(wanted)
        if secrets:
            otherwise = self._prompter if prompter is None else program.check_prompter(prompter)
            prompter = await given_secrets(self.store, conversation, secrets, how.get("user"), otherwise)
        return {"deps": how.get("deps"), "prompter": prompter, "schema": wanted}

    @contextmanager
    def in_thread(self, stream: AbstractAsyncContextManager[TurnStream]) -> Generator[SyncTurnStream]:
        """Have a turn run in a thread of its own, and watch it from this one."""
        with loop_thread() as thread, thread.entered(aclosing(self)), thread.entered(stream) as events:
            yield SyncTurnStream(events, thread)

    async def work(
        self, at_once: int, deps: object, deps_for: DepsFor | None, engine: Literal["none", "dbos"], on_event: OnWork | None
    ) -> None:
        """Go on with turns that are due, until cancelled (see `Agent.work`)."""
        self._check_attached()
        if deps is not None and deps_for is not None:
            raise ConfigError(
                "`deps` and `deps_for` do not go together: pass the dependencies of all turns, or the function that makes them."
            )

        async def options(journal: Journal) -> AnyOptions:
            if deps_for is None:
                return {"deps": deps}
            window = open_turn(journal.events)
            author = next((request.author for request in user_requests(window.events)), None) if window else None
            made = deps_for(journal.conversation, author)
            return {"deps": await cast("Awaitable[object]", made) if inspect.isawaitable(made) else made}

        async def segment(journal: Journal) -> None:
            begun = _Begun(journal)
            await _finish(begun, self._session(begun, self._run(begun, await options(journal))), None)

        async def watched(journal: Journal) -> None:
            ended = [*ended_by_people(journal.events)]
            async with self._streamed(_Begun(journal), await options(journal), None, ended) as events:
                await events.watched(partial(cast("OnWork", on_event), journal.conversation))

        async with self.servers.connected():
            await worker_of(engine)(self.store, segment if on_event is None else watched, at_once).run()

    def with_store(self, store: ConversationStore) -> Self:
        """Return the same on another store, guarded by the same `may_answer`."""
        other = copy(self)
        other.store = self._guarded(store)
        other.has_store = True
        return other

    async def give_back(self, lease: Lease) -> None:
        """Give the MCP servers back that a `with agent` block has kept."""
        await asyncio.to_thread(self.servers.give_back, lease)

    async def aclose(self) -> None:
        """Close what was opened to reach models."""
        await self._models.aclose()

    async def _unwatched(self, begun: _Begun, how: AnyOptions, requested: TurnRequested | None) -> RunResult[Any]:
        """Run a turn here, in the task that waits for it: it has no watcher, so it needs no task of its own."""
        if ended := begun.recorded_end:
            return _recorded(begun, ended, self._wanted(how))
        session = self._session(begun, self._run(begun, how))
        watched = WATCHING.set(None)
        try:
            return await self._whole(begun, await _finish(begun, session, requested, self._wanted(how)))
        finally:
            WATCHING.reset(watched)

    async def _whole(self, begun: _Begun, result: RunResult[Any]) -> RunResult[Any]:
        """Return a result with what agents inside of tools wait for, too; refuse one that waits where the turn around does not look.

        Raises:
            MidturnError: The turn runs inside a tool, and waits in a store of its own.
        """
        if result.status != "suspended":
            return result
        if begun.outer:
            raise MidturnError(
                f"The agent inside this tool waits for {len(result.pending)} answers in a store of its own (conversation "
                f"{result.conversation}), and nothing goes on there with the turn around it. Give the agent no store, or the same one, so "
                "that its questions are asked in the turn around it."
            )
        if not self.has_store:
            _warn_of_memory()
        if not TurnView.last(begun.journal.events).open_children:
            return result
        below = [question for question in await self.store.pending(result.conversation) if question.conversation != result.conversation]
        return replace(result, pending=(*result.pending, *below)) if below else result

    @asynccontextmanager
    async def _streamed(
        self, begun: _Begun, how: AnyOptions, requested: TurnRequested | None, finished_calls: Sequence[ToolFinished] = ()
    ) -> AsyncGenerator[TurnStream]:
        """Run a turn beside its watcher, who first gets the calls that have ended since it was left."""
        watching, ended = Watching(begun.journal), begun.recorded_end
        for finished_call in finished_calls:
            watching.seen.put_nowait(finished_call)
        session = None if ended else self._session(begun, replace(self._run(begun, how), display=watching))
        WATCHING.set(watching)  # the task takes a copy of this context along

        async def run() -> RunResult[Any]:
            if ended:
                return _recorded(begun, ended, self._wanted(how))
            return await self._whole(begun, await _finish(begun, cast("Session", session), requested, self._wanted(how)))

        events = TurnStream(begun.journal.conversation, watching, asyncio.create_task(run()))
        try:
            yield events
        finally:
            await events.stop()

    def _wanted(self, how: AnyOptions) -> Wanted:
        """Return the shape of the answer: what this run was given, or else the agent."""
        wanted = how.get("schema")
        return self._schema if wanted is None else wanted

    def _requested(self, text: str, how: RunOptions) -> TurnRequested:
        check_text("text", text)
        check_text_or_none("author", how.get("author"))
        wanted = self._wanted(how)
        return TurnRequested(text, author=how.get("author"), schema=None if wanted is None else schema_of(wanted))

    def _check_attached(self, *, attached: bool = False) -> None:
        """Let a prompter answer only in a person's process, where the store is the user's own. Nothing is held or made before that.

        Raises:
            PersonNeeded: This process was started by a tool, or by an agent that midturn serves.
        """
        if attached or self._prompter is not None:
            self.store.require_person()

    def _check_rules(self, prompter: Prompter | None) -> None:
        """Refuse rules on arguments that the tools do not have.

        Raises:
            ConfigError: Such a rule would never hold.
        """
        if prompter is not None:
            from midturn.agent.prompters import check_rules  # only agents with a prompter load prompts

            check_rules(prompter, [*self._settings.tools, *(one.tool for one in self.servers.tools.values())])

    def _check_deps(self, how: AnyOptions) -> None:
        """Refuse to begin a turn without the `deps` that a tool cannot do without.

        Raises:
            ConfigError: A tool declares them, and the run has none.
        """
        if how.get("deps") is not None:
            return
        if not isinstance(self._instructions, str) and (wanted := argument_type_of(self._instructions)):
            raise ConfigError(f"`instructions` takes a `{wanted}`, and the run has no `deps`. Pass them: `deps=…`.")
        for tool in self._settings.tools:
            wanted = cast("FunctionTool[..., object]", tool).deps_type if isinstance(tool, FunctionTool) else ""
            if wanted:
                raise ConfigError(missing_deps(tool.definition.name, wanted))

    def _guarded(self, store: ConversationStore) -> ConversationStore:
        return store if self._may_answer is None else store.guarded(self._may_answer)

    @asynccontextmanager
    async def _begun(self, text: str, how: RunOptions) -> AsyncGenerator[tuple[_Begun, TurnRequested | None]]:
        """Hold the conversation of a new turn, with the MCP servers connected."""
        async with self.servers.connected(), self._held(text, how) as begun:
            yield begun

    @asynccontextmanager
    async def _held(self, text: str, how: RunOptions) -> AsyncGenerator[tuple[_Begun, TurnRequested | None]]:
        """Hold the conversation of a new turn; inside a tool of another agent, that of the turn that it leads to, begun before or not."""
        requested, outer, named = self._requested(text, how), outer_call(), how.get("conversation")
        key, on_open = how.get("key"), how.get("on_open", "error")
        _check_findable(key, named, outer)
        check_on_open(on_open, key)
        self._check_rules(how.get("prompter"))
        self._check_attached(attached=how.get("prompter") is not None)
        if on_open == "reply" and outer is None and named is not None and not how.get("history"):
            taken = await reply_with_message(self.store, named, text, how.get("author"))
            if taken:
                async with self._replied(named, taken) as begun:
                    yield begun, None
                return
        if key is None and outer is None:
            self._check_deps(how)
        if outer is None or not self._is_at_home(outer):
            async with await self._journal(named, text) as journal:
                known = None if key is None else keyed_turn(journal.events, key, text)
                if known is None:
                    self._check_deps(how)
                    await begin_with(journal, how.get("history") or ())
                yield _Begun(journal, outer, window=known, key=key or ""), None if known else requested
            return
        store = cast("ConversationStore", outer.nest.store)
        wanted = wanted_child(outer, self._identity(), text, named)
        async with nested_journal(store, outer, wanted, text, is_named=named is not None) as (nested, journal):
            window = nested.window(journal.events)
            if window is None:
                self._check_deps(how)
                await begin_with(journal, () if journal.events else how.get("history") or ())
            yield _Begun(journal, outer, nested, window), None if window else requested

    @asynccontextmanager
    async def _replied(self, conversation: str, taken: tuple[OpenQuestion, ...]) -> AsyncGenerator[_Begun]:
        """Hold the conversation whose turn has taken a message as a reply; another process may have ended the turn by then.

        Raises:
            StoreLocked: Another process continues the turn.
        """
        async with AsyncExitStack() as held:
            try:
                journal = await held.enter_async_context(await self.store.open_root(conversation))
            except StoreLocked as locked:
                raise StoreLocked(f"{locked} {recorded_as_reply(taken)}", locked.holder, locked.since) from None
            yield _Begun(journal, window=last_turn(journal.events))

    def _is_at_home(self, outer: OuterCall) -> bool:
        """Whether this agent keeps its turns where the turn around it is kept."""
        return not self.has_store or self.store.port.place == cast("ConversationStore", outer.nest.store).port.place

    def _identity(self) -> str:
        """Return what tells this agent from others in the same call."""
        says = self._instructions if isinstance(self._instructions, str) else self._instructions.__qualname__
        offered = sorted([*(tool.definition.name for tool in self._settings.tools), *self.servers.names])
        model = self._settings.model.name if self._settings.model else ""
        return sha256(msgspec.json.encode([model, offered, says])).hexdigest()[:16]

    def _run(self, begun: _Begun, how: AnyOptions) -> RunParts:
        """Say who answers in a run, and what agents inside of its tools inherit; inside a tool, what it inherits itself."""
        outer, nested, given = begun.outer, begun.nested, how.get("prompter")
        prompter = self._prompter if given is None else program.check_prompter(given)
        if prompter is None and outer:
            prompter = outer.nest.prompter
        nest = outer.below() if outer else Nest(store=self.store, end=self.store.end_children, root=begun.journal.conversation)
        if nested is None:
            nest = replace(nest, store=self.store, end=self.store.end_children, root=begun.journal.conversation, family={})
        nest = replace(nest, prompter=prompter, detached=self._policy(outer), limits=self._limits(outer))
        parent = nested.outer.parent(nested.child) if nested else None
        deps = how.get("deps")
        return RunParts(
            prompter=prompter,
            deps=deps,
            no_deps="" if deps is not None else _missing_deps(begun),
            nest=nest,
            host=nested,
            parent=parent,
            key=begun.key,
        )

    def _policy(self, outer: OuterCall | None) -> program.Detached:
        return self._settings.detached if outer is None or self._has_policy else cast("program.Detached", outer.nest.detached)

    def _limits(self, outer: OuterCall | None) -> Limits:
        """Return the limits of a run: those of the turn around hold inside of its tools as well."""
        own = self._settings.limits
        if outer is None:
            return own
        around = outer.nest.limits
        if not self._has_limits:
            return around
        return replace(own, cycles=min(own.cycles, around.cycles), shown=min(own.shown, around.shown))

    async def _journal(self, conversation: str | None, text: str) -> Journal:
        return await (self.store.create(text) if conversation is None else self.store.open(conversation))

    def _session(self, begun: _Begun, run: RunParts) -> Session:
        if run.no_deps and not isinstance(self._instructions, str):
            raise DepsMissing(run.no_deps)
        instructions = self._instructions if isinstance(self._instructions, str) else self._instructions(run.deps)
        parts = replace(
            self._settings,
            instructions=instructions,
            detached=self._policy(begun.outer),
            limits=self._limits(begun.outer),
            server_tools=self.servers.tools,
        )
        return compose_agent(parts, run, begun.journal)


DepsFor: TypeAlias = "Callable[[str, str | None], object]"
"""Returns what the tools of a turn find as `ctx.deps`, by the id of its conversation and its author; sync or async."""


class _Begun(Struct, frozen=True):
    """A conversation that is held for a turn; `outer` is the call around it, and `nested` says where that has it on record.

    `window` is the turn, where it was begun before. `key` is the name that the caller gives the turn.
    """

    journal: Journal
    outer: OuterCall | None = None
    nested: NestedRun | None = None
    window: Window | None = None
    key: str = ""

    @property
    def recorded_end(self) -> TurnEnd | None:
        """The end of a turn that was found by its key, if it is over."""
        found = self.window is not None and self.nested is None and not self.window.open
        return TurnView(self.window).record.ended if found else None


def _check_findable(key: str | None, conversation: str | None, outer: OuterCall | None) -> None:
    """Refuse a key by which no turn could be found again, before anything is made.

    Raises:
        ConfigError: It cannot be a key; no conversation is named; or the turn runs inside a tool.
    """
    if key is None:
        return
    check_key(key)
    if outer is not None:
        raise ConfigError(
            "`key` is not used inside a tool: there, the turn of an agent is found by the call that it runs in, and is never begun twice. "
            "Leave it out."
        )
    if conversation is None:
        raise ConfigError(f"The `key` {key!r} is looked for in a conversation. Make one first: `conversation=await store.new(title)`.")


def _missing_deps(begun: _Begun) -> str:
    """Return what to say to a tool that wants dependencies, if the turn was begun with some; empty if it was not."""
    window = begun.window or open_turn(begun.journal.events)
    if not window or not (window.events[0].metadata or {}).get(DEPS):
        return ""
    return (
        f"The turn of conversation {begun.journal.conversation} was begun with `deps`, and is continued without; its tool needs them. "
        "The call stays open, with its approval and answers. "
        "Pass them: `agent.resume(conversation, deps=…)`, or `agent.work(deps=…)` in a worker."
    )


@cache
def _warn_of_memory() -> None:
    """Warn once per process that a turn is suspended in a store that ends with the process."""
    _LOG.warning(
        "A turn waits for an answer in the memory of this process, and is lost when the process ends. "
        'Pass `store=midturn.open_store("conversations")` to keep it on disk, or `store=midturn.MemoryStore()` to keep it in memory '
        "without this warning."
    )


def _in_memory(limits: Limits) -> ConversationStore:
    return MemoryStore(limits)


def _recorded(begun: _Begun, ended: TurnEnd, wanted: Wanted) -> RunResult[Any]:
    """Read what a turn came to that ended before, from its record; nothing runs."""
    return finished(begun.journal.conversation, TurnView(begun.window), RunEnding(ended.status, ended.error), wanted, ())


async def _finish(begun: _Begun, session: Session, requested: TurnRequested | None, wanted: Wanted = None) -> RunResult[Any]:
    """Run or resume a turn, and read what it came to.

    Raises:
        TurnOpen: The last turn is still open.
        StoreError: The disk refused.
        NotOpen: There is nothing to resume.
        ModelError: The model stayed down; the turn is open.
    """
    conversation, nested = begun.journal.conversation, begun.nested
    if nested and begun.window and (ending := nested.recorded_end(begun.window)):
        await nested.over(ending.status)
        return finished(conversation, TurnView(begun.window), ending, wanted, ())
    spent: list[Spent] = []
    outside = SPENT.set(spent)
    try:
        ending = await (session.run(requested) if requested else session.resume())
    except TurnOpen as error:
        advice = (
            f"Go on with it: `await agent.resume({conversation!r})`. Or end it: answer one of its questions with `cancel=True`. "
            'With `on_open="reply"`, the message is the reply to the questions that its author may answer; approvals and secrets take none.'
        )
        raise TurnOpen(f"{error} {advice}", conversation=conversation, text=error.text, pending=error.pending) from None
    finally:
        SPENT.reset(outside)
    if nested:
        await nested.over(ending.status)
    return finished(conversation, session.view, ending, wanted, spent)
