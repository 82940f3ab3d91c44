from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest

import midturn as mt
from midturn.core.exchange import ModelRequest, TextPart, ToolCallPart


@mt.tool
async def deploy(ctx: mt.ToolContext) -> str:
    """Deploy the service."""
    return str(await ctx.ask(mt.Question.boolean("sure", "Sure?")))


def _say(request: ModelRequest) -> TextPart | ToolCallPart:
    return TextPart("Done.") if request.events[-1].type == "tool_call_response" else ToolCallPart("call_1", "deploy", {})


async def _asked(store: mt.ConversationStore) -> str:
    return (await mt.Agent(mt.FunctionModel(_say), tools=[deploy], store=store).run("Go.")).pending[0].id


def test_a_program_hears_which_turn_can_go_on(tmp_path: Path) -> None:
    """Once for each answer, after it is recorded, and through a guard, too."""
    heard: list[tuple[str, list[str]]] = []

    async def on_wake(conversation: str) -> None:
        heard.append((conversation, await mt.open_store(tmp_path).ready()))

    async def scene() -> str:
        store = mt.open_store(tmp_path, on_wake=on_wake, may_answer=lambda _question, _user: True)
        question = await _asked(store)
        await store.answer(question, value=True)
        return question.partition("-")[0]

    conversation = asyncio.run(scene())
    assert heard == [(conversation, [conversation])]


def test_an_answer_stands_though_its_program_fails_to_hear(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def on_wake(conversation: str) -> None:
        raise ConnectionError(f"no queue for {conversation}")

    store = mt.open_store(tmp_path, on_wake=on_wake)
    question = asyncio.run(_asked(store))
    with caplog.at_level(logging.ERROR, "midturn.store"):
        receipt = store.answer_sync(question, value=True)
    assert store.ready_sync() == [receipt.conversation]
    assert "on_wake failed" in caplog.text
