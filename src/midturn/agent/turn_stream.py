"""A turn that runs, event by event."""

from __future__ import annotations

import asyncio
from typing import Self

from midturn.agent.happenings import Streamed, TurnEnded, streamed
from midturn.agent.result import RunResult
from midturn.ports import Happening, Journal


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


class TurnStream:
    """The events of a turn, as they happen; the last one is `TurnEnded`. Iterating raises what `Agent.run` would raise."""

    def __init__(self, conversation: str, watching: Watching, task: asyncio.Task[RunResult]) -> None:
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

    async def stop(self) -> None:
        """Stop the run, if it still runs: the turn stays open."""
        self._is_over = self._is_over or not self._task.done()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
