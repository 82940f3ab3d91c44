"""Builds recorded conversations event by event."""

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
    """Records events. Each method adds one event with the next ID (`e1`, `e2`, …) and the next
    second, and returns it.
    """

    def __init__(self, prefix: str = "e") -> None:
        self.events: list[Event] = []
        self._prefix = prefix

    def add(self, event: Event) -> None:
        """Add an event that already has an ID and time."""
        self.events.append(event)

    def record(self, event: E) -> E:
        """Add an event with the next ID and time."""
        number = len(self.events) + 1
        timestamp = f"2026-11-21T10:{number // 60:02}:{number % 60:02}Z"
        self.add(
            recorded := msgspec.structs.replace(
                event, event_id=f"{self._prefix}{number}", timestamp=timestamp
            )
        )
        return recorded

    def start(self) -> TurnStart:
        return self.record(TurnStart())

    def end(self, status: str = "completed") -> TurnEnd:
        return self.record(TurnEnd(status=status))

    def user(self, content: str) -> ChatRequest:
        """Add a message of the user."""
        return self.record(ChatRequest(content=content))

    def model(self, message: str) -> ChatResponse:
        """Add a message of the model."""
        return self.record(ChatResponse(message=message))

    def call(
        self, id: str, name: str = "deploy", *, more: int = 0, arguments: Json = None
    ) -> ToolCallRequest:
        """Add a tool call of the model."""
        return self.record(ToolCallRequest(id=id, name=name, arguments=arguments or {}, more=more))

    def result(self, call: ToolCallRequest, content: str = "done") -> ToolCallResponse:
        """Add the result of a call."""
        return self.record(ToolCallResponse(id=call.id, call=call.event_id, content=content))

    def ask(
        self,
        call: ToolCallRequest,
        question_id: str = "confirm",
        attempt: int = 1,
        form: FormAuthored | None = None,
    ) -> InquiryRequest:
        """Add a question of the tool."""
        return self._asked(call, question_id, attempt, form=form)

    def revise(self, call: ToolCallRequest, question_id: str = "confirm") -> InquiryRequest:
        """Add the question again, after Back."""
        return self._asked(call, question_id, 2, revises=f"{call.id}.{question_id}.1")

    def _asked(
        self, call: ToolCallRequest, question_id: str, attempt: int, **more: Any
    ) -> InquiryRequest:
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
        """Add an answer of the user."""
        return self.record(
            InquiryAnswered(id=request.id, answer=answer, answered_by=AnsweredBy("user"))
        )

    def cancel(self, request: InquiryRequest, reason: str = "user") -> InquiryCancelled:
        """Add a cancellation of the question."""
        return self.record(InquiryCancelled(id=request.id, reason=reason))

    def wait(
        self, call: ToolCallRequest, kind: str = "run", content: str | None = None
    ) -> Approval:
        """Add an approval that waits."""
        id = f"{call.id}.__{kind}__.1"
        any_arguments = kind == "run"
        return self.record(
            Approval(
                id=id,
                state="waiting",
                call=call.event_id,
                kind=kind,
                content=content,
                any_arguments=any_arguments,
            )
        )

    def decide(self, waiting: Approval, state: str = "approved") -> Approval:
        """Add a decision about a waiting approval."""
        return self.record(
            Approval(id=waiting.id, call=waiting.call, kind=waiting.kind, state=state)
        )
