"""From a question to the control that answers it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, assert_never

from msgspec import UNSET, Struct, UnsetType

from midturn.core.json_value import Json, JsonObject
from midturn.core.question import Question
from midturn.core.question.answer_type import (
    BooleanType,
    MultiSelectType,
    SchemaType,
    SecretType,
    SelectOption,
    SelectType,
    TextType,
)
from midturn.prompts.content import other_text, position, pretty, scalar_text
from midturn.prompts.json_text import skeleton
from midturn.prompts.native import options_of, written_out
from midturn.web.body import Fields

ControlKind: TypeAlias = Literal["boolean", "one", "several", "text", "secret", "number", "json"]
SEARCHED_FROM = 12  # options: more than that are searched, not read
OTHER = "other"


class ControlOption(Struct, frozen=True):
    """One option: its place is its name on the page."""

    place: int
    label: str
    description: str
    chosen: bool


class Control(Struct, frozen=True, kw_only=True):
    """What a page draws for a question. `text` is what a field holds, `limits` its attributes, `hint` what fits."""

    kind: ControlKind
    choices: tuple[ControlOption, ...] = ()
    allow_other: bool = False
    other: str | None = None
    text: str = ""
    placeholder: str = ""
    default: bool | None = None
    limits: Mapping[str, str] = {}
    hint: str = ""
    is_empty_meant: bool = False

    @property
    def is_searched(self) -> bool:
        """Whether there are so many options that one searches."""
        return len(self.choices) >= SEARCHED_FROM


def control_of(question: Question[Any], start: Json | UnsetType, typed: Fields | None = None) -> Control:
    """Return the control of a question, holding `start`, or what was typed before and did not fit."""
    match native(question):
        case BooleanType():
            return Control(kind="boolean", default=start if isinstance(start, bool) else None)
        case SelectType(options=options, allow_other=allow_other):
            return Control(kind="one", **_choices(options, start, typed, allow_other=allow_other))
        case MultiSelectType(options=options, allow_other=allow_other) as several:
            hint = _how_many(several, len(options) + allow_other)
            return Control(kind="several", hint=hint, **_choices(options, start, typed, allow_other=allow_other))
        case TextType():
            return _text(question, start, typed)
        case SecretType():
            return Control(kind="secret")
        case SchemaType(schema):
            return _of_schema(schema, start, typed)
        case _ as other:
            assert_never(other)


def native(question: Question[Any]) -> BooleanType | SelectType | MultiSelectType | TextType | SecretType | SchemaType:
    """Return the type whose control fits: a schema of yes or no, of a few values or of a text is one of those."""
    kind = question.answer_type
    if not isinstance(kind, SchemaType):
        return kind
    schema = written_out(kind.schema)
    if options := options_of(schema):
        return SelectType(options)
    match schema.get("type") if "enum" not in schema else None:
        case "boolean":
            return BooleanType()
        case "string":
            return TextType()
        case _:
            return SchemaType(schema)


def _choices(options: tuple[SelectOption, ...], start: Json | UnsetType, typed: Fields | None, *, allow_other: bool) -> dict[str, Any]:
    marked = _marked(options, start) if typed is None else set(typed.all("answer"))
    other = _other(start) if typed is None else typed.text(OTHER) if OTHER in marked else None
    choices = tuple(
        ControlOption(place, scalar_text(option.value), option.description or "", str(place) in marked)
        for place, option in enumerate(options)
    )
    return {"choices": choices, "allow_other": allow_other, "other": other}


def _marked(options: tuple[SelectOption, ...], start: Json | UnsetType) -> set[str]:
    places = (position(options, value) for value in _values(start))
    return {str(place) for place in places if place is not None}


def _other(start: Json | UnsetType) -> str | None:
    return next((text for value in _values(start) if (text := other_text(value)) is not None), None)


def _values(start: Json | UnsetType) -> Sequence[Json]:
    if start is UNSET or start is None:
        return ()
    return start if isinstance(start, list | tuple) else (start,)


def _how_many(kind: MultiSelectType, every: int) -> str:
    most = every if kind.max is None else kind.max
    if kind.min == most:
        return f"Choose {most}."
    if kind.min and most < every:
        return f"Choose {kind.min} to {most}."
    if kind.min:
        return f"Choose at least {kind.min}."
    return f"Choose at most {most}." if most < every else "Choose any number, or none."


def _text(question: Question[Any], start: Json | UnsetType, typed: Fields | None) -> Control:
    text = (start if isinstance(start, str) else "") if typed is None else typed.text("answer")
    schema: JsonObject = question.answer_type.schema if isinstance(question.answer_type, SchemaType) else {}
    bounds = {"minlength": schema.get("minLength"), "maxlength": schema.get("maxLength")}
    hints = [f"{said} {bound}" for said, key in _TEXT_HINTS if (bound := schema.get(key)) is not None]
    return Control(
        kind="text",
        text=text,
        limits={name: str(bound) for name, bound in bounds.items() if bound is not None},
        hint=_sentence(hints),
        is_empty_meant=typed is not None and not text,
    )


_TEXT_HINTS = (("at least this many characters:", "minLength"), ("at most this many characters:", "maxLength"), ("of the form", "pattern"))
_NUMBER_HINTS = (
    ("at least", "minimum"),
    ("more than", "exclusiveMinimum"),
    ("at most", "maximum"),
    ("less than", "exclusiveMaximum"),
    ("a multiple of", "multipleOf"),
)


def _of_schema(schema: JsonObject, start: Json | UnsetType, typed: Fields | None) -> Control:
    kept = None if typed is None else typed.text("answer")
    if schema.get("type") in {"integer", "number"}:
        text = ("" if start is UNSET else scalar_text(start)) if kept is None else kept
        return Control(kind="number", text=text, hint=_sentence(_number_hints(schema)))
    text = ("" if start is UNSET else pretty(start)) if kept is None else kept
    return Control(kind="json", text=text, placeholder=pretty(skeleton(schema)), hint=_described(schema))


def _number_hints(schema: JsonObject) -> list[str]:
    kind = "a whole number" if schema.get("type") == "integer" else "a number"
    return [kind, *(f"{said} {scalar_text(schema[key])}" for said, key in _NUMBER_HINTS if key in schema)]


def _described(schema: JsonObject) -> str:
    said = schema.get("description")
    return said if isinstance(said, str) else ""


def _sentence(parts: Sequence[str]) -> str:
    joined = ", ".join(parts)
    return f"{joined[0].upper()}{joined[1:]}." if joined else ""
