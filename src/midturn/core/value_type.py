"""A Python type as programs write it for parameters, answers and results: its JSON Schema, and how JSON becomes a value of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol, cast, get_args, get_type_hints

import msgspec

from midturn.core.json_value import Json, JsonObject, canonical
from midturn.errors import Problem

REFERENCE = "#/$defs/{name}"
_SEGMENT = re.compile(r"\.([^.\[\]]+)|\[([^\]]*)\]")
_LOCATED = re.compile(r"^(?P<message>.*) - at `(?:key in )?\$(?P<path>.*)`$", re.DOTALL)


class Mismatch(Exception):  # noqa: N818 (it is a finding, reported as a `ToolError`; nobody outside this package sees it)
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


class PlainType:
    """A type that msgspec understands: builtins, enums, literals, dataclasses, `TypedDict`s, structs, dates."""

    def __init__(self, annotation: object) -> None:
        self.annotation = annotation

    def read(self, value: Json) -> object:
        """Convert JSON (see `ValueType.read`)."""
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


def value_type(annotation: object) -> ValueType:
    """Return how a type is described and read; the same object for the same type, for some take a while to make.

    Raises:
        TypeError: Pydantic is needed to read it, and is not installed or refuses it.
    """
    try:
        return _made_once(annotation)
    except TypeError:  # it has no hash, or it is none that can be read: then this says so
        return _made(annotation)


def _made(annotation: object) -> ValueType:
    if not _needs_pydantic(annotation):
        return PlainType(annotation)
    from midturn.core.pydantic_type import PydanticType

    return PydanticType(annotation)


_made_once = lru_cache(maxsize=256)(_made)


def _needs_pydantic(annotation: object) -> bool:
    """Say whether Pydantic has to read this type: a model, a `Field` or a constraint of `annotated_types` in it."""
    return any(map(_is_pydantic, _parts(annotation, set())))


def _is_pydantic(part: object) -> bool:
    return hasattr(part, "__pydantic_validator__") or type(part).__module__.partition(".")[0] in ("pydantic", "annotated_types")


def _parts(annotation: object, seen: set[int]) -> Iterator[object]:
    """Walk through a type and everything that it is made of."""
    if id(annotation) in seen:
        return
    seen.add(id(annotation))
    yield annotation
    yield from getattr(annotation, "__metadata__", ())
    inside: Sequence[object] = get_args(annotation)
    if isinstance(annotation, type) and hasattr(annotation, "__annotations__") and not hasattr(annotation, "__pydantic_validator__"):
        inside = list(get_type_hints(annotation, include_extras=True).values())
    for part in inside:
        yield from _parts(part, seen)


def _problem(message: str) -> Problem:
    """Turn msgspec's `… - at `$.a[0]`` into a JSON pointer and a message."""
    located = _LOCATED.match(message)
    if located is None:
        return Problem("", message)
    segments = (name or index for name, index in _SEGMENT.findall(located["path"]))
    return Problem("".join(f"/{segment}" for segment in segments), located["message"])
