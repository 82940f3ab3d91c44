"""The walk through a form: `step` says what to ask, `feed` takes a reply, until the form is complete or left.

A form is walked, not looped over, so that it can stop at any question, go on in another process, and be walked back.
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

# ----------------------------------------------------------------------------------------------------------------------
# Steps of a walk through a form: the next question, the review, the end


class Ask(Struct, frozen=True):
    """Ask this question.

    `index` is its 1-based place in the submitted form and `total` the form's length, skipped questions included. `prefill` is the answer
    that it has already had, where Back brought it up again; `UNSET` otherwise, and always for a secret.

    Args:
        question: The question.
        can_go_back: Whether there is an earlier answer to go back to.
    """

    question: Question[Any]
    index: int
    total: int
    prefill: Json | UnsetType = UNSET
    can_go_back: bool = False


class Review(Struct, frozen=True):
    """Show all answers once more; `answers` is what `Completed` would hold."""

    answers: dict[str, Json | SecretValue]


class Completed(Struct, frozen=True):
    """The walk is over. `answers` holds every id in submitted order; a skipped one's is `None`, a secret's a `SecretValue`."""

    answers: dict[str, Json | SecretValue]


class Cancelled(Struct, frozen=True):
    """The person replied instead. `answered` is what was collected by then, without skipped questions and secrets.

    Args:
        reply: The words; None where there are none.
    """

    answered: dict[str, Json]
    reply: str | None = None

    def to_json(self) -> dict[str, Json]:
        """Return the marker that the model reads as the result of the call."""
        marker: dict[str, Json] = {"cancelled": True, "answered": self.answered}
        return marker if self.reply is None else {**marker, "reply": self.reply}

    @classmethod
    def read(cls, content: str) -> Cancelled | None:
        """Read a result that begins with such a marker; None where it is anything else.

        What the person typed with a "no" before stands in lines below it.

        Args:
            content: The result of a call. The caller knows whether it can come from no one else.
        """
        if not content.startswith('{"cancelled":'):
            return None
        try:
            found = read_json(content.partition("\n")[0])
        except NotJson:
            return None
        if not isinstance(found, dict) or not {"cancelled", "answered"} <= set(found) <= {"cancelled", "answered", "reply"}:
            return None
        answered, reply = found["answered"], found.get("reply")
        return cls(answered, reply) if isinstance(answered, dict) and (reply is None or isinstance(reply, str)) else None


class FormEnded(Struct, frozen=True):
    """The person ended the turn."""


Step: TypeAlias = Ask | Review | Completed | Cancelled | FormEnded


_V = TypeVar("_V")
_IMMUTABLE = (str, int, float, bool, SecretValue, type(None))  # a secret is replaced by identity, so it is never copied

FormReply: TypeAlias = Answered | WentBack | Replied | EndedTurn | Submitted


class _Collected(Struct, frozen=True):
    """An answer, and whether it came without a human."""

    value: Json | SecretValue
    automatic: bool


class FormWalker:
    """Walks one form, without I/O. `step` says what comes now, the same until `feed` moves the walk.

    A walk stands before a question, before the review, or at its end. Going back only moves it: an answer is discarded when an earlier
    question is answered anew, and not before. So everything collected is still there for a reply in between.

    Args:
        form: The form.
        drafts: Answers of an earlier visit, by question id: they are what the fields hold when they open.
    """

    def __init__(self, form: Form, *, drafts: Mapping[str, Json] | None = None) -> None:
        self._form = form
        self._length = len(form.questions)
        self._collected: dict[str, _Collected] = {}
        self._drafts = _fitting(form, drafts) if drafts else {}
        self._discarded: dict[str, bool] = {}  # what a person has said yes or no to in this walk, before they changed an earlier answer
        self._submitted = False
        self._end: Cancelled | FormEnded | None = None
        self._at = self._next_asked(0)
        self._asked: Ask | None = None  # kept until the walk moves

    def __repr__(self) -> str:
        return public_repr(self, "FormWalker")

    def step(self) -> Step:
        """Say what comes now."""
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
        """Take what happened.

        Args:
            reply: What the person did at the step.

        Raises:
            AnswerError: The answer does not fit the question; the walk has not moved.
            MisplacedReplyError: The reply does not belong here; the walk has not moved.
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
        """Take an answer as the question's own check has returned it: to what is asked now; at the end, to a secret that was asked again.

        Args:
            question_id: The id of the question.
            value: The answer.
            automatic: Whether no human gave it.

        Raises:
            MisplacedReplyError: Neither is the case.
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
        """Answer one question after the other, as far as there are answers that fit; return the ids of those that were asked.

        Args:
            answers: What is on record, in order.
        """
        asked: list[str] = []
        while isinstance(step := self.step(), Ask) and (answer := answers.get(step.question.id)) is not None:
            try:
                self.feed(answer)
            except AnswerError:
                break
            asked.append(step.question.id)
        return asked

    def reopen(self) -> None:
        """Go back from the end: a person who was shown the answers elsewhere chose Back.

        Raises:
            MisplacedReplyError: The walk is not complete, or no human has answered anything in it.
        """
        before = self._back_from(self._at)
        if before is None or not isinstance(self.step(), Completed):
            raise MisplacedReplyError.at(self.step(), WentBack())
        self._at, self._submitted, self._asked = before, False, None

    def replace(self, question_id: str, value: Json | SecretValue) -> None:
        """Exchange the answer to a secret, wherever the walk stands; nothing moves.

        Args:
            question_id: The id of the question.
            value: The secret.

        Raises:
            MisplacedReplyError: No answer to a secret of this id has been collected.
        """
        collected = self._collected.get(question_id)
        if collected is None or not isinstance(collected.value, SecretValue):
            raise MisplacedReplyError(f"There is no answer to a secret {question_id!r} in this walk that could be replaced.")
        self._collected[question_id] = _Collected(value, collected.automatic)

    def copy(self) -> FormWalker:
        """Return a walker that stands at the same place, to look ahead with."""
        copied = copy(self)
        copied._collected, copied._drafts = dict(self._collected), dict(self._drafts)  # noqa: SLF001  its own
        copied._discarded = dict(self._discarded)  # noqa: SLF001  its own
        return copied

    @property
    def questions(self) -> dict[str, Question[Any]]:
        """The questions of the form, by id."""
        return {question.id: question for question in self._form.questions}

    @property
    def collected(self) -> dict[str, Json | SecretValue]:
        """Every answer that the walk holds now, by question id; after Back, also those that are asked about again."""
        return {key: copied(collected.value) for key, collected in self._collected.items()}

    @property
    def revises(self) -> bool:
        """Whether the question that is asked now was brought up again by Back."""
        return self._end is None and self._at < self._length and self._form.questions[self._at].id in self._collected

    @property
    def draft(self) -> Json | UnsetType:
        """The start of the question that is asked now, where it has no `prefill`: what a person entered before it was discarded.

        Never a secret. A yes or a no only where it was said in this very walk and is seen once more in a review: Enter alone must not
        repeat what was said to a form that only looks the same.
        """
        match self.step():
            case Ask(question, prefill=UnsetType()):
                said = self._discarded.get(question.id, UNSET) if self._form.review else UNSET
                return self._drafts.get(question.id, said)
            case _:
                return UNSET

    @property
    def drafts(self) -> dict[str, Json]:
        """Everything that a person has entered so far, by question id, for `FormWalker(form, drafts=…)` when the form is shown again."""
        return dict(self._drafts)

    def _ask(self, question: Question[Any]) -> Ask:
        collected = self._collected.get(question.id)
        prefill = UNSET if collected is None or isinstance(collected.value, SecretValue) else copied(collected.value)
        return Ask(question, self._at + 1, self._length, prefill, self._back_from(self._at) is not None)

    def _take(self, question: Question[Any], value: Json | SecretValue, *, automatic: bool) -> None:
        for later in self._form.questions[self._at :]:
            self._discard(later.id)
        self._collected[question.id] = _Collected(value, automatic)
        if not automatic:
            self._drafts |= _as_draft(question, value)
        self._at = self._next_asked(self._at + 1)

    def _discard(self, question_id: str) -> None:
        """Drop an answer; a yes or a no that a person has said is kept aside, to be offered again."""
        collected = self._collected.pop(question_id, None)
        if collected is None or collected.automatic:
            return
        self._discarded.pop(question_id, None)
        if isinstance(collected.value, bool):
            self._discarded[question_id] = collected.value

    def _next_asked(self, start: int) -> int:
        """Return the place of the first question from `start` on whose predicate holds, or the form's length."""
        place = start
        while place < self._length and not self._is_asked(self._form.questions[place]):
            place += 1
        return place

    def _is_asked(self, question: Question[Any]) -> bool:
        when = question.when
        if when is None:
            return True
        named = self._collected.get(when.question_id)
        if named is None:
            return when.equals is None
        return not isinstance(named.value, SecretValue) and json_equal(named.value, when.equals)

    def _back_from(self, place: int) -> int | None:
        """Return the place of the last question before `place` that a human answered."""
        for before in range(place - 1, -1, -1):
            collected = self._collected.get(self._form.questions[before].id)
            if collected is not None and not collected.automatic:
                return before
        return None

    def _answers(self) -> dict[str, Json | SecretValue]:
        collected = self._collected
        return {q.id: copied(collected[q.id].value) if q.id in collected else None for q in self._form.questions}

    def _answered(self) -> dict[str, Json]:
        return {key: value for key, value in self._answers().items() if value is not None and not isinstance(value, SecretValue)}


def _checked(question: Question[Any], value: Json | SecretValue) -> Json | SecretValue:
    """Return the canonical answer. A secret that came as one stays the very same object: it may stand for one that was given before."""
    if isinstance(value, SecretValue) and isinstance(question.answer_type, SecretType):
        return value
    return question.check(value)


def copied(value: _V) -> _V:
    """Return a value of one's own: what goes in and out of a walk may be changed out there, the walk does not change with it."""
    return value if isinstance(value, _IMMUTABLE) else deepcopy(value)


def _as_draft(question: Question[Any], value: Json | SecretValue) -> dict[str, Json]:
    """Return the entry that offers `value` again: none for what may not be offered, and none where nothing was entered."""
    if value is None or isinstance(value, SecretValue) or isinstance(question.answer_type, (SecretType, BooleanType)):
        return {}
    return {question.id: value}


def _fitting(form: Form, drafts: Mapping[str, Json]) -> dict[str, Json]:
    """Return the drafts that are answers to the questions of this form."""
    fitting: dict[str, Json] = {}
    for question in form.questions:
        try:
            fitting |= _as_draft(question, question.check(drafts[question.id]) if question.id in drafts else None)
        except AnswerError:
            continue  # the form has changed since; the question is shown without a draft
    return fitting


# Misplaced replies ----------------------------------------------------------------------------------------------------


class MisplacedReplyError(MidturnError, ValueError):
    """The walk cannot take this reply where it stands: it is over, or there is nothing to go back to, to answer or to submit."""

    @classmethod
    def at(cls, step: Step, reply: object) -> MisplacedReplyError:
        """Say what the walk takes at this step."""
        return cls(f"{type(reply).__name__} does not belong here: {_takes(step)}.")


def _takes(step: Step) -> str:
    match step:
        case Ask(question, can_go_back=True):
            return f"the question `{question.id}` is open; it takes Answered, WentBack, Replied or EndedTurn"
        case Ask(question):
            return f"the question `{question.id}` is open and nothing was answered before it; it takes Answered, Replied or EndedTurn"
        case Review():
            return "the answers are under review; it takes Submitted, WentBack, Replied or EndedTurn"
        case Completed() | Cancelled() | FormEnded():
            return "the form is finished"
