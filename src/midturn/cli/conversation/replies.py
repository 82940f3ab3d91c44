"""What a person said in place of an answer, and where it is on record: with the question, or in the result that it made."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from midturn.core.events import InquiryCancelled, InquiryRequest, InquiryResponse, ToolCallRequest, ToolCallResponse
from midturn.core.form.steps import Cancelled
from midturn.core.names import ASK_USER

Responses: TypeAlias = Iterable[InquiryResponse | None]
"""The responses to what a call asked; None where a question has none."""


def is_reply(response: InquiryResponse | None) -> bool:
    """Tell whether a question was replied to."""
    return isinstance(response, InquiryCancelled) and response.reason == "reply"


def words(response: InquiryResponse, result: ToolCallResponse | None) -> str:
    """Return the words of a reply to a question; empty where there were none."""
    said = (response.metadata or {}).get("reply")
    if isinstance(said, str):
        return said
    cancelled = _marker(result)
    return (cancelled.reply or "") if cancelled else ""


def replied_at_review(call: ToolCallRequest, responses: Responses, result: ToolCallResponse | None) -> Cancelled | None:
    """Return what was said at the review of a form, where its answers were not sent.

    The result of the call is all that tells of it. So this is said of `ask_user` only: another tool may write what it likes.
    """
    if call.name != ASK_USER or any(is_reply(response) for response in responses):
        return None
    return _marker(result)


def says_no_more(responses: Responses, result: ToolCallResponse | None) -> bool:
    """Tell whether a result holds nothing but the reply and the answers that stand with their questions."""
    return any(is_reply(response) for response in responses) and _marker(result) is not None


def asked_of(call: ToolCallRequest, pairs: Iterable[tuple[InquiryRequest, InquiryResponse | None]]) -> list[InquiryResponse | None]:
    """Return the responses to what a call asked, in order."""
    return [response for request, response in pairs if request.call == call.event_id]


def _marker(result: ToolCallResponse | None) -> Cancelled | None:
    """Read the result of a call that a reply has completed."""
    return None if result is None or result.is_error else Cancelled.read(result.content)
