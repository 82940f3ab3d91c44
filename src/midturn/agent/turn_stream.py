"""A turn that runs, event by event."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from midturn.agent.result import RunResult
from midturn.agent.turn_events import Streamed, TurnEnded, streamed
from midturn.journal import Journal
from midturn.ports import Happening

if TYPE_CHECKING:
    from midturn.runtime.loop_thread import LoopThread

OnEvent: TypeAlias = Callable[[Streamed], Awaitable[Any] | None]


WATCHING: ContextVar[Watching | None] = ContextVar("midturn_watching", default=None)
"""Who watches the run that the present task belongs to."""


class Watching:
    """A display that hands on what a program wants to know."""

    def __init__(self, journal: Journal) -> None:
        self.seen: asyncio.Queue[Streamed | None] = asyncio.Queue()
        self._journal = journal

    def show(self, happening: Happening) -> None:
        """Hand on what happened."""
        event = streamed(happening, self._journal.conversation, self._journal.events)
        if event:
            self.seen.put_nowait(event)


class Relay:
    """A display for what several runs share, such as models: each happening goes to whoever watches the run that it belongs to."""

    def show(self, happening: Happening) -> None:
        """Hand on what happened."""
        watching = WATCHING.get()
        if watching:
            watching.show(happening)


class TurnStream:
    """The events of a turn, as they happen; the last one is `TurnEnded`. Iterating raises what `Agent.run` would raise.

    `Agent.stream` and `Agent.stream_resume` make one.
    """

    def __init__(self, conversation: str, watching: Watching, task: asyncio.Task[RunResult[Any]]) -> None:
        """Read what `watching` sees of `task`."""
        self.conversation = conversation
        """The conversation in which the turn runs."""
        self._seen = watching.seen
        self._task = task
        self._is_over = False
        task.add_done_callback(lambda _: self._seen.put_nowait(None))

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Streamed:
        if self._is_over:
            raise StopAsyncIteration
        event = await self._seen.get()
        if event is not None:
            return event
        self._is_over = True
        return TurnEnded(await self._task)

    async def watched(self, on_event: OnEvent) -> RunResult[Any]:
        """Wait for the end, telling `on_event` of everything; return the result.

        Raises what `Agent.run` raises, and what `on_event` raises.
        """
        async for event in self:
            said = on_event(event)
            if inspect.isawaitable(said):
                await said
        return await self._task

    async def stop(self) -> None:
        """Stop the run, if it still runs: the turn stays open."""
        self._is_over = self._is_over or not self._task.done()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


class SyncTurnStream:
    """The events of a turn, as they happen, for a program without an event loop; the last one is `TurnEnded` (see `TurnStream`).

    `Agent.stream_sync` and `Agent.stream_resume_sync` make one.
    """

    def __init__(self, events: TurnStream, thread: LoopThread) -> None:
        """Read `events`, which happen in `thread`."""
        self.conversation = events.conversation
        """The conversation in which the turn runs."""
        self._events = thread.iterated(events)

    def __iter__(self) -> Iterator[Streamed]:
        return self

    def __next__(self) -> Streamed:
        return next(self._events)
