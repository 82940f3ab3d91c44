"""Select the next notification to send about an open question, based on the recorded outcomes of
earlier notifications. This module calls a notification a notice.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final, Literal

from msgspec import Struct

from midturn.events.types import Escalated, Notified, Reassigned, Reminded
from midturn.question.people import MOST_REMINDERS, after
from midturn.turn.votes import Poll

RETRY_DELAYS: Final = (10.0, 60.0, 300.0, 1800.0)
"""Seconds to wait after each failed attempt to send a notice. If the attempt after the last delay
also fails, the notice is not sent again.
"""


class DueNotice(Struct, frozen=True):
    """A notice that must be sent to people.

    `about` is the reason, and `number` counts the notices with this reason (0 if there can be only
    one).
    """

    about: Literal["asked", "reassigned", "reminded", "escalated"]
    to: tuple[str, ...]
    number: int = 0


def escalation_due(poll: Poll, asked_at: str, now: str) -> Escalated | None:
    """Return the first escalation that is due and not yet recorded."""
    recorded = {note.number for note in poll.notes if isinstance(note, Escalated)}
    for number, each in enumerate(poll.people.escalate, 1):
        if number not in recorded and after(asked_at, each.after) <= now:
            return Escalated(id=poll.request, number=number, to=each.to)
    return None


def notice_due(poll: Poll, asked_at: str, now: str, *, has_waited: bool) -> DueNotice | None:
    """Return the next notice to send.

    If a later reminder is also due, the earlier reminder is not sent. A failed first notice (that
    the question was asked) is not retried after a reminder.

    Args:
        poll: The people assigned to the question, and the notes on it, including queued notes.
        asked_at: Time at which the question was asked (RFC 3339).
        now: The current time (RFC 3339).
        has_waited: Whether the question was open long enough for the first notice.
    """
    for notice, since in _candidates(poll, asked_at, now):
        is_first = notice.about in ("asked", "reassigned")
        if (has_waited or not is_first) and _is_due(poll, notice, since, now):
            return notice
    return None


def _candidates(poll: Poll, asked_at: str, now: str) -> Iterator[tuple[DueNotice, int]]:
    """Yield the notices in sending order. Each comes with an index into the notes, from which to
    search for its outcome.
    """
    yield _first_notice(poll)
    for position, note in enumerate(poll.notes):
        if isinstance(note, Escalated):
            yield DueNotice("escalated", poll.escalated_to(note), note.number), position
    if number := _reminder_due(poll, asked_at, now):
        yield DueNotice("reminded", poll.asked, number), 0


def _first_notice(poll: Poll) -> tuple[DueNotice, int]:
    """Return the notice that the question was asked or, after a reassignment, the notice of the
    last reassignment.
    """
    reassigned = [
        position for position, note in enumerate(poll.notes) if isinstance(note, Reassigned)
    ]
    if reassigned:
        return DueNotice("reassigned", poll.asked, len(reassigned)), reassigned[-1]
    return DueNotice("asked", poll.asked), 0


def _is_due(poll: Poll, notice: DueNotice, since: int, now: str) -> bool:
    notes = poll.notes[since:]
    outcomes = [note for note in notes if isinstance(note, Notified) and note.about == notice.about]
    # Versions before 0.3 recorded no number: their first `Notified` after the event is the
    # outcome. They recorded reminders before sending them.
    numbers = {notice.number} if notice.about == "reminded" else {0, notice.number}
    last = next((note for note in reversed(outcomes) if note.number in numbers), None)
    if last is None:
        return bool(notice.to)
    was_reminded = notice.about in ("asked", "reassigned") and any(
        isinstance(note, Reminded) for note in notes
    )
    return last.error is not None and "" < last.retry_at <= now and not was_reminded


def _reminder_due(poll: Poll, asked_at: str, now: str) -> int:
    """Return the number of the reminder that is due, or 0. Missed reminders are not sent later;
    only the latest one is due.
    """
    every = poll.people.remind_after
    if every is None:
        return 0
    seconds = (datetime.fromisoformat(now) - datetime.fromisoformat(asked_at)).total_seconds()
    number = min(int(seconds // every), MOST_REMINDERS)
    return (
        number
        if number
        > max((note.number for note in poll.notes if isinstance(note, Reminded)), default=0)
        else 0
    )
