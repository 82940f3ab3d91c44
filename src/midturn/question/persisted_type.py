"""The lenient reader of recorded answer types: anything that an older or newer version wrote."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from midturn.question.answer_type import (
    BooleanType,
    MultiSelectType,
    PersistedType,
    SchemaType,
    SecretType,
    SelectType,
    TextType,
    UnknownType,
)
from midturn.values.json_value import Json, JsonObject

_KNOWN: Mapping[str, type[BooleanType | SelectType | MultiSelectType | TextType | SecretType | SchemaType]] = {
    "boolean": BooleanType,
    "select": SelectType,
    "multi_select": MultiSelectType,
    "text": TextType,
    "secret": SecretType,
    "schema": SchemaType,
}


def read_persisted_type(raw: JsonObject) -> PersistedType:
    """Return the answer type; one that this version does not know, or cannot read, is kept as it is."""
    tag = raw.get("type")
    name = tag if isinstance(tag, str) else ""
    known = _KNOWN.get(name)
    if known is None:
        return UnknownType(name, raw)
    options = raw.get("options")
    objects = _as_objects(options)
    plain = raw if objects is options else {**raw, "options": objects}
    try:
        return msgspec.convert(plain, known)
    except msgspec.ValidationError:
        return UnknownType(name, raw)


def _as_objects(options: Json) -> Json:
    """Write each bare scalar as the object that it stands for."""
    if not isinstance(options, list | tuple):
        return options
    if all(type(option) is dict for option in options):  # as we write them; asking a class for `Mapping` is slow
        return options
    return [option if isinstance(option, Mapping) else {"value": option} for option in options]
