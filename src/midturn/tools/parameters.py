"""Parameters of a tool function: their JSON Schema for the model, and the conversion of the
arguments in a call.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from types import SimpleNamespace, UnionType
from typing import Annotated, Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct

from midturn.errors import Problem
from midturn.question.json_value import Json, JsonObject
from midturn.question.python_types import Mismatch, PlainType, PydanticType, ValueType, value_type

_EMPTY: object = inspect.Parameter.empty
_MAX_SCHEMA_LENGTH = 400
_CONTEXT = ("midturn.tools.asking", "ToolContext")


class Parameter(Struct, frozen=True):
    """A parameter that the model provides. `default` is `inspect.Parameter.empty` if the
    parameter is required.
    """

    name: str
    type: ValueType
    default: object
    by_position: bool

    @property
    def required(self) -> bool:
        """Whether the parameter must be provided."""
        return self.default is _EMPTY


class Parameters:
    """All parameters of a function. `schema` is the JSON Schema of a call's arguments. `context` is
    the name of the `ToolContext` parameter, or None.
    """

    def __init__(self, function: Callable[..., object], descriptions: Mapping[str, str]) -> None:
        found = {name: (parameter, hint) for name, parameter, hint in _inspect(function)}
        self.context = next((name for name, (_, hint) in found.items() if _is_context(hint)), None)
        self.deps = "" if self.context is None else deps_type(found[self.context][1])
        """Name of the required `deps` type, or an empty string."""
        self.order = tuple(found)
        self.by_name = {
            name: _parameter(parameter, hint)
            for name, (parameter, hint) in found.items()
            if name != self.context
        }
        self.schema = _schema(self.by_name, descriptions)
        self._required = frozenset(
            name for name, parameter in self.by_name.items() if parameter.required
        )

    def read(self, arguments: Json) -> dict[str, object]:
        """Convert a call's arguments to the parameters' types. Optional parameters that are missing
        in the call are missing in the result, too.

        Raises:
            Mismatch: An argument is missing, unknown or of the wrong type. `problems` lists all
                errors.
        """
        if not isinstance(arguments, (dict, Mapping)):  # `dict` first: it is much faster
            raise Mismatch([Problem("", "the arguments must be one JSON object.")])
        given = cast("JsonObject", arguments)
        fits = self._required <= given.keys() <= self.by_name.keys()
        problems = [] if fits else [*self._unknown(given), *self._missing(given)]
        values: dict[str, object] = {}
        for name, parameter in self.by_name.items():
            if name in given:
                try:
                    values[name] = parameter.type.read(given[name])
                except Mismatch as mismatch:
                    problems += [self._explained(name, problem) for problem in mismatch.problems]
        if problems:
            raise Mismatch(problems)
        return values

    def bind(
        self, values: Mapping[str, object], context: object
    ) -> tuple[list[object], dict[str, object]]:
        """Return positional and keyword arguments for the function."""
        positional: list[object] = []
        keywords: dict[str, object] = {}
        for name in self.order:
            parameter = self.by_name.get(name)
            value = context if parameter is None else values.get(name, parameter.default)
            if parameter is not None and parameter.by_position:
                positional.append(value)
            else:
                keywords[name] = value
        return positional, keywords

    def _unknown(self, given: JsonObject) -> list[Problem]:
        unknown = [name for name in given if name not in self.by_name]
        if not unknown:
            return []
        allowed = ", ".join(f"`{name}`" for name in self.by_name) or "none"
        return [Problem(f"/{name}", f"unknown argument. Allowed: {allowed}.") for name in unknown]

    def _missing(self, given: JsonObject) -> list[Problem]:
        missing = [name for name in self.by_name if name in self._required and name not in given]
        return [
            self._explained(name, Problem("", "this argument is required.")) for name in missing
        ]

    def _explained(self, name: str, problem: Problem) -> Problem:
        """Add the argument's JSON Pointer and schema to an error."""
        allowed = msgspec.json.encode(_resolved(self.schema, name)).decode()
        message = problem.message.rstrip(".")
        return Problem(
            f"/{name}{problem.pointer}",
            f"{message}. Allowed:"
            f" {allowed[:_MAX_SCHEMA_LENGTH]}{'…' if len(allowed) > _MAX_SCHEMA_LENGTH else ''}",
        )


class TypedFunction(Struct, frozen=True):
    """A function with its parameters. An async function is called directly, any other function in a
    thread.
    """

    function: Callable[..., object]
    parameters: Parameters
    is_async: bool


def _inspect(function: Callable[..., object]) -> list[tuple[str, inspect.Parameter, object]]:
    """Return the parameters with their resolved types.

    Raises:
        TypeError: A parameter cannot be described to a model.
    """
    label = getattr(written_function(function), "__name__", repr(function))
    try:
        hints = get_type_hints(_annotated(function), include_extras=True)
    except NameError as error:
        message = (
            f"Tool `{label}`: the type `{error.name}` of a parameter is not defined in its module."
            " Define or import it at module level."
        )
        raise TypeError(message) from error
    found: list[tuple[str, inspect.Parameter, object]] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if _is_set(function, name):
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise TypeError(
                f"Tool `{label}`: `{parameter}` cannot be described to a model. Use named"
                " parameters."
            )
        if name not in hints:
            raise TypeError(
                f"Tool `{label}`: parameter `{name}` has no type. Annotate it, for example `{name}:"
                " str`."
            )
        found.append((name, parameter, hints[name]))
    return found


def written_function(function: Callable[..., object]) -> Callable[..., object]:
    """Return the function inside a `partial`, or the function itself."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _annotated(function: Callable[..., object]) -> Callable[..., object]:
    """Return the object with the annotations: the function inside a `partial`, or the `__call__`
    method of an instance.
    """
    function = written_function(function)
    return function if inspect.isroutine(function) else type(function).__call__


def _is_set(function: Callable[..., object], name: str) -> bool:
    """Return whether a `partial` sets this parameter, so that the model cannot set it."""
    return isinstance(function, functools.partial) and (
        name in function.keywords or _is_set(function.func, name)
    )


def _is_context(hint: object) -> bool:
    """Return whether an annotation is `ToolContext`, without importing the class."""
    kind = get_origin(hint) or hint
    return (getattr(kind, "__module__", ""), getattr(kind, "__qualname__", "")) == _CONTEXT


def deps_type(hint: object) -> str:
    """Return the name of the type in `ToolContext[…]`. Return an empty string if the type accepts
    None, or if the annotation is not a `ToolContext`.
    """
    arguments = get_args(hint) if _is_context(hint) else ()
    return _needed(arguments[0]) if arguments else ""


def _needed(wanted: Any) -> str:
    if _takes_none(wanted):
        return ""
    return (
        wanted.__qualname__
        if isinstance(wanted, type) and get_origin(wanted) is None
        else str(wanted).replace("typing.", "")
    )


def _takes_none(hint: object) -> bool:
    if get_origin(hint) in (Union, UnionType):
        return any(map(_takes_none, get_args(hint)))
    return hint in (Any, object, None, type(None)) or isinstance(hint, TypeVar)


def deps_type_of(function: Callable[..., object]) -> str:
    """Return the name of the `deps` type that a function with a context requires, or an empty
    string if it is unknown.
    """
    found = [deps_type(hint) for hint in _hints(function).values()]
    return next(filter(None, found), "")


def argument_type_of(function: Callable[..., object]) -> str:
    """Return the type name of a function's first argument, or an empty string if the argument
    accepts None or its type is unknown.
    """
    hints = _hints(function)
    names = (
        [name for name in inspect.signature(function).parameters if name in hints] if hints else []
    )
    return _needed(hints[names[0]]) if names else ""


def _hints(function: Callable[..., object]) -> dict[str, Any]:
    """Return the annotations of a function that a model does not call. Annotations that cannot be
    resolved are skipped, because they matter only to type checkers.
    """
    written = _annotated(function)
    found: dict[str, Any] = {}
    annotations: dict[str, object] = getattr(written, "__annotations__", {})
    for name, annotation in annotations.items():
        single = SimpleNamespace(__annotations__={name: annotation})
        with suppress(NameError, TypeError, AttributeError, SyntaxError):
            found |= get_type_hints(single, getattr(written, "__globals__", {}))
    return found


def _parameter(parameter: inspect.Parameter, hint: object) -> Parameter:
    default: Any = parameter.default
    if type(default).__module__.startswith("pydantic") and hasattr(
        default, "is_required"
    ):  # `= Field(…)`
        hint = Annotated[cast("Any", hint), default]
        default = (
            _EMPTY if default.is_required() else default.get_default(call_default_factory=True)
        )
    return Parameter(
        parameter.name, value_type(hint), default, parameter.kind is parameter.POSITIONAL_ONLY
    )


def _schema(parameters: Mapping[str, Parameter], descriptions: Mapping[str, str]) -> JsonObject:
    properties, definitions = _described(
        [(name, parameter.type) for name, parameter in parameters.items()]
    )
    schema: dict[str, Json] = {
        "type": "object",
        "properties": {},
        "required": [n for n, p in parameters.items() if p.required],
    }
    schema["properties"] = {
        name: _property(properties[name], item, descriptions.get(name))
        for name, item in parameters.items()
    }
    schema["additionalProperties"] = False
    return {**schema, "$defs": definitions} if definitions else schema


def _described(types: Sequence[tuple[str, ValueType]]) -> tuple[dict[str, JsonObject], JsonObject]:
    plain = {name: kind for name, kind in types if isinstance(kind, PlainType)}
    try:
        schemas, definitions = _plain_schemas(plain)
    except TypeError as error:
        raise TypeError(
            f"A tool's parameters must have types that JSON Schema can describe: {error}"
        ) from error
    if len(plain) < len(types):
        others, shared = _pydantic_schemas(
            {name: kind for name, kind in types if isinstance(kind, PydanticType)}
        )
        if twice := sorted(definitions.keys() & shared.keys()):
            raise TypeError(
                f"Two types of a tool's parameters have the same name: {', '.join(twice)}. Rename"
                " one of them."
            )
        schemas, definitions = {**schemas, **others}, {**definitions, **shared}
    return schemas, definitions


_REFERENCE = "#/$defs/{name}"


def _plain_schemas(types: Mapping[str, PlainType]) -> tuple[dict[str, JsonObject], JsonObject]:
    """Return JSON Schemas by parameter name, and their shared definitions.

    Raises:
        TypeError: A type has no JSON Schema.
    """
    schemas, definitions = msgspec.json.schema_components(
        [item.annotation for item in types.values()], ref_template=_REFERENCE
    )
    return dict(zip(types, cast("tuple[JsonObject, ...]", schemas), strict=True)), cast(
        "JsonObject", definitions
    )


def _pydantic_schemas(
    types: Mapping[str, PydanticType],
) -> tuple[dict[str, JsonObject], JsonObject]:
    """Return JSON Schemas by parameter name, and their shared definitions."""
    inputs = [(name, "validation", item.adapter) for name, item in types.items()]
    schemas, shared = cast(
        "tuple[dict[tuple[str, str], JsonObject], JsonObject]",
        import_module("pydantic").TypeAdapter.json_schemas(inputs),
    )
    return {name: schemas[name, "validation"] for name in types}, cast(
        "JsonObject", shared.get("$defs", {})
    )


def _property(schema: JsonObject, parameter: Parameter, description: str | None) -> JsonObject:
    described = dict(schema)
    if description and "description" not in described:
        described["description"] = description
    if not parameter.required and parameter.default is not None and "default" not in described:
        try:
            described["default"] = msgspec.to_builtins(parameter.default, str_keys=True)
        except (TypeError, ValueError):  # defaults without a JSON form are not described
            return described
    return described


def _resolved(schema: JsonObject, name: str) -> Json:
    """Return an argument's schema for an error message, with references resolved and without
    descriptions.
    """
    shown = cast("Mapping[str, JsonObject]", schema["properties"])[name]
    reference = shown.get("$ref")
    if isinstance(reference, str):
        shown = cast("Mapping[str, JsonObject]", schema["$defs"])[
            reference.removeprefix("#/$defs/")
        ]
    return {
        key: value for key, value in shown.items() if key not in ("description", "default", "title")
    }
