"""A conversation in memory, and whoever holds it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence

from midturn.core.events import Event
from midturn.core.limits import DEFAULT_LIMITS, Limits
from midturn.core.stream import turns
from midturn.errors import StoreError, StoreLocked
from midturn.store.batch import encode_batch, numbered
from midturn.store.clock import now
from midturn.store.handover import already_answered
from midturn.store.metadata import Metadata
from midturn.store.submission import HandedOver, describe


class MemoryAnswers:
    """What is handed over to the holder of a conversation in memory."""

    def __init__(self) -> None:
        self._waiting: dict[str, HandedOver] = {}

    def put(self, answer: HandedOver) -> None:
        """Hand one over; the first wins."""
        if self._waiting.setdefault(answer.event_id, answer) is not answer:
            raise already_answered(answer.event_id, describe(self._waiting[answer.event_id].by))

    def collect(self) -> tuple[HandedOver, ...]:
        """Return all of them, oldest first."""
        return tuple(sorted(self._waiting.values(), key=lambda answer: answer.at))

    def waits(self, event_id: str) -> bool:
        """Say whether there is one for this question."""
        return event_id in self._waiting

    def remove(self, event_id: str) -> None:
        """Take one away."""
        self._waiting.pop(event_id, None)


class MemoryConversation:
    """What a directory holds on disk: events, metadata, the lock, the answers that were handed over."""

    def __init__(self, id: str, events: Sequence[Event], metadata: Metadata, limits: Limits = DEFAULT_LIMITS) -> None:
        self.id = id
        self.events = list(events)
        self.metadata = metadata
        self.answers = MemoryAnswers()
        self._limits = limits
        self._lock = threading.Lock()
        self._since = ""

    @property
    def is_held(self) -> bool:
        """Whether somebody writes it just now."""
        return self._lock.locked()

    def hold(self) -> None:
        """Take the lock.

        Raises:
            StoreLocked: Somebody else has it.
        """
        if not self._lock.acquire(blocking=False):
            message = f"The conversation {self.id} is being written by this process since {self._since}. Wait until it is done, or end it."
            raise StoreLocked(message, os.getpid(), self._since)
        self._since = now()

    def release(self) -> None:
        """Give the conversation back."""
        self._lock.release()

    def last_turn(self) -> Sequence[Event]:
        """Return the events of the last turn."""
        windows = turns(self.events)
        return windows[-1].events if windows else ()

    def append(self, batch: Sequence[Event]) -> None:
        """Record a batch.

        Raises:
            StoreError: It is larger than the limits allow; nothing of it is recorded.
        """
        written = numbered(batch)
        encode_batch(written, self._limits)  # what no file would take is not taken here, either
        self.events.extend(written)


class MemoryJournal:
    """The one writer of a conversation in memory, until `close`."""

    def __init__(self, held: MemoryConversation, after: Callable[[], None]) -> None:
        """Write what the caller holds. `after` is called once when the journal has been closed."""
        self._held = held
        self._after = after
        self._closed = False
        self.answers = held.answers

    @property
    def conversation(self) -> str:
        """The conversation's id."""
        return self._held.id

    @property
    def events(self) -> Sequence[Event]:
        """Everything recorded so far, oldest first."""
        return self._held.events

    async def append(self, batch: Sequence[Event]) -> None:
        """Record a batch.

        Raises:
            StoreError: It is larger than the limits allow, or the journal is closed; nothing of it is recorded.
        """
        if self._closed:
            raise StoreError(f"The conversation {self._held.id} is closed: nothing more can be recorded by this writer.")
        self._held.append(batch)

    def close(self) -> None:
        """Release the conversation."""
        if not self._closed:
            self._closed = True
            self._held.release()
            self._after()
