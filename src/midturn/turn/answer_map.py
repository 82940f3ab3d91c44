"""Check a map of answers to a form: each answer must be valid, and the form must use it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from midturn.errors import AnswerError, Problem
from midturn.question.json_value import Json, SecretValue, json_equal, shown
from midturn.question.question import Question
from midturn.question.reply import Answered, Reply
from midturn.question.walker import Ask, FormWalker


def answers_to_form(walker: FormWalker, reply: Reply) -> dict[str, Answered] | None:
    """Return the answers by question id, or None if the reply answers only the open question.

    Raises:
        AnswerError: The map is invalid for the form, or the form would ignore an answer. `problems`
            lists every error.
    """
    step = walker.step()
    if (
        not isinstance(step, Ask)
        or step.total == 1
        or not isinstance(reply, Answered)
        or not isinstance(reply.value, Mapping)
    ):
        return None
    if _fits(step.question, reply.value):
        return None
    checked = _checked(walker.questions, reply.value, reply.reason)
    problems = list(_without_effect(walker, checked))
    if problems:
        raise AnswerError(problems)
    return checked


def _fits(question: Question[Any], value: object) -> bool:
    try:
        question.check(value)
    except AnswerError:
        return False
    return True


def _checked(
    asked: Mapping[str, Question[Any]], value: Mapping[str, Json], reason: str | None
) -> dict[str, Answered]:
    """Check each answer separately. Every answer gets the reason of the reply. Use `null` for a
    conditional question that is not asked.
    """
    problems = [
        Problem(
            f"/{key}", f"the form has no question {key!r}; its questions are {', '.join(asked)}."
        )
        for key in value
        if key not in asked
    ]
    checked: dict[str, Answered] = {}
    for key in (key for key in value if key in asked):
        try:
            checked[key] = Answered(
                None if value[key] is None and asked[key].when else asked[key].check(value[key]),
                reason=reason,
            )
        except AnswerError as error:
            problems += [
                Problem(f"/{key}{problem.pointer}", problem.message) for problem in error.problems
            ]
    if problems:
        raise AnswerError(problems)
    return checked


def _without_effect(walker: FormWalker, answers: Mapping[str, Answered]) -> Iterator[Problem]:
    """Yield a problem for every answer that the form would ignore."""
    ahead = walker.copy()
    recorded = walker.collected
    asked = ahead.follow(answers)
    step = ahead.step()
    missing = (
        step.question.id if isinstance(step, Ask) and step.question.id not in answers else None
    )
    for key, answer in answers.items():
        if key in asked or answer.value is None or _equal(recorded.get(key), answer.value):
            continue
        if missing is not None and key not in recorded:
            message = (
                f"the open question `{missing}` has no answer in the map, but the form asks it"
                " next: add it."
            )
            yield Problem(f"/{missing}", message)
            return
        yield Problem(f"/{key}", _why_not(walker, key))


def _equal(recorded: Json | SecretValue, value: Json | SecretValue) -> bool:
    return (
        not isinstance(recorded, SecretValue)
        and not isinstance(value, SecretValue)
        and json_equal(recorded, value)
    )


def _why_not(walker: FormWalker, key: str) -> str:
    if key in walker.collected:
        return (
            "this question already has a different answer. Leave it out, or go back to it at the"
            " prompt."
        )
    when = walker.questions[key].when
    gate = f" It is asked only if `{when.question_id}` is {shown(when.equals)}." if when else ""
    return f"this question is not asked with these answers.{gate} Leave it out."
