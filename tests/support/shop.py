"""What the programs over other frameworks do in the tests of their adapters; it is counted, whatever process did it."""

from __future__ import annotations

from collections import Counter

import midturn as mt
from midturn.record.events import ToolCallRequest, ToolCallResponse
from midturn.store.store import ConversationStore


class Shop:
    """Tools with effects."""

    def __init__(self) -> None:
        self.effects: Counter[str] = Counter()

    def look(self, env: str) -> str:
        """Look, and ask from a function that is not async."""
        note = mt.ask_sync(mt.Question.text("note", "What do you see?"))
        self.effects[f"look {env}"] += 1
        return f"{env}: {note}"

    def drop(self, env: str) -> str:
        """Drop what is there; this needs approval."""
        self.effects[f"drop {env}"] += 1
        return f"{env} is gone."


async def counted(store: ConversationStore, conversation: str) -> tuple[int, int, int]:
    """Return how many calls, questions and results are on record."""
    read = await store.read(conversation)
    calls = sum(isinstance(event, ToolCallRequest) for event in read.events)
    return calls, len(read.pairs()), sum(isinstance(event, ToolCallResponse) for event in read.events)
