"""How a question was closed, read from the record: who answered, and what."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec import Struct

from midturn.core.address import Address, parse_address
from midturn.core.events import AnsweredBy, Approval, Event, InquiryRequest, InquiryResponse
from midturn.core.question import PersistedQuestion
from midturn.core.stream import calls
from midturn.core.subject import asked_text
from midturn.core.turn.closed import answer_to, decision_about, why_closed, why_superseded
from midturn.errors import AlreadyAnswered, NotOpen, StoreError
from midturn.web.port import Port

_LOOK = 0.05  # seconds between two looks
_LOOKS = 20


class Closed(Struct, frozen=True, kw_only=True):
    """A question that is not open any more. `decision` is None where nobody decided; `question` is None of an approval."""

    id: str
    conversation: str
    asker: str
    text: str
    question: PersistedQuestion | None
    decision: InquiryResponse | Approval | None
    answered_by: AnsweredBy | None
    """Who answered it; None where no one did."""
    why: AlreadyAnswered | NotOpen
    """What an answer to it is told now."""
    elsewhere: str = ""
    """Why a question of another agent is over that was not answered here."""


async def recorded(port: Port, id: str) -> Closed | None:
    """Return how a question was closed that somebody has answered; the answer may still be on its way into the record."""
    for _ in range(_LOOKS):
        found = await closed(port, id)
        if found is None or found.decision is not None or found.elsewhere:
            return found
        await asyncio.sleep(_LOOK)
    return await closed(port, id)


async def closed(port: Port, id: str) -> Closed | None:
    """Return how the question at an address was closed; None where there was none."""
    at = parse_address(id)
    if at is None:
        return None
    try:
        events = (await port.read(at.conversation)).events
    except StoreError:
        return None
    return next((_closed(at, event, events) for event in events if event.event_id == at.event_id), None)


def _closed(at: Address, event: Event, events: Sequence[Event]) -> Closed | None:
    answer = answer_to(events, at.event_id)
    match event:
        case InquiryRequest():
            asker, text, question = event.source.header, event.question.text, event.question
        case Approval(state="waiting"):
            asker = next((call.name for call, _ in calls(events) if call.event_id == event.call), "")
            text, question = asked_text(event, asker), None
        case _:
            return None
    return Closed(
        id=str(at),
        conversation=at.conversation,
        asker=asker,
        text=text,
        question=question,
        decision=decision_about(events, at.event_id),
        answered_by=answer.answered_by if answer else None,
        why=why_closed(events, at),
        elsewhere=why_superseded(events, at.event_id),
    )
