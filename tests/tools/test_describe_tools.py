"""`describe_tools`: the documentation that summaries omit."""

from __future__ import annotations

import json

from midturn.events.outcome import Outcome, Success, ToolError
from midturn.events.types import Source
from midturn.question.json_value import Json
from midturn.tools.ask_user_call import AskUserTool
from midturn.tools.command import CommandSpec, CommandTool
from midturn.tools.describe_tools import DescribeTools
from support.tool_running import execute

DEPLOY = CommandTool(
    CommandSpec(
        name="deploy",
        command=("./deploy",),
        summary="Deploy the service.",
        description="Takes about ten minutes. Production is deployed from a tag only.",
        parameters={"env": {"type": "string", "enum": ["staging", "production"], "required": True}},
    )
)
TOOLS = DescribeTools([DEPLOY, AskUserTool()])


def described(*names: Json) -> Outcome:
    """Request the documentation of some tools."""
    return execute(TOOLS, {"tools": list(names)})


def test_the_model_gets_a_summary_and_can_read_the_rest() -> None:
    assert DEPLOY.definition.description == "Deploy the service."
    assert described("deploy") == Success(
        "# deploy\n\nDeploy the service.\n\nTakes about ten minutes. Production is deployed from a"
        f" tag only.\n\nParameters (JSON Schema): {json.dumps(DEPLOY.definition.parameters)}"
    )


def test_a_tool_without_further_documentation_is_described_as_sent() -> None:
    outcome = described("ask_user")
    assert isinstance(outcome, Success)
    assert AskUserTool().definition.description in outcome.content


def test_the_definition_lists_tools_with_further_documentation() -> None:
    assert TOOLS.definition.description.endswith(
        "Tools with more documentation than you see: `deploy`."
    )
    assert "more documentation than" not in DescribeTools([AskUserTool()]).definition.description


def test_several_tools_are_described_once_each_in_the_requested_order() -> None:
    outcome = described("ask_user", "deploy", "ask_user")
    assert isinstance(outcome, Success)
    assert [line for line in outcome.content.splitlines() if line.startswith("# ")] == [
        "# ask_user",
        "# deploy",
    ]


def test_an_unknown_tool_is_reported_with_the_known_ones() -> None:
    assert described("deplyo") == ToolError(
        "There is no tool named deplyo. The tools are ask_user, deploy."
    )
    outcome = described("deploy", "deplyo")
    assert isinstance(outcome, Success)
    assert outcome.content.endswith(
        "There is no tool named deplyo. The tools are ask_user, deploy."
    )


def test_a_single_name_is_accepted() -> None:
    assert execute(TOOLS, {"tools": "deploy"}) == described("deploy")


def test_empty_arguments_are_an_error_with_an_example() -> None:
    several: tuple[Json, ...] = (
        {},
        {"tools": []},
        {"tools": [7]},
        {"tools": {}},
        {"tools": None},
        [],
        "deploy",
    )
    for wrong in several:
        assert execute(TOOLS, wrong) == ToolError(
            'describe_tools: `tools` must be an array of tool names, such as {"tools":'
            ' ["ask_user"]}.'
        )


def test_descriptions_are_not_attributed_to_the_assistant() -> None:
    assert TOOLS.inquiry_source() == Source.tool("describe_tools")
