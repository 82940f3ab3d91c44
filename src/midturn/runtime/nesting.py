"""Agents inside of tools: what a run inside a tool finds of the call around it, and how it is told of, and stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import CancelledError as WaitCancelled
from contextvars import ContextVar
from typing import Any, Literal, Protocol, TypeVar, cast

from msgspec import Struct, field
from msgspec.structs import replace

from midturn.errors import MidturnError, StoreError, TurnOpen
from midturn.events.types import Child, Parent
from midturn.prompter import Prompter
from midturn.question.json_value import Limits
from midturn.turn.ending import Ending, left_by_its_call
from midturn.turn.record import TurnRecord
from midturn.turn.step import ChildMoved, ChildWanted, Happened

T = TypeVar("T")
DEEPEST = 4
"""How deep agents may run inside of tools of each other."""


class Screen:
    """What the turns of agents inside each other share with a person: one that shows one prompt shows one of all of them."""

    def __init__(self) -> None:
        self.free = asyncio.Lock()
        """Held while a prompt is shown that no other one may stand beside."""
        self.asking: list[Callable[[], bool]] = []
        """For each of the turns, whether a person is being asked."""

    @property
    def is_asking(self) -> bool:
        """Whether a person is being asked now, by any of the turns."""
        return any(is_asked() for is_asked in self.asking)


class Nest(Struct, frozen=True, kw_only=True):
    """The inheritance of a run inside a tool: the prompter, the detached policies, the store, and what its limits are shared with.

    `end` ends the turns of children that are open on record. `root` is the conversation at the top; `depth` is that of the turn around.
    """

    store: object
    end: Callable[[Sequence[Child], Ending], Awaitable[None]]
    root: str
    prompter: Prompter | None = None
    detached: object = None
    limits: Limits = Limits()
    depth: int = 0
    family: dict[str, TurnRecord] = field(default_factory=dict[str, TurnRecord])
    screen: Screen = field(default_factory=Screen)


class Host(Protocol):
    """The call around a turn, which hears whether the turn goes on."""

    def moved(self, now: Literal["moving", "resting", "over", "ended"]) -> None:
        """Say what the turn does now."""
        ...


class OuterCall:
    """One run of a tool, as agents inside of it find it."""

    def __init__(self, nest: Nest, conversation: str, call: str, report: Callable[[Happened], None]) -> None:
        self.nest = nest
        self.conversation = conversation
        self.call = call
        self.is_over = False
        self._failures: list[StoreError] = []
        self._loop = asyncio.get_running_loop()
        self._report = report
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._wanted: list[asyncio.Future[Child]] = []
        self._seen: dict[tuple[str, str], int] = {}
        self._runs: set[asyncio.Task[Any]] = set()

    def occurrence(self, agent: str, text: str) -> int:
        """Count the equal runs of this run of the tool."""
        number = self._seen[agent, text] = self._seen.get((agent, text), 0) + 1
        return number

    def below(self) -> Nest:
        """Return what runs inside of runs inside of this call inherit.

        Raises:
            MidturnError: Agents run too deep inside each other.
        """
        depth = self.nest.depth + 1
        if depth > DEEPEST:
            raise MidturnError(f"Agents run inside of tools of each other {depth} deep; at most {DEEPEST} are allowed.")
        return replace(self.nest, depth=depth)

    async def child(self, wanted: Child, lost: str = "") -> Child:
        """Have a turn recorded that is to run inside; return what is on record.

        Raises:
            MidturnError: Agents run too deep inside each other.
        """
        self.below()
        recorded: asyncio.Future[Child] = self._loop.create_future()
        self._wanted.append(recorded)
        self._report(ChildWanted(len(self._wanted) - 1, wanted, lost))
        return await recorded

    def recorded(self, number: int, child: Child) -> None:
        """Report that a turn is on record."""
        if not self._wanted[number].done():
            self._wanted[number].set_result(child)

    def parent(self, child: Child) -> Parent:
        """Return what the first event of a turn inside says of this call."""
        return Parent(self.conversation, self.call, child.event_id, self.nest.root, self.nest.depth + 1)

    def moved(self, child: Child, now: Literal["moving", "resting", "over", "ended"]) -> None:
        """Say what a turn inside does now."""
        if not self.is_over:
            self._report(ChildMoved(self.call, child.event_id, now))

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a turn inside; it is stopped with the call, also where the tool has left it behind."""
        task = asyncio.create_task(work)
        self._runs.add(task)
        task.add_done_callback(self._runs.discard)
        try:
            return await task
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait({task})
            raise
        except TurnOpen:  # what the program asked for cannot be, whenever it asks
            raise
        except StoreError as error:
            self._failures.append(error)
            raise

    def run_in_thread(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a turn inside from a tool that is not async, and block its thread.

        Raises:
            asyncio.CancelledError: The call has ended.
        """
        running = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return running.result()
        except WaitCancelled:
            raise asyncio.CancelledError("The call has ended.") from None

    async def is_stopped(self) -> None:
        """Return never: wait until this is cancelled with the call."""
        await asyncio.shield(self._over)

    async def stop(self) -> None:
        """Stop every turn inside, and wait until they have let go of their conversations."""
        self.is_over = True
        runs = [run for run in self._runs if run is not asyncio.current_task()]
        for run in runs:
            run.cancel()
        if runs:
            await asyncio.wait(runs)
        if not self._over.done():
            self._over.cancel()

    async def leave(self, children: Sequence[Child], raised: BaseException | None) -> None:
        """The tool is done: whatever is still open of the turns inside is closed.

        Raises:
            StoreError: It is what the tool `raised`. The turn around stays open, as where it cannot be recorded itself, and goes on later.
        """
        await self.stop()
        for error in _each(raised):
            if any(error is failure for failure in self._failures):  # each of several turns inside may have met a store that was away
                raise error
        if children:
            await self.nest.end(children, left_by_its_call())


def _each(raised: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception, or each of a group's, at any depth."""
    if isinstance(raised, BaseExceptionGroup):
        for error in cast("BaseExceptionGroup[BaseException]", raised).exceptions:
            yield from _each(error)
    elif raised is not None:
        yield raised


OUTER: ContextVar[OuterCall | None] = ContextVar("midturn_outer_call", default=None)
"""The run of a tool that goes on here, as far as code inside of it can see."""


def outer_call() -> OuterCall | None:
    """Return the run of a tool around the code that runs now, if it still goes on."""
    outer = OUTER.get()
    return None if outer is None or outer.is_over else outer
