"""Between a JSON Schema and the Python type that it is made from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from midturn.core.json_value import JsonObject
from midturn.core.value_types import Mismatch, value_type
from midturn.errors import AnswerError, Problem, QuestionError


def schema_as_json(schema: object) -> tuple[JsonObject, object]:
    """Return the JSON Schema of a Python type, and the type; a schema that is given as an object stands for itself.

    Raises:
        QuestionError: No schema can be made from the type.
    """
    if isinstance(schema, Mapping):
        return cast("JsonObject", schema), None
    try:
        made = value_type(schema).schema()
    except TypeError as error:
        advice = "Use plain types, dataclasses, `TypedDict`s, msgspec Structs or Pydantic models, or give a schema."
        problem = f"no JSON Schema can be made from {schema!r}: {str(error).rstrip('.')}. {advice}"
        raise QuestionError([Problem("/answer_type/schema", problem)]) from error
    return cast("JsonObject", _standard(dict(made))), schema


def _standard(made: dict[str, Any]) -> dict[str, Any]:
    """Leave out `discriminator`, which is not a JSON Schema, and write a root that is only a reference out."""
    made = _without_discriminators(made)
    definitions: dict[str, Any] = made.get("$defs", {})
    name = str(made.get("$ref", "")).removeprefix("#/$defs/")
    if name not in definitions or f'"#/$defs/{name}"'.encode() in msgspec.json.encode(definitions):
        return made
    root: dict[str, Any] = definitions.pop(name)
    return {**root, "$defs": definitions} if definitions else root


def _without_discriminators(made: Any) -> Any:
    if isinstance(made, list):
        return [_without_discriminators(item) for item in cast("list[Any]", made)]
    if not isinstance(made, dict):
        return made
    members = cast("dict[str, Any]", made)
    return {key: _without_discriminators(item) for key, item in members.items() if key != "discriminator" or "anyOf" not in members}


def converted(returns: Any, answer: Any) -> Any:
    """Return an answer as a value of the type.

    Raises:
        AnswerError: It fits the schema, but is no value of the type.
    """
    try:
        return value_type(returns).read(answer)
    except Mismatch as mismatch:
        raise AnswerError([Problem(pointer, f"{message.rstrip('.')}.") for pointer, message in mismatch.problems]) from mismatch
