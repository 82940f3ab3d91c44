"""Steps of a turn.

Each reported input steps the state machine immediately, and the driver performs the steps in order.

Theory of operation
===================

The state machine is synchronous and does no I/O, so any task that has an input can step it: a tool
that asks, a prompt that returns, or a timer. `Stepper.report` steps the machine in the reporting
task and puts the resulting `TakenStep` into a queue. The driver's loop performs the step: events
first, then the other effects. During a run, only the stepper calls `Turn.step`.

This has three consequences:

- The order of batches on disk is the order of steps.
- The machine can be ahead of the disk by the steps in the queue. No effect of these steps has
  begun, because effects are performed in order. If the process dies, the last batches are missing
  on disk, and the turn resumes from the batches before them.
- An exception in the machine is a bug in midturn, not in the tool that reported the input. The step
  passes the exception to the driver, which raises it.

A call that runs again already has most of its answers. Passing each recorded answer through the
queue would take one iteration of the event loop, so `Stepper.ask` returns it directly if the driver
is idle. In that case no other step can come first.

The stepper is a separate object, so that tasks refer to the stepper and not to the driver.
Otherwise each run would leave a reference cycle for the garbage collector.
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
    """A step that the state machine took and that the driver must still perform.

    Args:
        happened: The input.
        effects: The effects to perform, in order.
        defect: The exception that the state machine raised, if it has a bug.
    """

    happened: steps.Happened
    effects: tuple[steps.Effect, ...] = ()
    defect: Exception | None = None


class Stepper:
    """Steps a turn for each reported input, and queues the steps for the task that performs them.

    Args:
        turn: The machine.
        read_time: Returns the current time as an input. It is called only before an input that
            needs the time (`Turn.needs_time`), so that replaying a turn without deadlines gives the
            same events at any time.
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
        """Wait for the next step, and return it."""
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
        """Return True if the event loop runs all ready callbacks without a step, or False as soon
        as a step is taken.

        This gives tasks that a tool just started the chance to ask. The state machine and the
        driver do not know about these tasks; only the event loop does.
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
        """Ignore all further inputs, because the driver stopped and their steps would never be
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
