"""Agents inside of tools, over PostgreSQL: an answer to one inside wakes the turn around it, in the statement that records it."""

from __future__ import annotations

import asyncio

import pytest

from midturn.stores.postgres.conversations import PostgresStore
from support.loops import in_a_loop
from support.nested_agents import Company, over

pytestmark = pytest.mark.real("PostgreSQL")


@in_a_loop
async def test_only_the_turn_at_the_top_is_ready_and_claimed(url: str) -> None:
    here, elsewhere = PostgresStore(url), PostgresStore(url)
    company = Company(here, "anna", "bert", deep=True)
    waiting = await company.agent.run("Go.")
    assert await here.claim(5) == await here.ready() == []

    for left in (2, 1):
        assert len(waiting.pending) == len(await elsewhere.pending(waiting.conversation)) == left
        await elsewhere.answer(waiting.pending[0].id, True)
        assert await elsewhere.ready() == [waiting.conversation]
        (claimed,) = await here.claim(5)
        assert claimed.conversation == waiting.conversation
        await claimed.__aexit__(None, None, None)
        waiting = await company.agent.resume(waiting.conversation)

    assert (waiting.status, waiting.text) == ("completed", "foreman: anna worked bert worked")
    assert len(company.ran) == 2
    assert await here.open_turns() == set()


@in_a_loop
async def test_a_worker_goes_on_as_soon_as_one_inside_is_answered(url: str) -> None:
    here, elsewhere = PostgresStore(url), PostgresStore(url)
    company = Company(here, "anna", "bert", deep=True)
    waiting = await company.agent.run("Go.")
    working = asyncio.create_task(company.agent.work())
    for question in waiting.pending:
        await elsewhere.answer(question.id, True)
    await over(elsewhere, waiting.conversation)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)

    assert [(await here.read(id)).turns[-1].open for id in await here.ids()] == [False] * 4
    assert len(company.ran) == 2


@in_a_loop
async def test_who_ends_one_inside_ends_all_and_removes_all(url: str) -> None:
    store = PostgresStore(url)
    waiting = await Company(store, "anna", "bert", deep=True).agent.run("Go.")

    await store.answer(waiting.pending[0].id, cancel=True)

    assert await store.pending() == await store.ready() == []
    assert [(await store.read(id)).turns[-1].open for id in await store.ids()] == [False] * 4
    await store.remove(waiting.pending[1].conversation)
    assert await store.ids() == []
