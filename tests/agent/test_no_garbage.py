"""Objects of a turn are freed by reference counting.

None of them waits for the garbage collector.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager

import pytest

import midturn as mt
from midturn.exchange import ModelRequest, TextPart, ToolCallPart


@mt.tool
async def deploy(env: str, ctx: mt.ToolContext) -> str:
    """Deploy the service."""
    region = await ctx.ask(mt.Question.select("region", "Which region?", ["eu-1", "us-2"]))
    return f"deployed {env} to {region}"


def say(request: ModelRequest) -> ToolCallPart | TextPart:
    answered = request.events[-1].type == "tool_call_response"
    return TextPart("Done.") if answered else ToolCallPart("call_1", "deploy", {"env": "staging"})


@pytest.fixture(autouse=True)
def _nothing_older_is_looked_at() -> None:
    """Freeze all older objects, because scanning the objects of hundreds of tests takes seconds.

    They stay frozen: unfreezing would scan all of them for the rest of this process and copy
    memory pages that are shared with other processes.
    """
    gc.collect()
    gc.freeze()


@contextmanager
def only_what_the_collector_finds() -> Generator[list[object]]:
    """Collect only the cycles that a block leaves behind."""
    found: list[object] = []
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield found
        gc.collect()
        found += gc.garbage
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


async def turn(store: mt.ConversationStore) -> None:
    """Run to a question, answer it, and continue with a new agent.

    The first tool run is stopped; the second one completes.
    """
    asked = await mt.Agent(mt.FunctionModel(say), tools=[deploy], store=store).run("Ship it")
    await store.answer(asked.pending[0].id, "eu-1")
    assert (
        await mt.Agent(mt.FunctionModel(say), tools=[deploy], store=store).resume(
            asked.conversation
        )
    ).text == "Done."


async def failing_turn(store: mt.ConversationStore) -> None:

    @mt.tool
    async def deploy(env: str) -> str:
        """Deploy the service."""
        raise OSError(f"{env} is away")

    ended = await mt.Agent(mt.FunctionModel(say), tools=[deploy], store=store).run("Ship it")
    assert ended.text == "Done."


@pytest.mark.parametrize("run", [turn, failing_turn])
def test_a_turn_leaves_nothing_to_the_garbage_collector(
    run: Callable[[mt.ConversationStore], Awaitable[None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    # log records are kept for the test report
    monkeypatch.setattr(logging.getLogger("midturn.tools"), "disabled", True)

    async def looked_at() -> list[str]:
        store = mt.MemoryStore()
        await run(store)  # objects that are loaded or cached once are no garbage
        with only_what_the_collector_finds() as found:
            await run(store)
        return sorted(
            {
                type(each).__qualname__
                for each in found
                if type(each).__module__.startswith("midturn")
            }
        )

    assert asyncio.run(looked_at()) == []
