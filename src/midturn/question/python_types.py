"""Convert between JSON and Python types that have a JSON Schema, with msgspec or Pydantic."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from functools import lru_cache
from importlib import import_module
from typing import Any, Protocol, cast, get_args, get_type_hints

import msgspec

from midturn.errors import AnswerError, Problem, QuestionError
from midturn.question.answer_schema import FORMATS
from midturn.question.answer_type import (
    AnswerType,
    MultiSelectType,
    SchemaType,
    SelectOption,
    SelectType,
)
from midturn.question.json_value import Json, JsonObject, canonical, dumped


class Mismatch(Exception):  # noqa: N818 (a finding that callers convert to their own errors)
    """A value does not match its type. Each problem has a JSON Pointer to the invalid part of the
    value.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, problems)))


class ValueType(Protocol):
    """A Python type that can be described by JSON Schema and converted from JSON."""

    def read(self, value: Json) -> object:
        """Convert JSON strictly: `"1"` is not a number and `1` is not true.

        Raises:
            Mismatch: The value does not match the type.
        """
        ...

    def schema(self) -> JsonObject:
        """Return the JSON Schema of the type.

        Raises:
            TypeError: The type has no JSON Schema.
        """
        ...


# Types that msgspec supports
# --------------------------------------------------------------------------------------------------


_JSON_TYPES = (str, bool, int, float)
_SEGMENT = r"\.([^.\[\]]+)|\[([^\]]*)\]"
_LOCATED = r"(?s)^(?P<message>.*) - at `(?:key in )?\$(?P<path>.*)`$"


class PlainType:
    """A type that msgspec supports: builtins, enums, literals, dataclasses, `TypedDict`s,
    structs, dates.
    """

    def __init__(self, annotation: object) -> None:
        self.annotation = annotation
        self._as_in_json = (
            annotation if isinstance(annotation, type) and annotation in _JSON_TYPES else None
        )

    def read(self, value: Json) -> object:
        """Convert JSON (see `ValueType.read`)."""
        if type(value) is self._as_in_json:
            return value
        try:
            return self._convert(value)
        except msgspec.ValidationError as error:
            problem = _problem(str(error))
        try:
            # some models write every number with a decimal point, so 2.0 must be read as 2
            return self._convert(msgspec.json.decode(canonical(value)))
        except msgspec.ValidationError:
            raise Mismatch([problem]) from None

    def schema(self) -> JsonObject:
        """Return the JSON Schema (see `ValueType.schema`)."""
        try:
            return cast("JsonObject", msgspec.json.schema(self.annotation))
        except (TypeError, ValueError, NameError, RecursionError) as error:
            raise TypeError(str(error)) from error

    def _convert(self, value: Json) -> object:
        return cast(
            "object",
            msgspec.convert(value, cast("Any", self.annotation), strict=True, str_keys=True),
        )


def _problem(message: str) -> Problem:
    """Split a msgspec error message, which ends with a path (`… - at `$.a[0]``), into a JSON
    Pointer and the message.
    """
    located = re.match(_LOCATED, message)
    if located is None:
        return Problem("", message)
    segments = (name or index for name, index in re.findall(_SEGMENT, located["path"]))
    return Problem("".join(f"/{segment}" for segment in segments), located["message"])


# --------------------------------------------------------------------------------------------------
# Types that need Pydantic. It is imported when the first such type is used


def value_type(annotation: object) -> ValueType:
    """Return the converter for a type. Converters are cached, because some are slow to create.

    Raises:
        TypeError: The type needs Pydantic, which is not installed or rejects the type.
    """
    try:
        return _cached_value_type(annotation)
    except TypeError:  # not hashable, or not supported: then the next call raises again
        return _create_value_type(annotation)


def _create_value_type(annotation: object) -> ValueType:
    if not _needs_pydantic(annotation):
        return PlainType(annotation)
    return PydanticType(annotation)


_cached_value_type = lru_cache(maxsize=256)(_create_value_type)


def _needs_pydantic(annotation: object) -> bool:
    """Return whether a type contains a Pydantic model, a `Field` or a constraint from
    `annotated_types`.
    """
    return any(map(_is_pydantic, _parts(annotation, set())))


def _is_pydantic(part: object) -> bool:
    return hasattr(part, "__pydantic_validator__") or type(part).__module__.partition(".")[0] in (
        "pydantic",
        "annotated_types",
    )


def _parts(annotation: object, seen: set[int]) -> Iterator[object]:
    """Yield a type and all types it consists of."""
    if id(annotation) in seen:
        return
    seen.add(id(annotation))
    yield annotation
    yield from getattr(annotation, "__metadata__", ())
    inside: Sequence[object] = get_args(annotation)
    if (
        isinstance(annotation, type)
        and hasattr(annotation, "__annotations__")
        and not hasattr(annotation, "__pydantic_validator__")
    ):
        inside = list(get_type_hints(annotation, include_extras=True).values())
    for part in inside:
        yield from _parts(part, seen)


class PydanticType:
    """A type that contains a Pydantic model, a `Field` or a constraint from `annotated_types`."""

    def __init__(self, annotation: object) -> None:
        try:
            pydantic: Any = import_module("pydantic")
        except ImportError as error:
            raise TypeError(
                f"{annotation!r} has constraints that need Pydantic. Install Pydantic, or use"
                " `msgspec.Meta`."
            ) from error
        try:
            self.adapter: Any = pydantic.TypeAdapter(annotation)
        except pydantic.errors.PydanticUserError as error:
            raise TypeError(f"Pydantic cannot read {annotation!r}: {error.message}") from error

    def schema(self) -> JsonObject:
        """Return the JSON Schema (see `ValueType.schema`)."""
        try:
            return cast("JsonObject", self.adapter.json_schema())
        except import_module("pydantic").errors.PydanticUserError as error:
            raise TypeError(str(error)) from error

    def read(self, value: Json) -> object:
        """Convert JSON in Pydantic's strict mode (see `ValueType.read`)."""
        pydantic: Any = import_module("pydantic")
        try:
            return cast("object", self.adapter.validate_json(canonical(value), strict=True))
        except pydantic.ValidationError as error:
            found = error.errors(include_url=False, include_context=False, include_input=False)
            raise Mismatch(
                [
                    Problem("".join(f"/{part}" for part in item["loc"]), item["msg"])
                    for item in found
                ]
            ) from None


# --------------------------------------------------------------------------------------------------
# Convert options, defaults and answers between JSON and the author's Python types


_DECIMAL = r"^[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)?$"
"""Pattern of a `Decimal`, which JSON represents as a string."""
_BASE64 = r"^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
"""Pattern of `bytes`, which JSON represents in base64."""
_PLAIN_TYPES = frozenset({str, int, float, bool})


def options_as_json(options: Any) -> tuple[Json, type[Enum] | None]:
    """Return the options as JSON, and the `Enum` if they were given as an `Enum`."""
    if isinstance(options, type) and issubclass(options, Enum):
        return [member.value for member in options], options
    # a string is also a sequence, but never a list of options
    if isinstance(options, (list, Sequence)) and not isinstance(options, str):
        given = cast("Sequence[Any]", options)
        return [
            option if type(option) in _PLAIN_TYPES else _option_as_json(option) for option in given
        ], None
    return cast("Json", options), None


def _option_as_json(option: Any) -> Json:
    """Return an option as JSON. An instance of a subclass of `str`, `int` or `float` becomes the
    plain value.
    """
    if isinstance(option, SelectOption):
        select_option = cast("SelectOption[Any]", option)
        texts = {"description": select_option.description, "preview": select_option.preview}
        return {
            "value": _option_as_json(select_option.value),
            **{name: _option_as_json(text) for name, text in texts.items() if text is not None},
        }
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
    """Return a default as JSON.

    Raises:
        QuestionError: The value cannot be represented as JSON.
    """
    try:
        return cast("Json", msgspec.to_builtins(default, enc_hook=dumped))
    except (TypeError, ValueError, RecursionError) as error:
        raise QuestionError(
            [
                Problem(
                    "/default",
                    f"the default cannot be written as JSON: {error}. Give a valid answer.",
                )
            ]
        ) from error


def python_answer(answer_type: AnswerType, returns: Any, answer: Any) -> Any:
    """Return a canonical answer as the author's Python type.

    Raises:
        AnswerError: The answer is valid under the schema, but not a value of the Python type.
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
    """Return the enum member for a value. The person's own text is returned unchanged."""
    return cast("JsonObject", value) if isinstance(value, Mapping) else kind(value)


# Create JSON Schemas from Python types
# --------------------------------------------------------------------------------------------------


def schema_as_json(schema: object) -> tuple[JsonObject, object]:
    """Return the JSON Schema of a Python type, and the type. A schema is returned unchanged.

    Raises:
        QuestionError: The type has no JSON Schema.
    """
    if isinstance(schema, Mapping):
        return cast("JsonObject", schema), None
    try:
        generated = value_type(schema).schema()
    except TypeError as error:
        advice = (
            "Use plain types, dataclasses, `TypedDict`s, msgspec Structs or Pydantic models, or"
            " give a JSON Schema."
        )
        problem = f"cannot create a JSON Schema from {schema!r}: {str(error).rstrip('.')}. {advice}"
        raise QuestionError([Problem("/answer_type/schema", problem)]) from error
    return cast("JsonObject", _standardized(dict(generated))), schema


def _standardized(schema: dict[str, Any]) -> dict[str, Any]:
    """Remove keywords that are not standard JSON Schema. If the root is only a reference, inline
    it.
    """
    schema = _standard_parts(schema)
    definitions: dict[str, Any] = schema.get("$defs", {})
    name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
    if name not in definitions or f'"#/$defs/{name}"'.encode() in msgspec.json.encode(definitions):
        return schema
    root: dict[str, Any] = definitions.pop(name)
    return {**root, "$defs": definitions} if definitions else root


def _standard_parts(schema: Any) -> Any:
    """Remove `discriminator` from unions, and formats that JSON Schema does not define. The
    Python type checks these values.
    """
    if isinstance(schema, list):
        return [_standard_parts(item) for item in cast("list[Any]", schema)]
    if not isinstance(schema, dict):
        return schema
    members = cast("dict[str, Any]", schema)
    if (
        members.get("type") == "string"
        and isinstance(members.get("format"), str)
        and members["format"] not in FORMATS
    ):
        number = {"pattern": _DECIMAL} if members["format"] == "decimal" else {}
        members = {**number, **{key: item for key, item in members.items() if key != "format"}}
    if members.get("contentEncoding") == "base64" and "pattern" not in members:
        members = {**members, "pattern": _BASE64}
    is_union = "anyOf" in members or "oneOf" in members
    return {
        key: _standard_parts(item)
        for key, item in members.items()
        if key != "discriminator" or not is_union
    }


def converted(returns: Any, answer: Any) -> Any:
    """Convert an answer to a Python type.

    Raises:
        AnswerError: The answer is valid under the schema, but not a value of the type.
    """
    try:
        return value_type(returns).read(answer)
    except Mismatch as mismatch:
        raise AnswerError(
            [Problem(pointer, f"{message.rstrip('.')}.") for pointer, message in mismatch.problems]
        ) from mismatch
