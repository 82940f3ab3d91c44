"""Forms: 1 to 20 questions that are asked in order, and their validation."""

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
"""Limits for forms from other programs. They are higher, because those programs were not written
for midturn.
"""
_NO_LIMITS = replace(DEFAULT_LIMITS, form=2**31, options=2**31, question=2**31, context=2**31)


class Form(Struct, frozen=True):
    """Questions that are asked together.

    Args:
        questions: The questions, in the order in which they are asked. Any sequence; it is stored
            as a tuple.
        review: Whether the person sees all answers again before they are sent.
        limit: Maximum number of questions (`limits.form`).

    Raises:
        QuestionError: The form is invalid. `problems` lists every problem, with pointers such as
            `/questions/1/when/equals`.
    """

    questions: Sequence[Question[Any]]
    review: bool = False
    limit: int = DEFAULT_LIMITS.form

    def __post_init__(self) -> None:
        questions = tuple(self.questions)
        # a form with one unconditional question needs no further checks
        if len(questions) == 1 <= self.limit and _is_unconditional(questions[0]):
            if questions is not self.questions:
                force_setattr(self, "questions", questions)
            return
        problems = _type_problems(questions) or form_problems(
            [FormPlace.of(question) for question in questions], self.limit
        )
        if problems:
            raise QuestionError(problems)
        if any(question.when for question in questions):
            by_id = {question.id: question for question in questions}
            questions = tuple(_canonical(question, by_id) for question in questions)
        force_setattr(self, "questions", questions)

    @classmethod
    def from_json(
        cls, questions: Json, *, review: bool = False, limits: Limits = DEFAULT_LIMITS
    ) -> Form:
        """Read an array of question objects.

        Args:
            questions: The questions as JSON objects.
            review: Whether the person sees all answers again before they are sent.
            limits: Limits for the number and size of the questions.

        Raises:
            QuestionError: A question or the form is invalid. `problems` lists every problem.
        """
        if not isinstance(questions, list | tuple):
            raise QuestionError(
                [Problem("/questions", f"must be an array of 1 to {limits.form} questions.")]
            )
        return cls.from_entries(
            [FormPlace.read(obj, limits) for obj in questions], review=review, limit=limits.form
        )

    @classmethod
    def from_record(cls, questions: Json, *, review: bool = False) -> Form:
        """Read the questions of a recorded form. Limits are not applied, because they were checked
        when the form was asked.

        Args:
            questions: The questions as JSON objects.
            review: Whether the person sees all answers again before they are sent.

        Raises:
            QuestionError: The questions are not a valid form.
        """
        return cls.from_json(questions, review=review, limits=_NO_LIMITS)

    @classmethod
    def from_entries(
        cls, entries: Sequence[FormPlace], *, review: bool = False, limit: int = DEFAULT_LIMITS.form
    ) -> Form:
        """Build a form from entries, whose questions may be invalid.

        Args:
            entries: The valid or invalid questions.
            review: Whether the person sees all answers again before they are sent.
            limit: Maximum number of questions.

        Raises:
            QuestionError: An entry or the form is invalid. `problems` lists every problem.
        """
        problems = form_problems(entries, limit)
        if problems:
            raise QuestionError(problems)
        return cls(
            [entry.question for entry in entries if entry.question is not None], review, limit
        )

    def to_json(self) -> list[dict[str, Json]]:
        """Return the questions as JSON objects, without default values."""
        return [question.to_json() for question in self.questions]


def _is_unconditional(given: object) -> bool:
    """Return whether this is a question without `when`. A form of one such question is always
    valid.
    """
    return isinstance(given, Question) and given.when is None and type(given.id) is str


def _type_problems(questions: Sequence[object]) -> list[Problem]:
    """Return a problem for each value of the wrong type, because Python does not check types at run
    time.
    """
    advice = (
        "Build one with `Question.boolean`, `.select`, `.multi_select`, `.text`, `.secret` or"
        " `.schema`."
    )
    found: list[Problem] = []
    for place, given in enumerate(questions):
        at = f"/questions/{place}"
        if not isinstance(given, Question):
            found.append(Problem(at, f"a `{type(given).__name__}` is not a question. {advice}"))
            continue
        id, when = cast("object", given.id), cast("object", given.when)  # noqa: A001  the name in JSON
        if not isinstance(id, str):
            found.append(
                Problem(f"{at}/id", f"a `{type(id).__name__}` is not an id. Give a string.")
            )
        if not (
            when is None
            or (isinstance(when, When) and isinstance(cast("object", when.question_id), str))
        ):
            found.append(
                Problem(
                    f"{at}/when",
                    f"{when!r} is not a valid `when`. Give `When(<earlier id>, <answer>)`, or"
                    " None.",
                )
            )
    return found


def _canonical(question: Question[Any], by_id: dict[str, Question[Any]]) -> Question[Any]:
    """Return the question with the value of `when` in canonical form, so that it can be compared
    with answers directly.
    """
    when = question.when
    if when is None or when.equals is None:
        return question
    equals = by_id[when.question_id].check(when.equals)
    return replace(
        question, when=When(when.question_id, cast("Json", equals))
    )  # a condition cannot refer to a secret


# All problems with a form, reported together
# --------------------------------------------------------------------------------------------------


class FormPlace(Struct, frozen=True):
    """One entry of a form, whose question may be invalid. Used to report the problems with all
    questions together.

    `problems` are the problems with the question. Their pointers are relative to the question.
    """

    id: str | None
    when: When | None = None
    question: Question[Any] | None = None
    problems: tuple[Problem, ...] = ()

    @classmethod
    def of(cls, question: Question[Any]) -> FormPlace:
        """Return the entry of a valid question."""
        return cls(question.id, question.when, question)

    @classmethod
    def read(cls, obj: Json, limits: Limits = DEFAULT_LIMITS) -> FormPlace:
        """Read a JSON object that may be an invalid question."""
        try:
            return cls.of(Question.from_json(obj, limits))
        except QuestionError as error:
            return cls(id_in(obj), when_in(obj), None, error.problems)


def id_in(obj: Json) -> str | None:
    """Return the id of a question that may be invalid."""
    id = cast("JsonObject", obj).get("id") if isinstance(obj, dict) else None  # noqa: A001  the name in JSON
    return id if isinstance(id, str) else None


def when_in(obj: Json) -> When | None:
    """Return the condition of a question that may be invalid, if the condition itself is
    readable.
    """
    when = cast("JsonObject", obj).get("when") if isinstance(obj, dict) else None
    if not isinstance(when, dict):
        return None
    read = cast("JsonObject", when)
    named = read.get("question_id")
    return When(named, read["equals"]) if isinstance(named, str) and "equals" in read else None


def form_problems(entries: Sequence[FormPlace], limit: int) -> list[Problem]:
    """Return every problem with a form, in the order of its questions. Empty if it is valid."""
    found = [] if 1 <= len(entries) <= limit else [_miscounted(len(entries), limit)]
    earlier: dict[str, FormPlace] = {}
    for place, entry in enumerate(entries):
        at = f"/questions/{place}"
        found += [Problem(at + problem.pointer, problem.message) for problem in entry.problems]
        if entry.id in earlier:
            first = next(i for i, e in enumerate(entries) if e.id == entry.id)
            found.append(
                Problem(
                    f"{at}/id",
                    f"the id `{entry.id}` is already used by /questions/{first}. Give every"
                    " question a different id.",
                )
            )
        if entry.when is not None:
            later = any(e.id == entry.when.question_id for e in entries[place + 1 :])
            found += [
                Problem(f"{at}/when{p.pointer}", p.message)
                for p in _condition_problems(entry, entry.when, earlier, later=later)
            ]
        if entry.id is not None:
            earlier.setdefault(entry.id, entry)
    return found


def _miscounted(count: int, limit: int) -> Problem:
    has = "no questions" if count == 0 else f"{count} questions"
    return Problem("/questions", f"the form has {has}; the number must be 1 to {limit}.")


def _condition_problems(
    entry: FormPlace, when: When, earlier: dict[str, FormPlace], *, later: bool
) -> Iterator[Problem]:
    """Yield the problems with a condition. It must refer to an earlier question, and to a possible
    answer to that question.
    """
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
        yield Problem(
            "/question_id",
            f"`{named.id}` is a secret, and a condition cannot depend on a secret;"
            f" {_choose(earlier)}",
        )
    elif named.question is not None:
        yield from _equals(named.question, when.equals)


def _choose(earlier: dict[str, FormPlace]) -> str:
    names = [
        e.id
        for e in earlier.values()
        if e.id and not (e.question and isinstance(e.question.answer_type, SecretType))
    ]
    if not names:
        return "there is no earlier question that it could depend on: remove `when`."
    return f"name an earlier question: {', '.join(f'`{name}`' for name in names)}."


def _equals(named: Question[Any], equals: Json) -> Iterator[Problem]:
    if equals is None and (named.optional or named.when is not None):
        return
    try:
        named.check(equals)
    except AnswerError as error:
        if equals is None:
            why = (
                f"`{named.id}` always has an answer. Null is only possible for a question that is"
                " optional or has a `when`."
            )
            yield Problem("/equals", why)
            return
        for problem in error.problems:
            yield Problem(
                f"/equals{problem.pointer}",
                f"this is not a possible answer to `{named.id}`: {problem.message}",
            )
