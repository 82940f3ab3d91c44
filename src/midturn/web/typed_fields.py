"""From what was typed into the form of a schema to the answer."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from midturn.errors import AnswerError, Problem
from midturn.prompts.answer_text import options_of
from midturn.values.json_value import Json, NotJson, members, read_json
from midturn.web.schema_fields import SchemaField


def typed_value(field: SchemaField) -> Json:
    """Return the answer that a form holds.

    Raises:
        AnswerError: Something is missing or is not what its field takes; each problem says where.
    """
    problems: list[Problem] = []
    value = _value(field, problems)
    if problems:
        raise AnswerError(problems)
    return None if value is UNSET else value


def as_far_as_typed(field: SchemaField) -> Json:
    """Return what a form holds so far; what is missing or wrong is left out."""
    value = _value(field, [])
    return None if value is UNSET else value


def _value(field: SchemaField, problems: list[Problem]) -> Json | UnsetType:  # noqa: PLR0911  one for each kind
    match field.kind:
        case "group" | "list" | "several" if field.given is False:
            return None if field.is_required else UNSET
        case "group":
            named = ((_key(part), _value(part, problems)) for part in field.parts)
            return {key: value for key, value in named if value is not UNSET}
        case "list":
            return [value for part in field.parts if (value := _value(part, problems)) is not UNSET]
        case "several":
            options = options_of(members(field.schema["items"]))
            return [options[int(choice.value)].value for choice in field.choices if choice.chosen]
        case "const":
            return field.value
        case "switch":
            return field.text == "yes"
        case "choice":
            return _chosen(field, problems)
        case _:
            return _written(field, problems)


def _key(field: SchemaField) -> str:
    return field.pointer.rpartition("/")[2].replace("~1", "/").replace("~0", "~")


def _missing(field: SchemaField, problems: list[Problem], words: str) -> Json | UnsetType:
    if field.is_required and field.is_nullable:
        return None
    if field.is_required:
        problems.append(Problem(field.pointer, words))
    return UNSET


def _chosen(field: SchemaField, problems: list[Problem]) -> Json | UnsetType:
    chosen = next((choice.value for choice in field.choices if choice.chosen and choice.value), "")
    if not chosen:
        return _missing(field, problems, "Choose one of these.")
    return options_of(field.schema)[int(chosen)].value if "enum" in field.schema else chosen == "yes"


def _written(field: SchemaField, problems: list[Problem]) -> Json | UnsetType:
    held = field.text if field.kind in ("line", "text") else field.text.strip()
    if not held:
        return _missing(field, problems, "Fill this in.")
    match field.kind:
        case "number":
            value = _read(held)
            if isinstance(value, bool) or not isinstance(value, int | float):
                problems.append(Problem(field.pointer, "This is not a number."))
            return value
        case "json":
            value = _read(held)
            if value is UNSET:
                problems.append(Problem(field.pointer, "This is not JSON."))
            return value
        case "moment" if field.zone is not None:
            seconds = held if held.count(":") > 1 else f"{held}:00"
            return f"{seconds}{field.zone.strip()}"
        case _:
            return held


def _read(held: str) -> Json | UnsetType:
    try:
        return read_json(held)
    except NotJson:
        return UNSET
