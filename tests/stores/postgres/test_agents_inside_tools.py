"""Agents inside tools over PostgreSQL: the statement that records an answer for the inner turn
makes the outer turn ready.
"""

from __future__ import annotations

import asyncio

import pytest

from midturn.stores.postgres.conversations import PostgresStore
from support.loops import in_a_loop
from support.nested_agents import NestedAgents, wait_for_turn_end

pytestmark = pytest.mark.real("PostgreSQL")


@in_a_loop
async def test_only_the_outermost_turn_is_ready_and_claimed(url: str) -> None:
    here, elsewhere = PostgresStore(url), PostgresStore(url)
    company = NestedAgents(here, "anna", "bert", deep=True)
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
async def test_worker_resumes_when_an_inner_question_is_answered(url: str) -> None:
    here, elsewhere = PostgresStore(url), PostgresStore(url)
    company = NestedAgents(here, "anna", "bert", deep=True)
    waiting = await company.agent.run("Go.")
    working = asyncio.create_task(company.agent.work())
    for question in waiting.pending:
        await elsewhere.answer(question.id, True)
    await wait_for_turn_end(elsewhere, waiting.conversation)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)

    assert [(await here.read(id)).turns[-1].open for id in await here.ids()] == [False] * 4
    assert len(company.ran) == 2


@in_a_loop
async def test_ending_or_removing_an_inner_turn_affects_all_turns_around_it(url: str) -> None:
    store = PostgresStore(url)
    waiting = await NestedAgents(store, "anna", "bert", deep=True).agent.run("Go.")

    await store.answer(waiting.pending[0].id, cancel=True)

    assert await store.pending() == await store.ready() == []
    assert [(await store.read(id)).turns[-1].open for id in await store.ids()] == [False] * 4
    await store.remove(waiting.pending[1].conversation)
    assert await store.ids() == []
