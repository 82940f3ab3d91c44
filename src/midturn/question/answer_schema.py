"""JSON Schema of a model's answer: the same for every question of a type, so that provider caches hit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import assert_never, cast

from midturn.question.answer_type import AnswerType, BooleanType, MultiSelectType, SchemaType, SecretType, SelectType, TextType, TypeTerms
from midturn.question.schema_keywords import DEFINITIONS, ONE_SCHEMA, SCHEMA_LISTS, SCHEMA_MAPS
from midturn.values.json_value import Json, JsonObject

_REASON: JsonObject = {"type": "string", "description": "Brief explanation of why you chose this answer."}
_OTHER: JsonObject = {"type": "object", "properties": {"other": {"type": "string"}}, "required": ["other"], "additionalProperties": False}
_TO_DEFINITIONS = tuple(f"#/{keyword}/" for keyword in DEFINITIONS)


def answer_schema(question: TypeTerms) -> JsonObject:
    """Return the JSON Schema of an answer: of the property `answer` alone.

    Raises:
        ValueError: The question asks for a secret, which no model is ever asked for.
    """
    return _or_null(question, _of_type(question.answer_type))


def inquiry_schema(question: TypeTerms) -> JsonObject:
    """Return the JSON Schema of `{"reason", "answer"}`, its keys in the order in which a model should write them.

    The definitions of a question's own schema move to the top, where its references and the providers look for them.
    """
    answer = answer_schema(question)
    definitions: JsonObject = {}
    if isinstance(question.answer_type, SchemaType):
        root = "#/properties/answer/anyOf/0" if question.optional else "#/properties/answer"
        own = _rooted(question.answer_type.schema, root)
        definitions = {keyword: own[keyword] for keyword in DEFINITIONS if keyword in own}
        answer = _or_null(question, {keyword: value for keyword, value in own.items() if keyword not in {"$schema", *definitions}})
    return {
        "type": "object",
        "properties": {"reason": _REASON, "answer": answer},
        "required": ["reason", "answer"],
        "additionalProperties": False,
        **definitions,
    }


def _or_null(question: TypeTerms, schema: JsonObject) -> JsonObject:
    return {"anyOf": [schema, {"type": "null"}]} if question.optional else schema


def _of_type(kind: AnswerType) -> JsonObject:
    match kind:
        case BooleanType():
            return {"type": "boolean"}
        case SelectType():
            return _choice(kind)
        case MultiSelectType():
            return {"type": "array", "items": _choice(kind)}
        case TextType():
            return {"type": "string"}
        case SchemaType(schema):
            return schema
        case SecretType():
            raise ValueError("A secret is never asked of a model.")
        case _:
            assert_never(kind)


def _choice(kind: SelectType | MultiSelectType) -> JsonObject:
    values: JsonObject = {"enum": [option.value for option in kind.options]}
    return {"anyOf": [values, _OTHER]} if kind.allow_other else values


def _rooted(node: JsonObject, root: str) -> JsonObject:
    """Copy a schema for a place inside another one: what it refers to in itself, definitions apart, is now below `root`."""
    return {keyword: _rooted_keyword(keyword, value, root) for keyword, value in node.items()}


def _rooted_keyword(keyword: str, value: Json, root: str) -> Json:
    if keyword == "$ref" and isinstance(value, str):
        return value if value.startswith(_TO_DEFINITIONS) else f"{root}{value[1:]}"
    if keyword in ONE_SCHEMA:
        return _rooted_any(value, root)
    if keyword in SCHEMA_LISTS:
        return [_rooted_any(item, root) for item in cast("Sequence[Json]", value)]
    if keyword in SCHEMA_MAPS:
        return {name: _rooted_any(item, root) for name, item in cast("JsonObject", value).items()}
    return value


def _rooted_any(node: Json, root: str) -> Json:
    return _rooted(node, root) if isinstance(node, Mapping) else node
