"""Interrupted turns over PostgreSQL: stopped runs, dead processes, and turns inside tools."""

from __future__ import annotations

import asyncio

import pytest

import midturn as mt
from midturn.stores.postgres.conversations import PostgresStore
from support.loops import in_a_loop
from support.nested_agents import NestedAgents

pytestmark = pytest.mark.real("PostgreSQL")


@in_a_loop
async def test_stopped_turn_is_listed_after_its_run_ends(url: str) -> None:
    here, elsewhere = PostgresStore(url), PostgresStore(url)
    begun = asyncio.Event()

    @mt.tool
    async def wait() -> str:
        """Wait."""
        begun.set()
        await asyncio.Event().wait()
        return "never"

    agent = mt.Agent(mt.ScriptedModel([{"calls": [{"name": "wait"}]}]), tools=[wait], store=here)
    running = asyncio.create_task(agent.run("Wait."))
    await begun.wait()
    assert await elsewhere.ready(interrupted=True) == []

    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

    assert await elsewhere.ready() == []
    assert await elsewhere.ready(interrupted=True) == await here.ids()


@in_a_loop
async def test_turn_whose_model_was_down_is_listed(url: str) -> None:
    def down(_: mt.ModelRequest) -> str:
        raise mt.ModelError("It is down.")

    store = PostgresStore(url)
    with pytest.raises(mt.ModelError):
        await mt.Agent(mt.FunctionModel(down), store=store).run("Go.")

    (conversation,) = await store.ready(interrupted=True)
    result = await mt.Agent(mt.FunctionModel(lambda _: "Hello."), store=store).resume(conversation)

    assert result.text == "Hello."
    assert await store.ready(interrupted=True) == []


@in_a_loop
async def test_turn_with_inner_questions_is_listed_after_an_answer(url: str) -> None:
    store = PostgresStore(url)
    waiting = await NestedAgents(store, "anna", "bert", deep=True).agent.run("Go.")
    assert await store.ready(interrupted=True) == []

    await store.answer(waiting.pending[0].id, True)

    assert await store.ready(interrupted=True) == await store.ready() == [waiting.conversation]
