"""All answers to a form at once, from somebody who is not at a prompt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from midturn.core.form.steps import Ask
from midturn.core.form.walker import FormWalker
from midturn.core.json_value import Json, json_equal, shown
from midturn.core.question import Question
from midturn.core.reply import Answered, Reply
from midturn.core.secret import SecretValue
from midturn.errors import AnswerError, Problem


def answers_to_form(walker: FormWalker, reply: Reply) -> dict[str, Answered] | None:
    """Return the answers by question id; None where the reply is one to the question that is asked now alone.

    Raises:
        AnswerError: The map does not fit the form, or not all of it would count from here on; `problems` has everything.
    """
    step = walker.step()
    if not isinstance(step, Ask) or step.total == 1 or not isinstance(reply, Answered) or not isinstance(reply.value, Mapping):
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


def _checked(asked: Mapping[str, Question[Any]], value: Mapping[str, Json], reason: str | None) -> dict[str, Answered]:
    """Check each answer by itself; a reason is the reason of each. A null says of any question that it is not asked."""
    problems = [
        Problem(f"/{key}", f"the form has no question {key!r}; its questions are {', '.join(asked)}.") for key in value if key not in asked
    ]
    checked: dict[str, Answered] = {}
    for key in (key for key in value if key in asked):
        try:
            checked[key] = Answered(None if value[key] is None and asked[key].when else asked[key].check(value[key]), reason=reason)
        except AnswerError as error:
            problems += [Problem(f"/{key}{problem.pointer}", problem.message) for problem in error.problems]
    if problems:
        raise AnswerError(problems)
    return checked


def _without_effect(walker: FormWalker, answers: Mapping[str, Answered]) -> Iterator[Problem]:
    """Walk ahead, and yield a problem for every answer that would not count: whoever gave it would believe that it does."""
    ahead = walker.copy()
    recorded = walker.collected
    asked = ahead.follow(answers)
    step = ahead.step()
    missing = step.question.id if isinstance(step, Ask) and step.question.id not in answers else None
    for key, answer in answers.items():
        if key in asked or answer.value is None or _equal(recorded.get(key), answer.value):
            continue
        if missing is not None and key not in recorded:
            message = f"the open question `{missing}` has no answer in the map, and the form goes on from there: add it."
            yield Problem(f"/{missing}", message)
            return
        yield Problem(f"/{key}", _why_not(walker, key))


def _equal(recorded: Json | SecretValue, value: Json | SecretValue) -> bool:
    return not isinstance(recorded, SecretValue) and not isinstance(value, SecretValue) and json_equal(recorded, value)


def _why_not(walker: FormWalker, key: str) -> str:
    if key in walker.collected:
        return "this question has another answer on record. Leave it out, or go back to it at the prompt."
    when = walker.questions[key].when
    gate = f" It is asked only if `{when.question_id}` is {shown(when.equals)}." if when else ""
    return f"this question is not asked with these answers.{gate} Leave it out."
