"""`Agent`: a model, its tools, and a prompter."""

from __future__ import annotations

import warnings
from copy import copy
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, overload

from midturn.collector import loading
from midturn.question.public_names import public_repr
from midturn.stores.sync_forms import in_a_loop, refuse_inside_a_loop, sync_form

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager, AbstractContextManager
    from typing import Literal, Self, TypedDict, Unpack

    from typing_extensions import TypeVar

    from midturn.agent.assembly.arguments import GivenDetached, GivenRoute, GivenTool
    from midturn.agent.assembly.program_servers import Lease
    from midturn.agent.given_secrets import GivenSecret
    from midturn.agent.message_replies import OnOpen
    from midturn.agent.result import HistoryMessage, RunResult
    from midturn.agent.turn_stream import OnEvent, OnWork, SyncTurnStream, TurnStream
    from midturn.agent.turns import Turns
    from midturn.mcp.spec import McpServer
    from midturn.models.provider_model import LibraryModel
    from midturn.ports import Model
    from midturn.prompter import Prompter
    from midturn.question.json_value import Json, JsonObject, Limits
    from midturn.stores.authorization import MayAnswer
    from midturn.stores.store import ConversationStore

    Deps = TypeVar("Deps", default=Any)
    Shape = TypeVar("Shape", default=None)
    Answer = TypeVar("Answer")

    class _Arguments(TypedDict, Generic[Deps], total=False):
        deps: Deps | None
        prompter: Prompter | None
        on_event: OnEvent | None

    class ResumeArguments(_Arguments[Deps], total=False):
        """Arguments of `resume`, whatever the shape of the answer."""

        secrets: Mapping[str, GivenSecret] | None
        user: str | None

    class RunArguments(_Arguments[Deps], total=False):
        """Arguments of `run`, whatever the shape of the answer."""

        conversation: str | None
        history: Sequence[HistoryMessage] | None
        author: str | None
        key: str | None
        on_open: OnOpen

else:
    from typing import TypeVar

    Deps = TypeVar("Deps")
    Shape = TypeVar("Shape")


_PAST_THE_RULE = (
    "`may_answer` guards `agent.store` alone: an answer through the store that was passed is not asked about. "
    "Pass `store=store.guarded(may_answer)` instead of both, and let your program answer through that."
)


@cache
def _turns() -> type[Turns]:
    """Load all that runs an agent: who imports the name, and makes none, does without it."""
    with loading():
        from midturn.agent.turns import Turns

    return Turns


def _blocking(_: object, name: str, work: Coroutine[Any, Any, Answer]) -> Answer:
    """Run a method of an agent to its end, in a loop of its own.

    Raises:
        RuntimeError: An event loop is running in this thread.
    """
    try:
        refuse_inside_a_loop(f"{name}_sync", f"await agent.{name}(…)")
    except BaseException:
        work.close()
        raise
    return in_a_loop(work)


class Agent(Generic[Deps, Shape]):
    """Runs turns of conversations in a store. It reads no configuration, and opens no terminal unless a prompter does.

    No one is attached unless a prompter is passed; what then happens to a question says `detached`. The default, `defer`,
    leaves the turn waiting: no model ever answers for a customer by accident. The tools are yours alone: to let the model ask
    the user something itself, add `midturn.ask_user` to them.

    Whatever is async has a `_sync` form for programs without an event loop, and for threads of one. With `Agent[Shop](…)`, a type checker
    finds a `deps` that is no `Shop`.
    """

    if not TYPE_CHECKING:

        def __class_getitem__(cls, parameters: object) -> object:
            """Take `Agent[Shop]`, as type checkers do: Python itself knows defaults of type variables from 3.13 on."""
            return super().__class_getitem__(parameters if isinstance(parameters, tuple) else (parameters, None))

    def __init__(  # noqa: PLR0913  a public signature
        self,
        model: Model | LibraryModel | str,
        *,
        tools: Sequence[GivenTool] = (),
        mcp: Sequence[McpServer] = (),
        instructions: str | Callable[[Deps], str] = "",
        prompter: Prompter | None = None,
        detached: GivenDetached | None = None,
        routes: Mapping[str, GivenRoute] | None = None,
        limits: Limits | Mapping[str, object] | None = None,
        store: ConversationStore | None = None,
        may_answer: MayAnswer | None = None,
        schema: type[Shape] | JsonObject | None = None,
    ) -> None:
        """Put an agent together.

        Args:
            model: A model, or the id of one (`anthropic/claude-sonnet-5-5`, `scripted:play.toml`), or any model object of pydantic-ai.
                One that fails for a moment is asked again.
            tools: What the model may call: functions under `@midturn.tool`, plain functions, or objects with the methods of `Tool`.
            mcp: MCP servers whose tools the model may call. A person is asked before they run unless `McpServer(run=…)` says otherwise.
                They are started for a run and stopped at its end; `async with agent:` keeps them for all runs of the block.
            instructions: The system prompt, or a function of `deps` that returns it, called for each run.
            prompter: Who answers for the user, unless `run` names another.
            detached: What happens to questions while no one is attached: `defer` (where nothing is said), `auto`, `defaults` or `deny`; by
                kind of prompt,
                `{"run": "deny", "deliver": "auto", "tool": "defer"}`; or either by tool, `{"*": "defer", "deploy": {"run": "deny"}}`.
            routes: Who is to answer, by `<tool>.<question>` or `<tool>.*`: `user`, `assistant`, `assistant_with_escalation`, a `Target`,
                or a table of assistant settings with `escalation`. Everything else goes to the user. Or what the configuration takes for a
                question: a table with `target`, `answer` (which is recorded as `static`), `exclusive` and `prompt_label`.
            limits: The limits: `Limits(…)`, or a mapping of those that differ.
            store: Where conversations are kept. Without one, they are in memory and end with the process; the first turn that is suspended
                there is logged as a warning.
            may_answer: Has the last word on every answer through `agent.store`, or handed over to a turn of this agent: sync or async, it
                is given the open question and the `user` of `store.answer`; where it says no, that raises `NotAllowed`. A store that is
                passed as well takes answers past it: pass `store.guarded(may_answer)` instead; a warning says so.
            schema: The type of the answers, or their JSON Schema, wherever a run or a continued turn names none itself.

        Raises:
            ConfigError: A model, tool, route, limit or policy is not one; the message says what is allowed.
            QuestionError: No JSON Schema can be made from `schema`.
            TypeError: Something of an altogether different kind was passed.
        """
        if store is not None and may_answer is not None:
            warnings.warn(_PAST_THE_RULE, stacklevel=2)
        self._turns = _turns()(
            model,
            tools=tools,
            mcp=mcp,
            instructions=instructions,
            prompter=prompter,
            detached=detached,
            routes=routes,
            limits=limits,
            store=store,
            may_answer=may_answer,
            schema=schema,
        )
        self._leases: list[Lease] = []
        for warning in self._turns.warnings:
            warnings.warn(warning, stacklevel=2)

    def __repr__(self) -> str:
        return public_repr(self, "Agent", self._turns.shown)

    @property
    def store(self) -> ConversationStore:
        """The conversations, their open questions (`pending`), and the way to answer them (`answer`)."""
        return self._turns.store

    @overload
    async def run(self, text: str, *, schema: None = None, **how: Unpack[RunArguments[Deps]]) -> RunResult[Shape]: ...

    @overload
    async def run(self, text: str, *, schema: type[Answer], **how: Unpack[RunArguments[Deps]]) -> RunResult[Answer]: ...

    @overload
    async def run(self, text: str, *, schema: JsonObject, **how: Unpack[RunArguments[Deps]]) -> RunResult[Json]: ...

    async def run(  # noqa: PLR0913  a public signature
        self,
        text: str,
        *,
        conversation: str | None = None,
        history: Sequence[HistoryMessage] | None = None,
        deps: Deps | None = None,
        author: str | None = None,
        key: str | None = None,
        on_open: OnOpen = "error",
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
            key: Your own name for the message, such as the id that a chat program gave it. The same key in the same conversation begins no
                second turn: it continues the one that was begun with it, or returns its recorded result. It needs a `conversation`.
            on_open: What becomes of the message while the conversation waits for people. `error`: it is refused, `TurnOpen` lists the open
                questions. `reply`: it is recorded as the reply to those that its author may answer, and the turn goes on. Approvals,
                secrets and questions of others stay open; if there are no other questions, `TurnOpen` lists them.
            prompter: Who answers in this run, in place of the agent's own.
            schema: The type of the answer (a dataclass, a struct, a Pydantic model, …), or its JSON Schema; the answer is then in
                `RunResult.structured`, as a value of the type.
            on_event: Hears of everything as it happens, as `stream` yields it; sync or async. What it raises stops the run, and leaves the
                turn open.

        Raises:
            TurnOpen: The last turn of the conversation waits to be continued.
            ConfigError: The key belongs to another message, is empty, or comes without a conversation or from inside a tool. Or
                `on_open` is another word, or comes with a key. Or a tool takes a `ToolContext[Shop]`, or `instructions` a `Shop`, and no
                `deps` were passed; nothing is recorded then.
            StoreError: The conversation cannot be written.
            StoreLocked: Another process, or another run, writes it.
            ModelError: The model stayed down after its retries; the turn is open, and `error.conversation` says where.
        """
        return await self._turns.run(
            text,
            on_event,
            conversation=conversation,
            history=history,
            deps=deps,
            author=author,
            key=key,
            on_open=on_open,
            prompter=prompter,
            schema=schema,
        )

    @overload
    def run_sync(self, text: str, *, schema: None = None, **how: Unpack[RunArguments[Deps]]) -> RunResult[Shape]: ...

    @overload
    def run_sync(self, text: str, *, schema: type[Answer], **how: Unpack[RunArguments[Deps]]) -> RunResult[Answer]: ...

    @overload
    def run_sync(self, text: str, *, schema: JsonObject, **how: Unpack[RunArguments[Deps]]) -> RunResult[Json]: ...

    def run_sync(  # noqa: PLR0913  a public signature
        self,
        text: str,
        *,
        conversation: str | None = None,
        history: Sequence[HistoryMessage] | None = None,
        deps: Deps | None = None,
        author: str | None = None,
        key: str | None = None,
        on_open: OnOpen = "error",
        prompter: Prompter | None = None,
        schema: JsonObject | type | None = None,
        on_event: OnEvent | None = None,
    ) -> RunResult[Any]:
        """Run one turn from a program without an event loop; otherwise like `run`. Ctrl-C leaves the turn open.

        Raises:
            RuntimeError: An event loop is running in this thread; use `await agent.run(…)` there.
        """
        refuse_inside_a_loop("run_sync", "await agent.run(…)")
        return self._turns.run_here(
            text,
            on_event,
            conversation=conversation,
            history=history,
            deps=deps,
            author=author,
            key=key,
            on_open=on_open,
            prompter=prompter,
            schema=schema,
        )

    @overload
    async def resume(self, conversation: str, *, schema: None = None, **how: Unpack[ResumeArguments[Deps]]) -> RunResult[Any]: ...

    @overload
    async def resume(self, conversation: str, *, schema: type[Answer], **how: Unpack[ResumeArguments[Deps]]) -> RunResult[Answer]: ...

    @overload
    async def resume(self, conversation: str, *, schema: JsonObject, **how: Unpack[ResumeArguments[Deps]]) -> RunResult[Json]: ...

    async def resume(  # noqa: PLR0913  a public signature
        self,
        conversation: str,
        *,
        deps: Deps | None = None,
        prompter: Prompter | None = None,
        on_event: OnEvent | None = None,
        secrets: Mapping[str, GivenSecret] | None = None,
        user: str | None = None,
        schema: JsonObject | type | None = None,
    ) -> RunResult[Any]:
        """Continue the open turn of a conversation exactly where it stopped.

        Args:
            conversation: The id of the conversation.
            deps: What tools find as `ctx.deps`.
            prompter: Who answers in this run, in place of the agent's own.
            on_event: Hears of everything as it happens, as for `run`.
            secrets: Secrets for open questions, by their ids as `pending` lists them: text, or for a form with one, its answers by the ids
                of its questions. They go to the tool, and are written nowhere.
            user: Who gave them; recorded.
            schema: The type that `run` was given, to have `RunResult.structured` as a value of it. What the turn was begun with is checked
                in any case.

        Raises:
            NotOpen: Its last turn has ended by itself. One that a person has ended gives that result, `ended_by_user`.
            ConfigError: The turn is in a call of a tool that this agent does not have; nothing was changed.
            AnswerError: What was given for a question is no secret of it.
            NotAllowed: This user may not answer it.
            StoreError: There is no such conversation, or it cannot be written.
            StoreLocked: Another process, or another run, writes it.
            ModelError: The model stayed down after its retries; the turn is open and can be resumed.
        """
        return await self._turns.resume(conversation, on_event, deps=deps, prompter=prompter, secrets=secrets, user=user, schema=schema)

    @overload
    def resume_sync(self, conversation: str, *, schema: None = None, **how: Unpack[ResumeArguments[Deps]]) -> RunResult[Any]: ...

    @overload
    def resume_sync(self, conversation: str, *, schema: type[Answer], **how: Unpack[ResumeArguments[Deps]]) -> RunResult[Answer]: ...

    @overload
    def resume_sync(self, conversation: str, *, schema: JsonObject, **how: Unpack[ResumeArguments[Deps]]) -> RunResult[Json]: ...

    def resume_sync(  # noqa: PLR0913  a public signature
        self,
        conversation: str,
        *,
        deps: Deps | None = None,
        prompter: Prompter | None = None,
        on_event: OnEvent | None = None,
        secrets: Mapping[str, GivenSecret] | None = None,
        user: str | None = None,
        schema: JsonObject | type | None = None,
    ) -> RunResult[Any]:
        """Continue the open turn of a conversation in a program without an event loop; otherwise like `resume`.

        Raises:
            RuntimeError: An event loop is running in this thread; use `await agent.resume(…)` there.
        """
        refuse_inside_a_loop("resume_sync", "await agent.resume(…)")

        async def once() -> RunResult[Any]:
            async with self:
                return await self._turns.resume(
                    conversation, on_event, deps=deps, prompter=prompter, secrets=secrets, user=user, schema=schema
                )

        return in_a_loop(once())

    def stream(  # noqa: PLR0913  a public signature
        self,
        text: str,
        *,
        conversation: str | None = None,
        history: Sequence[HistoryMessage] | None = None,
        deps: Deps | None = None,
        author: str | None = None,
        key: str | None = None,
        on_open: OnOpen = "error",
        prompter: Prompter | None = None,
        schema: JsonObject | type | None = None,
    ) -> AbstractAsyncContextManager[TurnStream]:
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
            key: Your own name for the message, as for `run`.
            on_open: What becomes of the message while the conversation waits for people, as for `run`.
            prompter: Who answers in this run, in place of the agent's own.
            schema: The type of the answer, or its JSON Schema, as for `run`.
        """
        return self._turns.stream(
            text,
            conversation=conversation,
            history=history,
            deps=deps,
            author=author,
            key=key,
            on_open=on_open,
            prompter=prompter,
            schema=schema,
        )

    def stream_sync(  # noqa: PLR0913  a public signature
        self,
        text: str,
        *,
        conversation: str | None = None,
        history: Sequence[HistoryMessage] | None = None,
        deps: Deps | None = None,
        author: str | None = None,
        key: str | None = None,
        on_open: OnOpen = "error",
        prompter: Prompter | None = None,
        schema: JsonObject | type | None = None,
    ) -> AbstractContextManager[SyncTurnStream]:
        """Run one turn, and watch it, in a program without an event loop: `with agent.stream_sync(…) as events: for event in events: …`.

        It goes on in a thread of its own while you do something else. Otherwise like `stream`.

        Args:
            text: What the user says.
            conversation: The id of a conversation whose last turn has ended; a new one where none is given.
            history: Earlier messages with which a new conversation begins, as for `run`.
            deps: What tools find as `ctx.deps`.
            author: Who says it; recorded.
            key: Your own name for the message, as for `run`.
            on_open: What becomes of the message while the conversation waits for people, as for `run`.
            prompter: Who answers in this run, in place of the agent's own.
            schema: The type of the answer, or its JSON Schema, as for `run`.

        Raises:
            RuntimeError: An event loop is running in this thread; use `async with agent.stream(…)` there.
        """
        refuse_inside_a_loop("stream_sync", "async with agent.stream(…)")
        return self._turns.in_thread(
            self.stream(
                text,
                conversation=conversation,
                history=history,
                deps=deps,
                author=author,
                key=key,
                on_open=on_open,
                prompter=prompter,
                schema=schema,
            )
        )

    def stream_resume(
        self,
        conversation: str,
        *,
        deps: Deps | None = None,
        prompter: Prompter | None = None,
        secrets: Mapping[str, GivenSecret] | None = None,
        user: str | None = None,
        schema: JsonObject | type | None = None,
    ) -> AbstractAsyncContextManager[TurnStream]:
        """Continue the open turn of a conversation, and watch it as `stream` does. Errors are those of `resume`.

        Calls that people have ended since the model was last asked, by a no, a reply or the end of the turn, come first, each as a
        `ToolFinished`.

        Args:
            conversation: The id of the conversation.
            deps: What tools find as `ctx.deps`.
            prompter: Who answers in this run, in place of the agent's own.
            secrets: Secrets for open questions, as for `resume`.
            user: Who gave them; recorded.
            schema: The type that `stream` was given, as for `resume`.
        """
        return self._turns.stream_resume(conversation, deps=deps, prompter=prompter, secrets=secrets, user=user, schema=schema)

    def stream_resume_sync(
        self,
        conversation: str,
        *,
        deps: Deps | None = None,
        prompter: Prompter | None = None,
        secrets: Mapping[str, GivenSecret] | None = None,
        user: str | None = None,
        schema: JsonObject | type | None = None,
    ) -> AbstractContextManager[SyncTurnStream]:
        """Continue the open turn of a conversation, and watch it, in a program without an event loop (see `stream_sync`).

        Args:
            conversation: The id of the conversation.
            deps: What tools find as `ctx.deps`.
            prompter: Who answers in this run, in place of the agent's own.
            secrets: Secrets for open questions, as for `resume`.
            user: Who gave them; recorded.
            schema: The type that `stream` was given, as for `resume`.

        Raises:
            RuntimeError: An event loop is running in this thread; use `async with agent.stream_resume(…)` there.
        """
        refuse_inside_a_loop("stream_resume_sync", "async with agent.stream_resume(…)")
        return self._turns.in_thread(
            self.stream_resume(conversation, deps=deps, prompter=prompter, secrets=secrets, user=user, schema=schema)
        )

    async def work(
        self,
        *,
        at_once: int = 16,
        deps: Deps | None = None,
        deps_for: Callable[[str, str | None], Deps | Awaitable[Deps]] | None = None,
        engine: Literal["none", "dbos"] = "none",
        on_event: OnWork | None = None,
    ) -> None:
        """Go on with turns that are due, until cancelled: in this program what `midturn worker` is as a process of its own.

        Due is an open turn that does not wait for a person alone: a question of it was answered, its process died, or its model was down
        (then after a pause that doubles). Any number of workers share a store; each conversation is with one of them. Cancelling hands
        every turn back at once. Tools run at least once, always with the same `ctx.idempotency_key`. See docs/machines.md.

        Args:
            at_once: How many turns run at the same time.
            deps: What tools find as `ctx.deps`, in every turn.
            deps_for: Returns it for each turn, sync or async: `deps_for(conversation, author)`, the author as `run` was told, or None. Use
                it instead of `deps` if users have dependencies of their own.
            engine: `dbos` runs the same work as DBOS workflows (extra `midturn[dbos]`, a store in PostgreSQL).
            on_event: Hears of everything as it happens, each time with the conversation: `on_event(conversation, event)`, sync or async.
                The events are those of `stream`. What it raises stops the run of this one turn, which is tried again later. Other processes
                watch what is recorded: `store.watch(events=True)`.

        A call whose tool needs the `deps` with which its turn was begun does not run without: that is logged, and tried again later.

        Raises:
            ConfigError: Both `deps` and `deps_for` are passed.
        """
        await self._turns.work(at_once, deps, deps_for, engine, on_event)

    work_sync = sync_form(work, _blocking)

    def with_store(self, store: ConversationStore) -> Self:
        """Return the same agent on another store, guarded by the same `may_answer`.

        Args:
            store: The other store.
        """
        other = copy(self)
        other._turns = self._turns.with_store(store)  # noqa: SLF001  it is another of us
        other._leases = []  # noqa: SLF001
        return other

    async def aclose(self) -> None:
        """Close what was opened to reach models; the agent can be used again all the same."""
        await self._turns.aclose()

    aclose_sync = sync_form(aclose, _blocking)

    def __enter__(self) -> Self:
        refuse_inside_a_loop("with agent", "async with agent")
        self._leases.append(self._turns.servers.keep())
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.aclose_sync()
        finally:
            self._turns.servers.give_back(self._leases.pop())

    async def __aenter__(self) -> Self:
        self._leases.append(self._turns.servers.keep())
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            await self.aclose()
        finally:
            await self._turns.give_back(self._leases.pop())
