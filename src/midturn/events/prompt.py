"""Prompts. A prompt is a question with its asker, context and allowed replies, and for an approval
its subject.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self, TypeAlias

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from midturn.events.open_question import CallSubject, OpenQuestion, PromptKind, Refusal
from midturn.events.types import Image, ToolCall
from midturn.question.json_value import Json, JsonObject
from midturn.question.people import People, time_left
from midturn.question.question import Question
from midturn.question.reply import DEFAULT_SCOPE, SCOPES, Scope

# --------------------------------------------------------------------------------------------------
# Subjects of approvals: a call (`CallSubject`), a result, answers


class ResultSubject(Struct, frozen=True):
    """Subject of a `deliver` approval: the result that would be sent to the model.

    Args:
        call: The call that produced the result.
        content: The result.
        is_error: Whether the result is an error.
        images: Images in the result.
    """

    call: ToolCall
    content: str
    is_error: bool
    images: tuple[Image, ...] = ()


class FormSubject(Struct, frozen=True):
    """Subject of a `review`: the questions and answers of a form.

    Args:
        questions: The questions, in order.
        answers: The answers by question id, without secrets. The answer of a skipped question is
            null.
    """

    questions: Sequence[Question[Any]]
    answers: dict[str, Json]


Subject: TypeAlias = CallSubject | ResultSubject | FormSubject


def reviewed_places(subject: FormSubject) -> list[int]:
    """Return the indexes of the questions that a review shows. Questions skipped because of their
    `when` condition are left out.
    """
    answers = subject.answers
    return [
        index
        for index, question in enumerate(subject.questions)
        if question.id in answers and (answers[question.id] is not None or question.optional)
    ]


# --------------------------------------------------------------------------------------------------
# Prompts


def _no_open_question() -> None:
    return None


def _no_description(text: str, scope: Scope) -> tuple[str, ...]:
    del text, scope
    return ()


class RuleDraft(Struct, frozen=True):
    """A standing permission that a person may grant for calls like this one.

    Args:
        text: The suggested rule in TOML. It covers calls with the same arguments.
        problem: Takes a rule in TOML and returns why it is invalid, or an empty string if it is
            valid.
        scopes: The allowed scopes.
        said: Takes a rule and a scope, and returns lines that say which calls the rule covers and
            where it applies, with an example that it does not cover.
    """

    text: str
    problem: Callable[[str], str]
    scopes: tuple[Scope, ...] = SCOPES
    said: Callable[[str, Scope], tuple[str, ...]] = _no_description

    @property
    def first_scope(self) -> Scope:
        """The initially selected scope."""
        return DEFAULT_SCOPE if DEFAULT_SCOPE in self.scopes else self.scopes[0]


class Prompt(Struct, frozen=True, kw_only=True):
    """One prompt for a person.

    Args:
        question: The question. An approval asks a boolean question.
        kind: `tool` (a question), `run`, `deliver` (approvals) or `review` (of the answers of a
            form).
        asked_by: Name of the asker for the header, computed from the source.
        subject: The subject of an approval or a review.
        index: Position in the form as submitted, from 1.
        total: Number of questions in the form.
        prefill: Initial value of the field, or `UNSET`.
        error: Reason why the previous reply was invalid.
        can_go_back: Whether `WentBack` is allowed.
        can_reply: Whether `Replied` is allowed.
        may_remember: Whether `Answered.remember` has an effect.
        always: Standing permissions that an external agent offers together with an approval. Empty
            if midturn remembers answers itself.
        id: Address of the question, as `OpenQuestion.id`.
        event: The `event_id` of the request.
        conversation: The id of the conversation.
        tool: The tool whose call asks.
        arguments: The arguments of that call.
        label: The configured `prompt_label` and the number of votes, shown next to the header.
        verdict: Comment of the model that reviewed the call. The question's context starts with the
            same text. Show it as text that midturn did not write.
        people: The people assigned to the question, if any.
        parameters: JSON Schema for edited arguments.
        rule: Set if a person may grant a standing permission for calls like this one.
        scopes: The scopes allowed in `Answered.scope`.
        definition: Fingerprint of the tool whose call needs approval.
        deadline: Deadline for an answer in RFC 3339. Empty if there is none.
        time_left: Returns the remaining time as text. Empty if there is no deadline.
        digest: Digest of the subject of an approval, as in `OpenQuestion.digest`.
        refusals: Refusals of identical calls earlier in the turn.
        exit_leaves_open: Whether Ctrl-C, the end of input and Escape leave the question open
            (`Deferred`) instead of ending the turn.
        find_open: Returns the value of the property `open`.
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
    always: tuple[str, ...] = ()
    id: str = ""
    event: str = ""
    conversation: str = ""
    tool: str = ""
    arguments: Any = None
    label: str | None = None
    verdict: str | None = None
    people: People | None = None
    parameters: JsonObject = {}
    rule: RuleDraft | None = None
    scopes: tuple[Scope, ...] = ()
    definition: str = ""
    deadline: str = ""
    time_left: Callable[[], str] = str
    digest: str = ""
    refusals: tuple[Refusal, ...] = ()
    exit_leaves_open: bool = False
    find_open: Callable[[], OpenQuestion | None] = _no_open_question

    @property
    def open(self) -> OpenQuestion | None:
        """The question as other interfaces show it. None if no other process can answer it now."""
        return self.find_open()

    def timed(self, asked_at: str, now: Callable[[], str]) -> Self:
        """Return the prompt with the time left for an answer, if it has a deadline.

        Args:
            asked_at: Time of the request. Empty for the current time.
            now: Returns the current time.
        """
        began = asked_at or (now() if self.deadline else "")
        return (
            replace(self, time_left=lambda: time_left(now(), began, self.deadline))
            if self.deadline
            else self
        )
