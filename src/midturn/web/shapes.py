"""The shapes of the API: what its document is generated from, and what bodies are read as."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from midturn.core.events import AnsweredBy
from midturn.core.source import Source
from midturn.core.stream.open_question import PromptKind

WAYS = ("value", "approve", "arguments", "content", "reply", "back", "cancel")
"""The ways to answer; each request takes exactly one."""


class FormShape(Struct):
    """The whole form that a question belongs to; `questions` are objects as tools write them."""

    total: int
    questions: list[dict[str, Any]]


class AskerShape(Struct):
    """Somebody else's agent that asks; `waits` says whether its process waits for the answer.

    `cwd` is the directory that it works in, `said` what it said last, `subagent` which of its own agents asks, `always` what it offers to
    keep of a yes.
    """

    name: str
    session: str
    waits: bool
    cwd: str | UnsetType = UNSET
    said: str | UnsetType = UNSET
    subagent: str | UnsetType = UNSET
    always: list[str] | UnsetType = UNSET
    refused: bool | UnsetType = UNSET
    keeps_dialog: bool | UnsetType = UNSET
    cancelled: bool | UnsetType = UNSET


class QuestionShape(Struct):
    """An open question. `question` is what is asked, `arguments` those of the call that asks.

    `answer_schema` is the JSON Schema of an answer; a result under approval has its `content`, and `is_error`. `problem` is what
    the tool had against the answer before.
    """

    id: str
    conversation: str
    kind: PromptKind
    source: Source
    question_id: str
    question: dict[str, Any]
    answer_schema: dict[str, Any] | None
    form: FormShape | None
    tool: str
    arguments: Any
    asked_at: str
    problem: str | UnsetType = UNSET
    content: str | UnsetType = UNSET
    is_error: bool | UnsetType = UNSET
    asker: AskerShape | UnsetType = UNSET


class AnswerShape(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """An answer, in exactly one way.

    `value` is the answer (of a form, an object by question id), `approve` a decision, `arguments` what a call shall run with instead,
    `content` what shall be delivered instead of a result, `reply` words for the model instead of an answer, `back` asks the question before
    this one again, `cancel` ends the turn. `remember` keeps a yes or a no for the rest of the turn; of the
    call of another agent, it is one of what that offers to keep (`asker.always`).
    """

    value: Any = UNSET
    approve: bool | UnsetType = UNSET
    arguments: dict[str, Any] | UnsetType = UNSET
    content: str | UnsetType = UNSET
    reply: str | UnsetType = UNSET
    back: Literal[True] | UnsetType = UNSET
    cancel: Literal[True] | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    remember: bool | str | UnsetType = UNSET


class ReceiptShape(Struct):
    """The answer is safe; `held` says whether somebody runs the turn now."""

    conversation: str
    id: str
    held: bool


class ProblemShape(Struct):
    """What is wrong, and where (a JSON pointer into the body that was sent)."""

    pointer: str
    message: str


class ErrorShape(Struct, omit_defaults=True):
    """An error: a word for programs, a sentence for people; `problems` where an answer does not fit, `answered_by` where one was late."""

    error: str
    message: str
    problems: list[ProblemShape] | UnsetType = UNSET
    answered_by: AnsweredBy | UnsetType = UNSET


class SummaryShape(Struct):
    """One conversation in the list."""

    id: str
    title: str


class ConversationShape(Struct):
    """A conversation with its events, as they are recorded."""

    id: str
    title: str
    labels: list[str]
    events: list[dict[str, Any]]
