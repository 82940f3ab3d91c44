"""What a prompt is about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from msgspec import Struct

from midturn.core.json_value import Json
from midturn.core.question import Question

PromptKind: TypeAlias = Literal["tool", "run", "deliver", "review"]


class ToolCall(Struct, frozen=True):
    """One call of a tool by the model. `event` is the `event_id` of its request: the identity of a call."""

    event: str
    id: str
    name: str
    arguments: Json


class CallSubject(Struct, frozen=True):
    """What a `run` approval is about: the call as it would run."""

    call: ToolCall


class ResultSubject(Struct, frozen=True):
    """What a `deliver` approval is about: the result that the model would read."""

    call: ToolCall
    content: str
    is_error: bool


class AnswersSubject(Struct, frozen=True):
    """What a `review` is about: the questions of the form, and the answers by question id (no secrets, skipped left out)."""

    questions: Sequence[Question[Any]]
    answers: dict[str, Json]


Subject: TypeAlias = CallSubject | ResultSubject | AnswersSubject
