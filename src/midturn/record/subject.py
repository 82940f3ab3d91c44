"""The subject of an approval (a call, a result, answers) and its wording."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from msgspec import Struct

from midturn.question.question import Question
from midturn.record.events import Approval, Image
from midturn.record.exchange import ToolCall
from midturn.values.json_value import Json

_TEXTS: Final = {"run": "Run {tool}?", "deliver": "Deliver the result of {tool}?", "review": "Send these answers?"}


def approval_text(kind: str, tool: str) -> str:
    """Return what a person is asked to approve."""
    return _TEXTS.get(kind, f"Approve {kind} of {{tool}}?").replace("{tool}", tool)


def asked_text(approval: Approval, tool: str) -> str:
    """Return what was asked: what the tool had foretold, or the words of the approval."""
    return approval_text(approval.kind, tool) if approval.question is None else approval.question.text


class CallSubject(Struct, frozen=True):
    """What a `run` approval is about: the call as it would run.

    Args:
        call: The call.
    """

    call: ToolCall


class ResultSubject(Struct, frozen=True):
    """What a `deliver` approval is about: the result that the model would read.

    Args:
        call: The call that it is the result of.
        content: The result.
        is_error: Whether it is an error.
        images: The pictures in it.
    """

    call: ToolCall
    content: str
    is_error: bool
    images: tuple[Image, ...] = ()


class FormSubject(Struct, frozen=True):
    """What a `review` is about: the questions of the form, and the answers by question id: no secrets, and null for what was skipped.

    Args:
        questions: The questions, in order.
        answers: The answers.
    """

    questions: Sequence[Question[Any]]
    answers: dict[str, Json]


Subject: TypeAlias = CallSubject | ResultSubject | FormSubject


def reviewed_places(subject: FormSubject) -> list[int]:
    """Return which questions of the form a review shows, by their places; what was never asked, because of its `when`, is left out."""
    answers = subject.answers
    return [
        place
        for place, question in enumerate(subject.questions)
        if question.id in answers and (answers[question.id] is not None or question.optional)
    ]
