"""What `Agent.stream` yields: what a program that watches a turn wants to know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from msgspec import Struct

from midturn.agent.result import RunResult
from midturn.core.events import Event, InquiryAnswered, InquiryCancelled, InquiryRedacted, InquiryRequest
from midturn.core.exchange import TextDelta
from midturn.core.prompt import ToolCall
from midturn.core.stream import OpenQuestion, pending
from midturn.ports import Happening, Recorded, TextShown, ToolEnded, ToolStarted as ToolRuns


class ToolStarted(Struct, frozen=True):
    """A tool runs for the first time in this call."""

    call: ToolCall


class Asked(Struct, frozen=True):
    """A question is on record, and whoever answers it is being asked."""

    question: OpenQuestion


class QuestionAnswered(Struct, frozen=True):
    """A question has its response."""

    response: InquiryAnswered | InquiryRedacted | InquiryCancelled


class ToolFinished(Struct, frozen=True):
    """A call has its response, which the model reads next."""

    call: ToolCall
    content: str
    is_error: bool


class TurnEnded(Struct, frozen=True):
    """The run is over; nothing follows."""

    result: RunResult


Streamed: TypeAlias = TextDelta | ToolStarted | Asked | QuestionAnswered | ToolFinished | TurnEnded


def streamed(happening: Happening, conversation: str, events: Sequence[Event]) -> Streamed | None:
    """Translate what the runtime shows; None for what a program need not know."""
    match happening:
        case TextShown(text):
            return TextDelta(text)
        case ToolRuns(call, again=False):
            return ToolStarted(call)
        case ToolEnded(call, content, is_error):
            return ToolFinished(call, content, is_error)
        case Recorded(InquiryRequest(event_id=id)):
            return next((Asked(question) for question in pending(events, conversation) if question.id == id), None)
        case Recorded(event) if isinstance(event, InquiryAnswered | InquiryRedacted | InquiryCancelled):
            return QuestionAnswered(event)
        case _:
            return None
