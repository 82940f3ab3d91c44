"""JSON Schema as a form: a field per property, a group per object, and lists with buttons that add
and remove items.

The same tree of fields renders the form and reads the submitted fields. Submitted fields become the
answer, or are shown again next to the errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, Protocol, TypeAlias

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from midturn.question.json_value import Json, JsonObject, items, members, pointer_to, text
from midturn.terminal.prompts.answer_text import kind_of, options_of, written_out
from midturn.terminal.prompts.keys import pretty, scalar_text
from midturn.terminal.prompts.schema_controls import (
    MAX_DEPTH,
    control_of,
    plain_schema,
    properties_of,
    several_of,
)
from midturn.web.body import Fields
from midturn.web.hints import number_hints, sentence, text_hints

FieldKind: TypeAlias = Literal[
    "line",
    "text",
    "number",
    "choice",
    "switch",
    "moment",
    "const",
    "several",
    "group",
    "list",
    "json",
]
MAX_FIELDS: Final = 200
MAX_ITEMS: Final = 100
MAX_LINE_CHARS: Final = 200  # maximum length of text in a single-line field, in characters
_INPUTS: Final = {"email": "email", "uri": "url"}
_MOMENTS: Final = {"date": "date", "time": "time", "date-time": "datetime-local"}
_ZONED: Final = re.compile(r"(?P<moment>.*?)(?P<zone>[Zz]|[+-]\d{2}:\d{2})")
_LAYOUT_ACTS: Final = ("add ", "remove ", "as ")


class FieldChoice(Struct, frozen=True):
    """One of several values."""

    value: str
    label: str
    chosen: bool


class SchemaField(Struct, frozen=True, kw_only=True):
    """A field of the form, or a group of fields.

    Args:
        kind: Kind of the control.
        pointer: JSON Pointer to the field in the answer.
        text: Content of the field.
        limits: HTML attributes of the control.
        given: Whether an optional group is part of the answer. None if the group is not optional.
        value: Value of a constant.
    """

    kind: FieldKind
    pointer: str
    label: str
    schema: JsonObject
    is_required: bool = True
    is_nullable: bool = False
    hint: str = ""
    text: str = ""
    zone: str | None = None
    input: str = "text"
    limits: Mapping[str, str] = {}
    choices: Sequence[FieldChoice] = ()
    parts: Sequence[SchemaField] = ()
    given: bool | None = None
    value: Json = None
    can_add: bool = False
    can_remove: bool = False
    is_new: bool = False

    @property
    def name(self) -> str:
        """Name of the field in the submitted form."""
        return _wire_name(self.pointer)

    @property
    def id(self) -> str:
        """HTML ID of the field: unique and without spaces."""
        return "field" + "".join(
            letter if letter.isascii() and letter.isalnum() else f"_{ord(letter):x}_"
            for letter in self.pointer
        )


def _wire_name(pointer: str) -> str:
    """Return the field name for a pointer, without line breaks and NUL characters, which browsers
    change in field names.
    """
    # pointers contain `~` only in `~0` and `~1`
    return pointer.replace("\r", "~r").replace("\n", "~n").replace("\0", "~z")


class _Source(Protocol):
    """Where the content of fields comes from."""

    def value(self) -> Json | UnsetType: ...
    def typed(self) -> Fields | None: ...
    def at(self) -> str: ...
    def part(self, key: str) -> _Source: ...
    def items(self, least: int) -> list[_Source]: ...


class _AsJson(Struct, frozen=True):
    """Content from an answer or a default."""

    json: Json | UnsetType = UNSET
    is_new: bool = False
    is_left_out: bool = False

    def value(self) -> Json | UnsetType:
        return self.json

    def typed(self) -> Fields | None:
        return None

    def at(self) -> str:
        return ""

    def part(self, key: str) -> _Source:
        if not isinstance(self.json, Mapping):
            return _AsJson()
        return _AsJson(self.json[key]) if key in self.json else _AsJson(is_left_out=True)

    def items(self, least: int) -> list[_Source]:
        given: list[_Source] = (
            [_AsJson(one) for one in items(self.json)] if self.json is not UNSET else []
        )
        return given + [_AsJson()] * (least - len(given))


class _Typed(Struct, frozen=True):
    """Content from submitted fields."""

    fields: Fields
    name: str = ""
    is_new: bool = False

    def value(self) -> Json | UnsetType:
        return UNSET

    def typed(self) -> Fields | None:
        return self.fields

    def at(self) -> str:
        return self.name

    def part(self, key: str) -> _Source:
        return _Typed(self.fields, _wire_name(pointer_to(self.name, key)))

    def items(self, least: int) -> list[_Source]:
        del least
        count = self.fields.one(f"n{self.name}") or "0"
        number = (
            min(int(count), MAX_ITEMS)
            if count.isascii() and count.isdecimal() and len(count) < 5  # noqa: PLR2004  number of digits
            else 0
        )
        act = self.fields.one("act") or ""
        kept: list[_Source] = [
            _Typed(self.fields, f"{self.name}/{place}")
            for place in range(number)
            if act != f"remove {self.name}/{place}"
        ]
        return [*kept, _AsJson(is_new=True)] if act == f"add {self.name}" else kept


def changes_layout(act: str | None) -> bool:
    """Return whether the pressed button changes only the layout of the form."""
    return act is not None and act.startswith(_LAYOUT_ACTS)


def fields_of(
    schema: JsonObject, start: Json | UnsetType, typed: Fields | None = None
) -> SchemaField | None:
    """Return the form for a schema, filled with `start` or the submitted fields. Return None if
    another control or a JSON field is better.
    """
    whole = written_out(schema)
    kind = "moment" if _moment(whole) else kind_of(whole)
    is_form = (
        (kind == "object" and members(whole.get("properties")))
        or (kind == "array" and "items" in whole)
        or kind == "moment"
    )
    if not is_form:
        return None
    source: _Source = _AsJson(start) if typed is None else _Typed(typed)
    made = _Form(schema).field(whole, "", source, "")
    return None if made.kind == "json" else made


class _Form:
    """Builds at most `MAX_FIELDS` fields. All other values are edited as JSON."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._left = MAX_FIELDS

    def field(
        self,
        schema: JsonObject,
        pointer: str,
        source: _Source,
        label: str,
        *,
        is_required: bool = True,
    ) -> SchemaField:
        self._left -= 1
        plain, is_nullable = plain_schema(schema, self._root)
        common = SchemaField(
            kind="json",
            pointer=pointer,
            label=text(plain.get("title")) or text(schema.get("title")) or label,
            schema=plain,
            is_required=is_required,
            is_nullable=is_nullable,
            hint=text(plain.get("description")) or text(schema.get("description")),
            is_new=getattr(source, "is_new", False),
        )
        default = schema.get("default", plain.get("default", UNSET))
        if (
            isinstance(source, _AsJson)
            and source.json is UNSET
            and not source.is_left_out
            and default is not UNSET
        ):
            source = _AsJson(default, is_new=source.is_new)
        if self._left < 0 or pointer.count("/") > MAX_DEPTH:
            return self._json(common, source)
        return self._of_kind(common, source)

    def _of_kind(self, field: SchemaField, source: _Source) -> SchemaField:  # noqa: PLR0911  one return per kind
        schema = field.schema
        control = control_of(schema)
        if control == "const":
            return _replaced(
                field, kind="const", value=schema["const"], text=scalar_text(schema["const"])
            )
        typed = source.typed()
        # the field was shown as JSON, because its value did not fit the control
        if typed is not None and typed.one(f"k{source.at()}") == "json":
            return self._json(field, source)
        match control:
            case "choice":
                return self._choice(field, source)
            case "boolean":
                return self._boolean(field, source)
            case "string":
                return self._string(field, source)
            case "number":
                return self._number(field, source)
            case "object":
                return self._group(field, source)
            case "array":
                return self._list(field, source)
            case _:
                return self._json(field, source)

    def _held(
        self, field: SchemaField, source: _Source, fits: type | tuple[type, ...]
    ) -> str | None:
        """Return the content of a control, or None if the value does not fit the control."""
        if (typed := source.typed()) is not None:
            return typed.text(f"f{source.at()}")
        value = source.value()
        if value is UNSET or (value is None and (field.is_nullable or not field.is_required)):
            return ""
        fitting = isinstance(value, fits) and (not isinstance(value, bool) or fits is bool)
        return scalar_text(value) if fitting else None

    def _string(self, field: SchemaField, source: _Source) -> SchemaField:
        schema, held = field.schema, self._held(field, source, str)
        if held is None:
            return self._json(field, source)
        hint = _joined_hints(field.hint, sentence(text_hints(schema)))
        named = text(schema.get("format"))
        if moment := _moment(schema):
            return _moment_field(
                _replaced(field, kind="moment", input=moment, hint=_joined_hints(field.hint)),
                held,
                source,
            )
        most = schema.get("maxLength")
        short = isinstance(most, int) and most <= MAX_LINE_CHARS
        is_line = "\n" not in held and (short or "pattern" in schema or named)
        limits = {"inputmode": {"email": "email", "uri": "url"}.get(named, "text")}
        return _replaced(
            field,
            kind="line" if is_line else "text",
            text=held,
            hint=hint,
            input=_INPUTS.get(named, "text"),
            limits=limits,
        )

    def _number(self, field: SchemaField, source: _Source) -> SchemaField:
        held = self._held(field, source, (int, float))
        if held is None:
            return self._json(field, source)
        schema = field.schema
        named = (("minimum", "min"), ("maximum", "max"))
        limits = {attribute: scalar_text(schema[key]) for key, attribute in named if key in schema}
        limits["step"] = "1" if schema.get("type") == "integer" else "any"
        limits["inputmode"] = "numeric" if schema.get("type") == "integer" else "decimal"
        hint = _joined_hints(field.hint, sentence(number_hints(schema)))
        return _replaced(field, kind="number", text=held, input="number", limits=limits, hint=hint)

    def _boolean(self, field: SchemaField, source: _Source) -> SchemaField:
        typed, value = source.typed(), source.value()
        if (
            field.is_required
            and not field.is_nullable
            and (typed is not None or value is UNSET or isinstance(value, bool))
        ):
            chosen = typed.one(f"f{source.at()}") == "yes" if typed is not None else value is True
            return _replaced(field, kind="switch", text="yes" if chosen else "")
        given = {True: "yes", False: "no"}[value] if isinstance(value, bool) else ""
        held = typed.one(f"f{source.at()}") if typed is not None else given
        choices = [
            FieldChoice("", _empty_label(field), not held),
            FieldChoice("yes", "yes", held == "yes"),
            FieldChoice("no", "no", held == "no"),
        ]
        return _replaced(field, kind="choice", choices=choices)

    def _choice(self, field: SchemaField, source: _Source) -> SchemaField:
        options = options_of(field.schema)
        typed, value = source.typed(), source.value()
        places = {
            str(place)
            for place, option in enumerate(options)
            if value is not UNSET and _same(option.value, value)
        }
        held = (typed.one(f"f{source.at()}") or "") if typed is not None else next(iter(places), "")
        if typed is None and value is not UNSET and value is not None and not places:
            return self._json(field, source)
        every = [FieldChoice("", _empty_label(field), not held)]
        every += [
            FieldChoice(str(place), scalar_text(option.value), held == str(place))
            for place, option in enumerate(options)
        ]
        return _replaced(field, kind="choice", choices=every)

    def _group(self, field: SchemaField, source: _Source) -> SchemaField:
        schema = field.schema
        known, value = properties_of(schema), source.value()
        if not known or (
            value is not UNSET
            and value is not None
            and not (isinstance(value, Mapping) and value.keys() <= known.keys())
        ):
            return self._json(field, source)
        required = items(schema.get("required"))
        parts = [
            self.field(
                members(part),
                pointer_to(field.pointer, name),
                source.part(name),
                name,
                is_required=name in required,
            )
            for name, part in known.items()
        ]
        return _replaced(field, kind="group", parts=parts, given=_is_given(field, source))

    def _list(self, field: SchemaField, source: _Source) -> SchemaField:
        schema, value = field.schema, source.value()
        if (
            "prefixItems" in schema
            or "items" not in schema
            or not (value is UNSET or value is None or isinstance(value, list | tuple))
        ):
            return self._json(field, source)
        each = members(schema["items"])
        if several_of(schema):
            return self._several(field, source, each)
        least, most = (schema.get(key) for key in ("minItems", "maxItems"))
        lowest = least if isinstance(least, int) else 0
        given = source.items(min(lowest, MAX_ITEMS) if field.is_required else 0)
        parts = [
            self.field(each, f"{field.pointer}/{place}", one, f"{place + 1}.")
            for place, one in enumerate(given)
        ]
        highest = most if isinstance(most, int) else MAX_ITEMS
        return _replaced(
            field,
            kind="list",
            parts=[_replaced(part, can_remove=True) for part in parts],
            given=_is_given(field, source),
            hint=_joined_hints(
                field.hint, _count_hint(lowest, most if isinstance(most, int) else None)
            ),
            can_add=len(parts) < min(highest, MAX_ITEMS),
        )

    def _several(self, field: SchemaField, source: _Source, each: JsonObject) -> SchemaField:
        options, typed = options_of(each), source.typed()
        held = items(source.value()) if source.value() is not UNSET else ()
        places = {
            str(place)
            for place, option in enumerate(options)
            if any(_same(option.value, one) for one in held)
        }
        if len(places) < len(held):
            return self._json(field, source)
        chosen = set(typed.all(f"f{source.at()}")) if typed is not None else places
        every = [
            FieldChoice(str(place), scalar_text(option.value), str(place) in chosen)
            for place, option in enumerate(options)
        ]
        return _replaced(field, kind="several", choices=every, given=_is_given(field, source))

    def _json(self, field: SchemaField, source: _Source) -> SchemaField:
        typed, value = source.typed(), source.value()
        held = (
            typed.text(f"f{source.at()}")
            if typed is not None
            else ""
            if value is UNSET
            else pretty(value)
        )
        return _replaced(field, kind="json", text=held, hint=_joined_hints("JSON.", field.hint))


def _replaced(field: SchemaField, **changes: object) -> SchemaField:
    return replace(field, **changes)


def _same(one: Json, other: Json | UnsetType) -> bool:
    return isinstance(one, bool) == isinstance(other, bool) and one == other


def _empty_label(field: SchemaField) -> str:
    return "Select…" if field.is_required and not field.is_nullable else "Not set"


def _is_given(field: SchemaField, source: _Source) -> bool | None:
    if field.is_required and not field.is_nullable:
        return None
    typed = source.typed()
    return (
        typed.one(f"g{source.at()}") == "yes"
        if typed is not None
        else source.value() is not UNSET and source.value() is not None
    )


def _moment(schema: JsonObject) -> str:
    """Return the HTML input type for a date or time, or an empty string if the schema is for
    neither or has additional rules.
    """
    named = text(schema.get("format"))
    is_bound = set(schema) & {"pattern", "enum", "const"}
    return _MOMENTS.get(named, "") if kind_of(schema) == "string" and not is_bound else ""


def _moment_field(field: SchemaField, held: str, source: _Source) -> SchemaField:
    if field.input == "date":
        return _replaced(field, text=held)
    if (typed := source.typed()) is not None:
        return _replaced(field, text=held, zone=typed.text(f"z{source.at()}"), limits={"step": "1"})
    found = _ZONED.fullmatch(held)
    moment, zone = (found["moment"].replace(" ", "T"), found["zone"]) if found else (held, "Z")
    return _replaced(
        field, text=moment, zone=zone, limits={"step": "any" if "." in moment else "1"}
    )


def _joined_hints(*parts: str) -> str:
    return " ".join(
        part if part.endswith((".", "!", "?", ":")) else f"{part}." for part in parts if part
    )


def _count_hint(least: int, most: int | None) -> str:
    if least and most == least:
        return f"{least} of them."
    if most is not None:
        return f"{least} to {most} of them." if least else f"At most {most}."
    return f"At least {least}." if least else ""


def walk_fields(field: SchemaField) -> Iterable[SchemaField]:
    """Yield a field and all fields inside it."""
    yield field
    for part in field.parts:
        yield from walk_fields(part)
