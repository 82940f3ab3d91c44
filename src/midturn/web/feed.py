"""What has changed, in order: told to everybody who listens, and for a while to those who come back."""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Literal, TypeAlias

import msgspec
from msgspec import Struct

from midturn.core.json_value import Json

ChangeKind: TypeAlias = Literal["asked", "answered", "withdrawn", "turn_ended"]
_KEPT = 1_000


class FeedEvent(Struct, frozen=True):
    """One thing that happened; `wire` is it as a server-sent event."""

    number: int
    kind: ChangeKind
    wire: bytes


class Feed:
    """Numbers what happens, and keeps the last of it. A number is good for one run of the server only, and says which."""

    def __init__(self) -> None:
        self._run = secrets.token_hex(4)
        self._kept: deque[FeedEvent] = deque(maxlen=_KEPT)
        self._last = 0
        self._news = asyncio.Event()
        self.closed = False

    def publish(self, kind: ChangeKind, data: dict[str, Json]) -> None:
        """Tell everybody."""
        self._last += 1
        self._kept.append(FeedEvent(self._last, kind, self.wire(kind, data)))
        self._wake()

    def wire(self, kind: ChangeKind, data: dict[str, Json]) -> bytes:
        """Write a server-sent event under the last number."""
        return b"id: %s-%d\nevent: %s\ndata: %s\n\n" % (self._run.encode(), self._last, kind.encode(), msgspec.json.encode(data))

    def place(self, last_event_id: str | None) -> int | None:
        """Return where somebody goes on who has seen `last_event_id`; None where what came since is not all kept."""
        run, _, number = (last_event_id or "").partition("-")
        if run != self._run or not (number.isascii() and number.isdecimal()):
            return None
        seen = int(number)
        first = self._kept[0].number if self._kept else self._last + 1
        return seen if first - 1 <= seen <= self._last else None

    @property
    def last(self) -> int:
        """The number of the last change."""
        return self._last

    async def follow(self, after: int) -> AsyncGenerator[FeedEvent | None]:
        """Yield every change after a number, as it comes, until `close`; None now and then, where nothing happens."""
        while not self.closed:
            news = self._news
            missed = [change for change in self._kept if change.number > after]
            for change in missed:
                yield change
                after = change.number
            if missed:
                continue
            with suppress(TimeoutError):
                await asyncio.wait_for(news.wait(), _TICK)
            if after == self._last:
                yield None

    def close(self) -> None:
        """Let everybody go who listens."""
        self.closed = True
        self._wake()

    def look(self) -> None:
        """Let everybody who listens find out whether they still may."""
        self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


_TICK = 0.5  # seconds after which who listens looks whether they still may
