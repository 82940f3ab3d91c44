"""A conversation in memory, and whoever holds it."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

from midturn.clock import now
from midturn.core.events import Event
from midturn.core.limits import DEFAULT_LIMITS, Limits
from midturn.core.stream import turns
from midturn.core.stream.log import EventLog
from midturn.errors import StoreError, StoreLocked
from midturn.store.batch import encode_batch, may_close, numbered
from midturn.store.metadata import Metadata
from midturn.store.open_requests import outdated
from midturn.store.port import LastTurn
from midturn.store.submission import HandedOver, oldest_first
from midturn.store.trying_again import Tries

if TYPE_CHECKING:
    import asyncio


class MemoryAnswers:
    """What is handed over to the holder of a conversation in memory; whoever waits for more is woken at once, in any thread."""

    def __init__(self) -> None:
        self._waiting: dict[str, HandedOver] = {}
        self._wakers: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}

    def put(self, answer: HandedOver) -> bool:
        """Hand one over; the first wins, and for any other this is False."""
        if self._waiting.setdefault(answer.event_id, answer) is not answer:
            return False
        for waker, loop in list(self._wakers.items()):
            with suppress(RuntimeError):  # that loop has ended
                loop.call_soon_threadsafe(waker.set)
        return True

    def waiting(self) -> tuple[HandedOver, ...]:
        """Return all of them, oldest first."""
        return oldest_first(self._waiting.copy().values())

    def remove(self, event_id: str) -> None:
        """Take one away."""
        self._waiting.pop(event_id, None)

    async def collect(self) -> tuple[HandedOver, ...]:
        """Return all of them, oldest first."""
        return self.waiting()

    async def changed(self) -> None:
        """Return when another one is handed over."""
        import asyncio  # commands that only list questions need not pay for it

        waker = asyncio.Event()
        self._wakers[waker] = asyncio.get_running_loop()
        try:
            await waker.wait()
        finally:
            del self._wakers[waker]

    async def refuse(self, event_id: str) -> None:
        """Turn one down."""
        self.remove(event_id)


class MemoryConversation:
    """What a directory holds on disk: events, metadata, the lock, the answers that were handed over."""

    def __init__(self, id: str, events: Sequence[Event], metadata: Metadata, limits: Limits = DEFAULT_LIMITS) -> None:
        self.id = id
        self.events = list(events)
        self.metadata = metadata
        self.answers = MemoryAnswers()
        self.mutex = threading.Lock()
        """Taken for a moment, by whoever reads or writes in any thread."""
        self.since = ""
        """Since when it is held for a turn; empty while it is not."""
        self.tries = Tries()
        """How often workers have tried its open turn in vain."""
        self._limits = limits

    @property
    def is_held(self) -> bool:
        """Whether somebody holds it for a turn."""
        return bool(self.since)

    def hold(self) -> None:
        """Hold it for a turn.

        Raises:
            StoreLocked: Somebody else does.
        """
        with self.mutex:
            self.check_free()
            self.since = now()

    def check_free(self) -> None:
        """Make sure that nobody holds it.

        Raises:
            StoreLocked: Somebody does.
        """
        if self.since:
            message = f"The conversation {self.id} is being written by this process since {self.since}. Wait until it is done, or end it."
            raise StoreLocked(message, holder_here(), self.since)

    def release(self) -> None:
        """Give the conversation back."""
        self.since = ""

    def last_turn(self) -> LastTurn:
        """Return the last turn, and what was handed over."""
        windows = turns(self.events)
        return LastTurn(windows[-1].events if windows else (), self.answers.waiting())

    def append(self, batch: Sequence[Event]) -> None:
        """Record a batch.

        Raises:
            StoreError: It is larger than the limits allow; nothing of it is recorded.
        """
        written = numbered(batch)
        encode_batch(written, self._limits)  # what no file would take is not taken here, either
        self.events.extend(written)
        waiting = self.answers.waiting() if may_close(written) else ()
        for handed in outdated(waiting, self.events) if waiting else ():
            self.answers.remove(handed.event_id)


class MemoryJournal:
    """The one writer of a conversation in memory, until `close`."""

    def __init__(self, held: MemoryConversation) -> None:
        """Write what the caller holds."""
        self._held = held
        self._closed = False
        self.events: Sequence[Event] = EventLog(held.events)
        """Everything recorded so far, oldest first."""
        self.answers = held.answers
        """What others hand over meanwhile."""

    @property
    def conversation(self) -> str:
        """The conversation's id."""
        return self._held.id

    async def append(self, batch: Sequence[Event]) -> None:
        """Record a batch.

        Raises:
            StoreError: It is larger than the limits allow, or the journal is closed; nothing of it is recorded.
        """
        if self._closed:
            raise StoreError(f"The conversation {self._held.id} is closed: nothing more can be recorded by this writer.")
        with self._held.mutex:
            self._held.append(batch)

    def go_on_soon(self) -> None:
        """Do nothing: whoever takes what is due looks at all turns again and again."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Release the conversation."""
        if not self._closed:
            self._closed = True
            self._held.release()


def holder_here() -> str:
    """Return this process as a holder."""
    return f"pid {os.getpid()} on {os.uname().nodename}"
