"""A message with a key begins one turn, however often it is sent."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import midturn as mt
from midturn.errors import ConfigError
from midturn.events.types import ChatRequest, TurnStart
from midturn.question.json_value import JsonObject
from midturn.stores.store import ConversationStore


def charging(store: ConversationStore, ran: list[str]) -> mt.Agent:
    """Return an agent that charges once in each turn, after a question."""

    @mt.tool
    async def charge(ctx: mt.ToolContext) -> str:
        """Charge."""
        region = await ctx.ask(mt.Question.text("region", "Region?"))
        ran.append(region)
        return f"charged in {region}"

    model = mt.ScriptedModel([{"calls": [{"name": "charge"}]}, {"text": "Done."}])
    return mt.Agent(model, tools=[charge], store=store)


async def messages(store: ConversationStore, conversation: str) -> list[str]:
    """Return the recorded messages of users."""
    return [
        event.content
        for event in (await store.read(conversation)).events
        if isinstance(event, ChatRequest)
    ]


def test_the_same_key_continues_the_open_turn(store: ConversationStore) -> None:
    async def scene() -> None:
        ran, conversation = list[str](), await store.new("Chat")
        first = await charging(store, ran).run("Pay.", conversation=conversation, key="m1")
        # sent again, it answers no question
        again = await charging(store, ran).run("Pay.", conversation=conversation, key="m1")
        assert (first.status, again.status) == ("suspended", "suspended")
        assert [question.id for question in first.pending] == [
            question.id for question in again.pending
        ]
        await store.answer(first.pending[0], "eu-1", user="ana")
        assert (
            await charging(store, ran).run("Pay.", conversation=conversation, key="m1")
        ).status == "completed"
        assert (ran, await messages(store, conversation)) == (["eu-1"], ["Pay."])

    asyncio.run(scene())


def test_the_same_key_returns_the_result_of_a_turn_that_has_ended(store: ConversationStore) -> None:
    async def scene() -> None:
        ran, conversation = list[str](), await store.new("Chat")
        person = mt.ScriptedPrompter({"charge.region": "eu-1"})
        first = await charging(store, ran).run(
            "Pay.", conversation=conversation, key="m1", prompter=person
        )
        await mt.Agent(mt.ScriptedModel([{"text": "Hello."}]), store=store).run(
            "Hi.", conversation=conversation, key="m2"
        )
        again = await charging(store, ran).run("Pay.", conversation=conversation, key="m1")
        assert (
            (again.status, again.text, again.conversation)
            == (first.status, first.text, conversation)
            == ("completed", "Done.", conversation)
        )
        assert again.usage == first.usage
        assert again.run_usage.requests == 0
        assert (ran, await messages(store, conversation)) == (["eu-1"], ["Pay.", "Hi."])
        starts = [
            event.key
            for event in (await store.read(conversation)).events
            if isinstance(event, TurnStart)
        ]
        assert starts == ["m1", "m2"]

    asyncio.run(scene())


def test_result_by_key_has_its_typed_value(store: ConversationStore) -> None:
    async def scene() -> None:
        schema: JsonObject = {
            "type": "object",
            "properties": {"n": {"type": "integer"}},
            "required": ["n"],
            "additionalProperties": False,
        }
        agent = mt.Agent(mt.ScriptedModel([{"text": '{"n": 3}'}]), store=store, schema=schema)
        conversation = await store.new("Chat")
        first = await agent.run("Count.", conversation=conversation, key="m1")
        again = await agent.run("Count.", conversation=conversation, key="m1")
        assert first.structured == again.structured == {"n": 3}

    asyncio.run(scene())


def test_recorded_result_needs_no_deps(store: ConversationStore) -> None:
    async def scene() -> None:
        model = mt.ScriptedModel([{"text": "Hello."}])
        agent = mt.Agent[dict[str, str]](
            model, store=store, instructions=lambda deps: deps["tenant"]
        )
        conversation = await store.new("Chat")
        await agent.run("Hi.", conversation=conversation, key="m1", deps={"tenant": "acme"})
        assert (await agent.run("Hi.", conversation=conversation, key="m1")).text == "Hello."

    asyncio.run(scene())


def test_a_failed_turn_is_returned_as_failed(store: ConversationStore) -> None:
    async def scene() -> None:
        conversation = await store.new("Chat")
        agent = mt.Agent(
            mt.ScriptedModel([{"calls": [{"name": "gone"}]}] * 3), store=store, limits={"cycles": 1}
        )
        first = await agent.run("Pay.", conversation=conversation, key="m1")
        again = await agent.run("Pay.", conversation=conversation, key="m1")
        assert first.status == again.status == "failed"
        assert first.error == again.error

    asyncio.run(scene())


def test_another_key_does_not_change_the_open_turn(store: ConversationStore) -> None:
    async def scene() -> None:
        ran, conversation = list[str](), await store.new("Chat")
        await charging(store, ran).run("Pay.", conversation=conversation, key="m1")
        with pytest.raises(mt.TurnOpen) as refused:
            await charging(store, ran).run("Pay.", conversation=conversation, key="m2")
        assert [question.question.text for question in refused.value.pending] == ["Region?"]
        assert await messages(store, conversation) == ["Pay."]

    asyncio.run(scene())


def test_key_with_another_message_is_refused(store: ConversationStore) -> None:
    async def scene() -> None:
        conversation = await store.new("Chat")
        agent = mt.Agent(mt.ScriptedModel([{"text": "Hello."}]), store=store)
        await agent.run("Hi.", conversation=conversation, key="m1")
        with pytest.raises(mt.ConfigError, match=r"`key` 'm1'.*began with 'Hi\.'"):
            await agent.run("Delete it.", conversation=conversation, key="m1")
        assert await messages(store, conversation) == ["Hi."]

    asyncio.run(scene())


@pytest.mark.parametrize("key", ["", "a\ud800"])
def test_a_key_is_text(store: ConversationStore, key: str) -> None:
    async def scene() -> None:
        conversation = await store.new("Chat")
        with pytest.raises(mt.ConfigError, match="key"):
            await mt.Agent(mt.ScriptedModel([{"text": "Hello."}]), store=store).run(
                "Hi.", conversation=conversation, key=key
            )
        assert await messages(store, conversation) == []

    asyncio.run(scene())


def test_key_needs_a_conversation(store: ConversationStore) -> None:
    with pytest.raises(mt.ConfigError, match="conversation"):
        asyncio.run(
            mt.Agent(mt.ScriptedModel([{"text": "Hello."}]), store=store).run("Hi.", key="m1")
        )


def test_a_stream_by_key_ends_with_the_recorded_result(store: ConversationStore) -> None:
    async def scene() -> None:
        conversation = await store.new("Chat")
        agent = mt.Agent(mt.ScriptedModel([{"text": "Hello."}]), store=store)
        await agent.run("Hi.", conversation=conversation, key="m1")
        async with agent.stream("Hi.", conversation=conversation, key="m1") as events:
            seen = [event async for event in events]
        assert [type(event) for event in seen] == [mt.TurnEnded]
        assert isinstance(seen[0], mt.TurnEnded)
        assert seen[0].result.text == "Hello."
        heard = list[object]()
        await agent.run("Hi.", conversation=conversation, key="m1", on_event=heard.append)
        assert [type(event) for event in heard] == [mt.TurnEnded]

    asyncio.run(scene())


def test_the_sync_forms_take_a_key(store: ConversationStore) -> None:
    conversation = store.new_sync("Chat")
    agent = mt.Agent(mt.ScriptedModel([{"text": "Hello."}]), store=store)
    assert agent.run_sync("Hi.", conversation=conversation, key="m1").text == "Hello."
    with agent.stream_sync("Hi.", conversation=conversation, key="m1") as events:
        assert [type(event) for event in events] == [mt.TurnEnded]
    assert agent.run_sync("Hi.", conversation=conversation, key="m1").text == "Hello."


def test_inner_turn_is_identified_by_its_call(store: ConversationStore) -> None:
    inner = mt.Agent(mt.ScriptedModel([{"text": "Hello."}]))

    @mt.tool
    async def delegate() -> str:
        """Delegate."""
        return (await inner.run("Hi.", key="m1")).text

    outer = mt.Agent(
        mt.ScriptedModel([{"calls": [{"name": "delegate"}]}, {"text": "Done."}]),
        tools=[delegate],
        store=store,
    )

    async def scene() -> None:
        result = await outer.run("Go.")
        contents = [
            getattr(event, "content", "")
            for event in (await store.read(result.conversation)).events
        ]
        assert any("`key`" in str(content) and "tool" in str(content) for content in contents)

    asyncio.run(scene())


def test_metadata_is_recorded_with_the_message(store: ConversationStore) -> None:
    metadata: JsonObject = {"agui": {"run": "r1", "message": "u1"}}

    async def scene() -> None:
        agent = mt.Agent(
            mt.ScriptedModel([{"text": "a"}, {"text": "b"}, {"text": "c"}]), store=store
        )
        conversation = await store.new(key="agui:ada:1")
        await agent.run("Hi.", conversation=conversation, key="r1", metadata=metadata)
        await agent.run("Hi.", conversation=conversation, key="r1", metadata={"ignored": True})
        async with agent.stream("Ho.", conversation=conversation, metadata={"n": 2}) as events:
            async for _ in events:
                pass
        await agent.run("He.", conversation=conversation)
        recorded = [
            event.metadata
            for event in (await store.read(conversation)).events
            if isinstance(event, ChatRequest)
        ]
        assert recorded == [metadata, {"n": 2}, None]

    asyncio.run(scene())


@pytest.mark.parametrize(
    ("metadata", "problem"),
    [
        ({"x": object()}, "`metadata` must be a JSON object"),
        (["u1"], "`metadata` must be a JSON object"),
        ({"x": "y" * 17_000}, "at most 16,384"),
    ],
)
def test_invalid_metadata_records_nothing(
    store: ConversationStore, metadata: Any, problem: str
) -> None:
    agent = mt.Agent(mt.ScriptedModel([{"text": "a"}]), store=store)

    with pytest.raises(ConfigError, match=problem):
        agent.run_sync("Hi.", metadata=metadata)
    assert store.ids_sync() == []
