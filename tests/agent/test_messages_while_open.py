"""A new message while questions are open: an error that lists them, or a reply to the questions
that its author may answer.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import midturn as mt
from midturn.events.types import ChatRequest, ToolCallResponse
from midturn.stores.store import ConversationStore


@mt.tool
async def deploy(ctx: mt.ToolContext) -> str:
    """Deploy."""
    return f"deployed to {await ctx.ask(mt.Question.text('region', 'Region?'))}"


@mt.tool
async def sign(ctx: mt.ToolContext) -> str:
    """Sign in."""
    await ctx.ask(mt.Question.secret("password", "Password?"))
    return "signed in"


@mt.tool
async def audit(ctx: mt.ToolContext) -> str:
    """Audit."""
    return (
        "audited:"
        f" {await ctx.ask(mt.Question.boolean('sound', 'Is it sound?', people=mt.People(ask=['bo'], only=True)))}"
    )


@mt.tool(run="ask")
async def drop() -> str:
    """Drop the table."""
    return "dropped"


def agent(store: ConversationStore, *calls: str) -> mt.Agent:
    """Return an agent that makes these calls at once and then completes."""
    model = mt.ScriptedModel(
        [{"calls": [{"name": name} for name in calls or ("deploy",)]}, {"text": "Understood."}]
    )
    return mt.Agent(model, tools=[deploy, sign, audit, drop], store=store)


async def recorded(store: ConversationStore, conversation: str) -> tuple[list[str], list[str]]:
    """Return the users' messages and the tool results that the model read."""
    events = (await store.read(conversation)).events
    return (
        [event.content for event in events if isinstance(event, ChatRequest)],
        [event.content for event in events if isinstance(event, ToolCallResponse)],
    )


def texts(found: Any) -> list[str]:
    return [question.question.text for question in found.pending]


async def suspended(store: ConversationStore, *calls: str) -> str:
    """Return a conversation whose questions are open."""
    return (await agent(store, *calls).run("Ship it.", author="ana")).conversation


def test_message_becomes_the_reply_and_the_turn_continues(store: ConversationStore) -> None:
    async def scene() -> None:
        conversation = await suspended(store, "deploy")
        result = await agent(store, "deploy").run(
            "Wait until Monday.", conversation=conversation, author="ana", on_open="reply"
        )
        assert (result.status, result.text) == ("completed", "Understood.")
        said, contents = await recorded(store, conversation)
        assert said == ["Ship it."]
        assert len(contents) == 1
        assert "Wait until Monday." in contents[0]

    asyncio.run(scene())


def test_approvals_and_questions_of_others_stay_open_and_are_listed(
    store: ConversationStore,
) -> None:
    async def scene() -> None:
        conversation = await suspended(store, "deploy", "audit", "drop", "sign")
        result = await agent(store).run(
            "Wait.", conversation=conversation, author="ana", on_open="reply"
        )
        assert result.status == "suspended"
        assert {question.id for question in result.pending} == {
            question.id for question in await store.pending(conversation)
        }
        assert len(result.pending) == 3
        assert "Region?" not in texts(result)
        _, contents = await recorded(store, conversation)
        assert len(contents) == 1

    asyncio.run(scene())


@pytest.mark.parametrize("call", ["audit", "drop", "sign"])
def test_turn_open_lists_questions_if_none_takes_a_reply(
    store: ConversationStore, call: str
) -> None:
    async def scene() -> None:
        conversation = await suspended(store, call)
        with pytest.raises(mt.TurnOpen) as refused:
            await agent(store).run(
                "Yes, do it. hunter2", conversation=conversation, author="ana", on_open="reply"
            )
        assert [question.tool for question in refused.value.pending] == [call]
        assert await recorded(store, conversation) == (["Ship it."], [])

    asyncio.run(scene())


def test_message_during_open_questions_is_an_error_by_default(store: ConversationStore) -> None:
    async def scene() -> None:
        conversation = await suspended(store, "deploy")
        with pytest.raises(mt.TurnOpen, match='on_open="reply"') as refused:
            await agent(store).run("Wait.", conversation=conversation, author="ana")
        assert texts(refused.value) == ["Region?"]

    asyncio.run(scene())


def test_message_without_open_questions_begins_a_turn(store: ConversationStore) -> None:
    async def scene() -> None:
        chat = mt.Agent(mt.ScriptedModel([{"text": "Hello."}, {"text": "Bye."}]), store=store)
        first = await chat.run("Hi.", on_open="reply")
        assert (
            await chat.run("Bye.", conversation=first.conversation, on_open="reply")
        ).text == "Bye."
        assert (await recorded(store, first.conversation))[0] == ["Hi.", "Bye."]

    asyncio.run(scene())


def test_the_rule_of_the_agent_says_who_may_answer(store: ConversationStore) -> None:
    async def scene() -> None:
        conversation = await suspended(store, "deploy")
        ruled = mt.Agent(
            mt.ScriptedModel([{"text": "?"}]),
            tools=[deploy],
            store=store.with_authorizer(lambda _question, user: user == "bo"),
        )
        with pytest.raises(mt.TurnOpen):
            await ruled.run("Wait.", conversation=conversation, author="ana", on_open="reply")
        assert await recorded(store, conversation) == (["Ship it."], [])

    asyncio.run(scene())


def test_a_stream_replies_too(store: ConversationStore) -> None:
    async def scene() -> None:
        conversation = await suspended(store, "deploy")
        async with agent(store, "deploy").stream(
            "Wait.", conversation=conversation, author="ana", on_open="reply"
        ) as events:
            seen = [event async for event in events]
        assert isinstance(seen[-1], mt.TurnEnded)
        assert seen[-1].result.status == "completed"

    asyncio.run(scene())


def test_message_used_as_reply_creates_no_keyed_turn(store: ConversationStore) -> None:
    async def scene() -> None:
        conversation = await suspended(store, "deploy")
        with pytest.raises(mt.ConfigError, match="key"):
            await agent(store).run("Wait.", conversation=conversation, key="m2", on_open="reply")
        with pytest.raises(mt.ConfigError, match=r"`on_open`.*'answer'"):
            await agent(store).run("Wait.", conversation=conversation, on_open="answer")  # type: ignore[arg-type]
        assert await recorded(store, conversation) == (["Ship it."], [])

    asyncio.run(scene())


def test_reply_queued_for_a_running_turn_needs_no_retry(store: ConversationStore) -> None:
    async def scene() -> None:
        conversation = await suspended(store, "deploy")
        async with await store.open(conversation):
            sending = asyncio.create_task(
                agent(store).run("Wait.", conversation=conversation, author="ana", on_open="reply")
            )
            with pytest.raises(mt.StoreLocked, match="is recorded as a reply"):
                await sending
        assert (await agent(store).resume(conversation)).status == "completed"
        assert "Wait." in (await recorded(store, conversation))[1][0]

    asyncio.run(scene())


def test_a_turn_of_another_loop_takes_the_message_as_a_reply(store: ConversationStore) -> None:
    async def scene() -> None:
        conversation = await store.new("Chat")

        async def ask(call: mt.InquirerCall) -> str:
            return f"deployed to {await call.ask(mt.Question.text('region', 'Region?'))}"

        async def loop(text: str) -> mt.CallContent:
            inquirer = mt.Inquirer(store, conversation)
            async with inquirer.turn(text, author="ana", on_open="reply"):
                return await inquirer.run("deploy", "call_1", {}, ask)

        for _ in range(2):  # the message that began the turn is not a new message
            with pytest.raises(mt.Suspended):
                await loop("Ship it.")
        content = await loop("Wait until Monday.")
        assert "Wait until Monday." in content
        assert (await recorded(store, conversation))[0] == ["Ship it."]

    asyncio.run(scene())


def test_a_turn_of_another_loop_lists_approvals(store: ConversationStore) -> None:
    async def scene() -> None:
        conversation = await store.new("Chat")
        for text, error in (("Ship it.", mt.Suspended), ("Yes.", mt.TurnOpen)):
            inquirer = mt.Inquirer(store, conversation)
            with pytest.raises(error) as refused:
                async with inquirer.turn(text, author="ana", on_open="reply"):
                    await inquirer.run("drop", "call_1", {}, lambda _: "dropped", permission=True)
            assert isinstance(refused.value, mt.Suspended | mt.TurnOpen)
            assert [question.kind for question in refused.value.pending] == ["run"]

    asyncio.run(scene())
