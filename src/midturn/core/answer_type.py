"""The six types of answers (spec 1.2), tagged by `type` on the wire."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

from midturn.core.json_value import JsonObject, Scalar


class SelectOption(Struct, frozen=True, omit_defaults=True):
    """One choice: its value, and what it means where the value alone does not say it."""

    value: Scalar
    description: str | None = None


class BooleanType(Struct, frozen=True, tag="boolean"):
    """`true` or `false`; never `"true"`, never `1`."""


class SelectType(Struct, frozen=True, omit_defaults=True, tag="select"):
    """Exactly one of 1 to 200 options, or `{"other": "<text>"}` where `allow_other` is set."""

    options: tuple[SelectOption, ...]
    allow_other: bool = False


class MultiSelectType(Struct, frozen=True, omit_defaults=True, tag="multi_select"):
    """Any number of options between `min` and `max` (None: all), in option order; `{"other": …}` comes last."""

    options: tuple[SelectOption, ...]
    min: int = 0
    max: int | None = None
    allow_other: bool = False


class TextType(Struct, frozen=True, tag="text"):
    """A string."""


class SecretType(Struct, frozen=True, tag="secret"):
    """A string that is never stored, logged, shown, cached, or sent to a model (spec 9.3)."""


class SchemaType(Struct, frozen=True, tag="schema"):
    """Any JSON that is valid under `schema`, which is written in the closed subset of spec 9.4."""

    schema: JsonObject


class UnknownType(Struct, frozen=True):
    """An answer type of a newer version: read, kept, shown by its name, and never authored."""

    type: str
    raw: JsonObject


AnswerType: TypeAlias = BooleanType | SelectType | MultiSelectType | TextType | SecretType | SchemaType
PersistedType: TypeAlias = AnswerType | UnknownType
