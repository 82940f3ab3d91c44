"""An answer in one line: the transcript row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never, cast

from midturn.errors import Problem
from midturn.prompts.content import one_line, other_text, scalar_text
from midturn.prompts.keys import is_beside_a_turn, scope
from midturn.question.answer_type import BooleanType, MultiSelectType, SchemaType, SecretType, SelectType, TextType
from midturn.question.question import Question
from midturn.question.reply import Answered, Edited, EndedTurn, Replied, Reply, Submitted, Unavailable, WentBack
from midturn.record.prompt import Prompt
from midturn.values.json_value import Json, JsonObject, compact, items, members, objects, text
from midturn.values.secret import SecretValue

HIDDEN = "(hidden)"

_QUOTATION = ('""', "''", "“”")


def reply_text(prompt: Prompt, reply: Reply) -> str:  # noqa: PLR0911 (one for each kind of reply)
    """Say in one line what the person did; a secret is `(hidden)`."""
    match reply:
        case Answered():
            return answered_text(prompt, reply)
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
        case Unavailable():
            return "(not available)"
        case _ as other:
            assert_never(other)


def answered_text(prompt: Prompt, reply: Answered) -> str:
    """Say what was answered, whether it is remembered, and the reason that was typed."""
    text = HIDDEN if isinstance(reply.value, SecretValue) else value_text(prompt.question, reply.value)
    remembered = "" if not reply.remember else ", always" if prompt.always else ", for this turn"
    reason = f": {quoted(reply.reason)}" if reply.reason else ""
    return text + remembered + reason


def quoted(words: str) -> str:
    """Put a person's words in quotation marks that are not in them, as far as there are three kinds."""
    opening, closing = next((marks for marks in _QUOTATION if not set(marks) & set(words)), _QUOTATION[0])
    return f"{opening}{one_line(words)}{closing}"


def covered_text(prompt: Prompt, reply: Reply) -> str:
    """Say what a remembered answer covers from now on; empty where nothing is remembered."""
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
        case BooleanType():
            return "yes" if value else "no"
        case SelectType():
            return choice_text(value)
        case MultiSelectType():
            return ", ".join(map(choice_text, cast("Sequence[Json]", value))) or "(none)"
        case TextType():
            return one_line(scalar_text(value)) or "(empty)"
        case SecretType():
            return HIDDEN
        case SchemaType():
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


def resolved(reference: str, root: JsonObject) -> JsonObject:
    """Return the schema in `root` that a reference leads to; an empty one where it leads to none."""
    found: Json = root
    for part in reference.removeprefix("#").split("/")[1:]:
        found = members(found).get(part.replace("~1", "/").replace("~0", "~"))
    return members(found)
