"""Answer types that Pydantic describes: loaded only for a program that uses one."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, cast

from midturn.errors import Problem
from midturn.question.python_types import Mismatch
from midturn.values.json_value import Json, JsonObject, canonical


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
