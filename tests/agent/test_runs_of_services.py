"""Features for web services: events of resumed runs, typed answers, JSON results."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass

import pydantic
import pytest

import midturn as mt
from midturn.stores.store import ConversationStore
from support.agents import calling, careful


class Window(pydantic.BaseModel):
    day: str


@dataclass
class Point:
    x: int


def test_a_resumed_turn_is_streamed_as_a_new_one_is(store: ConversationStore) -> None:
    async def scene() -> None:
        agent = mt.Agent(calling("careful"), tools=[careful], store=store)
        seen: list[mt.Streamed] = []
        result = await agent.run("Do it.", on_event=seen.append)
        assert [type(event).__name__ for event in seen] == ["ToolStarted", "Asked", "TurnEnded"]
        await store.answer(result.pending[0].id, value=True)
        async with agent.stream_resume(result.conversation) as events:
            names = [type(event).__name__ async for event in events]
        assert names == ["ToolStarted", "ToolFinished", "TextDelta", "TurnEnded"]

    asyncio.run(scene())


def test_async_on_event_and_its_exceptions(store: ConversationStore) -> None:
    async def scene() -> None:
        agent = mt.Agent(
            calling("careful"),
            tools=[careful],
            store=store,
            prompter=mt.ScriptedPrompter({"careful.confirm": True}),
        )

        async def gone(event: mt.Streamed) -> None:
            await asyncio.sleep(0)
            if isinstance(event, mt.ToolFinished):
                raise ConnectionResetError

        with pytest.raises(ConnectionResetError):
            await agent.run("Do it.", on_event=gone)
        (conversation,) = await store.ids()
        assert (await agent.resume(conversation)).status == "completed"

    asyncio.run(scene())


def test_a_retry_is_an_event() -> None:
    model = mt.ScriptedModel(
        [
            {"error": {"status": 529, "message": "overloaded", "retry_after": 0.01}},
            {"text": "Done."},
        ]
    )
    seen: list[mt.Streamed] = []

    mt.Agent(model).run_sync("Hi", on_event=seen.append)

    assert [type(event).__name__ for event in seen] == ["ModelRetried", "TextDelta", "TurnEnded"]


@pytest.mark.parametrize(
    ("wanted", "said", "expected"),
    [(Window, {"day": "mo"}, Window(day="mo")), (Point, {"x": 1}, Point(1))],
)
def test_the_answer_of_a_model_has_the_type_that_was_asked_for(
    wanted: type, said: dict[str, object], expected: object
) -> None:
    result = mt.Agent(mt.FunctionModel(lambda _: said)).run_sync("When?", schema=wanted)  # type: ignore[arg-type, return-value]

    assert result.structured == expected
    assert json.loads(json.dumps(result.to_json()))["structured"] == said


def test_result_as_json_and_raise_if_failed(store: ConversationStore) -> None:
    async def scene() -> None:
        agent = mt.Agent(calling("careful"), tools=[careful], store=store)
        result = await agent.run("Do it.")
        document = json.loads(json.dumps(result.raise_if_failed().to_json()))
        assert (document["status"], document["pending"][0]["id"]) == (
            "suspended",
            result.pending[0].id,
        )
        receipt = await store.answer(result.pending[0].id, value=True)
        assert receipt.to_json()["conversation"] == result.conversation
        failed = await mt.Agent(mt.ScriptedModel([])).run("Hi")
        with pytest.raises(mt.MidturnError, match="failed"):
            failed.raise_if_failed()
        with pytest.raises(mt.TurnOpen) as raised:
            await agent.run("More.", conversation=result.conversation)
        document = json.loads(json.dumps(raised.value.to_json()))
        assert (document["conversation"], document["text"], document["pending"]) == (
            result.conversation,
            "Do it.",
            [],
        )

    asyncio.run(scene())


def test_a_turn_is_resumed_without_an_event_loop(store: ConversationStore) -> None:
    agent = mt.Agent(calling("careful"), tools=[careful], store=store)
    result = agent.run_sync("Do it.")
    store.answer_sync(result.pending[0].id, value=True)

    assert agent.resume_sync(result.conversation).status == "completed"
