"""All answers to a form at once, from somebody who is not at a prompt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from midturn.core.form import Form
from midturn.core.json_value import Json
from midturn.core.question import Question
from midturn.core.reply import Answered, Reply
from midturn.errors import AnswerError, Problem


def answers_to_form(form: Form, question: Question[Any], reply: Reply) -> dict[str, Answered] | None:
    """Return the answers by question id; None where the reply is one to `question` alone.

    Raises:
        AnswerError: The map does not fit the form; `problems` has all of them.
    """
    if not isinstance(reply, Answered) or not isinstance(reply.value, Mapping) or len(form.questions) == 1 or _fits(question, reply):
        return None
    return _checked(form, reply.value)


def _fits(question: Question[Any], reply: Answered) -> bool:
    try:
        question.check(reply.value)
    except AnswerError:
        return False
    return True


def _checked(form: Form, value: Mapping[str, Json]) -> dict[str, Answered]:
    questions = {question.id: question for question in form.questions}
    problems = [
        Problem(f"/{key}", f"the form has no question {key!r}; its questions are {', '.join(questions)}.")
        for key in value
        if key not in questions
    ]
    checked: dict[str, Answered] = {}
    for key in value.keys() & questions.keys():
        try:
            checked[key] = Answered(questions[key].check(value[key]))
        except AnswerError as error:
            problems += [Problem(f"/{key}{problem.pointer}", problem.message) for problem in error.problems]
    if problems:
        raise AnswerError(problems)
    return checked
