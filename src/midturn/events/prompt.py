"""A prompt: the question, its asker, its context, the replies that are possible, and what an approval is about."""

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

# ----------------------------------------------------------------------------------------------------------------------
# The subject of an approval: a call (`CallSubject`), a result, answers


class ResultSubject(Struct, frozen=True):
    """Subject of a `deliver` approval: the result that the model would read.

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
    """Subject of a `review`: the questions of the form, and the answers by question id: no secrets, and null for what was skipped.

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


# ----------------------------------------------------------------------------------------------------------------------
# A prompt: the question, its asker, its context, and the replies that are possible


def _nowhere() -> None:
    return None


def _nothing_said(text: str, scope: Scope) -> tuple[str, ...]:
    del text, scope
    return ()


class RuleDraft(Struct, frozen=True):
    """A standing permission that a person may write about calls such as this one.

    Args:
        text: The rule for calls with equal arguments, in TOML.
        problem: Says why a rule cannot be written; empty if it can.
        scopes: The scopes that it may have.
        said: Describes a rule with a scope: the calls that it covers, where, and an example that it does not cover.
    """

    text: str
    problem: Callable[[str], str]
    scopes: tuple[Scope, ...] = SCOPES
    said: Callable[[str, Scope], tuple[str, ...]] = _nothing_said

    @property
    def first_scope(self) -> Scope:
        """The scope that is chosen at first."""
        return DEFAULT_SCOPE if DEFAULT_SCOPE in self.scopes else self.scopes[0]


class Prompt(Struct, frozen=True, kw_only=True):
    """One thing to ask a person.

    `question` is what an approval asks, too (a boolean). `id` names it as `OpenQuestion.id` does, `event` is the `event_id` of its
    request; `asked_by` is the header, computed from the source, and `label` a configured name that is only shown beside it.
    `error` says why the last reply did not fit; `index` and `total` count in the form as submitted. `verdict` is what a reviewer said,
    which is the beginning of the question's context: words from outside, to be quoted. `parameters` is what edited arguments must fit.
    `people` are those whose question it is, where it is not anyone's.
    `always` is what another agent offers to keep of a yes, each by itself; empty where the turn remembers. `deadline` is until when an
    answer counts (RFC 3339), and `time_left` says for people how long that is now; both are empty where that is open. `rule` is there where
    a person may have calls such as this one run from now on, by a rule of their own configuration. `scopes` are the scopes that the
    answer may have (`Answered.scope`); `definition` is the fingerprint of the tool of a call.

    Args:
        kind: `tool` (a question), `run`, `deliver` (approvals) or `review` (of the answers of a form).
        subject: The call or the result that an approval is about, or the answers that are reviewed.
        prefill: What the field begins with; `UNSET` where it is empty.
        can_go_back: Whether `WentBack` may be replied.
        can_reply: Whether `Replied` may be.
        may_remember: Whether `remember` of `Answered` counts.
        conversation: The id of the conversation.
        tool: The tool whose call asks.
        arguments: The arguments of that call.
        digest: Digest of what an approval is about, as in `OpenQuestion.digest`.
        refusals: Refusals of equal calls earlier in the turn.
        exit_leaves_open: Whether Ctrl-C, the end of input and Escape leave the question open (`Deferred`) instead of ending the turn.
        find_open: Finds what `open` returns.
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
    find_open: Callable[[], OpenQuestion | None] = _nowhere

    @property
    def open(self) -> OpenQuestion | None:
        """The question as everyone outside the turn sees it, with `to_json()`; None where it cannot be answered from outside now."""
        return self.find_open()

    def timed(self, asked_at: str, now: Callable[[], str]) -> Self:
        """Return the prompt with how long there is left for an answer, where that has an end.

        Args:
            asked_at: When it was asked; empty where that is now.
            now: Returns the time.
        """
        began = asked_at or (now() if self.deadline else "")
        return replace(self, time_left=lambda: time_left(now(), began, self.deadline)) if self.deadline else self
