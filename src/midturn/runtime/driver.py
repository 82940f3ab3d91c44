"""The only loop: it performs the effects of the machine in order, and feeds it what happens.

Theory of operation
===================

The machine decides, the driver acts. Its loop takes one happening from a queue, gives it to `Turn.step`, makes the records of the step
durable as one batch, and then begins the other effects, each as a task of one group. Nothing but this loop calls `step`, so the machine
needs no lock; tasks only report into the queue. A tool that asks while the loop waits and the queue is empty is the one exception: the
step is taken then and there, for a call that runs again has most of its answers on record, and gets them without a turn of the event
loop. All else that the step leads to is left to the loop.

A `Session` is a conversation that is held for writing. It makes a `Turn` for a new message, or loads the open one from its events, and a
`Driver` for each. A driver is of one run and is thrown away with it: whatever the next run needs is on record.

**What a crash leaves.** Between `step` and the end of `record` nothing has happened yet: the disk holds the turn as it was before, and no
effect has begun. After `record`, an effect may have begun and not be reported: the next run begins it again. So a tool may run twice, and
an answer is never lost.

**When to rest.** If only absent people can move the turn, and the event loop has nothing ready that could still report
(`Happenings.are_coming`), the turn is suspended. Inside a tool of another agent's turn, the run waits with the turn around it instead.

**How a run ends.** By an effect (`SuspendTurn`, `LeaveOpen`, `EndTurn`), which is the last of its step. Remaining tasks are cancelled, for
leaving a task group waits for them. If the disk refuses a batch, the run raises, and nothing after that batch was begun.

**Answers from other processes** are collected by `Elsewhere`, which starts only where the run would otherwise wait: most turns never look.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, assert_never, cast

from msgspec import Struct
from msgspec.structs import replace

from midturn.clock import stamp, trusted
from midturn.errors import ConfigError, ModelError, NotOpen, TurnOpen
from midturn.events.types import Approval, Event, InquiryRequest, ToolCallResponse, TurnEnd, user_requests
from midturn.events.window import last_turn, open_turn, standing_decisions
from midturn.exchange import Usage
from midturn.journal import Journal
from midturn.ports import OBSERVERS, Clock, Display, Notice, Recorded, ToolBegan, ToolEnded
from midturn.runtime.loop_thread import uncut
from midturn.runtime.model_response import Consulting, ModelResponse, foretold
from midturn.runtime.prompts import Dialogs, Elsewhere
from midturn.runtime.surroundings import Observed, Services, Surroundings
from midturn.turn import step as steps
from midturn.turn.ending import as_it_ended
from midturn.turn.pending import pending
from midturn.turn.record import TurnRecord
from midturn.turn.turn import Turn
from midturn.turn.view import TurnView, expired_requests, waiting_until

if TYPE_CHECKING:
    from midturn.events.prompt import Prompt
    from midturn.runtime.tool_runs import ToolRuns


# ----------------------------------------------------------------------------------------------------------------------
# The queue of inputs that the machine has yet to take


_BREATHS = 10  # rounds of the event loop: a task group, a gather, or both inside each other begin their tasks in fewer


class Stepped(Struct, frozen=True):
    """The effects of a step that was taken ahead of the loop, which has yet to perform them."""

    effects: Sequence[steps.Effect]


class Happenings:
    """A queue with one reader, who can also find out that nothing is about to come."""

    def __init__(self) -> None:
        self._reported: deque[steps.Happened | Stepped] = deque()
        self._waiting: asyncio.Future[None] | None = None
        self._is_read = False
        self._breaths = 0

    def report(self, happened: steps.Happened | Stepped) -> None:
        """Add what happened, and wake the reader."""
        self._reported.append(happened)
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def would_be_next(self) -> bool:
        """Whether the reader waits for nothing but what happens now, which then need not be reported. It begins to wait anew."""
        self._breaths = 0
        return self._is_read and not self._reported

    async def next(self) -> steps.Happened | Stepped:
        """Take what happened first, once there is anything."""
        await self.there()
        return self._reported.popleft()

    async def there(self) -> None:
        """Return when there is anything to take."""
        self._is_read = True
        try:
            while not self._reported:
                self._waiting = asyncio.get_running_loop().create_future()
                await self._waiting
        finally:
            self._is_read = False

    async def are_coming(self) -> bool:
        """Whether anything happens that needs no more than the event loop: tasks that a tool has begun get to the point where they ask."""
        self._is_read, self._breaths = True, 0
        try:
            while not self._reported and self._breaths < _BREATHS:
                self._breaths += 1
                await asyncio.sleep(0)
        finally:
            self._is_read = False
        return bool(self._reported)


class RunEnding(Struct, frozen=True):
    """How a run of a turn ended: `completed`, `ended_by_user`, `failed` (with `error`), `suspended`, or `open` (the model is down).

    `failure` is what the model that is down raised.
    """

    status: str
    error: str | None = None
    usage: Usage = Usage()
    failure: ModelError | None = None


# ----------------------------------------------------------------------------------------------------------------------
# Records: events get their time, become durable, and go on to displays and observers


async def record(batch: Sequence[Event], journal: Journal, clock: Clock, display: Display) -> None:
    """Write a batch at once, and show what became durable; when this returns, it is.

    Raises:
        StoreError: The disk refused; nothing of the batch is recorded.
    """
    now = stamp(clock)
    stamped = [replace(event, timestamp=now) for event in batch]
    await journal.append(stamped)
    for event in stamped:
        display.show(Recorded(event))


async def record_effects(effects: Sequence[steps.Effect], journal: Journal, clock: Clock, display: Display) -> None:
    """Make what a step records durable, and do nothing else of it."""
    await record([effect.event for effect in effects if isinstance(effect, steps.Record)], journal, clock, display)


# ----------------------------------------------------------------------------------------------------------------------
# The loop


@cache
def _load_tool_runs() -> type[ToolRuns]:
    from midturn.runtime.tool_runs import ToolRuns

    return ToolRuns


class Driver:
    """Runs one turn until it ends, or until nothing moves without a person who comes by later."""

    def __init__(self, turn: Turn, services: Services, surroundings: Surroundings) -> None:
        self._turn = turn
        self._observed = Observed(services.display)
        if OBSERVERS:
            services = replace(services, display=self._observed)
        self._services = services
        self._surroundings = surroundings
        self._happenings = Happenings()
        self.report = self._happenings.report
        """Feed the machine with something that did not happen in here."""
        self._response = ModelResponse(services.model, services.display, self.report)
        self._group: asyncio.TaskGroup
        self._tasks: list[asyncio.Task[None]] = []
        self._started: set[str] = set()
        self._listens = False
        self._ending: RunEnding | None = None

    # Many turns are nothing but words: what runs tools, asks people or models, or waits for either, is loaded by the first that does.

    @cached_property
    def _tools(self) -> ToolRuns:
        return _load_tool_runs()(self._services.tools, self._surroundings, self.report, self._hear, self._turn.record.calls)

    @cached_property
    def _prompts(self) -> Dialogs:
        return Dialogs(self._services, self._surroundings, self.report)

    @cached_property
    def _consulting(self) -> Consulting:
        return Consulting(self._services.consultant, self._services.journal, self._services.display, self.report)

    @cached_property
    def _elsewhere(self) -> Elsewhere:
        return Elsewhere(self._services.answers, self._services.journal, self.report)

    async def run(self, effects: Sequence[steps.Effect]) -> RunEnding:
        """Perform `effects`, and everything that follows from them.

        Raises:
            StoreError: The disk refused to record; what was acknowledged before is on it, and the turn can be resumed.
            TerminalGone: The person who was asked is not there any more; nothing of that is recorded, and the turn can be resumed.
        """
        self._observed.begin(self._services.journal)
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                for call in self._turn.record.open_calls():
                    self._watch_deadlines(deadline for _, deadline in waiting_until(call))
                ending = await self._loop(effects)
                self._stop_all()
            self._observed.status = ending.status
        except BaseExceptionGroup as group:
            first = _first(group)
            raise first from first.__cause__
        finally:
            self._observed.end()
            vars(self).pop("_tools", None)  # what reports to its driver would be kept, with all of the turn, for the garbage collector
        return ending

    def interrupt(self) -> None:
        """Ctrl-C with no prompt open: the turn ends."""
        self.report(steps.Interrupted(self._response.said_so_far()))

    async def _loop(self, effects: Sequence[steps.Effect]) -> RunEnding:
        seconds = self._surroundings.limits.seconds
        if seconds is not None:
            self._spawn(self._watch(seconds))
        await self._perform(effects)
        if self._turn.is_over and self._ending is None:  # it has ended long ago: there is nothing to wait for
            ended = self._turn.record.ended
            return RunEnding(ended.status if ended else "open", ended.error if ended else None)
        while self._ending is None:
            waits_for_people = self._turn.only_people_can_move_it
            if (waits_for_people or not self._listens) and not await self._happenings.are_coming():
                if waits_for_people:
                    await self._rest()
                    continue
                self._listen()
            happened = await self._happenings.next()
            if isinstance(happened, Stepped):
                await self._perform(happened.effects)
                continue
            if isinstance(happened, steps.AnsweredElsewhere):
                self._prompts.expect_answer(happened.event_id, happened.who)
            if self._turn.needs_time(happened):  # only then: a turn without deadlines plays again to the same events at any hour
                await self._perform(self._turn.step(time_of(self._services)))
            await self._perform(self._turn.step(happened))
            if isinstance(happened, steps.AnsweredElsewhere):
                self._prompts.expect_nothing(happened.event_id)
        return self._ending

    def _hear(self, asked: steps.ToolAwaits) -> steps.Given | None:
        """Take what a tool asks, here and now where the loop would take it next; return what is on record, which most of it is."""
        if not self._happenings.would_be_next() or self._turn.needs_time(asked):
            self.report(asked)
            return None
        try:
            effects = self._turn.step(asked)
        except Exception as error:  # noqa: BLE001  it is the machine's, which ends the run, and not of the tool that asks
            self._spawn(_raised(error))
            return None
        match effects:
            case (steps.GiveAnswers() as given,) if given.at_once and given.ask == asked.ask and given.call == asked.call:
                return given.answers
            case _:
                self.report(Stepped(effects))
                return None

    async def _rest(self) -> None:
        """Leave the turn to people; inside a tool, wait with the turn around it, which may go on and so be answered meanwhile."""
        host = self._services.host
        if host is None:
            await self._perform(self._turn.rest())
            return
        if not self._listens:
            self._listen()
        host.moved("resting")
        try:
            await self._happenings.there()
        except asyncio.CancelledError:
            await self._perform(self._turn.rest())
            raise
        host.moved("moving")

    def _listen(self) -> None:
        """Hear of what is handed over meanwhile: only a run that has to wait need look for it."""
        self._listens = True
        self._spawn(self._elsewhere.listen(self._services.clock))

    async def _perform(self, effects: Sequence[steps.Effect]) -> None:
        """Make the records durable, as one batch; then begin everything else, in order."""
        batch = [effect.event for effect in effects if isinstance(effect, steps.Record)]
        if effects and isinstance(effects[-1], steps.EndTurn) and self._surroundings.nest and "_tools" in self.__dict__:
            # First: a turn inside of a tool that outlived the end of the one around it would be no one's.
            await self._tools.stop_children(as_it_ended(effects[-1].status, effects[-1].error))
        if batch:
            recording = record(batch, self._services.journal, self._services.clock, self._services.display)
            await (recording if self._services.host is None else uncut(recording))
            for event in batch:
                if isinstance(event, ToolCallResponse):
                    self._show_result(event)
            self._watch_deadlines(event.deadline for event in batch if isinstance(event, InquiryRequest | Approval))
        for effect in effects[len(batch) :]:  # a step's records come first
            self._begin(effect)

    def _begin(self, effect: steps.Effect) -> None:  # noqa: C901, PLR0912  one line per effect, the usual ones first
        match effect:
            case steps.CallModel():
                self._response.start(self._surroundings.request(self._services.journal.events), self._spawn)
            case steps.RunTool(call):
                self._services.display.show(ToolBegan(call, again=call.event in self._started))
                self._started.add(call.event)
                self._tools.start(effect, self._spawn)
            case steps.GiveAnswers():
                self._tools.answer(effect)
            case steps.RunChild():
                self._tools.child(effect)
            case steps.PromptUser(id, prompt):
                self._prompts.open(id, self._with_parameters(prompt), self._spawn)
                self._elsewhere.asked()
            case steps.Record():
                raise AssertionError("what a step records comes first")
            case steps.StopModel():
                self._response.stop()
            case steps.Foretell(call):
                self.report(foretold(self._services.tools, self._surroundings, call))
            case steps.StopTool(call):
                self._tools.stop(call)
            case steps.ClosePrompt():
                self._prompts.close(effect, self._spawn_to_the_end)
            case steps.ConsultAssistant():
                self._consulting.start(effect, self._spawn)
            case steps.StopAssistant(id):
                self._consulting.stop(id)
            case steps.Warn(text, event):
                self._services.display.show(Notice(text + self._where(event) if event else text))
            case steps.SuspendTurn() | steps.LeaveOpen() | steps.EndTurn():
                self._ending = self._ended(effect)
            case _ as other:
                assert_never(other)

    def _ended(self, effect: steps.SuspendTurn | steps.LeaveOpen | steps.EndTurn) -> RunEnding:
        match effect:
            case steps.SuspendTurn():
                return RunEnding("suspended", usage=self._response.usage)
            case steps.LeaveOpen(error):
                return RunEnding("open", error, self._response.usage, self._response.failure)
            case steps.EndTurn(status, error):
                return RunEnding(status, error, self._response.usage)

    def _with_parameters(self, prompt: Prompt) -> Prompt:
        """Add the parameters that edited arguments have to fit."""
        tool = self._services.tools.get(prompt.tool)
        return replace(prompt, parameters=tool.definition.parameters) if prompt.kind == "run" and tool else prompt

    def _show_result(self, response: ToolCallResponse) -> None:
        """Show that a call has its response."""
        record = self._turn.record.calls.get(response.call)
        if record:
            ended = ToolEnded(record.call, response.content, response.is_error, self._tools.exception(response.call))
            self._services.display.show(ended)

    def _where(self, event_id: str) -> str:
        """Say where a recorded event stands: each is a line of its conversation."""
        journal = self._services.journal
        number = next((number for number, event in enumerate(journal.events, 1) if event.event_id == event_id), None)
        return f" (line {number} of the events of conversation {journal.conversation})" if number else ""

    def _is_asking(self) -> bool:
        """Whether a person is being asked, here or by a turn inside a tool."""
        nest = self._surroundings.nest
        return self._prompts.any_open or (nest is not None and nest.screen.is_asking)

    def _watch_deadlines(self, deadlines: Iterable[str]) -> None:
        for deadline in deadlines:
            if deadline:
                self._spawn(self._expire_at(deadline))

    async def _expire_at(self, deadline: str) -> None:
        """Report that a deadline has passed, behind every answer that was acknowledged before it."""
        time = trusted(self._services.clock)
        while (now := time.now(self._services.journal.events)) is None or now < deadline:
            await self._services.clock.sleep(time.until(deadline))
        await self._elsewhere.look()
        self.report(steps.TimePassed(now))

    async def _watch(self, seconds: float) -> None:
        await expire(seconds, self._services.clock, self._is_asking)
        self.report(steps.TimeIsUp(seconds))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._group.create_task(work)
        self._tasks = [task, *(other for other in self._tasks if not other.done())]
        return task

    def _spawn_to_the_end(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Begin something that the run waits for before it returns."""
        return self._group.create_task(work)

    def _stop_all(self) -> None:
        """Cancel what still runs: leaving a task group waits for its tasks, it does not stop them."""
        for task in self._tasks:
            task.cancel()
        self._tasks = []


# ----------------------------------------------------------------------------------------------------------------------
# A conversation that is held for writing, and the turns that are run in it


class Session:
    """Runs turns of one conversation, one after the other. `interrupt` is for Ctrl-C while one runs."""

    def __init__(self, services: Services, settings: steps.TurnSettings, surroundings: Surroundings) -> None:
        self._services = services
        self._settings = settings
        self._surroundings = surroundings
        self._driver: Driver | None = None
        self._record: TurnRecord | None = None

    @property
    def turn_is_open(self) -> bool:
        """Whether the last turn waits to be continued."""
        return open_turn(self._services.journal.events) is not None

    @property
    def view(self) -> TurnView:
        """The last turn: the one that was run last, where any was."""
        return TurnView(last_turn(self._services.journal.events), self._record)

    async def run(self, requested: steps.TurnRequested) -> RunEnding:
        """Run a new turn.

        Raises:
            TurnOpen: The last turn is still open.
            StoreError: The disk refused.
        """
        if self.turn_is_open:
            conversation, events = self._services.journal.conversation, self._services.journal.events
            window = open_turn(events)
            began = next((request.content for request in user_requests(window.events)), "") if window else ""
            message = f"The last turn of conversation {conversation} is still open."
            raise TurnOpen(message, conversation=conversation, text=began, pending=pending(events, conversation))
        turn = Turn(with_standing(self._settings, self._services.journal), self._services.ids)
        return await self._drive(turn, turn.step(requested))

    async def resume(self) -> RunEnding:
        """Continue the open turn exactly where its events end. One that a person has ended since is told as that.

        Raises:
            NotOpen: The last turn has ended by itself.
            ConfigError: It waits in a call of a tool that is not here.
            StoreError: The disk refused.
        """
        self._record = None
        if was_ended_by_user(self._services.journal.events):
            return RunEnding("ended_by_user")
        await record_expired(self._services)
        settings = with_standing(self._settings, self._services.journal)
        turn = Turn.load(open_window(self._services.journal), settings, self._services.ids)
        self._check_tools(turn)
        if turn.needs_time(steps.TurnResumed()):
            turn.step(time_of(self._services))
        return await self._drive(turn, turn.step(steps.TurnResumed()))

    def interrupt(self) -> None:
        """Ctrl-C while no prompt is open: end the turn that runs."""
        if self._driver:
            self._driver.interrupt()

    def _check_tools(self, turn: Turn) -> None:
        """Refuse to go on without a tool that has asked: its call would end as an error, and what was answered would be lost."""
        known = self._settings.tools
        begun = (call for call in turn.record.open_calls() if call.chains or call.approvals)
        missing = next((call.request.name for call in begun if call.request.name not in known), None)
        if missing is not None:
            conversation = self._services.journal.conversation
            raise ConfigError(
                f"The open turn of conversation {conversation} is in a call of {missing!r}, and there is no such "
                f"tool here; the tools are: {', '.join(sorted(known)) or 'none'}. Go on with it where that tool is: in the program that "
                "began the turn, or here as soon as the tool is configured and its server starts. Nothing was lost: what was answered "
                "stays on record. If the tool is gone for good, end the turn: "
                f"`await store.end({conversation!r})` in a program, or `midturn resume {conversation} --discard`."
            )

    async def _drive(self, turn: Turn, effects: Sequence[steps.Effect]) -> RunEnding:
        self._record = turn.record
        if self._surroundings.nest:
            parent = self._settings.start.parent
            self._settings.family[parent.child if parent else ""] = turn.record
        self._driver = Driver(turn, self._services, self._surroundings)
        try:
            return await self._driver.run(effects)
        finally:
            self._driver = None


def with_standing(settings: steps.TurnSettings, journal: Journal) -> steps.TurnSettings:
    """Return the settings with the decisions that hold for the rest of the conversation."""
    standing = standing_decisions(journal.events)
    return replace(settings, standing=standing) if standing != settings.standing else settings


def was_ended_by_user(events: Sequence[Event]) -> TurnEnd | None:
    """Return the end of the last turn where a person has ended it."""
    turn = TurnView.last(events)
    ended = None if turn.is_open else turn.record.ended
    return ended if ended and ended.status == "ended_by_user" else None


def open_window(journal: Journal) -> Sequence[Event]:
    """Return the events of the open turn.

    Raises:
        NotOpen: The last turn has ended.
    """
    window = open_turn(journal.events)
    if window is None:
        raise NotOpen(f"Conversation {journal.conversation} has no open turn to continue.")
    return window.events


# ----------------------------------------------------------------------------------------------------------------------
# Time, as the machine is told of it


def time_of(services: Services) -> steps.TimePassed | steps.TimeRead:
    """Return what the machine is told of the time: nothing is over by a clock that is not to be believed."""
    now = trusted(services.clock).now(services.journal.events)
    return steps.TimePassed(now) if now is not None else steps.TimeRead(stamp(services.clock))


async def record_expired(services: Services) -> None:
    """Record the end of what no one has answered in time, before an open turn goes on."""
    turn = TurnView.last(services.journal.events)
    now = trusted(services.clock).now(services.journal.events) if turn.deadlines else None
    if now is not None and (batch := expired_requests(turn, now, services.ids)):
        await record(batch, services.journal, services.clock, services.display)


async def _raised(error: Exception) -> None:
    raise error


def _first(error: BaseException) -> BaseException:
    """Return the exception that made the others follow."""
    return _first(cast("BaseExceptionGroup[BaseException]", error).exceptions[0]) if isinstance(error, BaseExceptionGroup) else error


PRECISION = 0.25  # seconds between two looks at whether a person is being asked


async def expire(seconds: float, clock: Clock, waits_for_people: Callable[[], bool]) -> None:
    """Return when the turn has worked for `seconds`."""
    worked, last = 0.0, clock.monotonic()
    while worked < seconds:
        await clock.sleep(min(PRECISION, seconds - worked))
        now = clock.monotonic()
        if not waits_for_people():
            worked += now - last
        last = now
