"""Tests of a tool that asks, with fixtures that come with midturn and need no setup.

$ pytest examples/programs/test_deploy.py
"""

from __future__ import annotations

import pytest

import midturn as mt
from midturn.testing import AssertAnswers, MakeScriptedModel, MakeScriptedPrompter, run_tool_sync


@mt.tool
async def deploy(env: str, ctx: mt.ToolContext[dict[str, int]]) -> str:
    """Deploy the service."""
    if env not in ctx.deps:
        raise KeyError(env)
    if not await ctx.ask(mt.Question.boolean("confirm", f"Deploy to {env}?", exclusive=True)):
        raise mt.Rejected("Not deployed.")
    await ctx.ask(mt.Question.secret("token", "The token?"))
    return (
        f"{env} has"
        f" {await ctx.ask(mt.Question.number('copies', 'How many?', type=int, min=1, max=ctx.deps[env]))}"
        " copies."
    )


def test_the_tool_alone() -> None:
    """Call the tool with arguments and replies, without a model or an agent."""
    report = run_tool_sync(
        deploy,
        {"env": "staging"},
        {"confirm": True, "token": mt.SecretValue("s"), "copies": 2},
        deps={"staging": 3},
    )

    assert report.content == "staging has 2 copies."
    assert [prompt.question.text for prompt in report.asked] == [
        "Deploy to staging?",
        "The token?",
        "How many?",
    ]


def test_a_no() -> None:
    """The model reads who said no, and the tool's own text."""
    report = run_tool_sync(deploy, {"env": "staging"}, {"confirm": False}, deps={"staging": 3})
    assert report.is_error
    assert report.content.endswith("Not deployed.")


def test_a_bug() -> None:
    """The exception of a tool is available, not only its text."""
    assert isinstance(run_tool_sync(deploy, {"env": "moon"}, {}, deps={}).exception, KeyError)


def test_an_answer_that_does_not_fit() -> None:
    """An invalid scripted answer fails the test with its name."""
    with pytest.raises(AssertionError, match="copies"):
        run_tool_sync(
            deploy,
            {"env": "staging"},
            {"confirm": True, "token": mt.SecretValue("s"), "copies": 9},
            deps={"staging": 3},
        )


def test_in_an_agent(
    scripted_model: MakeScriptedModel,
    scripted_prompter: MakeScriptedPrompter,
    assert_answers: AssertAnswers,
) -> None:
    """The whole turn. Unused replies and tools that raise fail the test."""
    model = scripted_model(
        [{"calls": [{"name": "deploy", "arguments": {"env": "staging"}}]}, {"text": "Done."}]
    )
    person = scripted_prompter(
        {"deploy.confirm": True, "deploy.token": mt.SecretValue("s"), "deploy.copies": 1}
    )
    agent = mt.Agent[dict[str, int]](model, tools=[deploy], prompter=person)
    result = agent.run_sync("Ship it.", deps={"staging": 3}).raise_if_failed()

    conversation = agent.store.read_sync(result.conversation)
    assert_answers(
        conversation, {"deploy.confirm": True, "deploy.token": mt.REDACTED, "deploy.copies": 1}
    )
