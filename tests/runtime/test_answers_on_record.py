"""Answers on record, on their way to a tool that runs again: at once, and to nobody else than in the order of all that happens."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

import midturn as mt
from midturn.record.events import InquiryAnswered, InquiryRequest, ToolCallResponse
from midturn.runtime.driver import Happenings
from midturn.store.memory_conversations import MemoryStore
from midturn.turn import forms
from midturn.turn.call import Call
from midturn.turn.walk import Walk

WORDS = [mt.Question.text(id, f"{id}?") for id in "abc"]
ASKED: list[mt.Question[object]] = [*WORDS, mt.Question.boolean("sure", "Sure?", optional=True)]
SEEDS = 150


def agent(tool: mt.Tool, store: MemoryStore) -> mt.Agent:
    """Return an agent that calls a tool once, as a process that begins anew makes it."""
    model = mt.ScriptedModel([{"calls": [{"name": tool.definition.name}]}, {"text": "Done."}])
    return mt.Agent(model, tools=[tool], store=store)


def test_an_answer_on_record_reaches_its_asker_within_one_turn_of_the_event_loop() -> None:
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
        result = await agent(careful, store).run("Go")
        while result.pending:
            await store.answer(result.pending[0].id, "yes")
            result = await agent(careful, store).resume(result.conversation)
        return result.status

    assert asyncio.run(play()) == "completed"
    assert seen == [1, 1, 1]


async def _played(seed: int) -> list[object]:
    """Play a turn whose tool asks from several tasks, equal questions among them; return who was told what, and what was recorded."""
    decide = random.Random(seed)
    tasks = [[decide.choice(ASKED) for _ in range(decide.randint(1, 4))] for _ in range(decide.randint(1, 3))]
    first = [decide.choice(ASKED) for _ in range(decide.randint(0, 2))]
    told: list[list[object]] = []

    async def ask(ctx: mt.ToolContext, questions: list[mt.Question[object]], heard: list[object]) -> None:
        for question in questions:
            answer = await ctx.ask(question)
            heard.append(answer)

    @mt.tool
    async def curious(ctx: mt.ToolContext) -> str:
        """Ask."""
        told[:] = [[await ctx.ask(question) for question in first], *([] for _ in tasks)]
        await asyncio.gather(*(ask(ctx, questions, heard) for questions, heard in zip(tasks, told[1:], strict=True)))
        return str(told)

    store = MemoryStore()
    seen: list[object] = []
    answers = 0
    result = await agent(curious, store).run("Go")
    while result.pending:
        seen.append([list(heard) for heard in told])
        for question in decide.sample(result.pending, decide.randint(1, len(result.pending))):
            answers += 1
            said = decide.choice((True, False, None)) if question.question.optional else f"answer {answers}"
            await store.answer(question.id, said, reason=decide.choice((None, f"because of {answers}")))
        result = await agent(curious, store).resume(result.conversation)
    for event in (await store.read(result.conversation)).events:
        match event:
            case InquiryRequest(id=id):
                seen.append(id)
            case InquiryAnswered(id=id, answer=answer):
                seen.append((id, answer))
            case ToolCallResponse(content=content):
                seen.append(content)
            case _:
                pass
    return seen


async def _all_played() -> list[list[object]]:
    return [await _played(seed) for seed in range(SEEDS)]


def _never(_: Happenings) -> bool:
    return False


class _Walked(Walk):
    """A walk that has a walker for one question, too."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.is_of_one = False


def test_who_hears_what_is_the_same_as_when_everything_waits_in_line_and_is_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = asyncio.run(_all_played())
    monkeypatch.setattr(forms, "Walk", _Walked)
    assert at_once == asyncio.run(_all_played())
    monkeypatch.setattr(Happenings, "would_be_next", _never)
    assert at_once == asyncio.run(_all_played())


def test_a_defect_of_the_machine_ends_the_run_and_is_no_failure_of_the_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    @mt.tool
    async def careful(ctx: mt.ToolContext) -> str:
        """Ask first."""
        return await ctx.ask(WORDS[0])

    def broken(*_: object) -> None:
        raise AssertionError("a defect")

    async def play() -> list[str]:
        store = MemoryStore()
        asked = await agent(careful, store).run("Go")
        monkeypatch.setattr(Call, "awaits", broken)
        with pytest.raises(AssertionError, match="a defect"):
            await agent(careful, store).resume(asked.conversation)
        return [event.type for event in (await store.read(asked.conversation)).events]

    assert asyncio.run(play())[-1] == "inquiry_request"


def test_what_a_tool_does_to_an_answer_changes_nothing_on_record() -> None:
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
        result = await agent(careless, store).run("Go")
        await store.answer(result.pending[0].id, ["a", "b"])
        for _ in range(2):
            result = await agent(careless, store).resume(result.conversation)
        return [event.answer for event in (await store.read(result.conversation)).events if isinstance(event, InquiryAnswered)]

    assert asyncio.run(play()) == [["a", "b"]]
    assert heard == [["a", "b"]] * 2
