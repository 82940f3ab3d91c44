"""Deadlines that pass in a database while no process polls it."""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from datetime import timedelta
from typing import Any

import pytest

import midturn as mt
from midturn.events.types import InquiryCancelled

pytestmark = pytest.mark.real("PostgreSQL")


@mt.tool
async def deploy(ctx: mt.ToolContext[Any]) -> str:
    """Deploy, or say why not."""
    try:
        return str(
            await ctx.ask(
                mt.Question.boolean("confirm", "Deploy?", deadline=ctx.deps or timedelta(hours=1))
            )
        )
    except mt.NotAnswered as late:
        return f"not deployed: {late.reason}"


def agent(url: str) -> mt.Agent[Any]:
    """Return an agent that calls its tool once."""
    model = mt.ScriptedModel([{"calls": [{"name": "deploy"}]}, {"text": "Done."}])
    return mt.Agent(model, tools=[deploy], store=mt.open_store(url))


def ends(store: mt.ConversationStore, conversation: str) -> list[str]:
    """Return the reasons of cancelled questions."""
    return [
        event.reason
        for event in store.read_sync(conversation).events
        if isinstance(event, InquiryCancelled)
    ]


def test_worker_resumes_an_expired_question_at_once(url: str) -> None:
    mine = agent(url)

    async def scene() -> str:
        waiting = await mine.run("Go.", deps=timedelta(seconds=1))
        working = asyncio.create_task(mine.work(deps=timedelta(seconds=1)))
        async with (
            asyncio.timeout(120),
            aclosing(mine.store.watch(waiting.conversation)) as changes,
        ):
            async for change in changes:
                if change.kind == "turn_ended":
                    break
        working.cancel()
        await asyncio.wait([working])
        return waiting.conversation

    assert ends(mine.store, asyncio.run(scene())) == ["deadline"]


def test_expired_question_is_ready_after_its_deadline(url: str) -> None:
    mine = agent(url)
    late = mine.run_sync("Go.")
    soon = mine.run_sync("Go.", deps=timedelta(seconds=1))
    assert mine.store.ready_sync() == []

    until = time.monotonic() + 120
    while not (ready := mine.store.ready_sync()):
        assert time.monotonic() < until
        time.sleep(0.05)

    assert ready == [soon.conversation]
    assert (ends(mine.store, soon.conversation), ends(mine.store, late.conversation)) == (
        ["deadline"],
        [],
    )
