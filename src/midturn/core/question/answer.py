"""The one checker of answers: for people, models, configuration and the inbox."""

from __future__ import annotations

from typing import NoReturn, TypeAlias, assert_never, cast

from midturn.core.json_value import Json, JsonObject, json_problem, shown
from midturn.core.limits import DEFAULT_LIMITS
from midturn.core.question.answer_type import (
    Answerable,
    BooleanType,
    MultiSelectType,
    SchemaType,
    SecretType,
    SelectType,
    TextType,
)
from midturn.core.question.choices import all_chosen, chosen
from midturn.core.secret import SecretValue
from midturn.errors import AnswerError, Problem

DEPTH_LIMIT = DEFAULT_LIMITS.json_depth
_Open: TypeAlias = BooleanType | SelectType | MultiSelectType | TextType | SchemaType
YES_OR_NO = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}
"""What a person writes for yes and no, in small letters."""


def check_answer(question: Answerable, value: object, depth_limit: int = DEPTH_LIMIT) -> Json | SecretValue:
    """Return the canonical answer: an option as it was declared, choices in option order, a secret as `SecretValue`.

    Nothing is converted: `"true"`, `1` and `true` are three values.

    Raises:
        AnswerError: The value is not an answer; `problems` says where and what is allowed. A secret is never shown.
    """
    kind = question.answer_type
    if isinstance(kind, SecretType):
        return None if value is None and question.optional else _secret(value)
    problem = None if isinstance(value, bool) else json_problem(value, depth_limit)
    if problem is not None:
        raise AnswerError([problem])
    if value is None and question.optional:
        return None
    return _of_type(kind, cast("Json", value))


def _of_type(kind: _Open, value: Json) -> Json:
    match kind:
        case BooleanType():
            return value if isinstance(value, bool) else _refuse(f"the answer must be true or false, not {shown(value)}.")
        case TextType():
            return value if isinstance(value, str) else _refuse(f"the answer must be a string, not {shown(value)}.")
        case SelectType():
            return chosen(kind, value)
        case MultiSelectType():
            return all_chosen(kind, value)
        case SchemaType(schema):
            return _under_schema(schema, value)
        case _:
            assert_never(kind)


def _secret(value: object) -> SecretValue:
    """Check without ever naming the value."""
    text = value.reveal() if isinstance(value, SecretValue) else value
    if not isinstance(text, str):
        return _refuse("the answer must be a string. It is a secret and not shown here.")
    if json_problem(text, 0) is not None:
        return _refuse("the answer has a lone surrogate, which is not Unicode text. It is a secret and not shown here.")
    return SecretValue(text)


def _under_schema(schema: JsonObject, value: Json) -> Json:
    from midturn.core.schema import validate  # only questions that have a schema pay for it

    problems = validate(schema, value)
    if problems:
        whole = [
            Problem("", f"the answer {message}") if not at and message.startswith("must ") else Problem(at, message)
            for at, message in problems
        ]
        raise AnswerError(whole)
    return value


def _refuse(message: str) -> NoReturn:
    raise AnswerError([Problem("", message)])
