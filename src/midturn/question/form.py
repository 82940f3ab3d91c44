"""A form: 1 to 20 questions, asked in order, and the check of all of them at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import force_setattr, replace

from midturn.errors import AnswerError, Problem, QuestionError
from midturn.question.answer_type import SecretType, When
from midturn.question.json_value import DEFAULT_LIMITS, Json, JsonObject, Limits
from midturn.question.question import Question

FOREIGN_LIMITS: Limits = replace(DEFAULT_LIMITS, form=200, options=2_000)
"""Limits of a form that another program asks for: its author does not know the limits of this one."""
_NO_LIMITS = replace(DEFAULT_LIMITS, form=2**31, options=2**31, question=2**31, context=2**31)


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
            if questions is not self.questions:
                force_setattr(self, "questions", questions)
            return
        problems = _strangers(questions) or form_problems([FormPlace.of(question) for question in questions], self.limit)
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
        return cls.from_entries([FormPlace.read(obj, limits) for obj in questions], review=review, limit=limits.form)

    @classmethod
    def from_record(cls, questions: Json, *, review: bool = False) -> Form:
        """Read the questions of a recorded form. Its limits were checked when it was asked, so none apply here.

        Args:
            questions: The questions as JSON objects.
            review: Show all answers once more before they are sent.

        Raises:
            QuestionError: They are no form.
        """
        return cls.from_json(questions, review=review, limits=_NO_LIMITS)

    @classmethod
    def from_entries(cls, entries: Sequence[FormPlace], *, review: bool = False, limit: int = DEFAULT_LIMITS.form) -> Form:
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
    return isinstance(given, Question) and given.when is None and type(given.id) is str


def _strangers(questions: Sequence[object]) -> list[Problem]:
    """Return a problem for whatever is not a question at all: types are not checked before a program runs."""
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


# Problems of a form, all found at once --------------------------------------------------------------------------------


class FormPlace(Struct, frozen=True):
    """One place of a form and what could be read of it, so that a broken question does not hide what is wrong with the others.

    `problems` are the question's own, with pointers that begin at the question.
    """

    id: str | None
    when: When | None = None
    question: Question[Any] | None = None
    problems: tuple[Problem, ...] = ()

    @classmethod
    def of(cls, question: Question[Any]) -> FormPlace:
        """Return the place of a sound question."""
        return cls(question.id, question.when, question)

    @classmethod
    def read(cls, obj: Json, limits: Limits = DEFAULT_LIMITS) -> FormPlace:
        """Read a wire object, whatever is wrong with it."""
        try:
            return cls.of(Question.from_json(obj, limits))
        except QuestionError as error:
            return cls(id_in(obj), when_in(obj), None, error.problems)


def id_in(obj: Json) -> str | None:
    """Return the id of a question that may be broken."""
    id = cast("JsonObject", obj).get("id") if isinstance(obj, dict) else None  # noqa: A001  the wire's word
    return id if isinstance(id, str) else None


def when_in(obj: Json) -> When | None:
    """Return the predicate of a question that may be broken, if that much of it is whole."""
    when = cast("JsonObject", obj).get("when") if isinstance(obj, dict) else None
    if not isinstance(when, dict):
        return None
    read = cast("JsonObject", when)
    named = read.get("question_id")
    return When(named, read["equals"]) if isinstance(named, str) and "equals" in read else None


def form_problems(entries: Sequence[FormPlace], limit: int) -> list[Problem]:
    """Return every problem of a form, in the order of its questions; an empty list means that it may be asked."""
    found = [] if 1 <= len(entries) <= limit else [_miscounted(len(entries), limit)]
    earlier: dict[str, FormPlace] = {}
    for place, entry in enumerate(entries):
        at = f"/questions/{place}"
        found += [Problem(at + problem.pointer, problem.message) for problem in entry.problems]
        if entry.id in earlier:
            first = next(i for i, e in enumerate(entries) if e.id == entry.id)
            found.append(Problem(f"{at}/id", f"the id `{entry.id}` is taken by /questions/{first}; give every question its own."))
        if entry.when is not None:
            later = any(e.id == entry.when.question_id for e in entries[place + 1 :])
            found += [Problem(f"{at}/when{p.pointer}", p.message) for p in _gate(entry, entry.when, earlier, later=later)]
        if entry.id is not None:
            earlier.setdefault(entry.id, entry)
    return found


def _miscounted(count: int, limit: int) -> Problem:
    has = "no questions" if count == 0 else f"{count} questions"
    return Problem("/questions", f"the form has {has}; 1 to {limit} are allowed.")


def _gate(entry: FormPlace, when: When, earlier: dict[str, FormPlace], *, later: bool) -> Iterator[Problem]:
    """Check that a predicate names an earlier question, and a value that this question can have as its answer."""
    named = earlier.get(when.question_id)
    if named is None:
        if when.question_id == entry.id:
            wrong = f"`{when.question_id}` is this question itself"
        elif later:
            wrong = f"`{when.question_id}` comes later in the form"
        else:
            wrong = f"no question has the id `{when.question_id}`"
        yield Problem("/question_id", f"{wrong}; {_choose(earlier)}")
    elif named.question is not None and isinstance(named.question.answer_type, SecretType):
        yield Problem("/question_id", f"`{named.id}` is a secret, and nothing may depend on one; {_choose(earlier)}")
    elif named.question is not None:
        yield from _equals(named.question, when.equals)


def _choose(earlier: dict[str, FormPlace]) -> str:
    names = [e.id for e in earlier.values() if e.id and not (e.question and isinstance(e.question.answer_type, SecretType))]
    if not names:
        return "no question comes before it that it could depend on: leave `when` out."
    return f"name a question that comes before it: {', '.join(f'`{name}`' for name in names)}."


def _equals(named: Question[Any], equals: Json) -> Iterator[Problem]:
    if equals is None and (named.optional or named.when is not None):
        return
    try:
        named.check(equals)
    except AnswerError as error:
        if equals is None:
            why = f"`{named.id}` always has an answer: null is one only for a question that is optional or has a `when`."
            yield Problem("/equals", why)
            return
        for problem in error.problems:
            yield Problem(f"/equals{problem.pointer}", f"this can never be the answer to `{named.id}`: {problem.message}")
