"""Answers as text: the transcript row, and the JSON that a schema expects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, assert_never, cast

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from midturn.errors import Problem
from midturn.events.prompt import Prompt
from midturn.question import answer_type as answers
from midturn.question.json_text import compact
from midturn.question.json_value import (
    Json,
    JsonObject,
    Scalar,
    SecretValue,
    items,
    members,
    objects,
    resolved,
    text,
)
from midturn.question.question import Question
from midturn.question.reply import (
    Answered,
    Deferred,
    Edited,
    EndedTurn,
    Replied,
    Reply,
    Scope,
    Submitted,
    Unavailable,
    WentBack,
)
from midturn.terminal.prompts.keys import (
    AsJson,
    is_beside_a_turn,
    one_line,
    other_text,
    pretty,
    scalar_text,
    scope,
)

HIDDEN = "(hidden)"

_QUOTATION = ('""', "''", "“”")


IN_SCOPE: Final[Mapping[Scope, str]] = {
    "conversation": "in this conversation",
    "project": "in this project",
    "everywhere": "everywhere",
}
"""Phrases for the scope of an answer."""


def reply_text(prompt: Prompt, reply: Reply) -> str:  # noqa: PLR0911 (one for each kind of reply)
    """Return one line that describes the reply in the transcript. A secret is `(hidden)`."""
    match reply:
        case Answered():
            return answered_text(prompt, reply)
        case AsJson():
            return "(as JSON)"
        case WentBack():
            return "(back)"
        case Replied(text):
            return f"(reply) {one_line(text)}" if text else "(reply)"
        case EndedTurn():
            return "(no answer)" if is_beside_a_turn(prompt) else "(end turn)"
        case Edited():
            return "yes, edited"
        case Submitted():
            return "(sent)"
        case Deferred():
            return "(later)"
        case Unavailable():
            return "(not available)"
        case _ as other:
            assert_never(other)


def answered_text(prompt: Prompt, reply: Answered) -> str:
    """Return the answer, how long it is remembered, and the typed reason."""
    text = (
        HIDDEN if isinstance(reply.value, SecretValue) else value_text(prompt.question, reply.value)
    )
    remembered = "" if not reply.remember else ", always" if prompt.always else ", for this turn"
    remembered += "" if reply.scope is None else f", {IN_SCOPE[reply.scope]}"
    reason = f": {quoted(reply.reason)}" if reply.reason else ""
    return text + remembered + reason


def quoted(words: str) -> str:
    """Put text in quotation marks.

    The marks are the first of three kinds that do not occur in the text.
    """
    opening, closing = next(
        (marks for marks in _QUOTATION if not set(marks) & set(words)), _QUOTATION[0]
    )
    return f"{opening}{one_line(words)}{closing}"


def covered_text(prompt: Prompt, reply: Reply) -> str:
    """Return a sentence about what a remembered answer covers, or an empty string."""
    if isinstance(reply, Answered) and reply.scope == "conversation" and prompt.kind == "tool":
        return (
            f"From now on {'yes' if reply.value is True else 'no'} to this question in this"
            " conversation."
        )
    if not isinstance(reply, Answered) or not reply.remember:
        return ""
    if prompt.always:
        return (
            "From now on:"
            f" {one_line(reply.remember) if isinstance(reply.remember, str) else scope(prompt)}."
        )
    return f"From now on {'yes' if reply.value is True else 'no'} to {scope(prompt)}."


def value_text(question: Question[object], value: Json) -> str:  # noqa: PLR0911 (one for each type of answer)
    """Return an answer on one line, formatted by the type of its question."""
    if value is None and question.optional:
        return "(skipped)"
    match question.answer_type:
        case answers.BooleanType():
            return "yes" if value else "no"
        case answers.SelectType():
            return choice_text(value)
        case answers.MultiSelectType():
            return ", ".join(map(choice_text, cast("Sequence[Json]", value))) or "(none)"
        case answers.TextType():
            return one_line(scalar_text(value)) or "(empty)"
        case answers.SecretType():
            return HIDDEN
        case answers.SchemaType():
            return one_line(compact(value))
        case _ as other:
            assert_never(other)


def choice_text(value: Json) -> str:
    """Return one selected value, or the free text that was typed instead."""
    other = other_text(value)
    return one_line(scalar_text(value)) if other is None else one_line(other)


# --------------------------------------------------------------------------------------------------
# JSON for display: paths of validation errors, and example values for a schema


MAX_DEPTH = 8
MAX_VALUES = 200


def problem_text(problem: Problem) -> str:
    """Return a validation error with its path, such as `$.replicas: ...`."""
    return f"{json_path(problem.pointer)}: {problem.message}"


def json_path(pointer: str) -> str:
    """Convert a JSON pointer to a path: `/hosts/0/name` becomes `$.hosts[0].name`."""
    path = "$"
    for raw in pointer.split("/")[1:]:
        key = raw.replace("~1", "/").replace("~0", "~")
        path += (
            f"[{key}]"
            if key.isdigit()
            else f".{key}"
            if key.isidentifier()
            else f"[{compact(key)}]"
        )
    return path


def skeleton(schema: JsonObject) -> Json:
    """Return an example value for `schema`. The value may be invalid.

    An object has its required keys, or all keys if none is required. A list has one item. Very
    large or recursive parts become `null`.
    """
    return _Skeleton(schema).of(schema, 0)


class _Skeleton:
    """Builds an example with at most `MAX_VALUES` values, because a hostile schema can be huge."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._left = MAX_VALUES

    def of(self, schema: JsonObject, depth: int) -> Json:
        self._left -= 1
        for key in ("default", "const"):
            if key in schema:
                return schema[key]
        if choices := items(schema.get("enum")):
            return choices[0]
        if depth >= MAX_DEPTH or self._left <= 0:
            return None
        if isinstance(reference := schema.get("$ref"), str):
            return self.of(resolved(reference, self._root), depth + 1)
        if ways := [
            way
            for key in ("anyOf", "oneOf")
            for way in objects(schema.get(key))
            if way.get("type") != "null"
        ]:
            return self.of(ways[0], depth + 1)
        return self._of_type(schema, depth)

    def _of_type(self, schema: JsonObject, depth: int) -> Json:
        match kind_of(schema):
            case "object":
                properties = members(schema.get("properties"))
                required = [key for key in items(schema.get("required")) if isinstance(key, str)]
                keys = required or [*properties]
                return {
                    key: self.of(members(properties.get(key)), depth + 1)
                    for key in keys
                    if self._left > 0
                }
            case "array":
                item = self.of(members(schema.get("items")), depth + 1)
                return [] if item is None else [item]
            case "string":
                return ""
            case "integer" | "number":
                minimum = schema.get("minimum")
                return minimum if isinstance(minimum, int | float) else 0
            case "boolean":
                return False
            case _:
                return None


def kind_of(schema: JsonObject) -> str:
    """Return the JSON type of a schema, or an empty string.

    If the schema has several types, return the first type that is not `null`.
    """
    named = schema.get("type")
    kinds = [named] if isinstance(named, str) else [text(kind) for kind in items(named)]
    implied = "object" if "properties" in schema else "array" if "items" in schema else ""
    return next((kind for kind in kinds if kind != "null"), kinds[0] if kinds else implied)


_MIN_OPTIONS = 2
_MAX_EXAMPLE = 120
_KIND_NAMES = {"object": "a JSON object", "array": "a JSON array"}
_EMPTY_VALUES: tuple[Json, ...] = ({}, [], None)
_ANNOTATIONS = frozenset(
    {
        "title",
        "description",
        "default",
        "examples",
        "$schema",
        "$comment",
        "deprecated",
        "readOnly",
        "writeOnly",
    }
)
_NUMBER_CONSTRAINTS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
}
_TEXT_CONSTRAINTS = {
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "pattern": "matching {}",
    "format": "a {}",
}


def native(prompt: Prompt) -> Prompt:
    """Replace a question's schema with a simpler answer type (yes/no, list or text) if one is
    equivalent.
    """
    kind = prompt.question.answer_type
    if not isinstance(kind, answers.SchemaType):
        return prompt
    schema = written_out(kind.schema)
    asked = _as_type(schema) or answers.SchemaType(schema)
    question: Any = prompt.question
    return (
        prompt if asked == kind else replace(prompt, question=replace(question, answer_type=asked))
    )


def written_out(schema: JsonObject) -> JsonObject:
    """Replace a schema that is only a reference to one of its definitions with that definition."""
    definitions = members(schema.get("$defs"))
    for _ in definitions:
        reference = schema.get("$ref")
        if not isinstance(reference, str) or set(schema) - _ANNOTATIONS - {"$ref", "$defs"}:
            break
        schema = {**resolved(reference, {"$defs": definitions}), "$defs": definitions}
    return schema


def options_of(schema: JsonObject) -> tuple[answers.SelectOption, ...]:
    """Return the values of an `enum` as options, or `()` if a value is null, an object or a list.

    If two values look the same, their options are described by the type of the value.
    """
    listed = items(schema.get("enum"))
    values = [value for value in listed if isinstance(value, bool | int | float | str)]
    alike = Counter(answers.folded(answers.label_of(value)) for value in values)
    options = (
        answers.SelectOption(
            value, _type_name(value) if alike[answers.folded(answers.label_of(value))] > 1 else None
        )
        for value in values
    )
    return tuple(options) if len(values) == len(listed) else ()


def _type_name(value: Scalar) -> str:
    if isinstance(value, str):
        return "text"
    return "yes or no" if isinstance(value, bool) else "a number"


def wants_number(schema: JsonObject) -> bool:
    return schema.get("type") in ("integer", "number")


def number_text(start: Json | UnsetType) -> str:
    """Return the initial number in a field as text, or an empty string."""
    return "" if start is UNSET or start is None else scalar_text(start)


def wants_text(schema: JsonObject) -> bool:
    """Return whether the schema expects a string and is not a list of choices."""
    return schema.get("type") == "string" and "enum" not in schema and "const" not in schema


def expected(schema: JsonObject) -> str:
    """Return the constraints of a number or a string in words, such as `a whole number, at least
    1, at most 10`.
    """
    numbers = {"integer": "a whole number", "number": "a number", "string": "text"}
    kind = numbers.get(str(schema.get("type")))
    if kind is None:
        return ""
    rules = _TEXT_CONSTRAINTS if schema.get("type") == "string" else _NUMBER_CONSTRAINTS
    said = [
        words.format(one_line(scalar_text(schema[key])))
        for key, words in rules.items()
        if key in schema
    ]
    return ", ".join((kind, *said))


def shape(schema: JsonObject) -> str:
    """Return an example of the expected JSON, or an empty string if any JSON is valid."""
    value = skeleton(schema)
    if value in _EMPTY_VALUES:
        return ""
    is_flat = isinstance(value, list) and not isinstance(value[0], Mapping | list)
    return compact(value) if is_flat else pretty(value)


def wanted(schema: JsonObject) -> str:
    """Return the expected JSON in words: `an object, such as {"start": "", "minutes": 0}`."""
    kind = _KIND_NAMES.get(kind_of(schema), "JSON")
    text = compact(skeleton(schema))
    return (
        f"{kind}, such as {one_line(text)}" if shape(schema) and len(text) <= _MAX_EXAMPLE else kind
    )


def _as_type(
    schema: JsonObject,
) -> answers.BooleanType | answers.SelectType | answers.TextType | None:
    constrains = set(schema) - _ANNOTATIONS - {"type", "$defs"}
    match schema.get("type"):
        case "boolean" if not constrains:
            return answers.BooleanType()
        case "string" if not constrains:
            return answers.TextType()
        case _ if constrains == {"enum"}:
            options = options_of(schema)
            return answers.SelectType(options) if len(options) >= _MIN_OPTIONS else None
        case _:
            return None
