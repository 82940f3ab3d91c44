"""JSON under a simple schema, asked for as what it is: yes or no, one of a list, a number, a text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from midturn.prompts.answer_text import kind_of, resolved, skeleton
from midturn.prompts.content import one_line, pretty, scalar_text
from midturn.question.answer_type import BooleanType, SchemaType, SelectOption, SelectType, TextType, folded, label_of
from midturn.record.prompt import Prompt
from midturn.values.json_value import Json, JsonObject, Scalar, compact, items, members

_FEWEST = 2
_LONGEST_EXAMPLE = 120
_KINDS = {"object": "an object in JSON", "array": "a list in JSON"}
_NOTHING: tuple[Json, ...] = ({}, [], None)
_NOTES = frozenset({"title", "description", "default", "examples", "$schema", "$comment", "deprecated", "readOnly", "writeOnly"})
_OF_NUMBERS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
}
_OF_TEXTS = {
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "pattern": "matching {}",
    "format": "a {}",
}


def native(prompt: Prompt) -> Prompt:
    """Return the prompt as it is best asked: a schema of yes or no, of a list, or of a text becomes a question of that type."""
    kind = prompt.question.answer_type
    if not isinstance(kind, SchemaType):
        return prompt
    schema = written_out(kind.schema)
    asked = _as_type(schema) or SchemaType(schema)
    question: Any = prompt.question
    return prompt if asked == kind else replace(prompt, question=replace(question, answer_type=asked))


def written_out(schema: JsonObject) -> JsonObject:
    """Return a schema that is only a reference to one of its own definitions as that definition."""
    definitions = members(schema.get("$defs"))
    for _ in definitions:
        reference = schema.get("$ref")
        if not isinstance(reference, str) or set(schema) - _NOTES - {"$ref", "$defs"}:
            break
        schema = {**resolved(reference, {"$defs": definitions}), "$defs": definitions}
    return schema


def options_of(schema: JsonObject) -> tuple[SelectOption, ...]:
    """Return what an `enum` lists, as rows: values that read alike say of which type they are. None where one is no row of a list."""
    listed = items(schema.get("enum"))
    values = [value for value in listed if isinstance(value, bool | int | float | str)]
    alike = Counter(folded(label_of(value)) for value in values)
    options = (SelectOption(value, _type_name(value) if alike[folded(label_of(value))] > 1 else None) for value in values)
    return tuple(options) if len(values) == len(listed) else ()


def _type_name(value: Scalar) -> str:
    if isinstance(value, str):
        return "a text"
    return "yes or no" if isinstance(value, bool) else "a number"


def is_number(schema: JsonObject) -> bool:
    """Tell whether a number is asked for."""
    return schema.get("type") in ("integer", "number")


def number_text(start: Json | UnsetType) -> str:
    """Write the number that a field begins with; nothing where there is none."""
    return "" if start is UNSET or start is None else scalar_text(start)


def is_text(schema: JsonObject) -> bool:
    """Tell whether a text is asked for that has to keep to rules."""
    return schema.get("type") == "string" and "enum" not in schema and "const" not in schema


def expected(schema: JsonObject) -> str:
    """Say what a number or a text must be like: `a whole number, at least 1, at most 10`."""
    numbers = {"integer": "a whole number", "number": "a number", "string": "a text"}
    kind = numbers.get(str(schema.get("type")))
    if kind is None:
        return ""
    rules = _OF_TEXTS if schema.get("type") == "string" else _OF_NUMBERS
    said = [words.format(one_line(scalar_text(schema[key]))) for key, words in rules.items() if key in schema]
    return ", ".join((kind, *said))


def shape(schema: JsonObject) -> str:
    """Return a text that shows what is to be filled in; empty where nothing in particular is."""
    value = skeleton(schema)
    if value in _NOTHING:
        return ""
    is_flat = isinstance(value, list) and not isinstance(value[0], Mapping | list)
    return compact(value) if is_flat else pretty(value)


def wanted(schema: JsonObject) -> str:
    """Say what JSON is asked for: `an object, such as {"start": "", "minutes": 0}`."""
    kind = _KINDS.get(kind_of(schema), "JSON")
    text = compact(skeleton(schema))
    return f"{kind}, such as {one_line(text)}" if shape(schema) and len(text) <= _LONGEST_EXAMPLE else kind


def _as_type(schema: JsonObject) -> BooleanType | SelectType | TextType | None:
    constrains = set(schema) - _NOTES - {"type", "$defs"}
    match schema.get("type"):
        case "boolean" if not constrains:
            return BooleanType()
        case "string" if not constrains:
            return TextType()
        case _ if constrains == {"enum"}:
            options = options_of(schema)
            return SelectType(options) if len(options) >= _FEWEST else None
        case _:
            return None
