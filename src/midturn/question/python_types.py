"""The protocol of Python types with a schema, and its implementation by msgspec."""

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
from midturn.question.answer_type import AnswerType, MultiSelectType, SchemaType, SelectOption, SelectType
from midturn.question.json_value import Json, JsonObject, canonical, dumped


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


def _problem(message: str) -> Problem:
    """Turn msgspec's `… - at `$.a[0]`` into a JSON pointer and a message."""
    located = re.match(_LOCATED, message)
    if located is None:
        return Problem("", message)
    segments = (name or index for name, index in re.findall(_SEGMENT, located["path"]))
    return Problem("".join(f"/{segment}" for segment in segments), located["message"])


# ----------------------------------------------------------------------------------------------------------------------
# The choice between msgspec and Pydantic for a Python type, and types that Pydantic describes: it is loaded for the first of these


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


# ----------------------------------------------------------------------------------------------------------------------
# Conversion between the JSON of a question and the Python types of its author: enums, and types with a schema


_DECIMAL = r"^[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]+)?$"
"""Pattern of a `Decimal`, which JSON holds as a text."""
_BASE64 = r"^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
"""Pattern of `bytes`, which JSON holds in base64."""
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
        texts = {"description": told.description, "preview": told.preview}
        return {"value": _option_as_json(told.value), **{name: _option_as_json(said) for name, said in texts.items() if said is not None}}
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
        return cast("Json", msgspec.to_builtins(default, enc_hook=dumped))
    except (TypeError, ValueError, RecursionError) as error:
        raise QuestionError([Problem("/default", f"the default cannot be written as JSON: {error}. Give a possible answer.")]) from error


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
    """Leave out what is not JSON Schema, and write a root that is only a reference out."""
    made = _standard_parts(made)
    definitions: dict[str, Any] = made.get("$defs", {})
    name = str(made.get("$ref", "")).removeprefix("#/$defs/")
    if name not in definitions or f'"#/$defs/{name}"'.encode() in msgspec.json.encode(definitions):
        return made
    root: dict[str, Any] = definitions.pop(name)
    return {**root, "$defs": definitions} if definitions else root


def _standard_parts(made: Any) -> Any:
    """Leave out `discriminator` beside the branches of a union, and formats that JSON Schema does not have (the type reads the text)."""
    if isinstance(made, list):
        return [_standard_parts(item) for item in cast("list[Any]", made)]
    if not isinstance(made, dict):
        return made
    members = cast("dict[str, Any]", made)
    if members.get("type") == "string" and isinstance(members.get("format"), str) and members["format"] not in FORMATS:
        number = {"pattern": _DECIMAL} if members["format"] == "decimal" else {}
        members = {**number, **{key: item for key, item in members.items() if key != "format"}}
    if members.get("contentEncoding") == "base64" and "pattern" not in members:
        members = {**members, "pattern": _BASE64}
    is_union = "anyOf" in members or "oneOf" in members
    return {key: _standard_parts(item) for key, item in members.items() if key != "discriminator" or not is_union}


def converted(returns: Any, answer: Any) -> Any:
    """Return an answer as a value of the type.

    Raises:
        AnswerError: It fits the schema, but is no value of the type.
    """
    try:
        return value_type(returns).read(answer)
    except Mismatch as mismatch:
        raise AnswerError([Problem(pointer, f"{message.rstrip('.')}.") for pointer, message in mismatch.problems]) from mismatch
