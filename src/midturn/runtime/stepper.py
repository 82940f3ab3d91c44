"""Steps of a turn.

Each reported input steps the state machine at once, and the driver performs the steps in order.

Theory of operation
===================

The state machine is synchronous and pure, so any task with an input can step it: a tool that
asks, a prompt that returns, a timer. `Stepper.report` does this in the reporting task. The
resulting `TakenStep` goes into a queue, and the driver's loop performs it: events first, then the
other effects. Only the stepper calls `Turn.step` during a run.

Three things follow:

- The order of batches on disk is the order of steps.
- The machine can be ahead of the disk by the steps in the queue. Nothing that depends on these
  steps has begun, because effects are performed in order. If the process dies, the last batches are
  missing on disk and the turn resumes from the batches before them.
- An exception in the machine is a defect of midturn, not of the tool that happened to report. The
  step passes the exception to the driver, which raises it.

A call that runs again has most of its answers on record. Passing each recorded answer through the
queue would take an iteration of the event loop. Therefore `Stepper.ask` returns such an answer
directly if the driver is idle. In that case no other step can come before it.

The stepper is a separate object, so that tasks have a reference to the stepper and not to the
driver. Otherwise each run would leave a reference cycle (driver, collaborator, driver) for the
garbage collector.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable

from msgspec import Struct

from midturn.turn import inputs as steps
from midturn.turn.turn import Turn

_IDLE_ROUNDS = 10
"""Event-loop iterations without input before the turn counts as idle. Nested task groups and
gathers start their tasks in fewer iterations.
"""


class TakenStep(Struct, frozen=True):
    """A step that the machine has taken and the driver has yet to perform.

    Args:
        happened: The input.
        effects: The effects to perform, in order.
        defect: The exception that the machine raised, if it has a bug.
    """

    happened: steps.Happened
    effects: tuple[steps.Effect, ...] = ()
    defect: Exception | None = None


class Stepper:
    """Steps a turn for each reported input, and queues the steps for the task that performs them.

    Args:
        turn: The machine.
        read_time: Returns the current time as an input. It is called before an input that needs
            the time (`Turn.needs_time`), so that a turn without deadlines replays to the same
            events at any time.
    """

    def __init__(
        self, turn: Turn, read_time: Callable[[], steps.TimePassed | steps.TimeRead]
    ) -> None:
        self._turn = turn
        self._read_time = read_time
        self._steps: deque[TakenStep] = deque()
        self._arrival: asyncio.Future[None] | None = None
        self._driver_is_idle = False
        self._idle_rounds = 0
        self._is_stepping = False
        self._is_closed = False
        self._thread = threading.get_ident()

    def report(self, happened: steps.Happened) -> None:
        """Step the machine with an input, and queue the step for the driver."""
        if self._is_closed:
            return
        if self._turn.needs_time(happened):
            self._add(self._step(self._read_time()))
        self._add(self._step(happened))

    def ask(self, asked: steps.ToolAwaits) -> steps.Given | None:
        """Report a form that a tool asks.

        Return the answers if they are recorded and the driver has no earlier step to perform.
        """
        if (
            self._is_closed
            or not self._driver_is_idle
            or self._steps
            or self._turn.needs_time(asked)
        ):
            self.report(asked)
            return None
        self._idle_rounds = 0
        step = self._step(asked)
        match step.effects:
            case (steps.GiveAnswers() as given,) if (
                given.at_once and given.ask == asked.ask and given.call == asked.call
            ):
                return given.answers
            case _:
                self._add(step)
                return None

    async def next(self) -> TakenStep:
        """Return the next step, as soon as there is one."""
        if not self._steps:
            await self.wait_for_step()
        return self._steps.popleft()

    async def wait_for_step(self) -> None:
        """Wait until there is a step to perform."""
        self._driver_is_idle = True
        try:
            while not self._steps:
                self._arrival = asyncio.get_running_loop().create_future()
                await self._arrival
        finally:
            self._driver_is_idle = False

    async def wait_until_idle(self) -> bool:
        """Return True if the event loop runs all ready callbacks without a step; False as soon as a
        step is taken.

        Tasks that a tool has just started get the chance to ask. Only the event loop knows these
        tasks; the state machine and the driver's table of tasks do not.
        """
        self._driver_is_idle, self._idle_rounds = True, 0
        try:
            while not self._steps and self._idle_rounds < _IDLE_ROUNDS:
                self._idle_rounds += 1
                await asyncio.sleep(0)
        finally:
            self._driver_is_idle = False
        return not self._steps

    def taken(self) -> list[TakenStep]:
        """Remove and return all steps that were not performed."""
        found = [*self._steps]
        self._steps.clear()
        return found

    def close(self) -> None:
        """Ignore all further inputs: the driver has stopped, so their steps would never be
        recorded.
        """
        self._is_closed = True

    def _step(self, happened: steps.Happened) -> TakenStep:
        if threading.get_ident() != self._thread:
            raise AssertionError("an input was reported outside the thread of the event loop")
        if self._is_stepping:
            raise AssertionError("an input was reported inside a step")
        self._is_stepping = True
        try:
            return TakenStep(happened, self._turn.step(happened))
        except Exception as defect:  # noqa: BLE001  the driver raises it, not the task that reports
            return TakenStep(happened, defect=defect)
        finally:
            self._is_stepping = False

    def _add(self, step: TakenStep) -> None:
        self._steps.append(step)
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)
