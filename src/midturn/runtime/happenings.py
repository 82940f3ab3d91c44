"""What has happened in a turn and the machine has yet to hear."""

from __future__ import annotations

import asyncio
from collections import deque

from midturn.core.turn.inputs import Happened

_BREATHS = 10  # rounds of the event loop: a task group, a gather, or both inside each other begin their tasks in fewer


class Happenings:
    """A queue with one reader, who can also find out that nothing is about to come."""

    def __init__(self) -> None:
        self._reported: deque[Happened] = deque()
        self._waiting: asyncio.Future[None] | None = None

    def report(self, happened: Happened) -> None:
        """Add what happened; whoever waits goes on."""
        self._reported.append(happened)
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    async def next(self) -> Happened:
        """Take what happened first, once there is anything."""
        await self.there()
        return self._reported.popleft()

    async def there(self) -> None:
        """Return when there is anything to take."""
        while not self._reported:
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting

    async def are_coming(self) -> bool:
        """Whether anything happens that needs no more than the event loop: tasks that a tool has begun get to the point where they ask."""
        for _ in range(_BREATHS):
            if self._reported:
                return True
            await asyncio.sleep(0)
        return bool(self._reported)
