"""Nested agents. An agent that is started inside a tool call looks up this call, reports its state
to it, and is stopped together with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterator, Sequence
from concurrent.futures import CancelledError as WaitCancelled
from contextvars import ContextVar
from typing import Any, Final, Literal, Protocol, TypeAlias, TypeVar, cast

from msgspec import Struct, field
from msgspec.structs import replace

from midturn.errors import MidturnError, StoreError, TurnOpen
from midturn.events.types import Child, Parent
from midturn.prompter import Prompter
from midturn.question.json_value import Limits
from midturn.turn.ending import TurnEnding, left_by_its_call
from midturn.turn.inputs import ChildTurnChanged, ChildTurnRequested, Happened
from midturn.turn.record import TurnRecord

T = TypeVar("T")
MAX_DEPTH: Final = 4
"""Maximum nesting depth of agents."""

TurnState: TypeAlias = Literal["moving", "resting", "over", "ended"]
"""State of a nested turn: it is running, waits only for people, is over, or was ended by a person.
"""


class SharedScreen:
    """The screen that nested turns share.

    A prompter that shows one prompt at a time shows at most one for all these turns.
    """

    def __init__(self) -> None:
        self.free = asyncio.Lock()
        """Locked while an exclusive prompt is shown."""
        self.open_prompts: list[Collection[str]] = []
        """The open prompts of each turn."""

    @property
    def is_asking(self) -> bool:
        """Whether any of the turns is asking a person now."""
        return any(self.open_prompts)


class NestingContext(Struct, frozen=True, kw_only=True):
    """Settings and objects that nested agents inherit.

    Args:
        store: The store of the outer turn.
        end: Ends open turns of nested agents.
        root: The outermost conversation.
        prompter: The prompter of the outer turn.
        detached: The detached policies of the outer turn.
        limits: The limits of the outer turn.
        depth: The nesting depth of the outer turn. 0 for the outermost turn.
        family: The records of the outer turn and of its nested turns, which share limits. The key
            is the ID of the `child` event that refers to the turn, empty for the outermost turn.
        screen: The screen that all these turns share.
    """

    store: object
    end: Callable[[Sequence[Child], TurnEnding], Awaitable[None]]
    root: str
    prompter: Prompter | None = None
    detached: object = None
    limits: Limits = Limits()
    depth: int = 0
    family: dict[str, TurnRecord] = field(default_factory=dict[str, TurnRecord])
    screen: SharedScreen = field(default_factory=SharedScreen)


class ParentTurn(Protocol):
    """The outer turn of a nested turn. It is notified when the state of the nested turn changes."""

    def report_state(self, state: TurnState) -> None:
        """Report the state of the nested turn."""
        ...


class ParentCall:
    """The interface of one tool run to the agents nested in it.

    Args:
        nesting: The settings that nested agents inherit.
        conversation: The conversation of the outer turn.
        call: The `event_id` of the call.
        report: Reports an input to the outer turn.
    """

    def __init__(
        self,
        nesting: NestingContext,
        conversation: str,
        call: str,
        report: Callable[[Happened], None],
    ) -> None:
        self.nesting = nesting
        self.conversation = conversation
        self.call = call
        self.is_over = False
        self._report = report
        self._loop = asyncio.get_running_loop()
        self._failures: list[StoreError] = []
        self._requested: list[asyncio.Future[Child]] = []
        self._occurrences: dict[tuple[str, str], int] = {}
        self._runs: set[asyncio.Task[Any]] = set()
        self._stopped: asyncio.Future[None] | None = None

    def occurrence(self, agent: str, text: str) -> int:
        """Count the runs of the same agent with the same text in this run of the tool, including
        the current one.
        """
        number = self._occurrences[agent, text] = self._occurrences.get((agent, text), 0) + 1
        return number

    def inherited(self) -> NestingContext:
        """Return the settings that a nested turn passes on to agents in its own tools.

        Raises:
            MidturnError: Agents are nested too deeply.
        """
        depth = self.nesting.depth + 1
        if depth > MAX_DEPTH:
            raise MidturnError(
                f"Agents are nested {depth} levels deep, each in a tool of the outer one; at most"
                f" {MAX_DEPTH} levels are allowed."
            )
        return replace(self.nesting, depth=depth)

    async def child(self, wanted: Child, lost: str = "") -> Child:
        """Record a nested turn before it runs, and return the recorded event.

        Args:
            wanted: The nested turn.
            lost: The `event_id` of an earlier `child` event for this turn whose conversation no
                longer exists. Empty if there is none.

        Raises:
            MidturnError: Agents are nested too deeply.
        """
        self.inherited()
        recorded: asyncio.Future[Child] = self._loop.create_future()
        self._requested.append(recorded)
        self._report(ChildTurnRequested(len(self._requested) - 1, wanted, lost))
        return await recorded

    def recorded(self, number: int, child: Child) -> None:
        """Report that a nested turn was recorded."""
        if not self._requested[number].done():
            self._requested[number].set_result(child)

    def parent(self, child: Child) -> Parent:
        """Return the reference to this call that the first event of a nested turn records."""
        return Parent(
            self.conversation, self.call, child.event_id, self.nesting.root, self.nesting.depth + 1
        )

    def report_state(self, child: Child, state: TurnState) -> None:
        """Report the state of a nested turn."""
        if not self.is_over:
            self._report(ChildTurnChanged(self.call, child.event_id, state))

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a nested turn.

        The nested turn is stopped together with the call, even if the tool does not wait for it.
        """
        task = asyncio.create_task(work)
        self._runs.add(task)
        task.add_done_callback(self._runs.discard)
        try:
            return await task
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait({task})
            raise
        except TurnOpen:  # a mistake in the program, not a store failure
            raise
        except StoreError as error:
            self._failures.append(error)
            raise

    def run_in_thread(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a nested turn from a synchronous tool, and block its thread until the turn is done.

        Raises:
            asyncio.CancelledError: The call has ended.
        """
        running = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return running.result()
        except WaitCancelled:
            raise asyncio.CancelledError("The call has ended.") from None

    async def wait_until_stopped(self) -> None:
        """Wait until this coroutine is cancelled together with the call. Never returns."""
        if self._stopped is None:
            self._stopped = self._loop.create_future()
            if self.is_over:
                self._stopped.cancel()
        await asyncio.shield(self._stopped)

    def close(self) -> bool:
        """End the run of the tool.

        Return False if nested turns are still running, in which case `stop` must be awaited.
        """
        self.is_over = True
        if self._stopped is not None and not self._stopped.done():
            self._stopped.cancel()
        return not self._runs

    async def stop(self) -> None:
        """Stop every nested turn, and wait until all have unlocked their conversations."""
        self.is_over = True
        runs = [run for run in self._runs if run is not asyncio.current_task()]
        for run in runs:
            run.cancel()
        if runs:
            await asyncio.wait(runs)
        self.close()

    async def leave(self, children: Sequence[Child], raised: BaseException | None) -> None:
        """End every nested turn that is still open, because the tool is done.

        Raises:
            StoreError: The tool raised a `StoreError` (see `raised`). The outer turn stays open and
                can be resumed, as if its own events could not be recorded.
        """
        if not self.close():
            await self.stop()
        for error in _each(raised):
            if any(
                error is failure for failure in self._failures
            ):  # the store was not available to a nested turn
                raise error
        if children:
            await self.nesting.end(children, left_by_its_call())


def _each(raised: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception, or each exception in a group at any depth."""
    if isinstance(raised, BaseExceptionGroup):
        for error in cast("BaseExceptionGroup[BaseException]", raised).exceptions:
            yield from _each(error)
    elif raised is not None:
        yield raised


PARENT_CALL: ContextVar[ParentCall | None] = ContextVar("midturn_parent_call", default=None)
"""The tool run that contains the current code."""


def parent_call() -> ParentCall | None:
    """Return the tool run that contains the current code, if it has not ended."""
    parent = PARENT_CALL.get()
    return None if parent is None or parent.is_over else parent
