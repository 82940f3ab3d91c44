"""Traverse a form. `step` returns the next question, the review or the end, and `feed` processes
a reply.

The position is stored in an object and not in a loop, so that the form can stop at any question,
continue in another process, and go back.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy, deepcopy
from typing import Any, TypeAlias, TypeVar

from msgspec import UNSET, Struct, UnsetType

from midturn.errors import AnswerError, MidturnError
from midturn.question.answer_type import BooleanType, SecretType
from midturn.question.form import Form
from midturn.question.json_text import NotJson, read_json
from midturn.question.json_value import Json, SecretValue, json_equal
from midturn.question.public_names import public_repr
from midturn.question.question import Question
from midturn.question.reply import Answered, EndedTurn, Replied, Submitted, WentBack

# --------------------------------------------------------------------------------------------------
# Steps: the next question, the review, the end


class Ask(Struct, frozen=True):
    """Ask this question.

    Args:
        question: The question.
        index: Position of the question in the submitted form, from 1.
        total: Number of questions in the form, including skipped ones.
        prefill: The previous answer to the question if the person went back, else `UNSET`. Always
            `UNSET` for a secret.
        can_go_back: Whether there is an earlier answer to go back to.
    """

    question: Question[Any]
    index: int
    total: int
    prefill: Json | UnsetType = UNSET
    can_go_back: bool = False


class Review(Struct, frozen=True):
    """Show all answers again. `answers` is the same as in `Completed`."""

    answers: dict[str, Json | SecretValue]


class Completed(Struct, frozen=True):
    """The form is complete. `answers` contains all question ids, in order. The value is None for a
    skipped question, and a `SecretValue` for a secret.
    """

    answers: dict[str, Json | SecretValue]


class Cancelled(Struct, frozen=True):
    """The person replied instead of answering.

    Args:
        answered: The answers so far, without skipped questions and secrets.
        reply: The reply, or None.
    """

    answered: dict[str, Json]
    reply: str | None = None

    def to_json(self) -> dict[str, Json]:
        """Return the JSON that is sent to the model as the result of the call."""
        marker: dict[str, Json] = {"cancelled": True, "answered": self.answered}
        return marker if self.reply is None else {**marker, "reply": self.reply}

    @classmethod
    def read(cls, content: str) -> Cancelled | None:
        """Parse the result of a call that starts with this JSON. Return None for other results.

        The following lines of the result contain the reasons that the person gave for rejecting
        earlier questions.

        Args:
            content: The result of a call. The caller must know that it comes from midturn.
        """
        if not content.startswith('{"cancelled":'):
            return None
        try:
            found = read_json(content.partition("\n")[0])
        except NotJson:
            return None
        if not isinstance(found, dict) or not {"cancelled", "answered"} <= set(found) <= {
            "cancelled",
            "answered",
            "reply",
        }:
            return None
        answered, reply = found["answered"], found.get("reply")
        return (
            cls(answered, reply)
            if isinstance(answered, dict) and (reply is None or isinstance(reply, str))
            else None
        )


class FormEnded(Struct, frozen=True):
    """The person ended the turn."""


Step: TypeAlias = Ask | Review | Completed | Cancelled | FormEnded


_V = TypeVar("_V")
_NOT_COPIED = (
    str,
    int,
    float,
    bool,
    SecretValue,
    type(None),
)  # types that need no copy: immutable values, and secrets, which are compared by identity

FormReply: TypeAlias = Answered | WentBack | Replied | EndedTurn | Submitted


class _Collected(Struct, frozen=True):
    """An answer, and whether it was given without a human."""

    value: Json | SecretValue
    automatic: bool


class FormWalker:
    """Traverses one form, without I/O. `step` returns the same step until `feed` changes it.

    The current position is a question, the review or the end. Going back only changes the
    position. Later answers are discarded only when an earlier question is answered again. Until
    then, a reply to the model still includes them.

    Args:
        form: The form.
        drafts: Answers from an earlier display of the form, by question id. They are the initial
            values of the fields.
    """

    def __init__(self, form: Form, *, drafts: Mapping[str, Json] | None = None) -> None:
        self._form = form
        self._length = len(form.questions)
        self._collected: dict[str, _Collected] = {}
        self._drafts = _valid_drafts(form, drafts) if drafts else {}
        # boolean answers of this traversal that were discarded because an earlier answer changed
        self._discarded: dict[str, bool] = {}
        self._submitted = False
        self._end: Cancelled | FormEnded | None = None
        self._at = self._next_asked(0)
        self._asked: Ask | None = None  # cached until the position changes

    def __repr__(self) -> str:
        return public_repr(self, "FormWalker")

    def step(self) -> Step:
        """Return the current step."""
        if self._end is not None:
            return self._end
        if self._at < self._length:
            if self._asked is None:
                self._asked = self._ask(self._form.questions[self._at])
            return self._asked
        if self._form.review and not self._submitted and self._back_from(self._at) is not None:
            return Review(self._answers())
        return Completed(self._answers())

    def feed(self, reply: FormReply) -> None:
        """Process a reply.

        Args:
            reply: The person's reply to the current step.

        Raises:
            AnswerError: The answer is not valid for the question. The position is unchanged.
            MisplacedReplyError: The reply is not allowed at this step. The position is unchanged.
        """
        match reply, self.step():
            case Answered(value, automatic=automatic), Ask(question):
                self._take(question, copied(_checked(question, value)), automatic=automatic)
            case WentBack(), Ask(can_go_back=True) | Review():
                self._at = self._back_from(self._at) or 0
            case Submitted(), Review():
                self._submitted = True
            case Replied(text), Ask() | Review():
                self._end = Cancelled(self._answered(), text if text and text.strip() else None)
            case EndedTurn(), Ask() | Review():
                self._end = FormEnded()
            case _, step:
                raise MisplacedReplyError.at(step, reply)
        self._asked = None

    def accept(self, question_id: str, value: Json | SecretValue, *, automatic: bool) -> None:
        """Accept a validated answer to the current question or, at the end, to a secret that was
        asked again.

        Args:
            question_id: The id of the question. Used only at the end, to find the secret.
            value: The answer.
            automatic: Whether the answer was given without a human.

        Raises:
            MisplacedReplyError: There is no current question. At the end, no secret with this id
                was answered.
        """
        match self.step():
            case Ask(question):
                self._take(question, value, automatic=automatic)
            case Completed():
                self.replace(question_id, value)
            case step:
                raise MisplacedReplyError.at(step, Answered(value))
        self._asked = None

    def follow(self, answers: Mapping[str, Answered]) -> list[str]:
        """Answer questions from `answers` until the current question has no valid answer there.
        Return the ids of the answered questions.

        Args:
            answers: The recorded answers, in order.
        """
        asked: list[str] = []
        while (
            isinstance(step := self.step(), Ask)
            and (answer := answers.get(step.question.id)) is not None
        ):
            try:
                self.feed(answer)
            except AnswerError:
                break
            asked.append(step.question.id)
        return asked

    def reopen(self) -> None:
        """Go back from the end to the last question that a human answered. Needed if the person
        chose Back at a review that the form no longer has.

        Raises:
            MisplacedReplyError: The form is not complete, or none of its questions was answered
                by a human.
        """
        before = self._back_from(self._at)
        if before is None or not isinstance(self.step(), Completed):
            raise MisplacedReplyError.at(self.step(), WentBack())
        self._at, self._submitted, self._asked = before, False, None

    def replace(self, question_id: str, value: Json | SecretValue) -> None:
        """Replace the answer to a secret, at any position. The position is unchanged.

        Args:
            question_id: The id of the question.
            value: The secret.

        Raises:
            MisplacedReplyError: There is no answer to a secret with this id.
        """
        collected = self._collected.get(question_id)
        if collected is None or not isinstance(collected.value, SecretValue):
            raise MisplacedReplyError(
                f"This form has no answer to a secret {question_id!r} that could be replaced."
            )
        self._collected[question_id] = _Collected(value, collected.automatic)

    def copy(self) -> FormWalker:
        """Return an independent walker at the same position, for example to look ahead."""
        copied = copy(self)
        copied._collected, copied._drafts = dict(self._collected), dict(self._drafts)  # noqa: SLF001  the same class
        copied._discarded = dict(self._discarded)  # noqa: SLF001  the same class
        return copied

    @property
    def questions(self) -> dict[str, Question[Any]]:
        """The questions of the form, by id."""
        return {question.id: question for question in self._form.questions}

    @property
    def collected(self) -> dict[str, Json | SecretValue]:
        """All current answers by question id, including those after the current position."""
        return {key: copied(collected.value) for key, collected in self._collected.items()}

    @property
    def revises(self) -> bool:
        """Whether the current question already has an answer because the person went back."""
        return (
            self._end is None
            and self._at < self._length
            and self._form.questions[self._at].id in self._collected
        )

    @property
    def draft(self) -> Json | UnsetType:
        """Initial value of the current question if it has no `prefill`: the person's earlier answer
        that was discarded.

        Never a secret. A boolean is only returned if it was answered in this traversal and the
        form has a review. Otherwise pressing Enter could submit an earlier answer to a different
        form that looks the same.
        """
        match self.step():
            case Ask(question, prefill=UnsetType()):
                discarded = self._discarded.get(question.id, UNSET) if self._form.review else UNSET
                return self._drafts.get(question.id, discarded)
            case _:
                return UNSET

    @property
    def drafts(self) -> dict[str, Json]:
        """All answers that a person entered, by question id, for `FormWalker(form, drafts=…)` when
        the form is shown again.
        """
        return dict(self._drafts)

    def _ask(self, question: Question[Any]) -> Ask:
        collected = self._collected.get(question.id)
        prefill = (
            UNSET
            if collected is None or isinstance(collected.value, SecretValue)
            else copied(collected.value)
        )
        return Ask(
            question, self._at + 1, self._length, prefill, self._back_from(self._at) is not None
        )

    def _take(self, question: Question[Any], value: Json | SecretValue, *, automatic: bool) -> None:
        for later in self._form.questions[self._at :]:
            self._discard(later.id)
        self._collected[question.id] = _Collected(value, automatic)
        if not automatic:
            self._drafts |= _as_draft(question, value)
        self._at = self._next_asked(self._at + 1)

    def _discard(self, question_id: str) -> None:
        """Remove an answer. A person's yes or no is stored as a draft."""
        collected = self._collected.pop(question_id, None)
        if collected is None or collected.automatic:
            return
        self._discarded.pop(question_id, None)
        if isinstance(collected.value, bool):
            self._discarded[question_id] = collected.value

    def _next_asked(self, start: int) -> int:
        """Return the index of the next question from `start` on that must be asked, or the
        form's length.
        """
        index = start
        while index < self._length and not self._is_asked(self._form.questions[index]):
            index += 1
        return index

    def _is_asked(self, question: Question[Any]) -> bool:
        when = question.when
        if when is None:
            return True
        named = self._collected.get(when.question_id)
        if named is None:
            return when.equals is None
        return not isinstance(named.value, SecretValue) and json_equal(named.value, when.equals)

    def _back_from(self, place: int) -> int | None:
        """Return the index of the last question before `place` that a human answered."""
        for before in range(place - 1, -1, -1):
            collected = self._collected.get(self._form.questions[before].id)
            if collected is not None and not collected.automatic:
                return before
        return None

    def _answers(self) -> dict[str, Json | SecretValue]:
        collected = self._collected
        return {
            q.id: copied(collected[q.id].value) if q.id in collected else None
            for q in self._form.questions
        }

    def _answered(self) -> dict[str, Json]:
        return {
            key: value
            for key, value in self._answers().items()
            if value is not None and not isinstance(value, SecretValue)
        }


def _checked(question: Question[Any], value: Json | SecretValue) -> Json | SecretValue:
    """Return the canonical answer. A `SecretValue` is returned as the same object, because
    secrets are compared by identity.
    """
    if isinstance(value, SecretValue) and isinstance(question.answer_type, SecretType):
        return value
    return question.check(value)


def copied(value: _V) -> _V:
    """Return a deep copy, so that changes by the caller do not affect the walker."""
    return value if isinstance(value, _NOT_COPIED) else deepcopy(value)


def _as_draft(question: Question[Any], value: Json | SecretValue) -> dict[str, Json]:
    """Return the draft entry for `value`, or an empty dict if it must not be offered again."""
    if (
        value is None
        or isinstance(value, SecretValue)
        or isinstance(question.answer_type, (SecretType, BooleanType))
    ):
        return {}
    return {question.id: value}


def _valid_drafts(form: Form, drafts: Mapping[str, Json]) -> dict[str, Json]:
    """Return the drafts that are valid answers to the questions of this form."""
    valid: dict[str, Json] = {}
    for question in form.questions:
        try:
            valid |= _as_draft(
                question, question.check(drafts[question.id]) if question.id in drafts else None
            )
        except AnswerError:
            continue  # the form has changed; show the question without a draft
    return valid


# Misplaced replies
# --------------------------------------------------------------------------------------------------


class MisplacedReplyError(MidturnError, ValueError):
    """The reply is not allowed at the current step: the form is finished, or there is nothing to
    go back to, answer or submit.
    """

    @classmethod
    def at(cls, step: Step, reply: object) -> MisplacedReplyError:
        """Return the error for a reply at this step."""
        return cls(f"{type(reply).__name__} is not allowed here: {_allowed_replies(step)}.")


def _allowed_replies(step: Step) -> str:
    match step:
        case Ask(question, can_go_back=True):
            return (
                f"the question `{question.id}` is open; it takes Answered, WentBack, Replied or"
                " EndedTurn"
            )
        case Ask(question):
            return (
                f"the question `{question.id}` is open and nothing was answered before it; it takes"
                " Answered, Replied or EndedTurn"
            )
        case Review():
            return (
                "the answers are under review; it takes Submitted, WentBack, Replied or EndedTurn"
            )
        case Completed() | Cancelled() | FormEnded():
            return "the form is finished"
