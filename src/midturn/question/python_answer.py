"""Conversion between the JSON of a question and the Python types of its author: enums, and types with a schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, cast

import msgspec

from midturn.errors import AnswerError, Problem, QuestionError
from midturn.question.answer_type import AnswerType, MultiSelectType, SchemaType, SelectOption, SelectType
from midturn.question.python_types import Mismatch
from midturn.question.value_type import value_type
from midturn.values.json_value import Json, JsonObject

_AS_IT_IS = frozenset({str, int, float, bool})


def options_as_json(options: Any) -> tuple[Json, type[Enum] | None]:
    """Return the options as they are authored in JSON, and the `Enum` behind them where they are one."""
    if isinstance(options, type) and issubclass(options, Enum):
        return [member.value for member in options], options
    if isinstance(options, (list, Sequence)) and not isinstance(options, str):  # a string is a sequence, too, and never meant as one
        given = cast("Sequence[Any]", options)
        return [option if type(option) in _AS_IT_IS else _option_as_json(option) for option in given], None
    return cast("Json", options), None


def _option_as_json(option: Any) -> Json:
    """Return an option as it is authored in JSON; where its class is derived from `str`, `int` or `float`, the plain value."""
    if isinstance(option, SelectOption):
        told = cast("SelectOption[Any]", option)
        described = {} if told.description is None else {"description": _option_as_json(told.description)}
        return {"value": _option_as_json(told.value), **described}
    match option:
        case str():
            return str.__str__(option)
        case int() if not isinstance(option, bool):
            return int.__int__(option)
        case float():
            return float.__float__(option)
        case _:
            return option


def default_as_json(default: object) -> Json:
    """Return a default as JSON: the value of an enum's member, the JSON of a typed object.

    Raises:
        QuestionError: It is of a type that has no JSON.
    """
    try:
        return cast("Json", msgspec.to_builtins(default, enc_hook=_refuse))
    except (TypeError, ValueError, RecursionError) as error:
        raise QuestionError([Problem("/default", f"the default cannot be written as JSON: {error}. Give a possible answer.")]) from error


def _refuse(value: object) -> Any:
    dump = getattr(value, "model_dump", None)  # a Pydantic model
    if callable(dump):
        return dump(mode="json")
    raise TypeError(f"JSON knows no {type(value).__name__}")


def python_answer(answer_type: AnswerType, returns: Any, answer: Any) -> Any:
    """Return a canonical answer as the author's Python type.

    Raises:
        AnswerError: The answer is valid under the schema, but no value of the type behind it.
    """
    if returns is None or answer is None:
        return answer
    match answer_type:
        case SelectType():
            return _member(returns, answer)
        case MultiSelectType():
            return [_member(returns, item) for item in answer]
        case SchemaType():
            return converted(returns, answer)
        case _:
            return answer


def _member(kind: type[Enum], value: Any) -> Any:
    """Return the member of that value; a person's own words stay as they are."""
    return cast("JsonObject", value) if isinstance(value, Mapping) else kind(value)


# A JSON Schema and the Python type it is made from --------------------------------------------------------------------


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
