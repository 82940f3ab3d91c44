"""What a prompter is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from midturn.core.json_value import Json, JsonObject
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


class Prompt(Struct, frozen=True, kw_only=True):
    """One thing to ask a person.

    `question` is what an approval asks, too (a boolean). `id` names it as `OpenQuestion.id` does, `event` is the `event_id` of its
    request; `asked_by` is the header, computed from the source, and `label` a configured name that is only shown beside it.
    `error` says why the last reply did not fit; `index` and `total` count in the form as submitted. `verdict` is what a reviewer said,
    which is the beginning of the question's context: somebody else's words, to be quoted. `parameters` is what edited arguments must fit.
    """

    question: Question[Any]
    kind: PromptKind = "tool"
    asked_by: str = ""
    subject: Subject | None = None
    index: int = 1
    total: int = 1
    prefill: Json | UnsetType = UNSET
    error: str | None = None
    can_go_back: bool = False
    can_reply: bool = True
    may_remember: bool = False
    id: str = ""
    event: str = ""
    conversation: str = ""
    tool: str = ""
    arguments: Json = None
    label: str | None = None
    verdict: str | None = None
    parameters: JsonObject = {}
