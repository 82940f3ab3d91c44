"""A locked conversation in PostgreSQL."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from types import TracebackType
from typing import Literal, Self, TypeAlias

import msgspec

from midturn.errors import StoreError, StoreLocked, TooOld
from midturn.events.provider_view import EventLog
from midturn.events.types import (
    Approval,
    Event,
    InquiryAnswered,
    InquiryCancelled,
    InquiryRedacted,
    InquiryRequest,
    TurnEnd,
    TurnStart,
)
from midturn.events.window import ends_turn, is_legacy, last_turn, parent_of, starts_turn
from midturn.question.json_value import DEFAULT_LIMITS, Limits
from midturn.stores.batch import encode_batch, may_close, numbered
from midturn.stores.decisions import is_due
from midturn.stores.port import LastTurn
from midturn.stores.postgres import statements
from midturn.stores.postgres.database import Database, Rows, handed_payloads
from midturn.stores.postgres.own_loop import OwnLoop
from midturn.stores.queued_answer import QueuedAnswer, oldest_first
from midturn.turn.view import TurnView
from midturn.turn.votes import handed_as

# --------------------------------------------------------------------------------------------------
# The row of a conversation, with the state of its last turn


_STIRRING = (
    TurnStart,
    TurnEnd,
    InquiryRequest,
    InquiryAnswered,
    InquiryCancelled,
    InquiryRedacted,
    Approval,
)
"""Changes that watchers of a store are notified of."""


class TurnRow:
    """The row of a conversation, computed from all of its events. A batch updates the row; a batch
    that begins a turn computes it again.
    """

    def __init__(self, events: Sequence[Event] = ()) -> None:
        self.turn_at = 0
        """The position of the last turn's first event."""
        self._compute(events)

    def _compute(self, events: Sequence[Event]) -> None:
        window = last_turn(events)
        turn = window.events if window else ()
        self.turn_at += len(events) - len(turn) if window else 0
        self.unfinished = window is not None and window.open
        self._view = TurnView(window)
        self.answered = self._view.is_ready
        """Whether the turn can continue without waiting for a person."""
        self._parent = parent_of(turn) if self.unfinished else None

    @property
    def waiting(self) -> list[str]:
        """The event ids of open requests and approvals."""
        return self._view.record.open_ids if self.unfinished else []

    def follow(self, events: Sequence[Event], batch: Sequence[Event]) -> None:
        """Apply a batch that follows `events`, which are all earlier events."""
        if not self.unfinished or any(starts_turn(event) or is_legacy(event) for event in batch):
            self._compute([*events[self.turn_at :], *batch])
            return
        self.unfinished = not any(map(ends_turn, batch))
        for event in batch:
            self._view.record.apply(event)
        self.answered = self._view.is_ready

    def given(self, head: int, batch: Sequence[Event]) -> dict[str, object]:
        """Return the parameters of the statement that writes `batch` after `head` events. The
        batch must have been applied to this row.
        """
        return {
            "turn_at": self.turn_at if not head or any(map(starts_turn, batch)) else None,
            "unfinished": (
                self.unfinished and self._parent is None
            ),  # a nested turn is continued together with its outer turn
            "root": self._parent.root if self._parent else None,
            "asking": bool(self.waiting),
            "answered": self.answered,
            "may_close": may_close(batch),
            "waiting": [
                *self.waiting,
                *([self._view.record.start_id] if self.unfinished else []),
            ],  # an answer that ends the turn refers to the start of the turn
            "noted": sorted(handed_as(batch)),
        }


_LOG = logging.getLogger("midturn.store")

Again: TypeAlias = Literal["now", "later"] | None
"""When a worker must examine a released conversation: immediately (`now`), after a pause that
doubles each time (`later`), or only after an answer (None).
"""


class HeldRow(msgspec.Struct):
    """The state of a locked conversation's row, shared by its journal and its answer queue.

    `head` is the number of events. `handed_seq` is the row's count of queued answers when the
    queue was last read.
    """

    id: str
    fence: int
    head: int
    handed_seq: int


class PostgresFeed:
    """The answer queue of a locked conversation."""

    def __init__(self, database: Database, loop: OwnLoop, held: HeldRow) -> None:
        self._database = database
        self._loop = loop
        self._held = held

    async def collect(self) -> tuple[QueuedAnswer, ...]:
        """Return all queued answers, oldest first."""
        rows = await self._loop.run(
            self._database.rows(
                statements.COLLECT, {"id": self._held.id, "fence": self._held.fence}
            )
        )
        if not rows:
            return ()
        self._held.handed_seq = rows[0]["handed_seq"]
        return decode_handed(handed_payloads(rows[0]))

    async def changed(self) -> None:
        """Wait until another answer may be queued."""
        await self._loop.run(self._database.notifications.wait(self._held.id))

    async def refuse(self, key: str) -> None:
        """Refuse a queued answer."""
        await self._loop.run(
            self._database.rows(statements.REFUSE, {"id": self._held.id, "event_id": key})
        )


class PostgresJournal:
    """The only writer of a conversation, until its block exits or another process takes over the
    conversation.
    """

    def __init__(
        self,
        database: Database,
        loop: OwnLoop,
        held: HeldRow,
        events: Sequence[Event],
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self._database = database
        self._loop = loop
        self._held = held
        self._events = list(events)
        self._row = TurnRow(self._events)
        self._limits = limits
        self._closed = False
        self._is_ready_soon = False
        self._writing = asyncio.Lock()
        self.events: Sequence[Event] = EventLog(self._events)
        """Everything recorded so far, oldest first."""
        self.answers = PostgresFeed(database, loop, held)
        """Answers that other processes queued."""

    @property
    def conversation(self) -> str:
        """The conversation's id."""
        return self._held.id

    async def append(self, batch: Sequence[Event]) -> None:
        """Record a batch in one statement.

        Raises:
            StoreLocked: Another process took over the conversation; no event of the batch is
                recorded.
            StoreError: The batch is larger than the limits allow, the journal is closed, or the
                database cannot be reached.
        """
        if self._closed:
            raise StoreError(
                f"The conversation {self._held.id} is closed: nothing more can be recorded by this"
                " writer."
            )
        if batch:
            await self._loop.run(self._in_turn(numbered(batch)))

    async def _in_turn(self, batch: Sequence[Event]) -> None:
        """Record a batch after the previous one, whose writer may have been cancelled during its
        statement.
        """
        async with self._writing:
            lines = encode_batch(batch, self._limits)
            try:
                self._row.follow(self._events, batch)
                await self._append(
                    [line.removesuffix(b"\n") for line in lines],
                    self._row.given(self._held.head, batch),
                )
                if any(isinstance(event, _STIRRING) for event in batch):
                    self._database.notify(self._database.change_channel)
            except BaseException:  # the batch was not recorded
                self._row = TurnRow(self._events)
                raise
            self._events.extend(batch)

    async def _append(self, lines: list[bytes], state: dict[str, object]) -> None:
        held, before = self._held, self._held.head
        after = before + len(lines)

        async def written() -> Rows | None:
            rows = await self._database.rows(statements.LAST_TURN, {"id": held.id})
            return (
                rows
                if rows and (rows[0]["head"], rows[0]["fence"]) == (after, held.fence)
                else None
            )

        given = {"id": held.id, "fence": held.fence, "head": before, "lines": lines, **state}
        if not await self._database.once(statements.APPEND, given, written):
            self._database.held.pop(held.id, None)
            raise StoreLocked(
                f"The conversation {held.id} was taken over by another process, because this one"
                " did not respond for a while."
            )
        held.head = after

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._closed:
            self._closed = True
            held, until = (
                self._held,
                TurnView.last(self._events[self._row.turn_at :]).first_deadline,
            )
            again = self._again(error)
            await self._loop.run(
                self._database.release(
                    held.id, held.fence, handed_seq=held.handed_seq, again=again, deadline=until
                )
            )

    def mark_ready(self) -> None:
        """Mark the open turn for a worker, which examines it after the lock is released."""
        self._is_ready_soon = True

    def _again(self, error: BaseException | None) -> Again:
        """Return the time at which a worker must examine the turn. The time is `now` after
        `mark_ready`, or if the run was cancelled or needs a newer version. It is None if the turn
        waits for people. Otherwise, the run has failed, and the time is `later`.
        """
        turn = self._events[self._row.turn_at :]
        if self._is_ready_soon:
            return "now"
        if not is_due(LastTurn(turn)) and (
            error is None or not TurnView.last(turn).awaited_children
        ):
            return None
        is_for_others = isinstance(error, TooOld) or not isinstance(error, Exception)
        return "now" if error is not None and is_for_others else "later"


def decode_handed(payloads: Sequence[bytes]) -> tuple[QueuedAnswer, ...]:
    """Decode queued answers, and sort them by age."""
    return oldest_first([msgspec.json.decode(payload, type=QueuedAnswer) for payload in payloads])
