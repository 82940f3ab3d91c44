"""Values at the maximum nesting depth can be recorded and read again. Deeper values are
refused.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import midturn as mt
from midturn.errors import AnswerError, StoreError
from midturn.events.types import ChatRequest, ToolCallRequest, ToolCallResponse, TurnStart
from midturn.question.answer import DEPTH_LIMIT
from midturn.question.json_value import DEFAULT_LIMITS
from midturn.stores.memory_conversations import MemoryStore
from midturn.stores.opening import FileStore
from midturn.stores.store import ConversationStore


def nested(depth: int) -> Any:
    """Return nested lists of this depth."""
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


DEEPEST = nested(DEPTH_LIMIT)


@mt.tool
async def fold(ctx: mt.ToolContext) -> str:
    """Fold a list."""
    first = await ctx.ask(mt.Question.schema("first", "Which list?", {"type": "array"}))
    answers = await ctx.ask_form(mt.Form([ANOTHER, WHY]))
    return f"{first == DEEPEST} {answers[ANOTHER] == DEEPEST}"


ANOTHER = mt.Question.schema(
    "second", "Another?", {"type": "array"}, default=nested(DEPTH_LIMIT - 1)
)
WHY = mt.Question.text("why", "Why?")


@pytest.fixture(params=["files", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ConversationStore:
    return FileStore(tmp_path) if request.param == "files" else MemoryStore()


def test_answer_at_the_maximum_depth_is_recorded(store: ConversationStore) -> None:
    model = mt.ScriptedModel([{"calls": [{"name": "fold"}]}, {"text": "Done."}])
    agent = mt.Agent(model, tools=[fold], store=store)
    result = agent.run_sync("Fold it.")
    with pytest.raises(AnswerError, match="nested deeper than 128 levels"):
        store.answer_sync(result.pending[0].id, [DEEPEST])

    for answer in (DEEPEST, DEEPEST, "Because."):
        (waiting,) = store.pending_sync()
        store.answer_sync(waiting.id, answer)
        result = agent.resume_sync(result.conversation)

    assert result.status == "completed"
    assert [
        event.content
        for event in store.read_sync(result.conversation).events
        if isinstance(event, ToolCallResponse)
    ] == ["True True"]


def test_too_deep_value_is_not_recorded(store: ConversationStore) -> None:
    async def work() -> str:
        async with await store.create("deep") as journal:
            await journal.append(
                [TurnStart(event_id="e1"), ChatRequest(event_id="e2", content="Go.")]
            )
            for depth in (DEFAULT_LIMITS.json_depth, 2 * DEFAULT_LIMITS.json_depth):
                call = ToolCallRequest(
                    event_id=f"c{depth}", id="c", name="t", arguments={"it": nested(depth)}
                )
                if depth == DEFAULT_LIMITS.json_depth:
                    await journal.append([call])
                else:
                    with pytest.raises(StoreError, match="nested deeper than"):
                        await journal.append([call])
            return journal.conversation

    events = store.read_sync(asyncio.run(work())).events
    assert [event.type for event in events] == ["turn_start", "chat_request", "tool_call_request"]
