"""What was asked in a conversation, who answered, and how long it took: what sums are made of."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from midturn.core.events import InquiryAnswered, InquiryCancelled, InquiryRequest, InquiryResponse
from midturn.core.stream import calls
from midturn.store.conversation import Conversation
from midturn.web.timeline import waited


class AskedFact(Struct, frozen=True, kw_only=True):
    """One question. `by` is who answered (empty: nobody, or nobody yet), `closed_at` empty while it waits.

    `overturns` says, of a person's answer after a model's no, whether it was another one; None everywhere else.
    """

    tool: str
    text: str
    at: str
    closed_at: str
    by: str
    waited: float | None
    overturns: bool | None = None


def asked(conversation: Conversation) -> Iterator[AskedFact]:
    """Return every question of a conversation, oldest first."""
    names = {call.event_id: call.name for call, _ in calls(conversation.events)}
    for request, response in conversation.pairs():
        yield AskedFact(
            tool=names.get(request.call) or request.source.name or request.source.header,
            text=request.question.text,
            at=request.timestamp,
            closed_at=response.timestamp if response else "",
            by=_by(response),
            waited=waited(request, response),
            overturns=_overturns(request, response),
        )


def _by(response: InquiryResponse | None) -> str:
    if response is None or isinstance(response, InquiryCancelled):
        return ""
    return "user" if response.answered_by is None else response.answered_by.by


def _overturns(request: InquiryRequest, response: InquiryResponse | None) -> bool | None:
    if request.escalates is None or not isinstance(response, InquiryAnswered) or _by(response) != "user":
        return None
    return response.answer is True
