"""Random runs with many calls that are cancelled, suspended and repeated.

No call hangs, and each call gets its answers and its result.
"""

from __future__ import annotations

import asyncio
import random

import pytest

import midturn as mt
from midturn.events.types import InquiryRequest, ToolCallRequest, ToolCallResponse
from midturn.stores.sync_forms import drive
from midturn.testing.tool_run import recorded_pairs

CALLS = 5
QUESTIONS = 3


class Loop(mt.Prompter):
    """A loop that repeats calls until each of them has a result."""

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.store = mt.MemoryStore()
        self.conversation = self._begin()
        self.results: dict[int, str] = {}

    def _begin(self) -> str:
        return drive(self.store.new("their loop"))

    async def prompt(self, prompt: mt.Prompt) -> mt.Reply:
        """Answer now, later or not at all."""
        await asyncio.sleep(self.dice.choice([0, 0, 0.001, 0.003]))
        if self.dice.random() < 0.2:
            return mt.Unavailable()
        return mt.Answered(f"{prompt.tool} {prompt.question.id}")

    async def call(self, inquirer: mt.Inquirer, number: int) -> None:
        """Make one call with questions in sequence or at once."""
        async with inquirer.call(f"tool_{number}", "call_1") as call:
            questions = [
                mt.Question.text(f"q{place}", f"Question {place}?", exclusive=True)
                for place in range(QUESTIONS)
            ]
            if number % 2:
                said = [await call.ask(question) for question in questions]
            else:
                said = await asyncio.gather(*map(call.ask, questions))
            await asyncio.sleep(self.dice.choice([0, 0.001]))
            result = call.finish(", ".join(said))
        self.results[number] = result  # after the block, because its exit records the result

    async def round(self) -> None:
        """Make every call that has no result yet; cancel some of them."""
        self.concurrent = self.dice.random() < 0.5
        inquirer = mt.Inquirer(
            self.store, self.conversation, self if self.dice.random() < 0.7 else None
        )
        calls = [
            asyncio.create_task(self.call(inquirer, number))
            for number in range(CALLS)
            if number not in self.results
        ]
        for task in calls:
            if self.dice.random() < 0.3:
                asyncio.get_running_loop().call_later(self.dice.uniform(0, 0.004), task.cancel)
        async with asyncio.timeout(120):
            for error in await asyncio.gather(*calls, return_exceptions=True):
                assert error is None or isinstance(error, mt.Suspended | asyncio.CancelledError), (
                    error
                )
        await self._learn()
        for question in await self.store.pending():
            if self.dice.random() < 0.7:
                request = question.request
                assert isinstance(request, InquiryRequest)
                await self.store.answer(question.id, f"{question.tool} {request.question_id}")

    async def _learn(self) -> None:
        """Read the results of calls that were cancelled right after their results were
        recorded.
        """
        events = (await self.store.read(self.conversation)).events
        numbers = {
            event.event_id: int(event.name.removeprefix("tool_"))
            for event in events
            if isinstance(event, ToolCallRequest)
        }
        for event in events:
            if isinstance(event, ToolCallResponse):
                self.results.setdefault(numbers[event.call], event.content)


@pytest.mark.parametrize("seed", range(25))
def test_every_call_gets_its_answers_and_its_result(seed: int) -> None:
    async def play() -> Loop:
        loop = Loop(random.Random(seed))
        for _ in range(200):
            if len(loop.results) == CALLS:
                return loop
            await loop.round()
        raise AssertionError("the calls never came to an end")

    loop = asyncio.run(play())
    recorded = loop.store.read_sync(loop.conversation)
    contents = sorted(
        event.content for event in recorded.events if isinstance(event, ToolCallResponse)
    )
    assert contents == sorted(loop.results.values())
    assert contents == [
        ", ".join(f"tool_{number} q{place}" for place in range(QUESTIONS))
        for number in range(CALLS)
    ]
    assert not any(pair.outcome == "open" for pair in recorded_pairs(recorded))
    assert not any(window.open for window in recorded.turns)
