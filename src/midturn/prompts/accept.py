"""What was typed, turned into an answer, or into lines that say what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import cast

from midturn.core.json_text import NotJson, read_json
from midturn.core.json_value import Json, JsonObject
from midturn.core.prompt import Prompt
from midturn.core.question.answer_type import SchemaType
from midturn.core.visible import exact
from midturn.errors import AnswerError, Problem
from midturn.prompts.json_text import problem_text
from midturn.prompts.native import wanted

ERRORS_SHOWN = 3


class NotAccepted(ValueError):  # noqa: N818 (it says what happened to the text)
    """What was typed does not fit; `lines` say why, fit to be shown, and `offset` where, if one place can be named."""

    def __init__(self, lines: list[str], offset: int | None = None) -> None:
        self.lines = lines
        self.offset = offset
        super().__init__("\n".join(lines))


def accept(prompt: Prompt, value: Json) -> Json:
    """Return the canonical answer.

    Raises:
        NotAccepted: The value does not fit the question.
    """
    try:
        return _checked(prompt, value)
    except AnswerError as error:
        raise NotAccepted(_lines(error.problems)) from None


def accept_json(prompt: Prompt, text: str) -> Json:
    """Read `text` as JSON and check it against the question.

    Raises:
        NotAccepted: It is not JSON, or does not fit the schema.
    """
    kind = prompt.question.answer_type
    asked = f"asked for: {wanted(kind.schema)}" if isinstance(kind, SchemaType) else ""
    if not text.strip():
        raise NotAccepted(["nothing was typed", asked])
    try:
        return _checked(prompt, read(text))
    except NotAccepted as error:
        raise NotAccepted([*error.lines, asked], error.offset) from None
    except AnswerError as error:
        raise NotAccepted(_lines(error.problems, problem_text)) from None


def accept_number(prompt: Prompt, text: str) -> Json:
    """Read a number and check it against the question.

    Raises:
        NotAccepted: It is not a number, or not within its limits.
    """
    try:
        value = read_json(text.strip())
    except NotJson:
        value = None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise NotAccepted([f"{exact(text.strip())} is not a number" if text.strip() else "nothing was typed: a number is asked for"])
    return accept(prompt, value)


def accept_arguments(prompt: Prompt, text: str) -> Json:
    """Read the edited arguments of a call, and check them against the parameters of the tool.

    Raises:
        NotAccepted: They are not a JSON object, or do not fit.
    """
    value = read(text)
    if not isinstance(value, Mapping):
        raise NotAccepted(["arguments are a JSON object: { ... }"])
    if problems := argument_problems(prompt.parameters, value):
        raise NotAccepted(_lines(problems, problem_text))
    return value


def read(text: str) -> Json:
    """Read JSON.

    Raises:
        NotAccepted: The text is not JSON.
    """
    try:
        return read_json(text)
    except NotJson as error:
        raise NotAccepted([exact(str(error))], error.offset) from None


def argument_problems(parameters: JsonObject, arguments: JsonObject) -> tuple[Problem, ...]:
    """Return what is wrong with the arguments; where the tool does not say what it takes, or says it badly, it judges them itself."""
    if not parameters:
        return ()
    from midturn.core.schema import check_schema, validate  # heavy, and needed for edited arguments only

    return () if check_schema(parameters) else validate(parameters, arguments)


def _checked(prompt: Prompt, value: Json) -> Json:
    """Check an answer that is not a secret: those are never looked at here."""
    return cast("Json", prompt.question.check(value))


def _plain(problem: Problem) -> str:
    return problem.message


def _lines(problems: tuple[Problem, ...], say: Callable[[Problem], str] = _plain) -> list[str]:
    more = [f"and {len(problems) - ERRORS_SHOWN} more"] if len(problems) > ERRORS_SHOWN else []
    return [*(exact(say(problem)) for problem in problems[:ERRORS_SHOWN]), *more]
