"""A turn that began with dependencies needs them to continue.

Without them its approved calls would fail and use up their approvals.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

import midturn as mt
from midturn.events.types import ToolCallResponse
from midturn.stores.store import ConversationStore
from midturn.stores.sync_forms import drive
from support.waiting import until


@mt.tool(run="ask")
async def pay(n: int, ctx: mt.ToolContext[dict[str, str]]) -> str:
    """Pay."""
    return f"paid {n} for {ctx.deps['tenant']}"


def accountant(store: ConversationStore) -> mt.Agent[dict[str, str]]:
    """Return an agent that makes one payment."""
    model = mt.ScriptedModel(
        [{"calls": [{"name": "pay", "arguments": {"n": 1}}]}, {"text": "Done."}]
    )
    return mt.Agent[dict[str, str]](model, tools=[pay], store=store)


async def approved(store: ConversationStore, tenant: str, author: str | None = None) -> str:
    """Begin a turn with dependencies, approve its call, and return the conversation ID."""
    waiting = await accountant(store).run("Pay.", deps={"tenant": tenant}, author=author)
    await store.answer(waiting.pending[0].id, approve=True, user="ana")
    return waiting.conversation


async def results(store: ConversationStore, conversation: str) -> list[str]:
    """Return the tool results that the model read."""
    return [
        event.content
        for event in (await store.read(conversation)).events
        if isinstance(event, ToolCallResponse)
    ]


def test_resume_without_deps_is_refused_and_keeps_the_approval(store: ConversationStore) -> None:
    async def scene() -> None:
        conversation = await approved(store, "acme")
        with pytest.raises(
            mt.ConfigError,
            match=r"was started with `deps`.*stays open.*agent\.resume\(conversation, deps=…\)",
        ):
            await accountant(store).resume(conversation)
        assert await results(store, conversation) == []
        assert (
            await accountant(store).resume(conversation, deps={"tenant": "acme"})
        ).status == "completed"
        assert await results(store, conversation) == ["paid 1 for acme"]

    asyncio.run(scene())


def test_tool_without_deps_runs_without_deps(store: ConversationStore) -> None:
    async def scene() -> None:
        @mt.tool(run="ask")
        async def look() -> str:
            """Look."""
            return "seen"

        agent = mt.Agent(
            mt.ScriptedModel([{"calls": [{"name": "look"}]}, {"text": "Done."}]),
            tools=[look],
            store=store,
        )
        waiting = await agent.run("Look.", deps={"tenant": "acme"})
        await store.answer(waiting.pending[0].id, approve=True, user="ana")
        assert (await agent.resume(waiting.conversation)).status == "completed"

    asyncio.run(scene())


def test_turn_without_deps_resumes_without_deps(store: ConversationStore) -> None:
    async def scene() -> None:
        @mt.tool(run="ask")
        async def pay_someone(n: int, ctx: mt.ToolContext[dict[str, str] | None]) -> str:
            """Pay."""
            return f"paid {n} for {ctx.deps['tenant'] if ctx.deps else 'anyone'}"

        model = mt.ScriptedModel(
            [{"calls": [{"name": "pay_someone", "arguments": {"n": 1}}]}, {"text": "Done."}]
        )
        agent = mt.Agent(model, tools=[pay_someone], store=store)
        waiting = await agent.run("Pay.")
        await store.answer(waiting.pending[0].id, approve=False, user="ana")
        assert (await agent.resume(waiting.conversation)).status == "completed"

    asyncio.run(scene())


def test_a_worker_gives_each_turn_the_dependencies_of_its_author(store: ConversationStore) -> None:
    async def scene() -> None:
        conversations = {
            author: await approved(store, f"shop of {author}", author) for author in ("bo", "carl")
        }
        asked: list[Any] = []

        async def deps_for(conversation: str, author: str | None) -> dict[str, str]:
            asked.append((conversation, author))
            return {"tenant": f"shop of {author}"}

        working = asyncio.create_task(accountant(store).work(deps_for=deps_for))
        await until(lambda: len(asked) == 2 and not drive(store.open_turns()))
        working.cancel()
        assert sorted(asked) == sorted(
            (conversation, author) for author, conversation in conversations.items()
        )
        for author, conversation in conversations.items():
            assert await results(store, conversation) == [f"paid 1 for shop of {author}"]

    asyncio.run(scene())


def test_worker_without_deps_skips_a_turn_with_deps(
    store: ConversationStore, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene() -> None:
        conversation = await approved(store, "acme")
        with caplog.at_level(logging.WARNING, "midturn.worker"):
            working = asyncio.create_task(accountant(store).work())
            await until(lambda: "was started with `deps`" in caplog.text)
            working.cancel()
        assert await results(store, conversation) == []
        assert await store.open_turns(conversation) == {conversation}

    asyncio.run(scene())
