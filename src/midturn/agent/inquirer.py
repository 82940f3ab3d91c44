"""The question layer without our loop, for people who have one."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import TypeAlias, cast

from midturn.agent.assembly.agent import AgentSettings, compose_inquirer
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
from midturn.agent.assembly.session import Prompter, RunParts
from midturn.agent.inquirer_call import OUTER, CallUnfinished, InquirerCall, check_call
from midturn.agent.message_replies import OnOpen, check_on_open, reply_with_message
from midturn.agent.turn_stream import Asked, QuestionAnswered, ToolFinished, ToolStarted, streamed
from midturn.errors import CallEnded, ConfigError, Suspended
from midturn.events.outcome import ToolError
from midturn.events.types import Source
from midturn.events.window import last_turn, open_turn
from midturn.journal import Journal
from midturn.models.provider_model import LibraryModel
from midturn.ports import Happening, Model, Tool
from midturn.question.json_value import JsonObject, Limits
from midturn.question.public_names import public_repr
from midturn.question.text import BUILT_IN_TOOLS, check_text
from midturn.runtime.external_loop import CallContent, ForeignTurn
from midturn.runtime.keyed_turn import first_message
from midturn.runtime.loop_thread import LoopThread, loop_thread
from midturn.runtime.surroundings import Silence
from midturn.stores.store import ConversationStore
from midturn.stores.sync_forms import refuse_inside_a_loop
from midturn.tools.asking import CALL
from midturn.tools.call_scope import in_thread
from midturn.tools.names import source_of
from midturn.tools.returned import Rejected
from midturn.turn.step import CallBegun

Watcher: TypeAlias = Callable[[Asked | QuestionAnswered | ToolStarted | ToolFinished], None]
"""Takes each event of an inquirer (see `Inquirer.watch`)."""


class Inquirer:
    """Asks, routes, records and replays for a loop that is not ours.

    ```python
    async def deploy(call: InquirerCall) -> str:
        if not await call.ask(Question.boolean("confirm", "Deploy to staging?")):
            raise Rejected("Not deployed.")
        return "Deployed."


    async with inquirer.turn("Ship it."):
        content = await inquirer.run("deploy", call_id, {"env": "staging"}, deploy)
    ```

    After a crash, or after `Suspended`, hold the turn again and make its calls again with the same tool, id and arguments: what was
    answered is not asked again, and a call that has its result is not run again. If a person has ended the turn meanwhile, its calls return
    that, with `turn_ended`, in the next hold; the hold after that begins a new turn. A call outside of `turn` is a turn of its own. What
    was remembered holds for the turn.
    """

    def __init__(  # noqa: PLR0913  (a public signature)
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
        """Stand on a conversation.

        Args:
            store: Where the conversation is kept.
            conversation: Its id (`await store.new(…)` makes one); it is held while a turn is.
            prompter: Who answers for the user; without one, no one is attached.
            detached: What happens to questions then, as for `Agent`.
            routes: Who is to answer, or what, by `<tool>.<question>`, as for `Agent`.
            limits: As for `Agent`; how many model requests a turn takes is not counted here.
            model: Who answers where a question is routed to the assistant.
            source: Who asks in every call, such as `Source("other", "Claude Code")`; without it, each call's own tool.
        """
        models = Models(llm={}, display=Silence())
        answering = None if model is None else models.named(model) if isinstance(model, str) else models.around(check_model(model))
        self._settings = AgentSettings(
            model=answering,
            detached=detached_of(detached, None),
            routes=routes_of(routes, None, Reviewers(models, answering, None)),
            limits=limits_of(limits),
            models=models,
            source=source,
        )
        check_text("conversation", conversation)
        self._store = check_store(store)
        self._conversation = conversation
        self._prompter = check_prompter(prompter)
        self._turn: ForeignTurn | None = None
        self._holders = 0
        self._changing = asyncio.Lock()
        self._closing = AsyncExitStack()
        self._thread: LoopThread | None = None
        self._watchers: list[Watcher] = []

    def __repr__(self) -> str:
        return public_repr(self, "Inquirer")

    @contextmanager
    def watch(self, on_event: Watcher) -> Generator[None]:
        """Watch the calls and questions of this inquirer in this block.

        Args:
            on_event: Called with each `ToolStarted`, `Asked`, `QuestionAnswered` and `ToolFinished` as it happens, in the thread of the
                event loop. It must not block.
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
        """Hold one turn: the one that was left open, or a new one, which begins with what the user said, if that is known.

        Leaving the block normally completes the turn. Leaving it by an exception or cancellation leaves the turn open: hold it again
        with the same text, and the calls that have a result return it without running again.

        Args:
            text: What the user said; empty where that is not known, or to go on.
            author: Who said it; recorded.
            key: Your own name for the turn, such as the id of a job: the same key finds the same turn, finished or not, so that what has
                run in it does not run again where your program died after the turn's end and before it had saved that. A call that was
                not a part of a finished turn is not run; its content says so, and `turn_ended` is true.
            calls_wait: Whether your loop has calls of the open turn to make again. Another text is then never the beginning of a new turn,
                also if people have ended all its calls meanwhile.
            on_open: What becomes of another text while questions of the open turn wait. `error`: it is refused with `TurnOpen`. `reply`: it
                is recorded as the reply to the questions that `author` may answer; make the calls of the turn again, the replies are their
                results. Approvals, secrets and questions of others stay open; if there are no other questions, `TurnOpen` lists them.

        Raises:
            Suspended: On leaving, where a question of the turn is open, also if the framework inside has swallowed it: make the calls
                again when it is answered.
            TurnOpen: The turn that was left open began with another text, or with another key; the message lists what is open.
            ConfigError: The key belongs to another message, or is empty; or `on_open` comes with a key.
            StoreLocked: The conversation is being written elsewhere.
            StoreError: It cannot be read or written.
        """
        check_on_open(on_open, key)
        if on_open == "reply" and self._turn is None and text and await self._replied(text, author):
            text = ""
        async with self._held(text, author, key, calls_wait=calls_wait) as turn:
            try:
                yield
            except BaseException as error:
                turn.keep_open()
                if isinstance(error, Exception) and _comes_of_suspension(error) and (suspended := _suspended(error, turn)):
                    raise suspended from error
                raise
            if suspended := turn.pending():
                raise suspended

    async def run(  # noqa: PLR0913  (a public signature)
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
        """Make one call of a tool: run `function(call)`, and return what the model is to read of it, as it is recorded.

        Whatever happened, that is a text: the function's result, its `Rejected`, another exception (logged by `midturn.tools`), a reply, a
        cancelled question; `is_error` and `turn_ended` say what it was. Where the call has its result already, from before a suspension or
        a crash, the function is not run: its recorded content comes back.

        Args:
            tool: The name of the tool.
            call_id: The id that the model gave the call.
            arguments: The arguments that it gave.
            function: What the tool does, sync (then it runs in a thread) or async. It asks with `await call.ask(…)`, `call.ask_sync(…)`, or
                `midturn.ask(…)` at any depth.
            occurrence: Which of the equal calls of this turn it is, counted from 1, for frameworks that repeat calls by themselves; without
                it, the n-th in this hold of the turn is the n-th recorded one.
            agent: The name of the agent that makes the call, where several agents of one program have tools of the same name. A call
                is identified by its agent, tool, id and arguments; it is recorded as `agent` in the metadata of the call.
            permission: Whether a person is asked first if the call may run. The person may edit its arguments: `call.context.arguments` are
                those that run.
            schema: With `permission`, the JSON Schema of the tool's arguments. An edit that does not fit it is refused to its author, in
                whatever process it is given, and the question stays open. It is recorded with the question.

        Raises:
            Suspended: No one is there to answer now; make the call again after the answer.
            ConfigError: The tool's name, the id or the arguments cannot be used.
            StoreLocked: The conversation is being written elsewhere.
            StoreError: It cannot be read or written.
        """
        try:
            async with self._call(tool, call_id, arguments, occurrence, agent, permission=permission, schema=schema) as call:
                try:
                    returned = await _ran(function, call)
                    call.refuse_going_on()
                    call.finish(returned)
                except (Suspended, CallEnded, CallUnfinished):
                    call.refuse_going_on()
                    raise
                except Exception as error:  # noqa: BLE001  foreign code: the model is told, and the log
                    call.refuse_going_on()
                    return await call.fail(error)
                return await call.end(call.outcome)
        except CallEnded as ended:
            images = ended.content.images if isinstance(ended.content, CallContent) else ()
            return CallContent(ended.content, is_error=ended.is_error, turn_ended=ended.turn_ended, images=images)
        except CallUnfinished as unfinished:
            left = unfinished.error
        raise left

    async def give_up_unmade(self, reason: str) -> None:
        """End the unfinished calls of the held turn that were not made in this hold: your loop has gone on without them.

        Their open questions are closed, and `reason` is recorded as their result. Call it if your loop began anew, with other calls.

        Args:
            reason: Why the calls are over, for the record.

        Raises:
            StoreError: It cannot be recorded.
        """
        for call in self._turn.unmade() if self._turn else ():
            await self.run(call.name, call.id, call.arguments, lambda _: ToolError(reason), occurrence=1, agent=call.agent)

    def raise_end(self) -> None:
        """Raise how the held turn ended, if a person ended it before it was held: for loops that make model requests without a call.

        Your program has learned of the end then: the next hold begins a new turn.

        Raises:
            CallEnded: A person has ended the turn (`turn_ended`).
        """
        if self._turn is not None:
            self._turn.raise_end()

    def keep_open(self) -> None:
        """Leave the held turn open when its block ends: your loop waits for something that is no question here.

        Hold the turn again to go on with it. Without this, leaving the block normally completes the turn. Call it after the calls of the
        block; open questions keep the turn open anyway.
        """
        if self._turn is not None and not self._turn.pending():
            self._turn.keep_open()

    @property
    def resumes(self) -> bool:
        """Whether the held turn was there before it was held: left open, finished and found by its key, or ended by a person."""
        return self._turn is not None and self._turn.resumes

    @property
    def event_before(self) -> str:
        """The `event_id` of the last event before the held turn, the same in every hold; empty if there is none, or no turn is held."""
        return "" if self._turn is None else self._turn.event_before

    @property
    def follows_ended_turn(self) -> bool:
        """Whether the held turn is new, and a person has ended the one before it."""
        return self._turn is not None and self._turn.follows_ended_turn and not self._turn.resumes

    def result_of(
        self, tool: str, call_id: str, arguments: JsonObject | None, *, occurrence: int | None = None, agent: str = ""
    ) -> CallContent | None:
        """Return the recorded result of a call of the held turn, without making the call; None if it has none.

        Args:
            tool: The name of the tool.
            call_id: The id that the model gave the call.
            arguments: The arguments that it gave.
            occurrence: Which of the equal calls it is, as of `run`; the newest if it is not said.
            agent: The name of the agent, as of `run`.
        """
        return None if self._turn is None else self._turn.result_of(CallBegun(call_id, tool, arguments or {}, agent), occurrence)

    def has_asked(self, tool: str, call_id: str, arguments: JsonObject | None, question_id: str, *, agent: str = "") -> bool:
        """Say whether a call of the held turn that has no result yet has asked a question, in this process or in another.

        Args:
            tool: The name of the tool.
            call_id: The id that the model gave the call.
            arguments: The arguments that it gave.
            question_id: The id of the question; `__run__` for its permission.
            agent: The name of the agent, as of `run`.
        """
        return self._turn is not None and self._turn.has_asked(CallBegun(call_id, tool, arguments or {}, agent), question_id)

    def run_sync(  # noqa: PLR0913  (a public signature)
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
        """Make one call of a tool in a program without an event loop, see `run`.

        Raises:
            RuntimeError: An event loop is running in this thread; use `await inquirer.run(…)` there.
        """
        refuse_inside_a_loop("inquirer.run_sync", "await inquirer.run(…)")
        with self._loop() as thread:
            return thread.run(
                self.run(tool, call_id, arguments, function, occurrence=occurrence, agent=agent, permission=permission, schema=schema)
            )

    def give_up_unmade_sync(self, reason: str) -> None:
        """End the unfinished calls that were not made again in a program without an event loop, see `give_up_unmade`.

        Raises:
            RuntimeError: An event loop is running in this thread; use `await inquirer.give_up_unmade(…)` there.
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
        """Hold one turn in a program without an event loop, or in a thread of one, see `turn`; `run_sync` and `call_sync` belong inside.

        Raises:
            RuntimeError: An event loop is running in this thread; use `async with inquirer.turn(…)` there.
        """
        refuse_inside_a_loop("inquirer.turn_sync", "async with inquirer.turn(…)")
        with self._loop() as thread, thread.entered(self.turn(text, author=author, key=key, calls_wait=calls_wait, on_open=on_open)):
            yield

    @contextmanager
    def call_sync(self, tool: str | Tool, call_id: str, arguments: JsonObject | None = None) -> Generator[InquirerCall]:
        """Make one call in a program without an event loop, see `call`: `with inquirer.call_sync(…) as call: call.ask_sync(…)`.

        Raises:
            RuntimeError: An event loop is running in this thread; use `async with inquirer.call(…)` there.
        """
        refuse_inside_a_loop("inquirer.call_sync", "async with inquirer.call(…)")
        with self._loop() as thread, thread.entered(self.call(tool, call_id, arguments)) as call:
            yield call

    @contextmanager
    def _loop(self) -> Generator[LoopThread]:
        """Have the loop of the turn that is held, or one for this block."""
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
    async def call(self, tool: str | Tool, call_id: str, arguments: JsonObject | None = None) -> AsyncGenerator[InquirerCall]:
        """Make one call of a tool (of yours by its name, or one of ours), with its questions inside the block.

        What the block raises is recorded as the tool's error and raised on. `Suspended`, and cancelling the task, leave the call
        unfinished, to be made again.

        Args:
            tool: The tool, or its name.
            call_id: The id that the model gave the call.
            arguments: The arguments that it gave.

        Raises:
            Suspended: No one is there to answer now; `pending` says what is open.
            CallEnded: On entering, the call has its result already. Inside, there is no answer, and the call is over. On leaving, the block
                has raised `Rejected`. `content` is what the model is to read.
            ConfigError: The tool's name, the id or the arguments cannot be used.
            StoreLocked: The conversation is being written elsewhere.
            StoreError: It cannot be read or written.
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
    async def _call(  # noqa: PLR0913  (as its caller)
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
        name, source = _asking(tool, self._settings.source)
        check_call(name, call_id, arguments, self._settings.limits.json_depth)
        check_text("agent", agent)
        async with self._held() as turn:
            around = OUTER.get()
            outer = around.event if around is not None and around.is_of(turn) else ""
            begun = CallBegun(call_id, name, arguments or {}, agent, outer)
            foreign = await turn.call(source, begun, occurrence, permission=permission, schema=schema)
            call = InquirerCall(source, turn, foreign)
            OUTER.set(call)
            try:
                yield call
            finally:
                OUTER.set(around)  # no token: without an event loop, a block is left in another context
                call.leave()

    @asynccontextmanager
    async def _held(
        self, text: str = "", author: str | None = None, key: str | None = None, *, calls_wait: bool = False
    ) -> AsyncGenerator[ForeignTurn]:
        """Hold the conversation and its turn as long as a call needs it; a call that comes while they are let go waits for that."""
        async with self._changing:
            if self._turn is None:
                self._turn = await self._begun(text, author, key, calls_wait=calls_wait)
            self._holders += 1
        try:
            yield self._turn
        finally:
            self._holders -= 1
            if self._holders == 0:
                async with self._changing:
                    turn, self._turn = self._turn, None
                    async with self._closing.pop_all():
                        try:
                            await turn.close()
                        finally:
                            if turn.reported_end:
                                await self._store.port.beside.keep(self._reported_entry, turn.reported_end.encode())

    async def _replied(self, text: str, author: str | None) -> bool:
        """Reply with a message to open questions, unless it is the one that began the turn; say whether any has taken it."""
        check_text("text", text)
        window = open_turn((await self._store.read(self._conversation)).events)
        if window is None or first_message(window) == text:
            return False
        return bool(await reply_with_message(self._store, self._conversation, text, author))

    async def _reported_end(self, journal: Journal) -> str:
        """Return the start of the turn whose end by a person this program has learned of; empty if there is none."""
        last = last_turn(journal.events)
        if last is None or last.open:
            return ""
        return (await self._store.port.beside.kept(self._reported_entry)).get(self._reported_entry, b"").decode()

    @property
    def _reported_entry(self) -> str:
        return f"reported-end/{self._conversation}"

    async def _begun(self, text: str, author: str | None, key: str | None, *, calls_wait: bool) -> ForeignTurn:
        if self._prompter is not None:
            self._store.require_person()
        async with AsyncExitStack() as undone:
            journal = await undone.enter_async_context(await self._store.open(self._conversation))
            turn = compose_inquirer(self._settings, RunParts(prompter=self._prompter, display=_Watched(journal, self._watchers)), journal)
            await turn.begin(text, author, key, calls_wait=calls_wait, reported_end=await self._reported_end(journal))
            self._closing = undone.pop_all()
        return turn


class _Watched:
    """A display that passes the calls and questions of a turn on to the watchers of its inquirer."""

    def __init__(self, journal: Journal, watchers: Sequence[Watcher]) -> None:
        self._journal = journal
        self._watchers = watchers

    def show(self, happening: Happening) -> None:
        """Pass on what happened."""
        if not self._watchers:
            return
        match streamed(happening, self._journal.conversation, self._journal.events):
            case Asked() | QuestionAnswered() | ToolStarted() | ToolFinished() as event:
                for watcher in [*self._watchers]:
                    watcher(event)
            case _:
                pass


def _asking(tool: str | Tool, source: Source | None) -> tuple[str, Source]:
    """Return a tool's name, and who asks when it asks: `source`, where another agent makes all calls.

    Raises:
        ConfigError: The name belongs to a built-in tool, and this is not it; or the tool claims another's name.
    """
    if not isinstance(tool, str):
        (checked,) = tools_of([tool])
        return checked.definition.name, source_of(checked)
    if source:
        return tool, source
    if tool in BUILT_IN_TOOLS:
        raise ConfigError(f"`{tool}` is the name of a built-in tool; give yours another, or pass the built-in tool itself.")
    return tool, Source.tool(tool)


async def _ran(function: Callable[[InquirerCall], object], call: InquirerCall) -> object:
    """Run what a tool does, where `midturn.ask` finds its call."""
    token = CALL.set(call)
    try:
        if inspect.iscoroutinefunction(function):
            return await cast("Awaitable[object]", function(call))
        returned = await in_thread(lambda: function(call))
        return await cast("Awaitable[object]", returned) if inspect.isawaitable(returned) else returned
    finally:
        CALL.reset(token)
        call.refuse_unasked()


def _suspended(error: Exception, turn: ForeignTurn) -> Suspended | None:
    """Return what to raise in place of an error that comes of a suspension; None where it says itself what is open."""
    return None if isinstance(error, Suspended) and error.pending else turn.pending()


def _comes_of_suspension(error: BaseException | None) -> bool:
    """Say whether a framework has wrapped `Suspended` into an exception of its own."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:  # a framework may raise an error again inside of its own handler
        if isinstance(error, Suspended):
            return True
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return False
