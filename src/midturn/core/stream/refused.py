"""Which calls of a turn were refused because no human was there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from midturn.core.events import NOBODY_THERE, Approval, Event, InquiryCancelled, InquiryRequest, ToolCallRequest, ToolCallResponse

_MISSING: Final = frozenset({InquiryCancelled, Approval})
"""What is recorded where nobody was there."""


def refused(turn: Iterable[Event]) -> list[str]:
    """Return the names of the tools whose calls ended in an error for want of a human, in order, once a call.

    A tool that goes on without the answer, and succeeds, is not among them.
    """
    turn = tuple(turn)
    if _MISSING.isdisjoint(map(type, turn)):  # as usual: nobody was missed
        return []
    names: dict[str, str] = {}
    asked: dict[str, str] = {}
    found: dict[str, str] = {}
    for event in turn:
        match event:
            case ToolCallRequest():
                names[event.event_id] = event.name
            case InquiryRequest():
                asked[event.id] = event.call
            case InquiryCancelled(reason=reason) if reason in NOBODY_THERE:
                call = asked.get(event.id, "")
                found[call] = names.get(call, "")
            case Approval(state="skipped", answered_by=who) if who and who.by == "default":
                found[event.call] = names.get(event.call, "")
            case ToolCallResponse(is_error=False):
                found.pop(event.call, None)
            case _:
                pass  # nobody was missed here
    return list(found.values())
