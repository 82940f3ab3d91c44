"""Whether a turn can go on: a question of it was answered, or it waits for no person at all."""

from __future__ import annotations

from collections.abc import Sequence

from midturn.core.asker import asker_of
from midturn.core.events import AnsweredBy, Approval, Event, InquiryAnswered, InquiryCancelled, InquiryRedacted
from midturn.core.stream import open_turn
from midturn.core.turn.pending import pending
from midturn.store.port import LastTurn


def was_answered(turn: LastTurn) -> bool:
    """Say whether the last thing that happened in a turn is that somebody answered, or an answer was handed over.

    Not so in a turn of somebody else's agent, which goes on with its calls itself.
    """
    if asker_of(turn.events):
        return False
    return bool(turn.handed) or any(map(is_answer, _last_batch(turn.events)))


def is_due(turn: LastTurn) -> bool:
    """Say whether an open turn, which nobody holds, does not wait for a person alone: it was answered, or its process or model was down."""
    window = open_turn(turn.events)
    if window is None or asker_of(turn.events):
        return False
    return was_answered(turn) or not pending(window.events, "")


def _last_batch(turn: Sequence[Event]) -> Sequence[Event]:
    """Return the events at the end that were written together."""
    start = len(turn) - 1
    while start > 0 and turn[start - 1].more:
        start -= 1
    return turn[max(start, 0) :]


def is_answer(event: Event) -> bool:
    """Say whether somebody answered here. Requests that were closed for other reasons move nothing."""
    match event:
        case InquiryAnswered(answered_by=by) | InquiryRedacted(answered_by=by):
            return _is_human(by)
        case Approval(state=state, answered_by=by):
            return state != "waiting" and _is_human(by)
        case InquiryCancelled(reason=reason):
            return reason in {"user", "reply"}
        case _:
            return False


def _is_human(by: AnsweredBy | None) -> bool:
    return by is None or by.was_asked
