"""What an open decision needs of the call that it belongs to."""

from __future__ import annotations

from typing import Any, Protocol

from midturn.core.events import AnsweredBy, CancelReason, InquiryRequest
from midturn.core.json_value import Json
from midturn.core.question import Question
from midturn.core.routing.messages import LimitName
from midturn.core.routing.policy import ToolPolicy
from midturn.core.turn.desk import Askable
from midturn.core.turn.record import CallRecord
from midturn.core.turn.state import TurnState
from midturn.core.turn.walk import Walk


class OpenInquiry(Askable, Protocol):
    """A question of the call that has no response yet."""

    def assistant_said(self, answer: Json, who: AnsweredBy, reason: str | None, metadata: dict[str, Json] | None) -> None:
        """Close with a model's answer."""
        ...

    def assistant_failed(self, error: str, metadata: dict[str, Json] | None) -> None:
        """Close without an answer."""
        ...

    def supersede(self) -> None:
        """Close, because the tool goes on without the answer."""
        ...

    def stop_assistant(self) -> None:
        """Stop asking a model."""
        ...

    def exceed(self, limit: LimitName) -> None:
        """Close, because a limit is reached."""
        ...


class Host(Protocol):
    """The call, as its inquiries and approvals see it."""

    state: TurnState
    record: CallRecord
    policy: ToolPolicy

    @property
    def event(self) -> str:
        """The identity of the call."""
        ...

    def run(self) -> None:
        """Have the tool run with everything that was answered so far."""
        ...

    def respond(self, content: str, *, is_error: bool = True) -> None:
        """Give the call its one response."""
        ...

    def refuse(self, walk: Walk, reason: CancelReason, message: str) -> None:
        """Fail the call, or report the missing answer to a coroutine that asked to be told."""
        ...

    def end_turn(self) -> None:
        """The person ended the turn at a prompt of this call."""
        ...

    def track(self, inquiry: OpenInquiry) -> None:
        """Keep an inquiry until it has its response."""
        ...

    def consult(self, inquiry: OpenInquiry) -> None:
        """Note that a model is being asked."""
        ...

    def drop(self, inquiry: OpenInquiry) -> None:
        """Forget an inquiry that has its response, with its prompt or side request."""
        ...

    def request_link(self, previous: InquiryRequest, question: Question[Any]) -> InquiryRequest:
        """Record the user's review of what a model said about a question."""
        ...

    def decided(self) -> None:
        """Take the decision that was waited for off the desk."""
        ...

    def submitted(self, walk: Walk) -> None:
        """The answers of a form are to be sent."""
        ...
