"""Recorded conversations, written down event by event."""

from __future__ import annotations

from midturn.core.answer_type import BooleanType
from midturn.core.events import (
    AnsweredBy,
    Approval,
    AskedForm,
    ChatRequest,
    ChatResponse,
    Event,
    InquiryAnswered,
    InquiryCancelled,
    InquiryRequest,
    ToolCallRequest,
    ToolCallResponse,
    TurnEnd,
    TurnStart,
)
from midturn.core.json_value import Json
from midturn.core.question import PersistedQuestion
from midturn.core.source import Source

CONFIRM = PersistedQuestion(text="Deploy to production?", answer_type=BooleanType())


class Tape:
    """Records events: each call adds one, gives it the next id (`e1`, `e2`, …) and the next second, and returns it."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def add(self, event: Event) -> None:
        """Record an event that has its id and time."""
        self.events.append(event)

    def _shared(self) -> dict[str, str]:
        number = len(self.events) + 1
        return {"event_id": f"e{number}", "timestamp": f"2026-11-21T10:{number // 60:02}:{number % 60:02}Z"}

    def start(self) -> TurnStart:
        """Begin a turn."""
        self.add(event := TurnStart(**self._shared()))
        return event

    def end(self, status: str = "completed") -> TurnEnd:
        """End the turn."""
        self.add(event := TurnEnd(status=status, **self._shared()))
        return event

    def user(self, content: str) -> ChatRequest:
        """Let the user say something."""
        self.add(event := ChatRequest(content=content, **self._shared()))
        return event

    def model(self, message: str) -> ChatResponse:
        """Let the model say something."""
        self.add(event := ChatResponse(message=message, **self._shared()))
        return event

    def call(self, id: str, name: str = "deploy", *, more: int = 0, arguments: Json = None) -> ToolCallRequest:
        """Let the model call a tool."""
        self.add(event := ToolCallRequest(id=id, name=name, arguments=arguments or {}, more=more, **self._shared()))
        return event

    def result(self, call: ToolCallRequest, content: str = "done") -> ToolCallResponse:
        """Let the tool finish."""
        self.add(event := ToolCallResponse(id=call.id, call=call.event_id, content=content, **self._shared()))
        return event

    def ask(self, call: ToolCallRequest, question_id: str = "confirm", attempt: int = 1, form: AskedForm | None = None) -> InquiryRequest:
        """Let the tool ask something."""
        event = InquiryRequest(
            id=f"{call.id}.{question_id}.{attempt}",
            source=Source.tool(call.name),
            question=CONFIRM,
            call=call.event_id,
            tool_call_id=call.id,
            question_id=question_id,
            form=form,
            **self._shared(),
        )
        self.add(event)
        return event

    def answer(self, request: InquiryRequest, *, answer: Json = True) -> InquiryAnswered:
        """Let the user answer."""
        self.add(event := InquiryAnswered(id=request.id, answer=answer, answered_by=AnsweredBy("user"), **self._shared()))
        return event

    def cancel(self, request: InquiryRequest, reason: str = "user") -> InquiryCancelled:
        """Let the question go without an answer."""
        self.add(event := InquiryCancelled(id=request.id, reason=reason, **self._shared()))
        return event

    def wait(self, call: ToolCallRequest, kind: str = "run", content: str | None = None) -> Approval:
        """Let the call wait for an approval."""
        event = Approval(id=f"{call.id}.__{kind}__.1", call=call.event_id, kind=kind, state="waiting", content=content, **self._shared())
        self.add(event)
        return event

    def decide(self, waiting: Approval, state: str = "approved") -> Approval:
        """Let the user decide about a waiting approval."""
        self.add(event := Approval(id=waiting.id, call=waiting.call, kind=waiting.kind, state=state, **self._shared()))
        return event
