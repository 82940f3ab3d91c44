"""A local command, as it is declared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct, field

from midturn.core.json_value import Json, JsonObject, json_problem
from midturn.core.limits import DEFAULT_LIMITS
from midturn.core.names import OutputProtocol
from midturn.errors import Problem

DEFAULT_SECONDS: Final = 600.0
"""Seconds that a command may run."""


class CommandSpec(Struct, frozen=True, kw_only=True):
    """What to run, and what the model is told of it.

    `command` is a program and its words, or with `shell` a script and its words; the model's arguments follow those words as `"$1"`,
    `"$2"`, … in the order of the properties of `parameters`, the JSON Schema of a call's arguments (an argument left out is empty).
    `environment` maps names to values, or to None where our own value is passed on. `cwd` is relative to the workspace root; `timeout`
    is in seconds. Where there is a `summary`, the model is sent it alone, and finds the `description` with `describe_tools`.
    """

    name: str
    command: tuple[str, ...]
    shell: bool = False
    protocol: OutputProtocol = "text"
    summary: str = ""
    description: str = ""
    parameters: JsonObject = field(default_factory=lambda: arguments_schema({}, ()))
    environment: Mapping[str, str | None] = {}
    cwd: str = ""
    timeout: float = DEFAULT_SECONDS


def arguments_schema(parameters: Mapping[str, JsonObject], required: Sequence[str]) -> JsonObject:
    """Return the JSON Schema of a call's arguments from those of its parameters."""
    return {"type": "object", "properties": dict(parameters), "required": list(required), "additionalProperties": False}


def argument_problems(schema: JsonObject, arguments: Json) -> Sequence[Problem]:
    """Check a call's arguments against what was declared; every problem is listed."""
    if not isinstance(arguments, Mapping):
        return [Problem("", "the arguments must be one JSON object.")]
    if problem := json_problem(arguments, DEFAULT_LIMITS.json_depth):
        return [problem]
    from midturn.core.schema import check_schema, validate  # heavy, and not needed before the first call

    if wrong := check_schema(schema):
        return [Problem("", f"the tool's own declaration of its arguments is wrong at {pointer}: {said}") for pointer, said in wrong]
    return validate(schema, arguments)
