"""`describe_tools`: what summaries leave out."""

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
    """Ask for the documentation of some tools."""
    return execute(TOOLS, {"tools": list(names)})


def test_the_model_is_sent_a_summary_and_can_read_the_rest() -> None:
    assert DEPLOY.definition.description == "Deploy the service."
    assert described("deploy") == Success(
        "# deploy\n\nDeploy the service.\n\nTakes about ten minutes. Production is deployed from a tag only.\n\n"
        f"Parameters (JSON Schema): {json.dumps(DEPLOY.definition.parameters)}"
    )


def test_a_tool_without_more_to_say_is_described_as_it_is_sent() -> None:
    outcome = described("ask_user")
    assert isinstance(outcome, Success)
    assert AskUserTool().definition.description in outcome.content


def test_the_definition_names_the_tools_that_have_more_to_say() -> None:
    assert TOOLS.definition.description.endswith("Tools with more documentation than you see: `deploy`.")
    assert "more documentation than" not in DescribeTools([AskUserTool()]).definition.description


def test_several_tools_are_described_in_the_order_asked_and_once_each() -> None:
    outcome = described("ask_user", "deploy", "ask_user")
    assert isinstance(outcome, Success)
    assert [line for line in outcome.content.splitlines() if line.startswith("# ")] == ["# ask_user", "# deploy"]


def test_a_tool_that_is_not_there_is_named_with_those_that_are() -> None:
    assert described("deplyo") == ToolError("There is no tool named deplyo. The tools are ask_user, deploy.")
    outcome = described("deploy", "deplyo")
    assert isinstance(outcome, Success)
    assert outcome.content.endswith("There is no tool named deplyo. The tools are ask_user, deploy.")


def test_one_name_by_itself_is_understood() -> None:
    assert execute(TOOLS, {"tools": "deploy"}) == described("deploy")


def test_arguments_that_name_nothing_are_an_error_that_shows_how() -> None:
    several: tuple[Json, ...] = ({}, {"tools": []}, {"tools": [7]}, {"tools": {}}, {"tools": None}, [], "deploy")
    for wrong in several:
        assert execute(TOOLS, wrong) == ToolError(
            'describe_tools: `tools` must be an array of tool names, such as {"tools": ["ask_user"]}.'
        )


def test_it_never_poses_as_the_assistant() -> None:
    assert TOOLS.inquiry_source() == Source.tool("describe_tools")
