"""The shape in which a model answers a question: the same for every question of a type, so that caches hit (spec 4.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from midturn.core.answer_type import (
    Answerable,
    AnswerType,
    BooleanType,
    MultiSelectType,
    SchemaType,
    SecretType,
    SelectOption,
    SelectType,
    TextType,
)
from midturn.core.json_value import Json, JsonObject

_REASON: JsonObject = {"type": "string", "description": "Brief explanation of why you chose this answer."}
_OTHER: JsonObject = {"type": "object", "properties": {"other": {"type": "string"}}, "required": ["other"], "additionalProperties": False}


def answer_schema(question: Answerable) -> JsonObject:
    """Return the JSON Schema of `{"reason", "answer"}`, its keys in the order in which a model should write them."""
    answer = _answer(question.answer_type)
    return {
        "type": "object",
        "properties": {"reason": _REASON, "answer": {"anyOf": [answer, {"type": "null"}]} if question.optional else answer},
        "required": ["reason", "answer"],
        "additionalProperties": False,
    }


def _answer(answer_type: AnswerType) -> JsonObject:
    match answer_type:
        case BooleanType():
            return {"type": "boolean"}
        case SelectType(options, allow_other):
            return _choice(options, allow_other=allow_other)
        case MultiSelectType(options, _, _, allow_other):
            return {"type": "array", "items": _choice(options, allow_other=allow_other)}
        case TextType():
            return {"type": "string"}
        case SchemaType(schema):
            return schema
        case SecretType():
            raise AssertionError("a secret is never asked of a model")
        case _ as other:
            assert_never(other)


def _choice(options: Sequence[SelectOption], *, allow_other: bool) -> JsonObject:
    values: Sequence[Json] = [option.value for option in options]
    return {"anyOf": [{"enum": values}, _OTHER]} if allow_other else {"enum": values}
