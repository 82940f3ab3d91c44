"""The choice between msgspec and Pydantic for a Python type, and types that Pydantic describes: it is loaded for the first of these."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any, cast, get_args, get_type_hints

from midturn.errors import Problem
from midturn.question.python_types import Mismatch, PlainType, ValueType
from midturn.values.json_value import Json, JsonObject, canonical


def value_type(annotation: object) -> ValueType:
    """Return how a type is described and read; the same object for the same type, for some take a while to make.

    Raises:
        TypeError: Pydantic is needed to read it, and is not installed or refuses it.
    """
    try:
        return _made_once(annotation)
    except TypeError:  # it has no hash, or cannot be read: then this says so
        return _made(annotation)


def _made(annotation: object) -> ValueType:
    if not _needs_pydantic(annotation):
        return PlainType(annotation)
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


class PydanticType:
    """A type with a Pydantic model, a `Field` or a constraint of `annotated_types` in it."""

    def __init__(self, annotation: object) -> None:
        try:
            pydantic: Any = import_module("pydantic")
        except ImportError as error:
            raise TypeError(f"{annotation!r} has constraints that Pydantic reads: install it, or use `msgspec.Meta`.") from error
        try:
            self.adapter: Any = pydantic.TypeAdapter(annotation)
        except pydantic.errors.PydanticUserError as error:
            raise TypeError(f"Pydantic cannot read {annotation!r}: {error.message}") from error

    def schema(self) -> JsonObject:
        """Describe the type (see `ValueType.schema`)."""
        try:
            return cast("JsonObject", self.adapter.json_schema())
        except import_module("pydantic").errors.PydanticUserError as error:
            raise TypeError(str(error)) from error

    def read(self, value: Json) -> object:
        """Convert JSON, in Pydantic's strict mode (see `ValueType.read`)."""
        pydantic: Any = import_module("pydantic")
        try:
            return cast("object", self.adapter.validate_json(canonical(value), strict=True))
        except pydantic.ValidationError as error:
            found = error.errors(include_url=False, include_context=False, include_input=False)
            raise Mismatch([Problem("".join(f"/{part}" for part in item["loc"]), item["msg"]) for item in found]) from None


def pydantic_schemas(types: Mapping[str, PydanticType]) -> tuple[dict[str, JsonObject], JsonObject]:
    """Describe types by parameter name, and the definitions that the descriptions share."""
    inputs = [(name, "validation", item.adapter) for name, item in types.items()]
    schemas, shared = cast(
        "tuple[dict[tuple[str, str], JsonObject], JsonObject]", import_module("pydantic").TypeAdapter.json_schemas(inputs)
    )
    return {name: schemas[name, "validation"] for name in types}, cast("JsonObject", shared.get("$defs", {}))
