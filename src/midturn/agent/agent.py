"""`Agent`: a model, its tools, and a prompter."""

from __future__ import annotations

import warnings
from copy import copy
from functools import cache
from typing import TYPE_CHECKING, Any, Generic, overload

from midturn.question.public_names import public_repr
from midturn.stores.sync_forms import in_a_loop, refuse_inside_a_loop, sync_form

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager, AbstractContextManager
    from typing import Literal, Self, TypedDict, Unpack

    from typing_extensions import TypeVar

    from midturn.agent.assembly.arguments import GivenDetached, GivenRoute, GivenTool
    from midturn.agent.assembly.program_servers import ServerUse
    from midturn.agent.given_secrets import GivenSecret
    from midturn.agent.message_replies import OnOpen
    from midturn.agent.result import HistoryMessage, RunResult
    from midturn.agent.turn_stream import OnEvent, OnWork, SyncTurnStream, TurnStream
    from midturn.agent.turns import AgentRunner
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
        """Arguments of `resume`, except `schema`."""

        secrets: Mapping[str, GivenSecret] | None
        user: str | None

    class RunArguments(_Arguments[Deps], total=False):
        """Arguments of `run`, except `schema`."""

        conversation: str | None
        history: Sequence[HistoryMessage] | None
        author: str | None
        key: str | None
        metadata: JsonObject | None
        on_open: OnOpen

else:
    from typing import TypeVar

    Deps = TypeVar("Deps")
    Shape = TypeVar("Shape")


_UNGUARDED_STORE = (
    "`may_answer` is applied only to `agent.store`. It does not check answers that are submitted"
    " through the store that was passed as `store`. Pass"
    " `store=store.with_authorizer(may_answer)` instead of both arguments, and answer through that"
    " store."
)


@cache
def _turns() -> type[AgentRunner]:
    """Import the code that runs agents on first use, because many programs import `Agent` only
    for annotations.
    """
    from midturn.agent.turns import AgentRunner

    return AgentRunner


def _blocking(_: object, name: str, work: Coroutine[Any, Any, Answer]) -> Answer:
    """Run a coroutine method of an agent to completion in a new event loop.

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
    """Runs turns of conversations that are kept in a store. An agent does not read the
    configuration. It uses a terminal only if its prompter uses one.

    Without a prompter, no user can be asked directly, and the policy `detached` decides what
    happens to each question. By default (`defer`), the turn is suspended until the question is
    answered, so that no model answers a question that is meant for a person. The agent has only the
    tools that you pass. To let the model itself ask the user questions, add `midturn.ask_user`.

    Each async method has a `_sync` version for programs and threads without an event loop. With
    `Agent[Shop](…)`, a type checker checks that `deps` is a `Shop`.
    """

    if not TYPE_CHECKING:

        def __class_getitem__(cls, parameters: object) -> object:
            """Accept `Agent[Shop]` with one parameter. Python before 3.13 does not support defaults
            of type variables.
            """
            return super().__class_getitem__(
                parameters if isinstance(parameters, tuple) else (parameters, None)
            )

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
        """Create an agent.

        Args:
            model: A model, the id of a model (`anthropic/claude-sonnet-5-5`,
                `scripted:play.toml`), or any model object of pydantic-ai. Requests that fail
                temporarily are retried.
            tools: Tools that the model may call: functions with `@midturn.tool`, plain functions,
                or objects with the methods of `Tool`.
            mcp: MCP servers whose tools the model may call. A person is asked before a tool runs,
                unless `McpServer(run=…)` sets another policy. The servers are started for each
                run; `async with agent:` keeps them running for the whole block.
            instructions: The system prompt, or a function of `deps` that returns it, called for
                each run.
            prompter: Shows questions to the user and returns the replies. The `prompter` argument
                of `run` replaces it for one run.
            detached: Policy for questions while no one is attached: `defer` (the default), `auto`,
                `defaults` or `deny`. Or a mapping by kind of prompt: `{"run": "deny", "deliver":
                "auto", "tool": "defer"}`. Or a mapping from tool names to either of these: `{"*":
                "defer", "deploy": {"run": "deny"}}`.
            routes: Responder of each question. A key is `<tool>.<question>` or `<tool>.*`. A value
                is `user`, `assistant`, `assistant_with_escalation`, a `Target`, a model object, or
                a table of assistant settings with `escalation`. A value can also be a table with
                the configuration keys `target`, `answer` (recorded as `static`), `exclusive`,
                `prompt_label` and `deadline`. All other questions go to the user.
            limits: `Limits(…)`, or a mapping of the limits to change.
            store: Store of the conversations. By default, the conversations are kept in memory
                until the process ends, and the first suspended turn logs a warning.
            may_answer: Function `(question, user) -> bool`, sync or async, that authorizes every
                answer submitted through `agent.store` or queued for a turn of this agent. `user` is
                the argument of `store.answer`, which raises `NotAllowed` if the function returns
                false. If you pass your own store, use `store.with_authorizer(may_answer)` instead;
                passing both arguments logs a warning, because answers through your store object
                would not be checked.
            schema: Type of the model's final answer, or its JSON Schema. Used for every run that
                does not pass its own schema.

        Raises:
            ConfigError: A model, tool, route, limit or policy is invalid. The message contains
                the allowed values.
            QuestionError: `schema` cannot be converted to a JSON Schema.
            TypeError: An argument has an unsupported type.
        """
        if store is not None and may_answer is not None:
            warnings.warn(_UNGUARDED_STORE, stacklevel=2)
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
        self._leases: list[ServerUse] = []
        for warning in self._turns.warnings:
            warnings.warn(warning, stacklevel=2)

    def __repr__(self) -> str:
        return public_repr(self, "Agent", self._turns.shown)

    @property
    def store(self) -> ConversationStore:
        """The store with the conversations. It lists their open questions (`pending`) and accepts
        answers (`answer`).
        """
        return self._turns.store

    @overload
    async def run(
        self, text: str, *, schema: None = None, **how: Unpack[RunArguments[Deps]]
    ) -> RunResult[Shape]: ...

    @overload
    async def run(
        self, text: str, *, schema: type[Answer], **how: Unpack[RunArguments[Deps]]
    ) -> RunResult[Answer]: ...

    @overload
    async def run(
        self, text: str, *, schema: JsonObject, **how: Unpack[RunArguments[Deps]]
    ) -> RunResult[Json]: ...

    async def run(  # noqa: PLR0913  a public signature
        self,
        text: str,
        *,
        conversation: str | None = None,
        history: Sequence[HistoryMessage] | None = None,
        deps: Deps | None = None,
        author: str | None = None,
        key: str | None = None,
        metadata: JsonObject | None = None,
        on_open: OnOpen = "error",
        prompter: Prompter | None = None,
        schema: JsonObject | type | None = None,
        on_event: OnEvent | None = None,
    ) -> RunResult[Any]:
        """Run one turn in `conversation`, or in a new conversation. If the task is cancelled, the
        turn stays open and can be resumed.

        Args:
            text: The user's message.
            conversation: Id of a conversation whose last turn has ended. Default: a new
                conversation.
            history: Earlier messages that start a new conversation. The first one is a user
                message: `[{"role": "user", "content": "…"}, …]`. They are recorded as completed
                turns.
            deps: Value of `ctx.deps` in tools.
            author: Name of the user who sent the message. It is recorded.
            key: Your own key for the message, such as its id in a chat program. A second run with
                the same key in the same conversation does not start a new turn: it continues the
                existing turn, or returns its recorded result. Requires `conversation`.
            metadata: Your own data about the message, such as the ID that the sender gave it. It is
                recorded as `metadata` of the `chat_request` event and is never sent to a model. It
                is not recorded if the message becomes a reply (`on_open`), or if its `key` is
                already known. At most 16 KiB of JSON.
            on_open: How to handle the message if the conversation has open questions. `error`
                raises `TurnOpen`, which lists the questions. `reply` records the message as the
                reply to the questions that its author may answer, and the turn continues.
                Approvals, secrets and questions for other people stay open; if there are no other
                questions, `TurnOpen` lists them.
            prompter: Shows the questions of this run to the user, instead of the agent's prompter.
            schema: Type of the model's final answer (a dataclass, a struct, a Pydantic model, …),
                or its JSON Schema. `RunResult.structured` is then a value of this type.
            on_event: Called with each event of `stream`, sync or async. An exception in it stops
                the run and leaves the turn open.

        Raises:
            TurnOpen: The last turn of the conversation is open.
            ConfigError: The key belongs to another message, is empty, or is used without a
                conversation or inside a tool; `metadata` is not a JSON object or is too large;
                `on_open` is invalid or combined with a key; or no `deps` were passed, although a
                tool has a parameter of type `ToolContext[Shop]`, or `instructions` has a parameter
                of type `Shop`. Nothing is recorded in these cases.
            StoreError: The conversation cannot be written.
            StoreLocked: Another process or another run is writing to the conversation.
            ModelError: The model was unavailable after all retries. The turn stays open;
                `error.conversation` is the id of its conversation.
        """
        return await self._turns.run(
            text,
            on_event,
            conversation=conversation,
            history=history,
            deps=deps,
            author=author,
            key=key,
            metadata=metadata,
            on_open=on_open,
            prompter=prompter,
            schema=schema,
        )

    @overload
    def run_sync(
        self, text: str, *, schema: None = None, **how: Unpack[RunArguments[Deps]]
    ) -> RunResult[Shape]: ...

    @overload
    def run_sync(
        self, text: str, *, schema: type[Answer], **how: Unpack[RunArguments[Deps]]
    ) -> RunResult[Answer]: ...

    @overload
    def run_sync(
        self, text: str, *, schema: JsonObject, **how: Unpack[RunArguments[Deps]]
    ) -> RunResult[Json]: ...

    def run_sync(  # noqa: PLR0913  a public signature
        self,
        text: str,
        *,
        conversation: str | None = None,
        history: Sequence[HistoryMessage] | None = None,
        deps: Deps | None = None,
        author: str | None = None,
        key: str | None = None,
        metadata: JsonObject | None = None,
        on_open: OnOpen = "error",
        prompter: Prompter | None = None,
        schema: JsonObject | type | None = None,
        on_event: OnEvent | None = None,
    ) -> RunResult[Any]:
        """Run one turn in a program without an event loop. Synchronous version of `run`. Ctrl-C
        leaves the turn open.

        Raises:
            RuntimeError: An event loop is running in this thread; use `await agent.run(…)` instead.
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
            metadata=metadata,
            on_open=on_open,
            prompter=prompter,
            schema=schema,
        )

    @overload
    async def resume(
        self, conversation: str, *, schema: None = None, **how: Unpack[ResumeArguments[Deps]]
    ) -> RunResult[Any]: ...

    @overload
    async def resume(
        self, conversation: str, *, schema: type[Answer], **how: Unpack[ResumeArguments[Deps]]
    ) -> RunResult[Answer]: ...

    @overload
    async def resume(
        self, conversation: str, *, schema: JsonObject, **how: Unpack[ResumeArguments[Deps]]
    ) -> RunResult[Json]: ...

    async def resume(
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
        """Continue the open turn of a conversation from where it stopped.

        Args:
            conversation: Id of the conversation.
            deps: Value of `ctx.deps` in tools.
            prompter: Shows the questions of this run to the user, instead of the agent's prompter.
            on_event: Called with each event. See `run`.
            secrets: Secrets for open questions, by the question ids that `pending` lists. A secret
                is a string. For a form with a secret, pass the answers to the form by question id.
                Secrets are passed to the tool and are never stored.
            user: Name of the person who gave the secrets. The name is recorded.
            schema: The type that was passed to `run`, so that `RunResult.structured` is a value
                of this type. The answer is always checked against the schema with which the turn
                was started.

        Raises:
            NotOpen: The last turn has completed. If a person ended the turn, no error is raised,
                and the status of the result is `ended_by_user`.
            ConfigError: The turn waits in a call of a tool that this agent does not have. Nothing
                was changed.
            AnswerError: A value in `secrets` is neither a string nor the answers to a form, or its
                question does not ask for a secret.
            NotAllowed: `user` may not answer the question.
            StoreError: The conversation does not exist or cannot be written.
            StoreLocked: Another process or another run is writing to the conversation.
            ModelError: The model was unavailable after all retries. The turn is open and can be
                resumed.
        """
        return await self._turns.resume(
            conversation,
            on_event,
            deps=deps,
            prompter=prompter,
            secrets=secrets,
            user=user,
            schema=schema,
        )

    @overload
    def resume_sync(
        self, conversation: str, *, schema: None = None, **how: Unpack[ResumeArguments[Deps]]
    ) -> RunResult[Any]: ...

    @overload
    def resume_sync(
        self, conversation: str, *, schema: type[Answer], **how: Unpack[ResumeArguments[Deps]]
    ) -> RunResult[Answer]: ...

    @overload
    def resume_sync(
        self, conversation: str, *, schema: JsonObject, **how: Unpack[ResumeArguments[Deps]]
    ) -> RunResult[Json]: ...

    def resume_sync(
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
        """Continue the open turn of a conversation in a program without an event loop. Synchronous
        version of `resume`.

        Raises:
            RuntimeError: An event loop is running in this thread; use `await agent.resume(…)`
                instead.
        """
        refuse_inside_a_loop("resume_sync", "await agent.resume(…)")

        async def run_once() -> RunResult[Any]:
            async with self:
                return await self._turns.resume(
                    conversation,
                    on_event,
                    deps=deps,
                    prompter=prompter,
                    secrets=secrets,
                    user=user,
                    schema=schema,
                )

        return in_a_loop(run_once())

    def stream(  # noqa: PLR0913  a public signature
        self,
        text: str,
        *,
        conversation: str | None = None,
        history: Sequence[HistoryMessage] | None = None,
        deps: Deps | None = None,
        author: str | None = None,
        key: str | None = None,
        metadata: JsonObject | None = None,
        on_open: OnOpen = "error",
        prompter: Prompter | None = None,
        schema: JsonObject | type | None = None,
        events: bool = False,
    ) -> AbstractAsyncContextManager[TurnStream]:
        """Run one turn and stream its events:
        `async with agent.stream(…) as events: async for event in events: …`.

        The events are `TextDelta`, `ReasoningDelta`, `ModelRetried`, `ToolStarted`, `Asked`,
        `QuestionAnswered`, `ToolFinished`, and finally `TurnEnded` with the result. Leaving the
        block early stops the run and leaves the turn open. Iteration raises the same errors as
        `run`.

        Args:
            text: The user's message.
            conversation: Id of a conversation whose last turn has ended. Default: a new
                conversation.
            history: Earlier messages that start a new conversation. See `run`.
            deps: Value of `ctx.deps` in tools.
            author: Name of the user who sent the message. It is recorded.
            key: Your own key for the message. See `run`.
            metadata: Your own data about the message. See `run`.
            on_open: How to handle the message if the conversation has open questions. See `run`.
            prompter: Shows the questions of this run to the user, instead of the agent's prompter.
            schema: Type of the model's final answer, or its JSON Schema. See `run`.
            events: Whether to also yield every recorded event, as `Recorded`, in order with the
                other events. The text of a response comes before the `chat_response` that records
                it, and a question comes before its `Asked`.
        """
        return self._turns.stream(
            text,
            with_events=events,
            conversation=conversation,
            history=history,
            deps=deps,
            author=author,
            key=key,
            metadata=metadata,
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
        metadata: JsonObject | None = None,
        on_open: OnOpen = "error",
        prompter: Prompter | None = None,
        schema: JsonObject | type | None = None,
        events: bool = False,
    ) -> AbstractContextManager[SyncTurnStream]:
        """Run one turn and stream its events, in a program without an event loop. Synchronous
        version of `stream`.

        Write `with agent.stream_sync(…) as events: for event in events: …`. The turn runs in a
        separate thread.

        Args:
            text: The user's message.
            conversation: Id of a conversation whose last turn has ended. Default: a new
                conversation.
            history: Earlier messages that start a new conversation. See `run`.
            deps: Value of `ctx.deps` in tools.
            author: Name of the user who sent the message. It is recorded.
            key: Your own key for the message. See `run`.
            metadata: Your own data about the message. See `run`.
            on_open: How to handle the message if the conversation has open questions. See `run`.
            prompter: Shows the questions of this run to the user, instead of the agent's prompter.
            schema: Type of the model's final answer, or its JSON Schema. See `run`.
            events: Whether to also yield every recorded event. See `stream`.

        Raises:
            RuntimeError: An event loop is running in this thread; use `async with agent.stream(…)`
                instead.
        """
        refuse_inside_a_loop("stream_sync", "async with agent.stream(…)")
        return self._turns.in_thread(
            self.stream(
                text,
                events=events,
                conversation=conversation,
                history=history,
                deps=deps,
                author=author,
                key=key,
                metadata=metadata,
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
        events: bool = False,
        after: int | None = None,
    ) -> AbstractAsyncContextManager[TurnStream]:
        """Continue the open turn of a conversation and stream its events like `stream`. Iteration
        raises the same errors as `resume`.

        Without `after`, the stream begins with the calls that a person ended since the last model
        request, by refusing them, replying to them or ending the turn: a `QuestionAnswered` and a
        `ToolFinished` for each call.

        Args:
            conversation: Id of the conversation.
            deps: Value of `ctx.deps` in tools.
            prompter: Shows the questions of this run to the user, instead of the agent's prompter.
            secrets: Secrets for open questions. See `resume`.
            user: Name of the person who gave the secrets. The name is recorded.
            schema: The type that was passed to `stream`. See `resume`.
            events: Whether to also yield every recorded event. See `stream`.
            after: Position of the last event that you received, such as the `position` of the last
                `Recorded`. The stream begins with the events recorded since then, as `Recorded`,
                with the `Asked`, `QuestionAnswered` and `ToolFinished` that they cause. Implies
                `events`.
        """
        return self._turns.stream_resume(
            conversation,
            with_events=events,
            after=after,
            deps=deps,
            prompter=prompter,
            secrets=secrets,
            user=user,
            schema=schema,
        )

    def stream_resume_sync(
        self,
        conversation: str,
        *,
        deps: Deps | None = None,
        prompter: Prompter | None = None,
        secrets: Mapping[str, GivenSecret] | None = None,
        user: str | None = None,
        schema: JsonObject | type | None = None,
        events: bool = False,
        after: int | None = None,
    ) -> AbstractContextManager[SyncTurnStream]:
        """Continue the open turn of a conversation and stream its events. Synchronous version of
        `stream_resume`.

        Args:
            conversation: Id of the conversation.
            deps: Value of `ctx.deps` in tools.
            prompter: Shows the questions of this run to the user, instead of the agent's prompter.
            secrets: Secrets for open questions. See `resume`.
            user: Name of the person who gave the secrets. The name is recorded.
            schema: The type that was passed to `stream`. See `resume`.
            events: Whether to also yield every recorded event. See `stream`.
            after: Position of the last event that you received. See `stream_resume`.

        Raises:
            RuntimeError: An event loop is running in this thread; use `async with
                agent.stream_resume(…)` instead.
        """
        refuse_inside_a_loop("stream_resume_sync", "async with agent.stream_resume(…)")
        return self._turns.in_thread(
            self.stream_resume(
                conversation,
                events=events,
                after=after,
                deps=deps,
                prompter=prompter,
                secrets=secrets,
                user=user,
                schema=schema,
            )
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
        """Continue ready turns until cancelled. Runs the worker of `midturn worker` inside your
        program.

        An open turn is ready in three cases: one of its questions was answered, its process died,
        or its model was unavailable. In the last case, the turn is ready after a delay that doubles
        each time. Any number of workers can share a store, and each conversation is claimed by only
        one worker. If this task is cancelled, all turns are released immediately. A tool call may
        run more than once, for example after a crash, always with the same `ctx.idempotency_key`.
        See docs/operations/deployment.md.

        If a tool needs the `deps` of the turn and none were passed, the call does not run. The
        error is logged, and the turn is retried later.

        Args:
            at_once: Maximum number of concurrent turns.
            deps: Value of `ctx.deps` in the tools of every turn.
            deps_for: Returns the `deps` of a turn, sync or async: `deps_for(conversation, author)`.
                The author is the name that was passed to `run`, or None. Use `deps_for` instead of
                `deps` if each user has separate dependencies.
            engine: `dbos` runs the turns as DBOS workflows (extra `midturn[dbos]`, store in
                PostgreSQL).
            on_event: Called as `on_event(conversation, event)` with each event that `stream`
                yields. Sync or async. An exception in this function stops the run of the turn, and
                the turn is retried later. Other processes can follow the recorded events with
                `store.watch(events=True)`.

        Raises:
            ConfigError: Both `deps` and `deps_for` are passed.
        """
        await self._turns.work(at_once, deps, deps_for, engine, on_event)

    work_sync = sync_form(work, _blocking)

    def with_store(self, store: ConversationStore) -> Self:
        """Return a copy of the agent that uses another store, with the same `may_answer`.

        Args:
            store: Store of the copy.
        """
        other = copy(self)
        other._turns = self._turns.with_store(store)  # noqa: SLF001  an instance of the same class
        other._leases = []  # noqa: SLF001
        return other

    async def aclose(self) -> None:
        """Close the connections to models. They are opened again if the agent is used
        afterwards.
        """
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
