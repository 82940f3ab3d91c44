"""A turn whose loop is not ours: it makes the calls, the machine routes, asks and records."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Self

from msgspec.structs import replace

from midturn.errors import CallEnded, MidturnError, Suspended, TurnOpen
from midturn.events import types as ev
from midturn.events.open_question import OpenQuestion
from midturn.events.outcome import Outcome, Success, ToolError
from midturn.events.window import Window, last_turn, open_turn
from midturn.exchange import ModelEvent, ModelRequest, ToolDefinition
from midturn.ports import Happening, ToolEnded, ToolRun
from midturn.question.json_value import Json, JsonObject, canonical
from midturn.question.text import check_text, check_text_or_none
from midturn.routing import messages
from midturn.runtime.driver import Driver, RunEnding, record_effects, time_of, with_standing
from midturn.runtime.keyed_turn import first_message, keyed_turn
from midturn.runtime.surroundings import Services, Surroundings
from midturn.turn.pending import pending
from midturn.turn.step import CallBegun, CallLeft, LoopEnded, TurnFailed, TurnRequested, TurnSettings
from midturn.turn.turn import Turn, agent_of, is_call
from midturn.turn.view import TurnView

# ----------------------------------------------------------------------------------------------------------------------
# Calls of another program's loop: the tool runs there, its questions are asked here


class ForeignCall:
    """One call, from outside and from inside: `run` is there once it has begun, `outcome` is set from outside when the tool is done.

    `responded` is done when the result is durable, or when the call was ended from inside.
    """

    def __init__(self, begun: CallBegun) -> None:
        loop = asyncio.get_running_loop()
        self.begun = begun
        self.run: asyncio.Future[ToolRun] = loop.create_future()
        self.outcome: asyncio.Future[Outcome] = loop.create_future()
        self.responded: asyncio.Future[None] = loop.create_future()
        self.stopped = asyncio.Event()
        """Set when the machine has stopped the call: it is over, or the turn waits for an absent person."""

    @property
    def event(self) -> str:
        """The identity of the call, once it has begun."""
        return self.run.result().call.event

    def finish(self, outcome: Outcome) -> None:
        """Say what the tool ended in; what comes too late is dropped."""
        if not self.outcome.done():
            self.outcome.set_result(outcome)

    def respond(self) -> None:
        """Note that the call has its response."""
        if not self.responded.done():
            self.responded.set_result(None)

    async def execute(self, run: ToolRun) -> Outcome:
        """Stand in for the tool until it is done out there."""
        self.run.set_result(run)
        try:
            return await asyncio.shield(self.outcome)
        finally:
            self.stopped.set()


class ForeignTool:
    """A tool of a loop that is not ours; `source` says who asks in its calls."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.source = ev.Source.tool(name)
        self._expected: defaultdict[str, deque[ForeignCall]] = defaultdict(deque)

    @property
    def definition(self) -> ToolDefinition:
        """Its name; the loop tells its model the rest."""
        return ToolDefinition(self._name, "", {"type": "object"})

    def inquiry_source(self) -> ev.Source:
        """Return who asks: the tool under its name, unless it is one of ours that is not."""
        return self.source

    def expect(self, id: str, call: ForeignCall, source: ev.Source) -> None:
        """Take note that a call with this id is about to begin."""
        self.source = source
        self._expected[id].append(call)

    async def execute(self, run: ToolRun) -> Outcome:
        """Stand in for the tool (see `ports.Tool`)."""
        return await self._expected[run.call.id].popleft().execute(run)


class ForeignTools(Mapping[str, ForeignTool]):
    """All the tools that there may be out there."""

    def __init__(self) -> None:
        self._by_name: dict[str, ForeignTool] = {}
        self.asked: Counter[tuple[str, bytes]] = Counter()
        """How many calls are about to begin that are put to a person before they run, by the tool's name and the arguments."""
        self.schemas: dict[tuple[str, bytes], JsonObject] = {}
        """The JSON Schemas that edited arguments of these calls have to fit."""

    def __getitem__(self, name: str) -> ForeignTool:
        return self._by_name.setdefault(name, ForeignTool(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)


class Outside:
    """The model of a loop that is not ours: what it says is not heard here."""

    name = "outside"

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Wait for ever: the loop goes on out there."""
        await asyncio.Event().wait()
        raise AssertionError(f"this event is never set, not even for {request.conversation}")
        yield  # makes this an asynchronous generator


class CallContent(str):  # noqa: SLOT000  it has fields
    """The result of a call as the model of another loop is to read it, and as it is recorded.

    Args:
        content: The text.
        is_error: Whether it is an error.
        turn_ended: Whether the person has ended the turn: make no further model request in it.
        images: The recorded images of the result.
    """

    is_error: bool
    """Whether that is an error."""
    turn_ended: bool
    """Whether the person has ended the turn: make no further model request in it."""
    images: tuple[ev.Image, ...]
    """The recorded images of the result."""

    def __new__(cls, content: str, *, is_error: bool = False, turn_ended: bool = False, images: tuple[ev.Image, ...] = ()) -> Self:
        """Mark a text."""
        made = super().__new__(cls, content)
        made.is_error = is_error
        made.turn_ended = turn_ended
        made.images = images
        return made


class ForeignTurn:
    """The turn of a conversation that is held: the one that was left open, or else a new one, which begins with the first call."""

    def __init__(self, services: Services, settings: TurnSettings, surroundings: Surroundings, tools: ForeignTools) -> None:
        self._tools = tools
        self._display = services.display
        self._services = replace(services, display=self)
        self._settings = settings
        self._surroundings = surroundings
        self._calls: list[ForeignCall] = []
        self._made: Counter[bytes] = Counter()
        self._stays_open = False
        self.resumes = False
        """Whether the turn was there before it was held: left open, or finished and found by its key."""
        self._finished: Sequence[ev.Event] = ()
        self._unreported_end: Window | None = None
        self.event_before = ""
        """The `event_id` of the last event before the turn; empty if there is none."""
        self.reported_end = ""
        """The `event_id` of the start of a turn whose end by a person the program has learned of in this hold; empty if there is none."""
        self.follows_ended_turn = False
        """Whether the turn before this one was ended by a person."""
        self._turn: Turn | None = None
        self._driver: Driver | None = None
        self._task: asyncio.Task[RunEnding] | None = None

    async def begin(
        self, text: str, author: str | None = None, key: str | None = None, *, calls_wait: bool = False, reported_end: str = ""
    ) -> None:
        """Record what the user said, unless the turn was left open.

        A turn that was left open with nothing to do, and began with another text, is recorded as failed first: no loop has completed it.

        The turn with a `key` is the one that was begun with it, finished or not. `calls_wait` says that the loop has calls to make again.

        If a person has ended the last turn while no program held it, the calls of this hold return that. `reported_end` is the start of the
        last turn whose end the program has learned of already.

        Raises:
            TurnOpen: The turn that was left open began with something else, and calls of it are unfinished.
            ConfigError: The key belongs to another message, or it cannot be a key.
        """
        check_text("text", text)
        check_text_or_none("author", author)
        journal = self._services.journal
        known = None if key is None else keyed_turn(journal.events, key, text)
        if known and not known.open:
            self._finished = known.events
            self.event_before = _event_before(journal.events, known)
            self.resumes = True
            return
        if key is not None:
            self._settings = replace(self._settings, start=ev.TurnStart(key=key))
        last = last_turn(journal.events)
        self.follows_ended_turn = last is not None and _is_ended_by_user(last)
        if key is None and last and self.follows_ended_turn and _start_of(last) != reported_end:
            if calls_wait or text == first_message(last) != "":
                self._report_end(last)
                return
            if not text:
                self._unreported_end = last  # its first call shows whether this is that turn
                return
        window = last if last and last.open else None
        self.event_before = _event_before(journal.events, window)
        if window:
            stale = Turn.load(window.events, self._settings, self._services.ids)
            began = first_message(window)
            if known or (key is None and text in ("", began)):
                self.resumes = True
                return
            if stale.record.open_calls() or calls_wait:
                waiting = pending(journal.events, journal.conversation)
                raise TurnOpen(self._why_open(began, waiting), conversation=journal.conversation, text=began, pending=waiting)
            left = stale.step(TurnFailed("the program went on with another message"))
            await record_effects(left, journal, self._services.clock, self._services.display)
            self.event_before = _event_before(journal.events, None)
        if text:
            self._running()[0].report(TurnRequested(text, author=author))

    def _why_open(self, began: str, waiting: Sequence[OpenQuestion]) -> str:
        """Return why a new message cannot begin a turn: which one is open, and what it waits for."""
        conversation = self._services.journal.conversation
        asked = "".join(f"\n  {question.id}  {question.tool} asks: {question.question.text}" for question in waiting)
        return (
            f"Conversation {conversation} has an open turn, which began with {began!r}. The new message was not recorded.{asked}\n"
            "Go on with that turn: hold it with that text or none, and no other key, and make its calls again. To send the message now, "
            'answer what is open, or pass it on: `await store.answer(id, reply=text)` or `on_open="reply"` for a question, '
            "`await store.answer(id, approve=False, reason=text)` for an approval."
        )

    async def call(
        self,
        source: ev.Source,
        begun: CallBegun,
        occurrence: int | None = None,
        *,
        permission: bool = False,
        schema: JsonObject | None = None,
    ) -> ForeignCall:
        """Begin a call, or begin one again that was left unfinished; `source` is who asks in it.

        With `permission`, a person is asked first whether it may run, and may edit its arguments, so that they fit `schema`.

        The n-th call with the same agent, tool, id and arguments is the n-th recorded one, unless `occurrence` says which it is.

        Raises:
            CallEnded: It has its result already, it may not run, or the person has ended the turn.
            Suspended: No one is there to say whether it may run.
            StoreError: The disk refused.
        """
        name, id = begun.name, begun.id  # noqa: A001  the wire's word
        if self._unreported_end:
            if any(is_call(call, begun) for call in ev.call_requests(self._unreported_end.events)):
                self._report_end(self._unreported_end)
            self._unreported_end = None
        key = _key(begun)
        self._made[key] += 1
        self._recall(begun, occurrence or self._made[key])
        call = ForeignCall(begun)
        self._calls.append(call)
        self._tools[name].expect(id, call, source)
        about = (name, canonical(begun.arguments))
        self._tools.asked[about] += permission
        if schema is not None:
            self._tools.schemas[about] = schema
        try:
            while not call.run.done():
                driver, task = self._running()
                driver.report(begun)
                await asyncio.wait({call.run, call.responded, task}, return_when=asyncio.FIRST_COMPLETED)
                if permission and not call.run.done():
                    self._raise_unless_allowed(begun)
        except BaseException:
            self.leave(call)
            raise
        finally:
            self._tools.asked[about] -= permission
        return call

    def _report_end(self, ended: Window) -> None:
        """Go on with a turn that a person has ended: its calls return their results, and nothing runs."""
        self._finished = ended.events
        self.event_before = _event_before(self._services.journal.events, ended)
        self.resumes = True

    def raise_end(self) -> None:
        """Raise how the turn ended, if a person ended it before it was held; the program has learned of it then.

        Raises:
            CallEnded: A person has ended it.
        """
        self._note_reported()
        if self._finished and self._has_ended:
            ended = [result.call for result in ev.call_results(self._finished)]
            content = self.content(ended[-1]) if ended else messages.TURN_ENDED
            raise CallEnded(content, is_error=getattr(content, "is_error", False), turn_ended=True)

    def _raise_unless_allowed(self, begun: CallBegun) -> None:
        """Raise why a call that needs permission has not begun; return if it is to be tried again."""
        content = self.result_of(begun)
        if content is not None:
            raise CallEnded(content, is_error=content.is_error, turn_ended=content.turn_ended)
        suspended = self.pending()
        same = {call.event_id for call in ev.call_requests(self._services.journal.events) if is_call(call, begun)}
        if suspended and any(question.request.call in same for question in suspended.pending):
            raise suspended

    def _recall(self, begun: CallBegun, occurrence: int) -> None:
        """Say what a call came to that was made before, in this process or in another.

        Raises:
            CallEnded: It has its result: nothing runs, and nothing is asked.
        """
        window = open_turn(self._services.journal.events)
        events = self._finished or (window.events if window else ())
        same = [call for call in ev.call_requests(events) if is_call(call, begun)]
        self._note_reported()
        if occurrence <= len(same) and self._response(same[occurrence - 1].event_id):
            content = self.content(same[occurrence - 1].event_id)
            raise CallEnded(content, is_error=content.is_error, turn_ended=content.turn_ended)
        if self._finished:
            raise CallEnded(messages.TURN_OVER, is_error=True, turn_ended=True)

    def _note_reported(self) -> None:
        """Note that the program learns of the end of a turn that is over, if a person has ended it."""
        last = last_turn(self._services.journal.events)
        start = _start_of(Window(tuple(self._finished))) if self._finished and self._has_ended else ""
        if last and start == _start_of(last):  # an older turn, found by its key, says nothing about the last one
            self.reported_end = start

    def has_asked(self, begun: CallBegun, question: str) -> bool:
        """Say whether a call that has no result yet has asked a question, by the question's id, in this process or in another.

        The id of a permission is `__run__`.
        """
        window = open_turn(self._services.journal.events)
        events = window.events if window else ()
        calls = {call.event_id for call in ev.call_requests(events) if is_call(call, begun)}
        calls -= {result.call for result in ev.call_results(events)}
        if question == "__run__":
            return any(isinstance(event, ev.Approval) and event.call in calls and event.kind == "run" for event in events)
        return any(request.call in calls and request.question_id == question for request in ev.inquiry_requests(events))

    def result_of(self, begun: CallBegun, occurrence: int | None = None) -> CallContent | None:
        """Return the recorded result of the newest call that is equal to one, or of the one named by `occurrence`; None if it has none."""
        window = open_turn(self._services.journal.events)
        events = self._finished or (window.events if window else ())
        same = [call for call in ev.call_requests(events) if is_call(call, begun)]
        same = same[:occurrence] if occurrence is None or occurrence <= len(same) else []
        self._note_reported()
        return self.content(same[-1].event_id) if same and self._response(same[-1].event_id) else None

    def unmade(self) -> Sequence[CallBegun]:
        """Return the unfinished calls of the turn that were not made in this hold, in the order in which they were begun."""
        window = open_turn(self._services.journal.events)
        events = window.events if window else ()
        responded = {result.call for result in ev.call_results(events)}
        waiting = [call for call in ev.call_requests(events) if call.event_id not in responded]
        begun = (CallBegun(call.id, call.name, _object(call.arguments), agent_of(call)) for call in waiting)
        return [call for call in begun if not self._made[_key(call)]]

    def content(self, event: str) -> CallContent:
        """Return what the model is to read of a call that has its response."""
        response = self._response(event)
        if response is None:
            return CallContent("", is_error=True)
        return CallContent(response.content, is_error=response.is_error, turn_ended=self._has_ended, images=response.images)

    def preview(self, event: str, outcome: Success | ToolError) -> str:
        """Return what the model is to read of a call that will end so."""
        return self._turn.content_of(event, outcome) if self._turn else ""

    def pending(self) -> Suspended | None:
        """Return what to raise where questions of the turn are open."""
        journal = self._services.journal
        waiting = pending(journal.events, journal.conversation)
        if not waiting or self._finished:
            return None
        asked = "".join(f"\n  {question.id}  {question.tool} asks: {question.question.text}" for question in waiting)
        advice = "Answer with `await store.answer(id, …)`, and make the calls of the turn again."
        return Suspended(f"Conversation {journal.conversation} waits to be answered:{asked}\n{advice}", waiting)

    def _response(self, event: str) -> ev.ToolCallResponse | None:
        events = reversed(self._services.journal.events)
        return next((found for found in ev.call_results(events) if found.call == event), None)

    async def finished(self, call: ForeignCall) -> None:
        """Wait until the result of a call is durable."""
        if self._task:
            await asyncio.wait({call.responded, self._task}, return_when=asyncio.FIRST_COMPLETED)
            if not call.responded.done() and not self._task.cancelled():
                self._task.result()

    def leave(self, call: ForeignCall) -> None:
        """Go away from a call that is unfinished: its prompts close, its questions stay open."""
        if call in self._calls:
            self._calls.remove(call)
            call.run.add_done_callback(lambda run: self._left(run.result().call.event))  # at once, where it has begun

    def _left(self, event: str) -> None:
        if self._driver:
            self._driver.report(CallLeft(event))

    async def why_stopped(self, call: ForeignCall) -> MidturnError:
        """Return why a call got no answer: it has its response, or it waits for an absent person.

        Raises:
            StoreError: The disk refused.
        """
        if self._response(call.event):
            content = self.content(call.event)
            return CallEnded(content, is_error=content.is_error, turn_ended=content.turn_ended)
        if self._task:
            await asyncio.wait({self._task})
            self._task.result()
        return self.pending() or Suspended("The turn was left while the call was running; make it again.")

    def keep_open(self) -> None:
        """Leave the turn open when it is closed: the loop has failed or was cancelled, and its next run goes on with it."""
        self._stays_open = True

    async def close(self) -> None:
        """Leave the turn: it is over, unless calls of it are unfinished, or it is kept open.

        Raises:
            StoreError: The disk refused.
        """
        try:
            await self._close()
        finally:
            last = last_turn(self._services.journal.events)
            if self._driver and last and _is_ended_by_user(last):
                self.reported_end = _start_of(last)

    async def _close(self) -> None:
        if self._stays_open:
            await self._stop()
            return
        if self._driver is None or self._task is None:
            await self._end_recalled()
            return
        self._driver.report(LoopEnded())
        try:
            await asyncio.wait({self._task})
        except BaseException:
            self._task.cancel()
            await asyncio.wait({self._task})
            raise
        self._task.result()

    async def _stop(self) -> None:
        """Stop the driver; what it has recorded stays."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.wait({self._task})
        if not self._task.cancelled():
            self._task.result()

    async def _end_recalled(self) -> None:
        """End a turn that was left open though all its calls have their results: nothing ran here."""
        journal = self._services.journal
        window = open_turn(journal.events)
        if window and not self._finished:
            turn = Turn.load(window.events, self._settings, self._services.ids)
            await record_effects(turn.step(LoopEnded()), journal, self._services.clock, self._services.display)

    def show(self, happening: Happening) -> None:
        """Note which calls have their response, and pass on what happened (see `ports.Display`)."""
        self._display.show(happening)
        if isinstance(happening, ToolEnded):
            for call in [call for call in self._calls if _is_of(call, happening.call)]:
                self._calls.remove(call)
                call.respond()

    @property
    def _has_ended(self) -> bool:
        if self._finished:
            return _is_ended_by_user(Window(tuple(self._finished)))
        events = self._services.journal.events
        return self._driver is not None and any(ev.turn_ends(events[-1:]))

    def _running(self) -> tuple[Driver, asyncio.Task[RunEnding]]:
        """Return the driver that runs now; after a suspension another one goes on with the turn.

        Raises:
            CallEnded: The turn has ended while it was held.
        """
        if self._driver and self._task and not self._task.done():
            return self._driver, self._task
        if self._task:
            self._task.result()
        if self._has_ended:
            raise CallEnded(messages.TURN_ENDED, turn_ended=True)
        window = open_turn(self._services.journal.events)
        settings = with_standing(self._settings, self._services.journal)
        self._turn = Turn.load(window.events if window else (), settings, self._services.ids)
        if TurnView(window).deadlines:
            self._turn.step(time_of(self._services))
        self._driver = Driver(self._turn, self._services, self._surroundings)
        self._task = asyncio.create_task(self._driver.run(()))
        return self._driver, self._task


def _event_before(events: Sequence[ev.Event], turn: Window | None) -> str:
    """Return the `event_id` of the last event before a turn, or before one that has not begun; empty if there is none."""
    if turn is None:
        return events[-1].event_id if events else ""
    first = turn.events[0].event_id
    place = next((place for place in range(len(events) - 1, -1, -1) if events[place].event_id == first), 0)
    return events[place - 1].event_id if place else ""


def _is_ended_by_user(turn: Window) -> bool:
    return any(end.status == "ended_by_user" for end in ev.turn_ends(turn.events))


def _start_of(turn: Window) -> str:
    """Return the `event_id` that tells a turn from others."""
    return next((event.event_id for event in turn.events if isinstance(event, ev.TurnStart)), turn.events[0].event_id)


def _key(begun: CallBegun) -> bytes:
    """Return what equal calls have in common."""
    return canonical([begun.agent, begun.name, begun.id, begun.arguments])


def _object(arguments: Json) -> JsonObject:
    return arguments if isinstance(arguments, Mapping) else {}


def _is_of(call: ForeignCall, ended: ev.ToolCall) -> bool:
    """Say whether a call is the one that has ended; one that was never allowed to run has no identity yet."""
    return call.event == ended.event if call.run.done() else (call.begun.id, call.begun.name) == (ended.id, ended.name)
