"""Values that a call keeps for its later runs: `ctx.keep` and `ctx.kept`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import midturn as mt
from midturn.events.types import CallValue, ToolCallResponse
from midturn.question.json_value import Json
from midturn.stores.store import ConversationStore


def agent(store: ConversationStore, *tools: Any, calls: int = 1) -> mt.Agent:
    """Return an agent whose model calls the first tool, and then replies."""
    name = mt.tool(tools[0]).definition.name if callable(tools[0]) else tools[0].definition.name
    model = mt.ScriptedModel([{"calls": [{"name": name}] * calls}, {"text": "Done."}])
    return mt.Agent(model, tools=tools, store=store)


async def values(store: ConversationStore, conversation: str) -> list[tuple[str, Json]]:
    """Return the recorded values of a conversation."""
    events = (await store.read(conversation)).events
    return [(event.name, event.value) for event in events if isinstance(event, CallValue)]


def test_later_run_finds_the_value_after_an_interrupted_run(store: ConversationStore) -> None:
    found: list[Json] = []
    is_kept = asyncio.Event()

    @mt.tool
    async def work(ctx: mt.ToolContext) -> str:
        """Work."""
        found.append(ctx.kept("job"))
        if found == [None]:
            await ctx.keep("job", {"id": 7})
            is_kept.set()
            await asyncio.Event().wait()  # interrupted here
        return "done"

    async def scene() -> None:
        conversation = await store.new()
        run = asyncio.create_task(agent(store, work).run("Go.", conversation=conversation))
        await is_kept.wait()
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        result = await agent(store, work).resume(conversation)
        assert (result.status, found) == ("completed", [None, {"id": 7}])

    asyncio.run(scene())


def test_value_is_durable_when_keep_returns(store: ConversationStore) -> None:
    recorded: list[list[tuple[str, Json]]] = []

    @mt.tool
    async def work(ctx: mt.ToolContext) -> str:
        """Work."""
        conversation = (await store.port.ids())[-1]
        for number in (1, 1, 2):
            await ctx.keep("n", number)
            recorded.append(await values(store, conversation))
        await ctx.keep("n", True)  # not equal to 1 as JSON
        assert ctx.kept("n") is True
        return "done"

    result = agent(store, work).run_sync("Go.")

    assert result.status == "completed"
    assert recorded == [
        [("n", 1)],
        [("n", 1)],
        [("n", 1), ("n", 2)],
    ]  # an equal value is not repeated


def test_value_survives_a_suspended_turn_and_does_not_make_it_ready(
    store: ConversationStore,
) -> None:
    runs: list[Json] = []

    @mt.tool
    async def work(ctx: mt.ToolContext) -> str:
        """Work."""
        runs.append(ctx.kept("step"))
        await ctx.keep("step", len(runs))
        return f"{await ctx.ask(mt.Question.text('where', 'Where?'))} {ctx.kept('step')}"

    async def scene() -> None:
        waiting = await agent(store, work).run("Go.")
        assert (waiting.status, await store.ready()) == ("suspended", [])
        await store.answer(waiting.pending[0], "eu")
        assert await store.ready() == [waiting.conversation]
        assert (await agent(store, work).resume(waiting.conversation)).status == "completed"
        events = (await store.read(waiting.conversation)).events
        assert [e.content for e in events if isinstance(e, ToolCallResponse)] == ["eu 2"]

    asyncio.run(scene())
    assert runs == [None, 1]


def test_calls_do_not_share_values(store: ConversationStore) -> None:
    @mt.tool
    async def work(ctx: mt.ToolContext) -> str:
        """Work."""
        before = ctx.kept("x")
        await ctx.keep("x", 1)
        return f"{before}"

    result = agent(store, work, calls=3).run_sync("Go.")

    events = store.read_sync(result.conversation).events
    assert [e.content for e in events if isinstance(e, ToolCallResponse)] == ["None"] * 3
    assert len({e.call for e in events if isinstance(e, CallValue)}) == 3


def test_synchronous_tool_keeps_values(store: ConversationStore) -> None:
    @mt.tool
    def work(ctx: mt.ToolContext) -> str:
        """Work."""
        ctx.keep_sync("list", [1, {"a": None}])
        kept: Any = ctx.kept("list")
        kept.append("changed")  # a copy
        return str(ctx.kept("list"))

    result = agent(store, work).run_sync("Go.")

    (response,) = (
        event
        for event in store.read_sync(result.conversation).events
        if isinstance(event, ToolCallResponse)
    )
    assert response.content == "[1, {'a': None}]"


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("", 1, "1 to 100 characters"),
        ("n" * 101, 1, "1 to 100 characters"),
        ("n", object(), "it is not JSON"),
        ("n", float("nan"), "it is not JSON"),
        ("n", "x" * 300_000, "at most 262,144"),
        ("n", mt.SecretValue("hunter2-hunter2"), "it is not JSON"),
    ],
)
def test_value_that_is_not_allowed_is_refused(
    store: ConversationStore, name: str, value: Any, problem: str
) -> None:
    refusals: list[str] = []

    @mt.tool
    async def work(ctx: mt.ToolContext) -> str:
        """Work."""
        try:
            await ctx.keep(name, value)
        except ValueError as error:
            refusals.append(str(error))
        return "done"

    result = agent(store, work).run_sync("Go.")

    assert (len(refusals), result.status) == (1, "completed")
    assert problem in refusals[0]
    assert "hunter2" not in refusals[0]
    assert asyncio.run(values(store, result.conversation)) == []


@pytest.mark.parametrize("place", ["value", "key", "name", "escaped"])
def test_value_with_a_secret_of_the_call_is_refused(store: ConversationStore, place: str) -> None:
    secret = 'hunter2-"é"-hunter2'
    refusals: list[str] = []

    @mt.tool
    async def work(ctx: mt.ToolContext) -> str:
        """Work."""
        token = (await ctx.ask(mt.Question.secret("token", "Token?"))).reveal()
        try:
            match place:
                case "value":
                    await ctx.keep("n", [f"Bearer {token}"])
                case "key":
                    await ctx.keep("n", {token: 1})
                case "name":
                    await ctx.keep(token, 1)
                case _:
                    await ctx.keep(
                        "n", {"body": mt.SecretValue(token).reveal().replace('"', '\\"')}
                    )
        except ValueError as error:
            refusals.append(str(error))
        return "done"

    prompter = mt.ScriptedPrompter({"work.token": mt.SecretValue(secret)})
    result = agent(store, work).run_sync("Go.", prompter=prompter)

    assert result.status == "completed"
    assert len(refusals) == 1
    assert "hunter2" not in refusals[0]
    assert all(
        b"hunter2" not in line for line in asyncio.run(store.port.lines(result.conversation))
    )


def test_value_after_the_call_is_refused(store: ConversationStore) -> None:
    left: list[mt.ToolContext] = []

    @mt.tool
    async def work(ctx: mt.ToolContext) -> str:
        """Work."""
        left.append(ctx)
        return "done"

    async def scene() -> None:
        await agent(store, work).run("Go.")
        with pytest.raises(RuntimeError, match="This call is over"):
            await left[0].keep("n", 1)

    asyncio.run(scene())
