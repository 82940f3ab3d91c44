from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta

from midturn.errors import ConfigError
from midturn.events.outcome import Success, ToolError
from midturn.question.json_value import Json
from midturn.tools.asking import ToolContext
from midturn.tools.function import tool
from support.tool_running import execute


class Region(Enum):
    """Where a service runs."""

    EUROPE = "eu-1"
    AMERICA = "us-2"


@dataclass
class Person:
    """Who is told."""

    name: str
    age: int = 0


@tool
async def deploy(  # noqa: D417 (some parameters need no description)
    env: Literal["staging", "production"],
    region: Region,
    when: date,
    people: list[Person],
    ctx: ToolContext,
    replicas: Annotated[int, Meta(ge=1)] = 2,
) -> str:
    """Deploy the service.

    Everything of it, at once.

    Args:
        env: Target environment.
        region: Where
            it runs.
    """
    assert ctx.arguments
    return f"{env} {region.name} {when.year} {people[0].age} {replicas}"


GOOD: dict[str, Json] = {
    "env": "staging",
    "region": "eu-1",
    "when": "2026-01-02",
    "people": [{"name": "Ann", "age": 3}],
}


def properties() -> dict[str, Any]:
    schema: Any = deploy.definition.parameters
    return schema["properties"]


def test_a_definition_is_derived_from_signature_and_docstring() -> None:
    schema: Any = deploy.definition.parameters

    assert (deploy.definition.name, deploy.definition.description) == (
        "deploy",
        "Deploy the service.\n\nEverything of it, at once.",
    )
    assert schema["required"] == ["env", "region", "when", "people"]
    assert schema["additionalProperties"] is False
    assert list(schema["properties"]) == ["env", "region", "when", "people", "replicas"]


def test_parameters_are_described_by_type_docstring_and_default() -> None:
    assert properties()["env"] == {
        "enum": ["production", "staging"],
        "description": "Target environment.",
    }
    assert properties()["region"] == {"$ref": "#/$defs/Region", "description": "Where it runs."}
    assert properties()["replicas"] == {"type": "integer", "minimum": 1, "default": 2}


def test_arguments_are_converted_to_the_parameter_types() -> None:
    assert execute(deploy, GOOD) == Success("staging EUROPE 2026 3 2")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (
            {"env": "prod"},
            '/env: Invalid enum value \'prod\'. Allowed: {"enum":["production","staging"]}',
        ),
        (
            {"region": "mars"},
            '/region: Invalid enum value \'mars\'. Allowed: {"enum":["eu-1","us-2"]}',
        ),
        ({"people": [{"name": "Ann", "age": "3"}]}, "/people/0/age: Expected `int`, got `str`"),
        ({"replicas": 0}, "/replicas: Expected `int` >= 1"),
        ({"replicas": True}, "/replicas: Expected `int`, got `bool`"),
        ({"replicas": "2"}, "/replicas: Expected `int`, got `str`"),
        (
            {"nope": 1},
            "/nope: unknown argument. Allowed: `env`, `region`, `when`, `people`, `replicas`.",
        ),
        ({"ctx": 1}, "/ctx: unknown argument."),
    ],
)
def test_a_mismatch_names_the_parameter_and_the_allowed_values(
    wrong: dict[str, Json], said: str
) -> None:
    outcome = execute(deploy, {**GOOD, **wrong})

    assert isinstance(outcome, ToolError)
    assert said in outcome.message


def test_all_mismatches_are_reported_at_once() -> None:
    outcome = execute(deploy, {"env": 1, "extra": 2})

    assert isinstance(outcome, ToolError)
    assert [line.split(":")[0] for line in outcome.message.splitlines()[1:]] == [
        "/extra",
        "/region",
        "/when",
        "/people",
        "/env",
    ]


@pytest.mark.parametrize("arguments", ["not an object", None, [1], '{"env": '])
def test_non_object_arguments_are_an_error(arguments: Json) -> None:
    outcome = execute(deploy, arguments)

    assert isinstance(outcome, ToolError)
    assert "one JSON object" in outcome.message


def test_a_float_without_fraction_is_an_integer() -> None:
    """JSON has one number type, and some models write all numbers as `2.0`."""
    assert execute(
        deploy, {**GOOD, "replicas": 3.0, "people": [{"name": "Ann", "age": 4.0}]}
    ) == Success("staging EUROPE 2026 4 3")
    assert isinstance(execute(deploy, {**GOOD, "replicas": 3.5}), ToolError)


def test_a_default_keeps_its_type() -> None:
    """If the model omits the argument, the function receives the default unchanged."""

    @tool
    def place(region: Region = Region.AMERICA) -> str:
        return region.name

    assert execute(place, {}) == Success("AMERICA")


def test_positional_only_parameters_are_passed_by_position() -> None:
    @tool
    def subtract(left: int, right: int = 1, /) -> int:
        return left - right

    assert execute(subtract, {"left": 5}) == Success("4")
    assert execute(subtract, {"left": 5, "right": 3}) == Success("2")


def test_missing_types_and_star_parameters_are_refused_at_declaration() -> None:
    def starred(*names: str) -> None: ...

    with pytest.raises(TypeError, match="`x` has no type"):
        tool(eval("lambda x: x"))
    with pytest.raises(TypeError, match="Use named parameters"):
        tool(starred)


def test_a_type_without_a_schema_is_refused_at_declaration() -> None:
    def odd(thing: type[int]) -> None: ...

    with pytest.raises(TypeError, match="JSON Schema can describe"):
        tool(odd)


def test_a_tool_name_can_be_given_and_is_checked() -> None:
    @tool(name="deploy-now", run="ask")
    def deploy_now() -> str:
        return "ok"

    assert (deploy_now.name, deploy_now.run, deploy_now()) == ("deploy-now", "ask", "ok")
    with pytest.raises(ConfigError, match="1 to 64"):
        tool(name="no dots.")(deploy_now.function)


def test_a_tool_can_be_called_as_a_plain_function() -> None:
    @tool
    def double(n: int) -> int:
        """Double it."""
        return 2 * n

    assert double(4) == 8
    assert (getattr(double, "__name__", ""), double.__doc__) == ("double", "Double it.")
