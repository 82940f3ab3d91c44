"""Tools and checks for the tests of framework adapters. The tools' effects are counted."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

import midturn as mt
from midturn.events.types import ToolCallRequest, ToolCallResponse
from midturn.stores.store import ConversationStore
from midturn.testing import Clock

TWO = mt.People(ask=["ana", "bo"], only=True, approvals=2)


class Shop:
    """Tools with effects."""

    def __init__(self) -> None:
        self.effects: Counter[str] = Counter()

    def look(self, env: str) -> str:
        """Look, and ask from a function that is not async."""
        note = mt.ask_sync(mt.Question.text("note", "What do you see?"))
        self.effects[f"look {env}"] += 1
        return f"{env}: {note}"

    async def sell(self, env: str) -> str:
        """Sell it, where two people say so within the hour."""
        try:
            agreed = await mt.ask(
                mt.Question.boolean("sure", f"Sell {env}?", people=TWO, deadline=timedelta(hours=1))
            )
        except mt.NotAnswered as late:
            return f"{env} stays: {late.reason}."
        self.effects[f"sell {env}"] += agreed
        return f"{env} is sold." if agreed else f"{env} stays."

    def drop(self, env: str) -> str:
        """Drop what is there; this needs approval."""
        self.effects[f"drop {env}"] += 1
        return f"{env} is gone."


async def answer_by_two_people(store: ConversationStore, conversation: str) -> None:
    """Let two people answer yes, after an attempt by a third person who may not answer."""
    (question,) = await store.pending(conversation)
    assert question.deadline
    with pytest.raises(mt.NotAllowed, match="dora may not answer this: only ana and bo may"):
        await store.answer(question.id, True, user="dora")
    assert (await store.answer(question.id, True, user="ana")).votes == "1 of 2"
    assert (await store.answer(question.id, True, user="bo")).votes == ""


async def answer_after_deadline(store: ConversationStore, conversation: str, clock: Clock) -> None:
    """Let the second of two people answer after the deadline."""
    (question,) = await store.pending(conversation)
    await store.answer(question.id, True, user="ana")
    clock.pass_(hours=2)
    with pytest.raises(mt.DeadlinePassed):
        await store.answer(question.id, True, user="bo")


async def recorded_counts(store: ConversationStore, conversation: str) -> tuple[int, int, int]:
    """Return the number of recorded calls, questions and results."""
    read = await store.read(conversation)
    calls = sum(isinstance(event, ToolCallRequest) for event in read.events)
    return (
        calls,
        len(read.pairs()),
        sum(isinstance(event, ToolCallResponse) for event in read.events),
    )
