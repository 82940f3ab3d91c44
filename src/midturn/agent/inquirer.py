"""`Inquirer`: midturn's questions for programs with their own agent loop."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import TypeAlias, cast

from midturn.agent.assembly.agent import AgentDefinition, build_external_turn
from midturn.agent.assembly.arguments import (
    GivenDetached,
    GivenRoute,
    check_model,
    check_prompter,
    check_store,
    detached_of,
    limits_of,
    routes_of,
    tools_of,
)
from midturn.agent.assembly.models import Models
from midturn.agent.assembly.reviewers import Reviewers
from midturn.agent.inquirer_call import OUTER, CallUnfinished, InquirerCall, check_call
from midturn.agent.message_replies import OnOpen, check_on_open, reply_with_message
from midturn.agent.turn_stream import (
    Asked,
    QuestionAnswered,
    ToolFinished,
    ToolStarted,
    to_stream_event,
)
from midturn.errors import CallEnded, ConfigError, Suspended
from midturn.events.outcome import ToolError
from midturn.events.types import Source
from midturn.events.window import last_turn, open_turn
from midturn.journal import Journal
from midturn.models.provider_model import LibraryModel
from midturn.ports import Happening, Model, Tool
from midturn.prompter import Prompter
from midturn.question.json_value import JsonObject, Limits
from midturn.question.public_names import public_repr
from midturn.question.text import BUILT_IN_TOOLS, check_text
from midturn.runtime.displays import NullDisplay
from midturn.runtime.external_loop import CallContent, ExternalLoopTurn
from midturn.runtime.keyed_turn import first_message
from midturn.runtime.loop_thread import LoopThread, loop_thread
from midturn.runtime.run_options import RunOptions
from midturn.stores.store import ConversationStore
from midturn.stores.sync_forms import refuse_inside_a_loop
from midturn.tools.asking import CALL
from midturn.tools.call_scope import in_thread
from midturn.tools.names import source_of
from midturn.tools.returned import Rejected
from midturn.turn.inputs import CallBegun

Watcher: TypeAlias = Callable[[Asked | QuestionAnswered | ToolStarted | ToolFinished], None]
"""Callback for the events of an inquirer. See `Inquirer.watch`."""


class Inquirer:
    """Asks, routes, records and replays questions for an agent loop outside of midturn.

    ```python
    async def deploy(call: InquirerCall) -> str:
        if not await call.ask(Question.boolean("confirm", "Deploy to staging?")):
            raise Rejected("Not deployed.")
        return "Deployed."


    async with inquirer.turn("Ship it."):
        content = await inquirer.run("deploy", call_id, {"env": "staging"}, deploy)
    ```

    After a crash or after `Suspended`, open the turn again and repeat the calls of the turn with
    the same tool, id and arguments. Answered questions are not asked again, and calls with a result
    do not run again. If a person ended the turn in the meantime, `turn_ended` is true in the
    results of the repeated calls. The next `turn` then starts a new turn. A call outside of `turn`
    is a turn of its own. Remembered answers are valid for one turn.
    """

    def __init__(
        self,
        store: ConversationStore,
        conversation: str,
        prompter: Prompter | None = None,
        detached: GivenDetached = "defer",
        *,
        routes: Mapping[str, GivenRoute] | None = None,
        limits: Limits | Mapping[str, object] | None = None,
        model: Model | LibraryModel | str | None = None,
        source: Source | None = None,
    ) -> None:
        """Create an inquirer for a conversation.

        Args:
            store: Store of the conversation.
            conversation: Id of the conversation (`await store.new(…)` creates one). The
                conversation is locked while this inquirer has an open turn.
            prompter: Shows questions to the user and returns the replies. Without a prompter, no
                one is attached.
            detached: Policy for questions while no one is attached. See `Agent`.
            routes: Responder of each question, by `<tool>.<question>`. See `Agent`.
            limits: See `Agent`. The limit of model requests per turn is not applied.
            model: Answers questions that are routed to the assistant.
            source: Recorded as the asker in all calls, such as `Source("other", "Claude Code")`.
                Default: the tool of each call.
        """
        models = Models(llm={}, display=NullDisplay())
        answer_model = (
            None
            if model is None
            else (
                models.named(model) if isinstance(model, str) else models.around(check_model(model))
            )
        )
        self._settings = AgentDefinition(
            model=answer_model,
            detached=detached_of(detached, None),
            routes=routes_of(routes, None, Reviewers(models, answer_model, None)),
            limits=limits_of(limits),
            models=models,
            source=source,
        )
        check_text("conversation", conversation)
        self._store = check_store(store)
        self._conversation = conversation
        self._prompter = check_prompter(prompter)
        self._turn: ExternalLoopTurn | None = None
        self._holder_count = 0
        self._turn_lock = asyncio.Lock()
        self._cleanup = AsyncExitStack()
        self._thread: LoopThread | None = None
        self._watchers: list[Watcher] = []

    def __repr__(self) -> str:
        return public_repr(self, "Inquirer")

    @contextmanager
    def watch(self, on_event: Watcher) -> Generator[None]:
        """Observe the calls and questions of this inquirer in this block.

        Args:
            on_event: Called with each `ToolStarted`, `Asked`, `QuestionAnswered` and
                `ToolFinished`, in the thread of the event loop. The function must not block.
        """
        self._watchers.append(on_event)
        try:
            yield
        finally:
            self._watchers.remove(on_event)

    @asynccontextmanager
    async def turn(
        self,
        text: str = "",
        *,
        author: str | None = None,
        key: str | None = None,
        calls_wait: bool = False,
        on_open: OnOpen = "error",
    ) -> AsyncGenerator[None]:
        """Open a turn. If the last turn is still open, it is continued. Otherwise, a new turn
        starts with the user's message.

        Leaving the block without an exception completes the turn. An exception or a cancellation
        leaves the turn open. To continue, open the turn again with the same text. Calls that
        already have a result return this result and do not run again.

        Args:
            text: The user's message. Leave it empty if the message is unknown, or to continue the
                open turn.
            author: Name of the user who sent the message. It is recorded.
            key: Your own key for the turn, such as the id of a job. The same key finds the same
                turn, open or finished, so that its calls do not run again if your program died
                before it saved the result. A new call in a finished turn does not run. Its content
                says that the turn is over, and `turn_ended` is true.
            calls_wait: Whether your loop will repeat calls of the open turn. If true, a different
                text never starts a new turn, even if people ended all calls in the meantime.
            on_open: How to handle a different text while the turn has open questions. `error`
                raises `TurnOpen`. `reply` records the text as the reply to the questions that
                `author` may answer. Then repeat the calls of the turn; their results contain the
                reply. Approvals, secrets and questions for other people stay open; if there are no
                other questions, `TurnOpen` lists them.

        Raises:
            Suspended: Raised when the block ends while a question of the turn is open, even if the
                framework caught an earlier `Suspended`. Repeat the calls when the question is
                answered.
            TurnOpen: The open turn was started with another text or another key. The message lists
                its open questions.
            ConfigError: The key belongs to another message or is empty, or `on_open` is combined
                with a key.
            StoreLocked: Another process is writing to the conversation.
            StoreError: The conversation cannot be read or written.
        """
        check_on_open(on_open, key)
        if (
            on_open == "reply"
            and self._turn is None
            and text
            and await self._record_reply(text, author)
        ):
            text = ""
        async with self._holding_turn(text, author, key, calls_wait=calls_wait) as turn:
            try:
                yield
            except BaseException as error:
                turn.keep_open()
                if (
                    isinstance(error, Exception)
                    and _is_caused_by_suspension(error)
                    and (suspended := _suspension(error, turn))
                ):
                    raise suspended from error
                raise
            if suspended := turn.pending():
                raise suspended

    async def run(
        self,
        tool: str,
        call_id: str,
        arguments: JsonObject | None,
        function: Callable[[InquirerCall], object],
        *,
        occurrence: int | None = None,
        agent: str = "",
        permission: bool = False,
        schema: JsonObject | None = None,
    ) -> CallContent:
        """Run one tool call with `function(call)`, and return the recorded text for the model.

        Every outcome is returned as text: the function's result, its `Rejected`, another exception
        (logged by `midturn.tools`), a reply, or a cancelled question. `is_error` and `turn_ended`
        distinguish these outcomes. If the call already has a result from before a suspension or a
        crash, the recorded content is returned and the function does not run.

        Args:
            tool: Name of the tool.
            call_id: Call id from the model.
            arguments: Arguments from the model.
            function: Implementation of the tool, async or sync (run in a thread). It asks with
                `await call.ask(…)`, `call.ask_sync(…)`, or `midturn.ask(…)` at any depth.
            occurrence: Number of the call among identical calls of this turn, starting at 1. For
                frameworks that repeat calls themselves. By default, the n-th identical call since
                this inquirer opened the turn is the n-th recorded call.
            agent: Name of the calling agent, if several agents of a program have tools with the
                same name. A call is identified by its agent, tool, id and arguments. The name is
                recorded as `agent` in the metadata of the call.
            permission: Whether to ask a person for permission before the call runs. The person may
                edit the arguments. `call.context.arguments` contains the final arguments.
            schema: With `permission`, the JSON Schema of the tool's arguments. Edited arguments
                that do not match the schema are rejected in every interface, and the question
                stays open. The schema is recorded with the question.

        Raises:
            Suspended: No one is attached to answer. Repeat the call when the question is answered.
            ConfigError: The tool's name, the id or the arguments are invalid.
            StoreLocked: Another process is writing to the conversation.
            StoreError: The conversation cannot be read or written.
        """
        try:
            async with self._call(
                tool, call_id, arguments, occurrence, agent, permission=permission, schema=schema
            ) as call:
                try:
                    returned = await _run_function(function, call)
                    call.refuse_going_on()
                    call.finish(returned)
                except (Suspended, CallEnded, CallUnfinished):
                    call.refuse_going_on()
                    raise
                except Exception as error:  # noqa: BLE001  errors of the function are reported to the model and logged
                    call.refuse_going_on()
                    return await call.fail(error)
                return await call.end(call.outcome)
        except CallEnded as ended:
            images = ended.content.images if isinstance(ended.content, CallContent) else ()
            return CallContent(
                ended.content, is_error=ended.is_error, turn_ended=ended.turn_ended, images=images
            )
        except CallUnfinished as unfinished:
            left = unfinished.error
        raise left

    async def give_up_unmade(self, reason: str) -> None:
        """End the unfinished calls of the open turn that were not repeated since this inquirer
        opened the turn.

        The open questions of these calls are closed, and `reason` is recorded as their result.
        Use this method if your loop has restarted with other calls.

        Args:
            reason: Reason to record as the result of the calls.

        Raises:
            StoreError: The result cannot be recorded.
        """
        for call in self._turn.unmade() if self._turn else ():
            await self.run(
                call.name,
                call.id,
                call.arguments,
                lambda _: ToolError(reason),
                occurrence=1,
                agent=call.agent,
            )

    def raise_end(self) -> None:
        """Raise an error if a person ended the turn before this inquirer opened it. For loops that
        make model requests without a call.

        After that, the end counts as reported to your program, and the next `turn` starts a new
        turn.

        Raises:
            CallEnded: A person ended the turn (`turn_ended`).
        """
        if self._turn is not None:
            self._turn.raise_end()

    def keep_open(self) -> None:
        """Leave the turn open when its block ends, because your loop waits for something other
        than a question.

        Otherwise, leaving the block without an exception completes the turn. To continue, open the
        turn again. Call this method after the calls of the block. Open questions keep the turn open
        in any case.
        """
        if self._turn is not None and not self._turn.pending():
            self._turn.keep_open()

    @property
    def resumes(self) -> bool:
        """Whether the turn existed before this inquirer opened it. It was left open, was found by
        its key, or was ended by a person.
        """
        return self._turn is not None and self._turn.resumes

    @property
    def event_before(self) -> str:
        """The `event_id` of the last event before the turn. It is the same each time the turn is
        opened. Empty if there is no such event, or if no turn is open.
        """
        return "" if self._turn is None else self._turn.event_before

    @property
    def follows_ended_turn(self) -> bool:
        """Whether the turn is new and a person ended the previous turn."""
        return self._turn is not None and self._turn.follows_ended_turn and not self._turn.resumes

    def result_of(
        self,
        tool: str,
        call_id: str,
        arguments: JsonObject | None,
        *,
        occurrence: int | None = None,
        agent: str = "",
    ) -> CallContent | None:
        """Return the recorded result of a call of the open turn, or None if the call has no
        result. The call does not run.

        Args:
            tool: Name of the tool.
            call_id: Call id from the model.
            arguments: Arguments from the model.
            occurrence: Number of the call among identical calls. See `run`. Default: the latest
                call.
            agent: Name of the calling agent. See `run`.
        """
        return (
            None
            if self._turn is None
            else self._turn.result_of(CallBegun(call_id, tool, arguments or {}, agent), occurrence)
        )

    def has_asked(
        self,
        tool: str,
        call_id: str,
        arguments: JsonObject | None,
        question_id: str,
        *,
        agent: str = "",
    ) -> bool:
        """Return whether an unfinished call of the open turn has asked a question, in any process.

        Args:
            tool: Name of the tool.
            call_id: Call id from the model.
            arguments: Arguments from the model.
            question_id: Id of the question. The id of a permission is `__run__`.
            agent: Name of the calling agent. See `run`.
        """
        return self._turn is not None and self._turn.has_asked(
            CallBegun(call_id, tool, arguments or {}, agent), question_id
        )

    def run_sync(
        self,
        tool: str,
        call_id: str,
        arguments: JsonObject | None,
        function: Callable[[InquirerCall], object],
        *,
        occurrence: int | None = None,
        agent: str = "",
        permission: bool = False,
        schema: JsonObject | None = None,
    ) -> CallContent:
        """Run one tool call in a program without an event loop. Synchronous version of `run`.

        Raises:
            RuntimeError: An event loop is running in this thread; use `await inquirer.run(…)`
                instead.
        """
        refuse_inside_a_loop("inquirer.run_sync", "await inquirer.run(…)")
        with self._loop() as thread:
            return thread.run(
                self.run(
                    tool,
                    call_id,
                    arguments,
                    function,
                    occurrence=occurrence,
                    agent=agent,
                    permission=permission,
                    schema=schema,
                )
            )

    def give_up_unmade_sync(self, reason: str) -> None:
        """End the unfinished calls that were not repeated. Synchronous version of `give_up_unmade`.

        Raises:
            RuntimeError: An event loop is running in this thread; use
                `await inquirer.give_up_unmade(…)` instead.
        """
        refuse_inside_a_loop("inquirer.give_up_unmade_sync", "await inquirer.give_up_unmade(…)")
        with self._loop() as thread:
            thread.run(self.give_up_unmade(reason))

    @contextmanager
    def turn_sync(
        self,
        text: str = "",
        *,
        author: str | None = None,
        key: str | None = None,
        calls_wait: bool = False,
        on_open: OnOpen = "error",
    ) -> Generator[None]:
        """Open a turn in a program or thread without an event loop, for `run_sync` and `call_sync`.
        Synchronous version of `turn`.

        Raises:
            RuntimeError: An event loop is running in this thread; use `async with inquirer.turn(…)`
                instead.
        """
        refuse_inside_a_loop("inquirer.turn_sync", "async with inquirer.turn(…)")
        with (
            self._loop() as thread,
            thread.entered(
                self.turn(text, author=author, key=key, calls_wait=calls_wait, on_open=on_open)
            ),
        ):
            yield

    @contextmanager
    def call_sync(
        self, tool: str | Tool, call_id: str, arguments: JsonObject | None = None
    ) -> Generator[InquirerCall]:
        """Make one call in a program without an event loop:
        `with inquirer.call_sync(…) as call: call.ask_sync(…)`. See `call`.

        Raises:
            RuntimeError: An event loop is running in this thread; use `async with inquirer.call(…)`
                instead.
        """
        refuse_inside_a_loop("inquirer.call_sync", "async with inquirer.call(…)")
        with self._loop() as thread, thread.entered(self.call(tool, call_id, arguments)) as call:
            yield call

    @contextmanager
    def _loop(self) -> Generator[LoopThread]:
        """Return the event loop thread of the open turn, or start one for this block."""
        if self._thread is not None:
            yield self._thread
            return
        with loop_thread() as thread:
            self._thread = thread
            try:
                yield thread
            finally:
                self._thread = None

    @asynccontextmanager
    async def call(
        self, tool: str | Tool, call_id: str, arguments: JsonObject | None = None
    ) -> AsyncGenerator[InquirerCall]:
        """Make one tool call whose questions are asked inside the block. `tool` is a midturn tool,
        or the name of your own tool.

        An exception in the block is recorded as the tool's error and raised again. `Suspended`,
        and a cancellation of the task, leave the call unfinished. Repeat the call later.

        Args:
            tool: The tool, or its name.
            call_id: Call id from the model.
            arguments: Arguments from the model.

        Raises:
            Suspended: No one is attached to answer. `pending` lists the open questions.
            CallEnded: The call already had a result when the block started, a question in the block
                was not answered and the call is over, or the block raised `Rejected`. `content` is
                the text for the model.
            ConfigError: The tool's name, the id or the arguments are invalid.
            StoreLocked: Another process is writing to the conversation.
            StoreError: The conversation cannot be read or written.
        """
        async with self._call(tool, call_id, arguments, None, "") as call:
            try:
                yield call
                call.refuse_going_on()
            except Exception as error:
                if isinstance(error, Suspended | CallEnded):
                    raise
                call.refuse_going_on()
                content = await call.fail(error)
                if isinstance(error, Rejected):
                    raise CallEnded(content, is_error=True) from error
                raise
            await call.end(call.outcome)

    @asynccontextmanager
    async def _call(
        self,
        tool: str | Tool,
        call_id: str,
        arguments: JsonObject | None,
        occurrence: int | None,
        agent: str,
        *,
        permission: bool = False,
        schema: JsonObject | None = None,
    ) -> AsyncGenerator[InquirerCall]:
        name, source = _name_and_source(tool, self._settings.source)
        check_call(name, call_id, arguments, self._settings.limits.json_depth)
        check_text("agent", agent)
        async with self._holding_turn() as turn:
            outer_call = OUTER.get()
            outer = outer_call.event if outer_call is not None and outer_call.is_of(turn) else ""
            begun = CallBegun(call_id, name, arguments or {}, agent, outer)
            external = await turn.call(
                source, begun, occurrence, permission=permission, schema=schema
            )
            call = InquirerCall(source, turn, external)
            OUTER.set(call)
            try:
                yield call
            finally:
                # `reset` with a token would fail: without an event loop, the block may end in
                # another context
                OUTER.set(outer_call)
                call.leave()

    @asynccontextmanager
    async def _holding_turn(
        self,
        text: str = "",
        author: str | None = None,
        key: str | None = None,
        *,
        calls_wait: bool = False,
    ) -> AsyncGenerator[ExternalLoopTurn]:
        """Keep the conversation locked and the turn open while at least one call needs them."""
        async with self._turn_lock:
            if self._turn is None:
                self._turn = await self._open_turn(text, author, key, calls_wait=calls_wait)
            self._holder_count += 1
        try:
            yield self._turn
        finally:
            self._holder_count -= 1
            if self._holder_count == 0:
                async with self._turn_lock:
                    turn, self._turn = self._turn, None
                    async with self._cleanup.pop_all():
                        try:
                            await turn.close()
                        finally:
                            if turn.reported_end:
                                await self._store.port.beside.keep(
                                    self._reported_end_key, turn.reported_end.encode()
                                )

    async def _record_reply(self, text: str, author: str | None) -> bool:
        """Record a message as the reply to open questions, unless the message started the turn.
        Return whether any question accepted the reply.
        """
        check_text("text", text)
        window = open_turn((await self._store.read(self._conversation)).events)
        if window is None or first_message(window) == text:
            return False
        return bool(await reply_with_message(self._store, self._conversation, text, author))

    async def _reported_end(self, journal: Journal) -> str:
        """Return the `event_id` of the start of the last turn that was ended by a person and
        reported as ended to the program. Return an empty string if there is none, or if the last
        turn is open.
        """
        last = last_turn(journal.events)
        if last is None or last.open:
            return ""
        return (
            (await self._store.port.beside.kept(self._reported_end_key))
            .get(self._reported_end_key, b"")
            .decode()
        )

    @property
    def _reported_end_key(self) -> str:
        return f"reported-end/{self._conversation}"

    async def _open_turn(
        self, text: str, author: str | None, key: str | None, *, calls_wait: bool
    ) -> ExternalLoopTurn:
        if self._prompter is not None:
            self._store.require_person()
        async with AsyncExitStack() as cleanup:
            journal = await cleanup.enter_async_context(await self._store.open(self._conversation))
            turn = build_external_turn(
                self._settings,
                RunOptions(
                    prompter=self._prompter, display=_WatcherDisplay(journal, self._watchers)
                ),
                journal,
            )
            await turn.begin(
                text,
                author,
                key,
                calls_wait=calls_wait,
                reported_end=await self._reported_end(journal),
            )
            self._cleanup = cleanup.pop_all()
        return turn


class _WatcherDisplay:
    """Display that passes the calls and questions of a turn to the watchers of its inquirer."""

    def __init__(self, journal: Journal, watchers: Sequence[Watcher]) -> None:
        self._journal = journal
        self._watchers = watchers

    def show(self, happening: Happening) -> None:
        """Pass an event to the watchers."""
        if not self._watchers:
            return
        match to_stream_event(happening, self._journal.conversation, self._journal.events):
            case Asked() | QuestionAnswered() | ToolStarted() | ToolFinished() as event:
                for watcher in [*self._watchers]:
                    watcher(event)
            case _:
                pass


def _name_and_source(tool: str | Tool, source: Source | None) -> tuple[str, Source]:
    """Return a tool's name and the source of its questions. If `source` is set, it is the agent
    that makes all calls.

    Raises:
        ConfigError: The name belongs to a built-in tool, or the tool's `inquiry_source` names
            another tool.
    """
    if not isinstance(tool, str):
        (checked,) = tools_of([tool])
        return checked.definition.name, source_of(checked)
    if source:
        return tool, source
    if tool in BUILT_IN_TOOLS:
        raise ConfigError(
            f"`{tool}` is the name of a built-in tool. Use another name, or pass the built-in tool"
            " itself."
        )
    return tool, Source.tool(tool)


async def _run_function(function: Callable[[InquirerCall], object], call: InquirerCall) -> object:
    """Run a tool's function in a context in which `midturn.ask` finds the call."""
    token = CALL.set(call)
    try:
        if inspect.iscoroutinefunction(function):
            return await cast("Awaitable[object]", function(call))
        returned = await in_thread(lambda: function(call))
        return (
            await cast("Awaitable[object]", returned) if inspect.isawaitable(returned) else returned
        )
    finally:
        CALL.reset(token)
        call.refuse_unasked()


def _suspension(error: Exception, turn: ExternalLoopTurn) -> Suspended | None:
    """Return the suspension that caused an error. The caller raises it instead of the error.
    Return None if the error already lists the questions.
    """
    return None if isinstance(error, Suspended) and error.pending else turn.pending()


def _is_caused_by_suspension(error: BaseException | None) -> bool:
    """Return whether an exception wraps `Suspended`."""
    seen: set[int] = set()
    while (
        error is not None and id(error) not in seen
    ):  # chains can be cyclic if a framework raises an error in its own handler
        if isinstance(error, Suspended):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False
