"""A form: 1 to 20 questions, asked in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from midturn.core.form.problems import QuestionRead, form_problems
from midturn.core.json_value import Json
from midturn.core.limits import DEFAULT_LIMITS, Limits
from midturn.core.question import Question, When
from midturn.errors import Problem, QuestionError


class Form(Struct, frozen=True):
    """Questions that are asked together. With `review`, the person sees all answers once more before they are sent.

    `limit` is the highest number of questions (`limits.form`). Any sequence of questions will do; a tuple is kept.

    Args:
        questions: The questions, in the order in which they are asked.

    Raises:
        QuestionError: A rule of forms is broken; `problems` has all of them, with pointers such as `/questions/1/when/equals`.
    """

    questions: Sequence[Question[Any]]
    review: bool = False
    limit: int = DEFAULT_LIMITS.form

    def __post_init__(self) -> None:
        questions = tuple(self.questions)
        if len(questions) == 1 <= self.limit and _stands_alone(questions[0]):  # as nearly every form
            force_setattr(self, "questions", questions)
            return
        problems = _strangers(questions) or form_problems([QuestionRead.of(question) for question in questions], self.limit)
        if problems:
            raise QuestionError(problems)
        if any(question.when for question in questions):
            by_id = {question.id: question for question in questions}
            questions = tuple(_canonical(question, by_id) for question in questions)
        force_setattr(self, "questions", questions)

    @classmethod
    def from_json(cls, questions: Json, *, review: bool = False, limits: Limits = DEFAULT_LIMITS) -> Form:
        """Read an array of question objects.

        Args:
            questions: The questions as JSON objects.
            review: Show all answers once more before they are sent.
            limits: How many questions there may be, and how long each.

        Raises:
            QuestionError: Every problem of every question, and those of the form.
        """
        if not isinstance(questions, list | tuple):
            raise QuestionError([Problem("/questions", f"must be an array of 1 to {limits.form} questions.")])
        return cls.from_entries([QuestionRead.read(obj, limits) for obj in questions], review=review, limit=limits.form)

    @classmethod
    def from_entries(cls, entries: Sequence[QuestionRead], *, review: bool = False, limit: int = DEFAULT_LIMITS.form) -> Form:
        """Build a form from what could be read of its questions.

        Args:
            entries: What could be read of each question.
            review: Show all answers once more before they are sent.
            limit: The highest number of questions.

        Raises:
            QuestionError: Every problem of every entry, and those of the form.
        """
        problems = form_problems(entries, limit)
        if problems:
            raise QuestionError(problems)
        return cls([entry.question for entry in entries if entry.question is not None], review, limit)

    def to_json(self) -> list[dict[str, Json]]:
        """Return the questions as wire objects, defaults omitted."""
        return [question.to_json() for question in self.questions]


def _stands_alone(given: object) -> bool:
    """Say whether this is a question that depends on no other one: there is nothing else that could be wrong with a form of it."""
    return isinstance(given, Question) and given.when is None and type(cast("object", given.id)) is str


def _strangers(questions: Sequence[object]) -> list[Problem]:
    """Return a problem for whatever is not a question at all: nobody checks types before a program runs."""
    advice = "Build one with `Question.boolean`, `.select`, `.multi_select`, `.text`, `.secret` or `.schema`."
    found: list[Problem] = []
    for place, given in enumerate(questions):
        at = f"/questions/{place}"
        if not isinstance(given, Question):
            found.append(Problem(at, f"a `{type(given).__name__}` is not a question. {advice}"))
            continue
        id, when = cast("object", given.id), cast("object", given.when)  # noqa: A001  the wire's word
        if not isinstance(id, str):
            found.append(Problem(f"{at}/id", f"a `{type(id).__name__}` is not an id. Give a string."))
        if not (when is None or (isinstance(when, When) and isinstance(cast("object", when.question_id), str))):
            found.append(Problem(f"{at}/when", f"{when!r} does not say when to ask. Give `When(<earlier id>, <answer>)`, or None."))
    return found


def _canonical(question: Question[Any], by_id: dict[str, Question[Any]]) -> Question[Any]:
    """Write the value of a predicate as the checker writes answers, so that comparing the two is all that is left to do."""
    when = question.when
    if when is None or when.equals is None:
        return question
    equals = by_id[when.question_id].check(when.equals)
    return replace(question, when=When(when.question_id, cast("Json", equals)))  # no predicate names a secret
