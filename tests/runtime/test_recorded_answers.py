"""Recorded answers on their way to a tool that runs again.

They arrive at once, and in the order of all events.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import midturn as mt
from midturn.events.types import InquiryAnswered
from midturn.runtime.stepper import Stepper
from midturn.stores.memory_conversations import MemoryStore
from midturn.turn import call
from midturn.turn.call import Call
from midturn.turn.form_run import FormRun
from midturn.turn.inputs import ToolAwaits
from support.concurrent_questions import WORDS, agent_with, play_concurrent_questions

SEEDS = 150


def test_a_recorded_answer_reaches_its_asker_within_one_loop_iteration() -> None:
    seen: list[int] = []

    @mt.tool
    async def careful(ctx: mt.ToolContext) -> str:
        """Ask three times."""
        turns = 0
        ticking = True

        def tick() -> None:
            nonlocal turns
            turns += 1
            if ticking:
                asyncio.get_running_loop().call_soon(tick)

        seen.clear()
        tick()
        try:
            for question in WORDS:
                seen.append(turns)
                await ctx.ask(question)
        finally:
            ticking = False
        return "asked"

    async def play() -> str:
        store = MemoryStore()
        result = await agent_with(careful, store).run("Go")
        while result.pending:
            await store.answer(result.pending[0].id, "yes")
            result = await agent_with(careful, store).resume(result.conversation)
        return result.status

    assert asyncio.run(play()) == "completed"
    assert seen == [1, 1, 1]


async def _all_played() -> list[list[object]]:
    return [await play_concurrent_questions(seed, MemoryStore()) for seed in range(SEEDS)]


def _only_report(self: Stepper, asked: ToolAwaits) -> None:
    self.report(asked)


class _FormRunWithWalker(FormRun):
    """A form run that uses a walker even for a form with one question."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._is_single = False


def test_shortcuts_deliver_the_same_answers_as_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = asyncio.run(_all_played())
    monkeypatch.setattr(call, "FormRun", _FormRunWithWalker)
    assert at_once == asyncio.run(_all_played())
    monkeypatch.setattr(Stepper, "ask", _only_report)
    assert at_once == asyncio.run(_all_played())


def test_a_bug_in_the_machine_ends_the_run_and_is_not_a_tool_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    @mt.tool
    async def careful(ctx: mt.ToolContext) -> str:
        """Ask first."""
        return await ctx.ask(WORDS[0])

    def broken(*_: object) -> None:
        raise AssertionError("a defect")

    async def play() -> list[str]:
        store = MemoryStore()
        asked = await agent_with(careful, store).run("Go")
        monkeypatch.setattr(Call, "awaits", broken)
        with pytest.raises(AssertionError, match="a defect"):
            await agent_with(careful, store).resume(asked.conversation)
        return [event.type for event in (await store.read(asked.conversation)).events]

    assert asyncio.run(play())[-1] == "inquiry_request"


def test_a_tool_cannot_modify_a_recorded_answer() -> None:
    which = mt.Question.multi_select("which", "Which?", ["a", "b"])
    heard: list[list[str]] = []

    @mt.tool
    async def careless(ctx: mt.ToolContext) -> str:
        """Ask, and change what was said."""
        said = await ctx.ask(which)
        heard.append(list(said))
        said.clear()
        await ctx.ask(WORDS[0])
        return "asked"

    async def play() -> list[object]:
        store = MemoryStore()
        result = await agent_with(careless, store).run("Go")
        await store.answer(result.pending[0].id, ["a", "b"])
        for _ in range(2):
            result = await agent_with(careless, store).resume(result.conversation)
        return [
            event.answer
            for event in (await store.read(result.conversation)).events
            if isinstance(event, InquiryAnswered)
        ]

    assert asyncio.run(play()) == [["a", "b"]]
    assert heard == [["a", "b"]] * 2
