"""What `Agent.stream` yields: what a program that watches a turn wants to know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from midturn.agent.result import RunResult
from midturn.core.address import address
from midturn.core.events import Approval, Event, InquiryAnswered, InquiryCancelled, InquiryRedacted, InquiryRequest, InquiryResponse
from midturn.core.exchange import ReasoningDelta, TextDelta
from midturn.core.stream import OpenQuestion, last_turn
from midturn.core.tool_call import ToolCall
from midturn.core.turn.pending import pending
from midturn.ports import Happening, Notice, ReasoningShown, Recorded, TextShown, ToolBegan, ToolEnded


class ToolStarted(Struct, frozen=True):
    """A tool runs for the first time in this call.

    Args:
        call: The call.
    """

    call: ToolCall


class Asked(Struct, frozen=True):
    """A question is on record (or an approval, where the turn waits for one), and whoever decides it is asked. `question.id` names it."""

    question: OpenQuestion


class QuestionAnswered(Struct, frozen=True):
    """A question has its response: answered, redacted (a secret was given) or cancelled. `id` is that of `Asked.question`.

    Args:
        response: The event as it is recorded.
    """

    id: str
    response: InquiryResponse | Approval


class ToolFinished(Struct, frozen=True):
    """A call has its response, which the model reads next; `exception` is what the tool raised, unless that was `Rejected`.

    Args:
        call: The call.
        content: What the model reads.
        is_error: Whether that is an error.
    """

    call: ToolCall
    content: str
    is_error: bool
    exception: BaseException | None = None


class TurnEnded(Struct, frozen=True):
    """The run is over; nothing follows.

    Args:
        result: What `Agent.run` would have returned.
    """

    result: RunResult[Any]


class ModelRetried(Struct, frozen=True):
    """The model was down for a moment, and is asked again in `seconds`; `text` says why."""

    text: str
    seconds: float


Streamed: TypeAlias = TextDelta | ReasoningDelta | ModelRetried | ToolStarted | Asked | QuestionAnswered | ToolFinished | TurnEnded


def streamed(happening: Happening, conversation: str, events: Sequence[Event]) -> Streamed | None:  # noqa: PLR0911  a line for each
    """Translate what the runtime shows; None for what a program need not know. `events` is everything recorded so far."""
    match happening:
        case TextShown(text):
            return TextDelta(text)
        case ReasoningShown(text):
            return ReasoningDelta(text)
        case Notice(text, seconds) if seconds > 0:
            return ModelRetried(text, seconds)
        case ToolBegan(call, again=False):
            return ToolStarted(call)
        case ToolEnded(call, content, is_error, exception):
            return ToolFinished(call, content, is_error, exception)
        case Recorded(InquiryRequest() | Approval(state="waiting") as request):
            return _asked_now(request, conversation, events)
        case Recorded(InquiryAnswered() | InquiryRedacted() | InquiryCancelled() | Approval() as response):
            asked = _asked(response, events)
            return QuestionAnswered(address(conversation, asked.event_id), response) if asked else None
        case _:
            return None


def _asked_now(request: InquiryRequest | Approval, conversation: str, events: Sequence[Event]) -> Asked | None:
    """Return the question as it was open when it had just been recorded: later events of its batch may have closed it."""
    window = last_turn(events)
    turn = window.events if window else ()
    until = next((place for place in range(len(turn), 0, -1) if turn[place - 1].event_id == request.event_id), 0)
    questions = pending(turn[:until], conversation)
    return next((Asked(question) for question in questions if question.request.event_id == request.event_id), None)


def _asked(response: InquiryResponse | Approval, events: Sequence[Event]) -> Event | None:
    """Return the latest request that a response belongs to; ids are unique inside a turn, and this turn is the last."""
    kind = Approval if isinstance(response, Approval) else InquiryRequest
    requests = (event for event in reversed(events) if isinstance(event, kind) and event.id == response.id)
    return next((event for event in requests if not isinstance(event, Approval) or event.state == "waiting"), None)
