"""A single tool, tested without an agent."""

from __future__ import annotations

import asyncio

import pytest

import midturn as mt
from midturn import testing


@mt.tool
async def deploy(env: str, ctx: mt.ToolContext[str]) -> str:
    """Deploy."""
    if not await ctx.ask(mt.Question.boolean("confirm", f"Deploy to {env}?")):
        raise mt.Rejected("Not deployed.")
    return f"{env} for {ctx.deps}"


def test_one_tool_runs_without_an_agent() -> None:
    report = asyncio.run(
        testing.run_tool(deploy, {"env": "staging"}, {"confirm": True}, deps="Ann")
    )

    assert (report.content, report.is_error, report.exception) == ("staging for Ann", False, None)
    assert [prompt.question.text for prompt in report.asked] == ["Deploy to staging?"]


def test_a_no_and_a_bug_are_distinguished() -> None:
    async def broken() -> str:
        raise KeyError("nope")

    no = asyncio.run(testing.run_tool(deploy, {"env": "staging"}, {"confirm": False}, deps="Ann"))
    bug = asyncio.run(testing.run_tool(broken))

    assert (no.is_error, no.exception) == (True, None)
    assert no.content.endswith("Not deployed.")
    assert isinstance(bug.exception, KeyError)


@pytest.mark.parametrize(
    ("replies", "says"),
    [
        ({}, "prompts without a reply"),
        ({"confirm": True, "other": 1}, "`deploy.other` was never asked"),
        ({"confirm": "yes"}, "is invalid: the answer must be true or false"),
    ],
)
def test_a_script_that_does_not_match_reports_why(replies: dict[str, object], says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        asyncio.run(testing.run_tool(deploy, {"env": "staging"}, replies, deps="Ann"))  # type: ignore[arg-type]


def test_a_call_that_ends_before_asking_reports_why() -> None:
    with pytest.raises(
        AssertionError,
        match=(
            r"was never asked\. The call ended before it asked anything: The arguments of `deploy`"
            r" do not fit"
        ),
    ):
        asyncio.run(testing.run_tool(deploy, {}, {"confirm": True}, deps="Ann"))


def test_the_public_names_are_listed() -> None:
    assert "run_tool" in dir(testing)
    assert all(getattr(testing, name) for name in dir(testing))
