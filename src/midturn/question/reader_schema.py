"""JSON Schemas of answers and forms, for front ends. Unlike the schemas for models, they contain
the bounds and the option descriptions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET

from midturn.question.answer_schema import OTHER, answer_schema, or_null, rooted
from midturn.question.answer_type import (
    MultiSelectType,
    SchemaType,
    SecretType,
    SelectOption,
    SelectType,
    TypeTerms,
    When,
)
from midturn.question.json_value import Json, JsonObject

if TYPE_CHECKING:  # importing Question is slow, and a list of open questions does not need it
    from midturn.question.question import Question

SECRET: Final[JsonObject] = {"type": "string", "writeOnly": True}
"""JSON Schema of a secret, for front ends that may send secrets."""


def reader_schema(question: TypeTerms) -> JsonObject:
    """Return the JSON Schema of an answer.

    Raises:
        ValueError: The question asks for a secret.
    """
    kind = question.answer_type
    if isinstance(kind, SelectType):
        return or_null(question, _choice(kind))
    if isinstance(kind, MultiSelectType):
        return or_null(question, _choices(kind))
    return answer_schema(question)


def property_schema(question: Question[Any], pointer: str) -> JsonObject:
    """Return the JSON Schema of an answer as a property of another schema, with the question as
    its title. The schema of a secret is `SECRET`.

    Args:
        question: The question.
        pointer: JSON Pointer to the property in the other schema. References in the question's
            schema are adjusted to it.
    """
    kind = question.answer_type
    titled: dict[str, Json] = {"title": question.text}
    if question.context:
        titled["description"] = question.context
    if question.default is not UNSET:
        titled["default"] = question.default
    if isinstance(kind, SecretType):
        return {**or_null(question, SECRET), **titled}
    if isinstance(kind, SchemaType):
        root = f"#{pointer}/anyOf/0" if question.optional else f"#{pointer}"
        return {**or_null(question, embedded(kind.schema, root)), **titled}
    return {**reader_schema(question), **titled}


def embedded(schema: JsonObject, root: str) -> JsonObject:
    """Return a schema for use at `root` in another schema, such as `#/properties/q`."""
    moved = rooted(schema, root)
    return {keyword: value for keyword, value in moved.items() if keyword != "$schema"}


def form_schema(questions: Sequence[Question[Any]]) -> JsonObject:
    """Return the JSON Schema of the answers to a form with these questions: an object by question
    id.

    A question with a condition is required only if its condition holds. An optional question is
    never required.
    """
    schema: dict[str, Json] = {
        "type": "object",
        "properties": {
            question.id: property_schema(question, f"/properties/{question.id}")
            for question in questions
        },
        "required": [
            question.id for question in questions if not question.optional and not question.when
        ],
    }
    conditions: list[Json] = [
        {"if": _holds(question.when), "then": {"required": [question.id]}}
        for question in questions
        if question.when and not question.optional
    ]
    return {**schema, "allOf": conditions} if conditions else schema


def _holds(when: When) -> JsonObject:
    """Return the JSON Schema of the answers for which a condition holds. A question that was not
    asked has the answer null.
    """
    name = when.question_id
    equal: JsonObject = {"properties": {name: {"const": when.equals}}}
    return equal if when.equals is None else {**equal, "required": [name]}


def _choice(kind: SelectType | MultiSelectType) -> JsonObject:
    values: JsonObject = (
        {"oneOf": [_described(option) for option in kind.options]}
        if any(option.description for option in kind.options)
        else {"enum": [option.value for option in kind.options]}
    )
    return {"anyOf": [values, OTHER]} if kind.allow_other else values


def _described(option: SelectOption) -> JsonObject:
    description = f": {option.description}" if option.description else ""
    return {"const": option.value, "title": f"{option.label}{description}"}


def _choices(kind: MultiSelectType) -> JsonObject:
    bounds: Mapping[str, Json] = {"minItems": kind.min or None, "maxItems": kind.max}
    return {
        "type": "array",
        "items": _choice(kind),
        **{name: bound for name, bound in bounds.items() if bound is not None},
        "uniqueItems": True,
    }
