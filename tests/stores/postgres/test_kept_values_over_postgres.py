"""Values that a call keeps, in PostgreSQL."""

from __future__ import annotations

import pytest

import midturn as mt
from midturn.question.json_value import Json
from midturn.stores.postgres.conversations import PostgresStore
from support.loops import in_a_loop

pytestmark = pytest.mark.real("PostgreSQL")


@in_a_loop
async def test_next_process_finds_the_value_of_a_suspended_call(url: str) -> None:
    found: list[Json] = []

    @mt.tool
    async def work(ctx: mt.ToolContext) -> str:
        """Work."""
        found.append(ctx.kept("job"))
        await ctx.keep("job", {"id": "\x00 \U0001d11e", "number": 7})
        return await ctx.ask(mt.Question.text("where", "Where?"))

    def agent() -> mt.Agent:
        model = mt.ScriptedModel([{"calls": [{"name": "work"}]}, {"text": "Done."}])
        return mt.Agent(model, tools=[work], store=PostgresStore(url))

    waiting = await agent().run("Go.")
    assert await PostgresStore(url).ready() == []
    await PostgresStore(url).answer(waiting.pending[0], "eu")
    assert (await agent().resume(waiting.conversation)).status == "completed"

    assert found == [None, {"id": "\x00 \U0001d11e", "number": 7}]
