"""What forms of the Model Context Protocol and of the Agent Client Protocol have in common, whichever way they go: a flat JSON Schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from midturn.core.json_value import Json
from midturn.core.question import Question
from midturn.errors import AnswerError, Problem

KINDS: Final = ("string", "number", "integer", "boolean")
TEXT_BOUNDS: Final = ("format", "minLength", "maxLength", "pattern")
NUMBER_BOUNDS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")


def checked_answers(
    questions: Sequence[Question[Any]], names: Mapping[str, str], received: Callable[[Question[Any], str], Json]
) -> dict[str, Json]:
    """Return the answers that came back, checked; nothing is filled in.

    Args:
        questions: What was asked.
        names: The property that each question is about, by its id.
        received: Returns what came back for a question under the name of its property.

    Raises:
        AnswerError: Something required is not there, or does not fit.
    """
    answers: dict[str, Json] = {}
    problems: list[Problem] = []
    for question in questions:
        name = names[question.id]
        try:
            answers[question.id] = cast("Json", question.check(received(question, name)))
        except AnswerError as error:
            problems += [Problem(f"/{name}{problem.pointer}", problem.message) for problem in error.problems]
    if problems:
        raise AnswerError(problems)
    return answers


def sent(value: Json) -> Json:
    """Return an answer as a content has it: own words stand for themselves."""
    if isinstance(value, Mapping) and list(value) == ["other"]:
        return value["other"]
    if isinstance(value, list | tuple):
        return [sent(one) for one in value]
    return value
