"""The protocol of Python types with a schema, and its implementation by msgspec."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, cast

import msgspec

from midturn.errors import Problem
from midturn.values.json_value import Json, JsonObject, canonical


class Mismatch(Exception):  # noqa: N818 (it is a finding, reported as a `ToolError`; it does not leave this package)
    """A value does not fit its type; `problems` point into the value."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, problems)))


class ValueType(Protocol):
    """One type."""

    def read(self, value: Json) -> object:
        """Convert JSON, strictly: `"1"` is not a number and `1` is not true.

        Raises:
            Mismatch: The value does not fit.
        """
        ...

    def schema(self) -> JsonObject:
        """Describe the type alone.

        Raises:
            TypeError: It has no JSON Schema.
        """
        ...


# Types that msgspec reads ---------------------------------------------------------------------------------------------


REFERENCE = "#/$defs/{name}"
_AS_IN_JSON = (str, bool, int, float)
_SEGMENT = r"\.([^.\[\]]+)|\[([^\]]*)\]"
_LOCATED = r"(?s)^(?P<message>.*) - at `(?:key in )?\$(?P<path>.*)`$"


class PlainType:
    """A type that msgspec understands: builtins, enums, literals, dataclasses, `TypedDict`s, structs, dates."""

    def __init__(self, annotation: object) -> None:
        self.annotation = annotation
        self._as_in_json = annotation if isinstance(annotation, type) and annotation in _AS_IN_JSON else None

    def read(self, value: Json) -> object:
        """Convert JSON (see `ValueType.read`)."""
        if type(value) is self._as_in_json:
            return value
        try:
            return self._convert(value)
        except msgspec.ValidationError as error:
            problem = _problem(str(error))
        try:
            return self._convert(msgspec.json.decode(canonical(value)))  # some models write every number with a point: 2.0 is 2
        except msgspec.ValidationError:
            raise Mismatch([problem]) from None

    def schema(self) -> JsonObject:
        """Describe the type (see `ValueType.schema`)."""
        try:
            return cast("JsonObject", msgspec.json.schema(self.annotation))
        except (TypeError, ValueError, NameError, RecursionError) as error:
            raise TypeError(str(error)) from error

    def _convert(self, value: Json) -> object:
        return cast("object", msgspec.convert(value, cast("Any", self.annotation), strict=True, str_keys=True))


def plain_schemas(types: Mapping[str, PlainType]) -> tuple[dict[str, JsonObject], JsonObject]:
    """Describe types by parameter name, and the definitions that the descriptions share.

    Raises:
        TypeError: One of them has no JSON Schema.
    """
    schemas, definitions = msgspec.json.schema_components([item.annotation for item in types.values()], ref_template=REFERENCE)
    return dict(zip(types, cast("tuple[JsonObject, ...]", schemas), strict=True)), cast("JsonObject", definitions)


def _problem(message: str) -> Problem:
    """Turn msgspec's `… - at `$.a[0]`` into a JSON pointer and a message."""
    located = re.match(_LOCATED, message)
    if located is None:
        return Problem("", message)
    segments = (name or index for name, index in re.findall(_SEGMENT, located["path"]))
    return Problem("".join(f"/{segment}" for segment in segments), located["message"])
