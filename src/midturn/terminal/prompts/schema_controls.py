"""Form controls for JSON schemas, for the web page and for prompts that ask field by field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from midturn.question.answer_type import SelectOption
from midturn.question.json_value import (
    Json,
    JsonObject,
    is_number,
    items,
    json_equal,
    members,
    objects,
    resolved,
    text,
)
from midturn.terminal.prompts.answer_text import kind_of, options_of, written_out

SchemaControl: TypeAlias = Literal[
    "const", "choice", "boolean", "string", "number", "object", "array", "json"
]
MAX_DEPTH: Final = 8
NOTES: Final = frozenset(
    {
        "title",
        "description",
        "default",
        "examples",
        "$comment",
        "deprecated",
        "readOnly",
        "writeOnly",
    }
)
_UNDRAWN: Final = frozenset({"anyOf", "oneOf", "allOf", "not", "if", "$ref", "dependentSchemas"})
"""Keywords with subschemas that can allow values of different types. Such values can only be
entered as JSON.
"""
MAX_FIELDS: Final = 20
"""Maximum number of fields that are asked one by one."""
_ASKED: Final = frozenset({"const", "choice", "boolean", "string", "number"})


def plain_schema(schema: JsonObject, root: JsonObject) -> tuple[JsonObject, bool]:
    """Resolve references and nullable types. Return the schema and whether null is allowed."""
    is_nullable = False
    for _ in range(MAX_DEPTH):
        if isinstance(reference := schema.get("$ref"), str) and not set(schema) - NOTES - {
            "$ref",
            "$defs",
        }:
            schema = {
                **resolved(reference, root),
                **{key: schema[key] for key in NOTES & set(schema)},
            }
        elif ways := next(
            (objects(schema.get(key)) for key in ("anyOf", "oneOf") if key in schema), None
        ):
            others = [way for way in ways if way.get("type") != "null"]
            if len(others) != 1 or set(schema) - NOTES - {"anyOf", "oneOf", "$defs"}:
                break
            is_nullable |= len(others) < len(ways)
            schema = {**others[0], **{key: schema[key] for key in NOTES & set(schema)}}
        else:
            break
    return schema, is_nullable or "null" in items(schema.get("type"))


def control_of(schema: JsonObject) -> SchemaControl:
    """Return the control for a schema that `plain_schema` returned.

    The control is `json` if no other control can represent the values.
    """
    if "const" in schema:
        return "const"
    if (
        set(schema) & _UNDRAWN
        or len([one for one in items(schema.get("type")) if one != "null"]) > 1
    ):
        return "json"
    if "enum" in schema:
        return "choice" if options_of(schema) else "json"
    match kind_of(schema):
        case "boolean" | "string" | "object" | "array" as kind:
            return kind
        case "integer" | "number":
            return "number"
        case _:
            return "json"


def properties_of(schema: JsonObject) -> JsonObject:
    """Return the properties of an object, or `{}` if a required property has no schema."""
    known = members(schema.get("properties"))
    return {} if set(items(schema.get("required"))) - set(known) else known


def several_of(schema: JsonObject) -> tuple[SelectOption, ...]:
    """Return the choices of a list of distinct choices, or `()` for any other list."""
    each = members(schema.get("items"))
    is_set = schema.get("uniqueItems") is True and "prefixItems" not in schema
    return (
        options_of(each)
        if is_set and "enum" in each and not set(each) - NOTES - {"type", "enum"}
        else ()
    )


# --------------------------------------------------------------------------------------------------
# Flat schemas: objects whose properties are asked one by one


class FlatField(Struct, frozen=True, kw_only=True):
    """One property of a flat object. `start` is its initial value, or `UNSET`.

    `options` are the values of a choice or of a multiple choice.
    """

    name: str
    label: str
    hint: str
    schema: JsonObject
    control: SchemaControl
    is_required: bool
    is_nullable: bool
    start: Json | UnsetType = UNSET
    options: tuple[SelectOption, ...] = ()


def flat_fields(schema: JsonObject, start: Json | UnsetType = UNSET) -> tuple[FlatField, ...]:
    """Return the fields of a flat object.

    An object is flat if each property is a constant, a choice, a boolean, a string, a number, or a
    list of distinct choices. Return `()` if the object is not flat, has more than 20 fields, or has
    an initial value that no field can represent.
    """
    whole = written_out(schema)
    known: JsonObject = properties_of(whole) if control_of(whole) == "object" else {}
    if not 1 <= len(known) <= MAX_FIELDS:
        return ()
    required = items(whole.get("required"))
    fields = [
        _flat(name, members(part), whole, is_required=name in required)
        for name, part in known.items()
    ]
    if start is not UNSET and start is not None:
        begun = members(start)
        if not isinstance(start, Mapping) or begun.keys() - known.keys():
            return ()
        fields = [None if field is None else _begun(field, begun) for field in fields]
    flat = tuple(field for field in fields if field is not None)
    return (
        flat if len(flat) == len(fields) and any(field.control != "const" for field in flat) else ()
    )


def _flat(
    name: str, schema: JsonObject, root: JsonObject, *, is_required: bool
) -> FlatField | None:
    plain, is_nullable = plain_schema(schema, root)
    control = control_of(plain)
    several = several_of(plain) if control == "array" else ()
    if control not in _ASKED and not several:
        return None
    return FlatField(
        name=name,
        label=text(plain.get("title")) or text(schema.get("title")) or name,
        hint=text(plain.get("description")) or text(schema.get("description")),
        schema=plain,
        control=control,
        is_required=is_required,
        is_nullable=is_nullable,
        start=schema.get("default", plain.get("default", UNSET)),
        options=several or (options_of(plain) if control == "choice" else ()),
    )


def _begun(field: FlatField, begun: Mapping[str, Json]) -> FlatField | None:
    """Return a field with its initial value, or None if its control cannot represent the value."""
    if field.name not in begun:
        return replace(field, start=UNSET if field.is_required else None)
    value = begun[field.name]
    fits = field.is_nullable if value is None else _holds(field, value)
    return replace(field, start=value) if fits else None


def _holds(field: FlatField, value: Json) -> bool:
    match field.control:
        case "const":
            return json_equal(value, field.schema["const"])
        case "boolean":
            return isinstance(value, bool)
        case "string":
            return isinstance(value, str)
        case "number":
            return is_number(value)
        case _:
            held = items(value) if field.control == "array" else (value,)
            return all(
                any(json_equal(option.value, one) for option in field.options) for one in held
            )
