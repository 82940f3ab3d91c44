from __future__ import annotations

import subprocess
import sys
from typing import Annotated, Any

import pytest

from midturn.events.outcome import Success, ToolError
from midturn.question.json_value import Json
from midturn.tools.function import FunctionTool, tool
from support.tool_running import execute

pydantic: Any = pytest.importorskip("pydantic")


def declared() -> FunctionTool[..., object]:
    """A tool with parameters in every form of Pydantic, next to one without types."""
    member = pydantic.create_model(
        "Member", name=(str, pydantic.Field(description="Who.")), age=(int, 0)
    )

    def invite(member: Any, count: Any, note: Any, tags: Any) -> object:  # noqa: D417 (two need no description)
        """Invite somebody.

        Args:
            member: Whom to invite.
            count: How often.
        """
        return {"member": member, "count": count, "note": note, "tags": tags}

    invite.__annotations__ = {
        "member": member,
        "count": Annotated[int, pydantic.Field(ge=1)],
        "note": str,
        "tags": list[str],
    }
    invite.__defaults__ = (pydantic.Field(default="hi", max_length=5), [])
    return tool(invite)


GOOD: dict[str, Json] = {"member": {"name": "Ann"}, "count": 2}


def test_models_and_fields_are_described() -> None:
    schema: Any = declared().definition.parameters

    assert schema["required"] == ["member", "count"]
    assert schema["properties"]["member"]["$ref"] == "#/$defs/Member"
    assert schema["properties"]["member"]["description"] == "Whom to invite."
    assert schema["properties"]["count"] == {
        "minimum": 1,
        "type": "integer",
        "description": "How often.",
    }
    assert schema["properties"]["note"]["maxLength"] == 5
    assert schema["properties"]["note"]["default"] == "hi"
    assert schema["$defs"]["Member"]["properties"]["name"]["description"] == "Who."


def test_models_and_fields_are_filled_and_returned_as_json() -> None:
    assert execute(declared(), {**GOOD, "count": 2.0}) == execute(declared(), GOOD)
    assert execute(declared(), GOOD) == Success(
        '{"member":{"name":"Ann","age":0},"count":2,"note":"hi","tags":[]}'
    )


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"member": {"name": 1}}, "/member/name: "),
        ({"member": {"name": "Ann", "age": "3"}}, "/member/age: "),
        ({"count": 0}, "/count: "),
        ({"count": "2"}, "/count: "),
        ({"note": "too long"}, "/note: "),
        ({"tags": [1]}, "/tags/0: "),
    ],
)
def test_a_mismatch_names_the_location(wrong: dict[str, Json], said: str) -> None:
    outcome = execute(declared(), {**GOOD, **wrong})

    assert isinstance(outcome, ToolError)
    assert said in outcome.message


def test_pydantic_is_not_imported_for_functions_that_do_not_use_it() -> None:
    script = (
        "import sys\nfrom midturn.tools.function import tool\n"
        "@tool\ndef f(a: int, b: list[str] = []) -> str: return ''\n"
        "assert 'pydantic' not in sys.modules and f.definition\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
