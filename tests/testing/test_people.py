"""Tests with several people, one prompter for each."""

from __future__ import annotations

import asyncio

import midturn as mt
from midturn.events.types import ToolCallResponse

TWO = mt.People(ask=["ana", "bo"], only=True, approvals=2)


@mt.tool
async def deploy(ctx: mt.ToolContext) -> str:
    """Deploy."""
    return str(await ctx.ask(mt.Question.boolean("sure", "Sure?", people=TWO)))


def test_two_people_approve_one_after_the_other() -> None:
    model = mt.ScriptedModel([{"calls": [{"name": "deploy"}]}, {"text": "Done."}])
    agent = mt.Agent(model, tools=[deploy])
    ana, bo, dora = (
        mt.ScriptedPrompter({"deploy.sure": True}, user=name) for name in ("ana", "bo", "dora")
    )

    async def played() -> mt.RunResult[None]:
        result = await agent.run("Deploy it.", prompter=ana)
        assert result.status == "suspended"
        assert (await agent.resume(result.conversation, prompter=dora)).status == "suspended"
        return await agent.resume(result.conversation, prompter=bo)

    result = asyncio.run(played())
    assert result.status == "completed"
    assert [len(each.prompts) for each in (ana, bo, dora)] == [1, 1, 0]
    assert bo.prompts[0].label == "1 of 2"


@mt.tool
async def alone(ctx: mt.ToolContext) -> str:
    """Ask two of one person."""
    return str(
        await ctx.ask(
            mt.Question.boolean(
                "sure", "Sure?", people=mt.People(ask=["ana"], only=True, approvals=2)
            )
        )
    )


def test_a_question_for_too_few_people_is_an_error_at_once() -> None:
    model = mt.ScriptedModel([{"calls": [{"name": "alone"}]}, {"text": "Done."}])
    agent = mt.Agent(model, tools=[alone])
    result = agent.run_sync("Ask.")
    assert result.status == "completed"
    (content,) = [
        event.content
        for event in agent.store.read_sync(result.conversation).events
        if isinstance(event, ToolCallResponse)
    ]
    assert (
        'alone: "Sure?" was put to no one: 2 different people must say yes, but only ana may'
        " answer." in content
    )
