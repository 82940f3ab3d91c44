"""Which requests of a turn wait for something, found as its events come: an event costs the same after a thousand others."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from midturn.core.events import (
    Approval,
    Event,
    InquiryAnswered,
    InquiryCancelled,
    InquiryRedacted,
    InquiryRequest,
    ToolCallResponse,
)
from midturn.core.stream import open_turn
from midturn.store.submission import HandedOver


class OpenRequests:
    """Questions and approvals of one open turn without an answer or a decision, whose call has no response either."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self._inquiries: dict[str, deque[InquiryRequest]] = {}
        self._approvals: dict[str, list[Approval]] = {}
        self._decided: set[str] = set()
        self._done: set[str] = set()
        self.follow(events)

    @property
    def event_ids(self) -> list[str]:
        """What they are called."""
        waiting = [request for requests in (*self._inquiries.values(), *self._approvals.values()) for request in requests]
        return sorted(request.event_id for request in waiting if not request.call or request.call not in self._done)

    def follow(self, events: Iterable[Event]) -> None:
        """Take in what happened next in the turn."""
        for event in events:
            match event:
                case InquiryRequest():
                    self._inquiries.setdefault(event.id, deque()).append(event)
                case InquiryAnswered() | InquiryCancelled() | InquiryRedacted():
                    self._answered(event.id)
                case Approval(state="waiting"):
                    if event.id not in self._decided:
                        self._approvals.setdefault(event.id, []).append(event)
                case Approval():
                    self._decided.add(event.id)
                    self._approvals.pop(event.id, None)
                case ToolCallResponse():
                    self._done.add(event.call)
                case _:
                    pass

    def _answered(self, inquiry: str) -> None:
        """A response takes the first request that has its id and no response yet."""
        waiting = self._inquiries.get(inquiry)
        if waiting:
            waiting.popleft()
        if not waiting:
            self._inquiries.pop(inquiry, None)


def outdated(handed: Iterable[HandedOver], events: Sequence[Event]) -> list[HandedOver]:
    """Return what was handed over for questions that wait for nothing more: they are closed, or the last turn in `events` is over."""
    window = open_turn(events)
    still_open = OpenRequests(window.events if window else ()).event_ids
    return [answer for answer in handed if answer.event_id not in still_open]
