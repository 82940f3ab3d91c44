"""The parameters of a function: described for a model, and filled from what the model sends."""

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
_SHOWN = 400
_CONTEXT = ("midturn.tools.asking", "ToolContext")


class Parameter(Struct, frozen=True):
    """One parameter that the model fills; `default` is `inspect.Parameter.empty` where it must."""

    name: str
    type: ValueType
    default: object
    by_position: bool

    @property
    def required(self) -> bool:
        """Whether a call without it is wrong."""
        return self.default is _EMPTY


class Parameters:
    """All parameters of a function. `schema` is the JSON Schema of a call's arguments; `context` names the `ToolContext`, if any."""

    def __init__(self, function: Callable[..., object], descriptions: Mapping[str, str]) -> None:
        found = {name: (parameter, hint) for name, parameter, hint in _inspect(function)}
        self.context = next((name for name, (_, hint) in found.items() if _is_context(hint)), None)
        self.deps = "" if self.context is None else deps_type(found[self.context][1])
        """Type of the `deps` that the function cannot do without, as text; empty if there is none."""
        self.order = tuple(found)
        self.by_name = {name: _parameter(parameter, hint) for name, (parameter, hint) in found.items() if name != self.context}
        self.schema = _schema(self.by_name, descriptions)
        self._required = frozenset(name for name, parameter in self.by_name.items() if parameter.required)

    def read(self, arguments: Json) -> dict[str, object]:
        """Convert a call's arguments to values of the parameters' types; parameters left out are absent.

        Raises:
            Mismatch: Something is missing, unknown or of another type; all of it is listed.
        """
        if not isinstance(arguments, (dict, Mapping)):  # asking a class for `Mapping` is slow
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

    def bind(self, values: Mapping[str, object], context: object) -> tuple[list[object], dict[str, object]]:
        """Return positional and keyword arguments for the function itself."""
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
        return [Problem(f"/{name}", f"there is no such argument. Allowed: {allowed}.") for name in unknown]

    def _missing(self, given: JsonObject) -> list[Problem]:
        missing = [name for name in self.by_name if name in self._required and name not in given]
        return [self._explained(name, Problem("", "this argument is required.")) for name in missing]

    def _explained(self, name: str, problem: Problem) -> Problem:
        """Place a problem at its argument, and say what the argument allows."""
        allowed = msgspec.json.encode(_resolved(self.schema, name)).decode()
        message = problem.message.rstrip(".")
        return Problem(f"/{name}{problem.pointer}", f"{message}. Allowed: {allowed[:_SHOWN]}{'…' if len(allowed) > _SHOWN else ''}")


class TypedFunction(Struct, frozen=True):
    """A function as a tool calls it: here where it is async, else in a thread."""

    function: Callable[..., object]
    parameters: Parameters
    is_async: bool


def _inspect(function: Callable[..., object]) -> list[tuple[str, inspect.Parameter, object]]:
    """List the parameters with their resolved types.

    Raises:
        TypeError: One cannot be described to a model.
    """
    label = getattr(written_function(function), "__name__", repr(function))
    try:
        hints = get_type_hints(_annotated(function), include_extras=True)
    except NameError as error:
        message = f"Tool `{label}`: the type `{error.name}` of a parameter is not known in its module; define or import it at the top."
        raise TypeError(message) from error
    found: list[tuple[str, inspect.Parameter, object]] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if _is_set(function, name):
            continue
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise TypeError(f"Tool `{label}`: `{parameter}` cannot be described to a model; name every parameter.")
        if name not in hints:
            raise TypeError(f"Tool `{label}`: parameter `{name}` has no type; annotate it, for example `{name}: str`.")
        found.append((name, parameter, hints[name]))
    return found


def written_function(function: Callable[..., object]) -> Callable[..., object]:
    """Return the function behind a `partial`."""
    while isinstance(function, functools.partial):
        function = function.func
    return function


def _annotated(function: Callable[..., object]) -> Callable[..., object]:
    """Return the object that carries the annotations: behind a `partial`, or the `__call__` of an instance."""
    function = written_function(function)
    return function if inspect.isroutine(function) else type(function).__call__


def _is_set(function: Callable[..., object], name: str) -> bool:
    """Say whether a `partial` has set this parameter by name: then it is not the model's to fill."""
    return isinstance(function, functools.partial) and (name in function.keywords or _is_set(function.func, name))


def _is_context(hint: object) -> bool:
    """Say whether it is `ToolContext`, without loading that: a function that does not take one asks nothing through it."""
    kind = get_origin(hint) or hint
    return (getattr(kind, "__module__", ""), getattr(kind, "__qualname__", "")) == _CONTEXT


def deps_type(hint: object) -> str:
    """Return the name of the type in `ToolContext[…]`; empty if None is a value of it, or if the annotation is something else."""
    arguments = get_args(hint) if _is_context(hint) else ()
    return _needed(arguments[0]) if arguments else ""


def _needed(wanted: Any) -> str:
    if _takes_none(wanted):
        return ""
    return wanted.__qualname__ if isinstance(wanted, type) and get_origin(wanted) is None else str(wanted).replace("typing.", "")


def _takes_none(hint: object) -> bool:
    if get_origin(hint) in (Union, UnionType):
        return any(map(_takes_none, get_args(hint)))
    return hint in (Any, object, None, type(None)) or isinstance(hint, TypeVar)


def deps_type_of(function: Callable[..., object]) -> str:
    """Return the type of `deps` that a function of a context cannot do without, as text; empty if there is none, or it is not known."""
    found = [deps_type(hint) for hint in _hints(function).values()]
    return next(filter(None, found), "")


def argument_type_of(function: Callable[..., object]) -> str:
    """Return the type of the first argument of a function, as text; empty if None is a value of it, or it is not known."""
    hints = _hints(function)
    names = [name for name in inspect.signature(function).parameters if name in hints] if hints else []
    return _needed(hints[names[0]]) if names else ""


def _hints(function: Callable[..., object]) -> dict[str, Any]:
    """Return the annotations of a function that no model calls; those that cannot be resolved concern type checkers alone."""
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
    if type(default).__module__.startswith("pydantic") and hasattr(default, "is_required"):  # `= Field(…)`
        hint = Annotated[cast("Any", hint), default]
        default = _EMPTY if default.is_required() else default.get_default(call_default_factory=True)
    return Parameter(parameter.name, value_type(hint), default, parameter.kind is parameter.POSITIONAL_ONLY)


def _schema(parameters: Mapping[str, Parameter], descriptions: Mapping[str, str]) -> JsonObject:
    properties, definitions = _described([(name, parameter.type) for name, parameter in parameters.items()])
    schema: dict[str, Json] = {"type": "object", "properties": {}, "required": [n for n, p in parameters.items() if p.required]}
    schema["properties"] = {name: _property(properties[name], item, descriptions.get(name)) for name, item in parameters.items()}
    schema["additionalProperties"] = False
    return {**schema, "$defs": definitions} if definitions else schema


def _described(types: Sequence[tuple[str, ValueType]]) -> tuple[dict[str, JsonObject], JsonObject]:
    plain = {name: kind for name, kind in types if isinstance(kind, PlainType)}
    try:
        schemas, definitions = _plain_schemas(plain)
    except TypeError as error:
        raise TypeError(f"A tool's parameters must have types that JSON Schema can describe: {error}") from error
    if len(plain) < len(types):
        others, shared = _pydantic_schemas({name: kind for name, kind in types if isinstance(kind, PydanticType)})
        if twice := sorted(definitions.keys() & shared.keys()):
            raise TypeError(f"Two types of a tool's parameters have the same name: {', '.join(twice)}; rename one.")
        schemas, definitions = {**schemas, **others}, {**definitions, **shared}
    return schemas, definitions


_REFERENCE = "#/$defs/{name}"


def _plain_schemas(types: Mapping[str, PlainType]) -> tuple[dict[str, JsonObject], JsonObject]:
    """Describe types by parameter name, and the definitions that the descriptions share.

    Raises:
        TypeError: One of them has no JSON Schema.
    """
    schemas, definitions = msgspec.json.schema_components([item.annotation for item in types.values()], ref_template=_REFERENCE)
    return dict(zip(types, cast("tuple[JsonObject, ...]", schemas), strict=True)), cast("JsonObject", definitions)


def _pydantic_schemas(types: Mapping[str, PydanticType]) -> tuple[dict[str, JsonObject], JsonObject]:
    """Describe types by parameter name, and the definitions that the descriptions share."""
    inputs = [(name, "validation", item.adapter) for name, item in types.items()]
    schemas, shared = cast(
        "tuple[dict[tuple[str, str], JsonObject], JsonObject]", import_module("pydantic").TypeAdapter.json_schemas(inputs)
    )
    return {name: schemas[name, "validation"] for name in types}, cast("JsonObject", shared.get("$defs", {}))


def _property(schema: JsonObject, parameter: Parameter, description: str | None) -> JsonObject:
    described = dict(schema)
    if description and "description" not in described:
        described["description"] = description
    if not parameter.required and parameter.default is not None and "default" not in described:
        try:
            described["default"] = msgspec.to_builtins(parameter.default, str_keys=True)
        except (TypeError, ValueError):  # a default without a JSON form is the function's own business
            return described
    return described


def _resolved(schema: JsonObject, name: str) -> Json:
    """Return an argument's schema as an error shows it: without words, a reference replaced by what it names."""
    shown = cast("Mapping[str, JsonObject]", schema["properties"])[name]
    reference = shown.get("$ref")
    if isinstance(reference, str):
        shown = cast("Mapping[str, JsonObject]", schema["$defs"])[reference.removeprefix("#/$defs/")]
    return {key: value for key, value in shown.items() if key not in ("description", "default", "title")}
