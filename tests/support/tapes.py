"""Recorded conversations, written down event by event."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from midturn.events.types import (
    AnsweredBy,
    Approval,
    ChatRequest,
    ChatResponse,
    Event,
    FormAuthored,
    InquiryAnswered,
    InquiryCancelled,
    InquiryRequest,
    Source,
    ToolCallRequest,
    ToolCallResponse,
    TurnEnd,
    TurnStart,
)
from midturn.question.answer_type import BooleanType
from midturn.question.json_value import Json
from midturn.question.persisted_question import PersistedQuestion

E = TypeVar("E", bound=Event)
CONFIRM = PersistedQuestion(text="Deploy to production?", answer_type=BooleanType())


class Tape:
    """Records events: each call adds one, gives it the next id (`e1`, `e2`, …) and the next second, and returns it."""

    def __init__(self, prefix: str = "e") -> None:
        self.events: list[Event] = []
        self._prefix = prefix

    def add(self, event: Event) -> None:
        """Record an event that has its id and time."""
        self.events.append(event)

    def record(self, event: E) -> E:
        """Record an event, with the next id and time."""
        number = len(self.events) + 1
        timestamp = f"2026-11-21T10:{number // 60:02}:{number % 60:02}Z"
        self.add(recorded := msgspec.structs.replace(event, event_id=f"{self._prefix}{number}", timestamp=timestamp))
        return recorded

    def start(self) -> TurnStart:
        """Begin a turn."""
        return self.record(TurnStart())

    def end(self, status: str = "completed") -> TurnEnd:
        """End the turn."""
        return self.record(TurnEnd(status=status))

    def user(self, content: str) -> ChatRequest:
        """Let the user say something."""
        return self.record(ChatRequest(content=content))

    def model(self, message: str) -> ChatResponse:
        """Let the model say something."""
        return self.record(ChatResponse(message=message))

    def call(self, id: str, name: str = "deploy", *, more: int = 0, arguments: Json = None) -> ToolCallRequest:
        """Let the model call a tool."""
        return self.record(ToolCallRequest(id=id, name=name, arguments=arguments or {}, more=more))

    def result(self, call: ToolCallRequest, content: str = "done") -> ToolCallResponse:
        """Let the tool finish."""
        return self.record(ToolCallResponse(id=call.id, call=call.event_id, content=content))

    def ask(
        self, call: ToolCallRequest, question_id: str = "confirm", attempt: int = 1, form: FormAuthored | None = None
    ) -> InquiryRequest:
        """Let the tool ask something."""
        return self._asked(call, question_id, attempt, form=form)

    def revise(self, call: ToolCallRequest, question_id: str = "confirm") -> InquiryRequest:
        """Let Back ask a second time for what was answered."""
        return self._asked(call, question_id, 2, revises=f"{call.id}.{question_id}.1")

    def _asked(self, call: ToolCallRequest, question_id: str, attempt: int, **more: Any) -> InquiryRequest:
        request = InquiryRequest(
            id=f"{call.id}.{question_id}.{attempt}",
            source=Source.tool(call.name),
            question=CONFIRM,
            call=call.event_id,
            tool_call_id=call.id,
            question_id=question_id,
            **more,
        )
        return self.record(request)

    def answer(self, request: InquiryRequest, *, answer: Json = True) -> InquiryAnswered:
        """Let the user answer."""
        return self.record(InquiryAnswered(id=request.id, answer=answer, answered_by=AnsweredBy("user")))

    def cancel(self, request: InquiryRequest, reason: str = "user") -> InquiryCancelled:
        """Let the question go without an answer."""
        return self.record(InquiryCancelled(id=request.id, reason=reason))

    def wait(self, call: ToolCallRequest, kind: str = "run", content: str | None = None) -> Approval:
        """Let the call wait for an approval."""
        id = f"{call.id}.__{kind}__.1"
        any_arguments = kind == "run"
        return self.record(Approval(id=id, state="waiting", call=call.event_id, kind=kind, content=content, any_arguments=any_arguments))

    def decide(self, waiting: Approval, state: str = "approved") -> Approval:
        """Let the user decide about a waiting approval."""
        return self.record(Approval(id=waiting.id, call=waiting.call, kind=waiting.kind, state=state))
