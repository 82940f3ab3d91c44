"""Answers as people read and give them: in one line of the transcript, and of JSON under a simple schema as what it is."""

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
from midturn.question.json_value import Json, JsonObject, Scalar, SecretValue, items, members, objects, resolved, text
from midturn.question.question import Question
from midturn.question.reply import Answered, Deferred, Edited, EndedTurn, Replied, Reply, Scope, Submitted, Unavailable, WentBack
from midturn.terminal.prompts.keys import AsJson, is_beside_a_turn, one_line, other_text, pretty, scalar_text, scope

HIDDEN = "(hidden)"

_QUOTATION = ('""', "''", "“”")


IN_SCOPE: Final[Mapping[Scope, str]] = {
    "conversation": "in this conversation",
    "project": "in this project",
    "everywhere": "everywhere",
}
"""Where an answer with a scope counts."""


def reply_text(prompt: Prompt, reply: Reply) -> str:  # noqa: PLR0911 (one for each kind of reply)
    """Say in one line what the person did; a secret is `(hidden)`."""
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
    """Say what was answered, whether it is remembered, and the reason that was typed."""
    text = HIDDEN if isinstance(reply.value, SecretValue) else value_text(prompt.question, reply.value)
    remembered = "" if not reply.remember else ", always" if prompt.always else ", for this turn"
    remembered += "" if reply.scope is None else f", {IN_SCOPE[reply.scope]}"
    reason = f": {quoted(reply.reason)}" if reply.reason else ""
    return text + remembered + reason


def quoted(words: str) -> str:
    """Put a person's words in quotation marks that are not in them, as far as there are three kinds."""
    opening, closing = next((marks for marks in _QUOTATION if not set(marks) & set(words)), _QUOTATION[0])
    return f"{opening}{one_line(words)}{closing}"


def covered_text(prompt: Prompt, reply: Reply) -> str:
    """Say what a remembered answer covers from now on; empty where nothing is remembered."""
    if isinstance(reply, Answered) and reply.scope == "conversation" and prompt.kind == "tool":
        return f"From now on {'yes' if reply.value is True else 'no'} to this question in this conversation."
    if not isinstance(reply, Answered) or not reply.remember:
        return ""
    if prompt.always:
        return f"From now on: {one_line(reply.remember) if isinstance(reply.remember, str) else scope(prompt)}."
    return f"From now on {'yes' if reply.value is True else 'no'} to {scope(prompt)}."


def value_text(question: Question[object], value: Json) -> str:  # noqa: PLR0911 (one for each type of answer)
    """Show an answer in one line, by the type of its question."""
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
    """Show one chosen value, or the words that were typed instead."""
    other = other_text(value)
    return one_line(scalar_text(value)) if other is None else one_line(other)


# ----------------------------------------------------------------------------------------------------------------------
# JSON as a person sees it: where a problem is, and the shape that a schema asks for


DEEPEST = 8
MOST_VALUES = 200


def problem_text(problem: Problem) -> str:
    """Say one problem with its path as people write it: `$.replicas: ...`."""
    return f"{json_path(problem.pointer)}: {problem.message}"


def json_path(pointer: str) -> str:
    """Turn a JSON pointer into a path: `/hosts/0/name` → `$.hosts[0].name`."""
    path = "$"
    for raw in pointer.split("/")[1:]:
        key = raw.replace("~1", "/").replace("~0", "~")
        path += f"[{key}]" if key.isdigit() else f".{key}" if key.isidentifier() else f"[{compact(key)}]"
    return path


def skeleton(schema: JsonObject) -> Json:
    """Return a value of the shape that `schema` asks for; it need not be valid.

    An object has its required keys, or all of them where none is required; a list has one item. What is very large, or goes on for
    ever, ends in `null`.
    """
    return _Skeleton(schema).of(schema, 0)


class _Skeleton:
    """Builds at most `MOST_VALUES` values: a hostile schema may be huge."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._left = MOST_VALUES

    def of(self, schema: JsonObject, depth: int) -> Json:
        self._left -= 1
        for key in ("default", "const"):
            if key in schema:
                return schema[key]
        if choices := items(schema.get("enum")):
            return choices[0]
        if depth >= DEEPEST or self._left <= 0:
            return None
        if isinstance(reference := schema.get("$ref"), str):
            return self.of(resolved(reference, self._root), depth + 1)
        if ways := [way for key in ("anyOf", "oneOf") for way in objects(schema.get(key)) if way.get("type") != "null"]:
            return self.of(ways[0], depth + 1)
        return self._of_type(schema, depth)

    def _of_type(self, schema: JsonObject, depth: int) -> Json:
        match kind_of(schema):
            case "object":
                properties = members(schema.get("properties"))
                required = [key for key in items(schema.get("required")) if isinstance(key, str)]
                keys = required or [*properties]
                return {key: self.of(members(properties.get(key)), depth + 1) for key in keys if self._left > 0}
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
    """Return the type of JSON that a schema asks for, the first that is not `null` where it names several; empty where it names none."""
    named = schema.get("type")
    kinds = [named] if isinstance(named, str) else [text(kind) for kind in items(named)]
    implied = "object" if "properties" in schema else "array" if "items" in schema else ""
    return next((kind for kind in kinds if kind != "null"), kinds[0] if kinds else implied)


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
    if not isinstance(kind, answers.SchemaType):
        return prompt
    schema = written_out(kind.schema)
    asked = _as_type(schema) or answers.SchemaType(schema)
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


def options_of(schema: JsonObject) -> tuple[answers.SelectOption, ...]:
    """Return what an `enum` lists, as rows: values that read alike say of which type they are. None where one is no row of a list."""
    listed = items(schema.get("enum"))
    values = [value for value in listed if isinstance(value, bool | int | float | str)]
    alike = Counter(answers.folded(answers.label_of(value)) for value in values)
    options = (
        answers.SelectOption(value, _type_name(value) if alike[answers.folded(answers.label_of(value))] > 1 else None) for value in values
    )
    return tuple(options) if len(values) == len(listed) else ()


def _type_name(value: Scalar) -> str:
    if isinstance(value, str):
        return "a text"
    return "yes or no" if isinstance(value, bool) else "a number"


def wants_number(schema: JsonObject) -> bool:
    """Tell whether a number is asked for."""
    return schema.get("type") in ("integer", "number")


def number_text(start: Json | UnsetType) -> str:
    """Write the number that a field begins with; nothing where there is none."""
    return "" if start is UNSET or start is None else scalar_text(start)


def wants_text(schema: JsonObject) -> bool:
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


def _as_type(schema: JsonObject) -> answers.BooleanType | answers.SelectType | answers.TextType | None:
    constrains = set(schema) - _NOTES - {"type", "$defs"}
    match schema.get("type"):
        case "boolean" if not constrains:
            return answers.BooleanType()
        case "string" if not constrains:
            return answers.TextType()
        case _ if constrains == {"enum"}:
            options = options_of(schema)
            return answers.SelectType(options) if len(options) >= _FEWEST else None
        case _:
            return None
