"""Parameters that Pydantic describes: only loaded for a function that uses it."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, cast

from midturn.core.json_value import Json, JsonObject, canonical
from midturn.errors import Problem
from midturn.tools.value_type import Mismatch


class PydanticType:
    """A type with a Pydantic model or a `Field` in it."""

    def __init__(self, annotation: object) -> None:
        self.adapter: Any = import_module("pydantic").TypeAdapter(annotation)

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
