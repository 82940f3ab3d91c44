"""Every state of a question, every kind of entry, and who runs the turn."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from itertools import product
from typing import Any, Literal

import pytest

import midturn as mt
from midturn.stores.store import ConversationStore
from midturn.testing import Clock
from support.agui import (
    Event,
    FrontEnd,
    cancelled,
    held_by_a_program,
    resolved,
    scripted,
    serving,
)

State = Literal["open", "answered", "expired", "closed", "other_thread", "other_user", "unknown"]
STATES: tuple[State, ...] = (
    "open",
    "answered",
    "expired",
    "closed",
    "other_thread",
    "other_user",
    "unknown",
)
ENTRIES = ("fits", "misfit", "cancelled", "refresh")
HOLDERS = ("free", "held", "over")
WHY = {
    "answered": "already_answered",
    "expired": "expired",
    "closed": "closed",
    "other_thread": "unknown",
    "other_user": "unknown",
    "unknown": "unknown",
}
CASES = [
    case
    for case in product(STATES, ENTRIES, HOLDERS)
    if not (case[0] == "open" and case[2] == "over")
]


@mt.tool
async def target(ctx: mt.ToolContext) -> str:
    """Ask the question that the entry is about."""
    question = mt.Question.text(
        "where", "Where to?", pattern="^[a-z]+$", deadline=timedelta(hours=1)
    )
    return f"target {await ctx.ask(question)}"


@mt.tool
async def rest(ctx: mt.ToolContext) -> str:
    """Ask another question, which keeps the turn open."""
    return f"rest {await ctx.ask(mt.Question.text('what', 'What?'))}"


def asking_agent(store: ConversationStore) -> mt.Agent:
    calls: list[dict[str, Any]] = [
        {"name": "target", "arguments": {}},
        {"name": "rest", "arguments": {}},
    ]
    script = [{"calls": calls}, {"text": "Done."}] * 3
    return scripted(*script, tools=[target, rest], store=store)


async def bring_about(
    state: State, store: ConversationStore, question_id: str, clock: Clock
) -> None:
    """Bring the question into a state, as another interface would."""
    if state == "answered":
        await store.answer(question_id, "mars", user="bob", via="inbox")
    elif state == "expired":
        clock.pass_(hours=2)
        await store.ready()  # records the end of the question
    elif state == "closed":
        await store.answer(question_id, reply="Ask me later.", user="bob", via="inbox")


def entry_of(kind: str, id: str) -> Event:
    match kind:
        case "fits":
            return resolved(id, {"answer": "venus"})
        case "misfit":
            return resolved(id, {"answer": "VENUS 1"})
        case "cancelled":
            return cancelled(id)
        case _:
            return cancelled(id, refresh=True)


@pytest.mark.parametrize(("state", "entry", "holder"), CASES)
def test_entry(
    state: State, entry: str, holder: str, store: ConversationStore, clock: Clock
) -> None:
    async def scene() -> None:
        agent = asking_agent(store)
        async with serving(agent) as client:
            front_end = FrontEnd(client)
            first, second = (await front_end.say("Go.")).interrupts
            id = await entry_id(state, client, first)
            (conversation,) = {
                question.conversation
                for question in await store.pending()
                if question.id == first["id"]
            }
            if holder == "held":
                async with held_by_a_program(agent, conversation):
                    await bring_about(state, store, id, clock)
                    await check(conversation, front_end, id, second)
                return
            await bring_about(state, store, id, clock)
            if holder == "over":
                await end_turn(agent, conversation)
            await check(conversation, front_end, id, second)

    async def entry_id(state: State, client: Any, first: Event) -> str:
        if state == "unknown":
            return "20200101000000000000-nothing"
        if state in ("other_thread", "other_user"):
            thread, user = ("t2", "ada") if state == "other_thread" else ("t1", "bob")
            asked = await FrontEnd(client, thread=thread, user=user).say("Go.")
            return str(asked.interrupts[0]["id"])
        return str(first["id"])

    async def check(conversation: str, front_end: FrontEnd, id: str, second: Event) -> None:
        open_before = {question.id for question in await store.pending()}
        run = await front_end.resume(entry_of(entry, id), cancelled(second, refresh=True))
        open_after = {question.id for question in await store.pending()}
        about = [each for each in run.not_taken if each.get("interruptId") == id]
        is_taken = (state, entry) == ("open", "fits")
        assert open_before - open_after == ({id} if is_taken else set())
        assert [each["why"] for each in about] == why(state, entry)
        assert len(run.not_taken) == len(about) + (holder == "over")
        if state == "answered":
            (reported,) = about
            assert (reported["by"], reported["via"]) == ("bob", "inbox")
            assert reported["when"]
        expected = [each.id for each in await store.pending(conversation)]
        assert sorted(each["id"] for each in run.interrupts) == sorted(expected)
        assert run.outcome == ("success" if holder == "over" else "interrupt")

    asyncio.run(scene())


def why(state: State, entry: str) -> list[str]:
    """Return the reasons that are reported for the entry."""
    if state != "open":
        return [WHY[state]]
    return ["invalid"] if entry == "misfit" else []


async def end_turn(agent: mt.Agent, conversation: str) -> None:
    """Answer what is open, and let another process end the turn."""
    for question in await agent.store.pending(conversation):
        await agent.store.answer(question, "tea", user="bob", via="inbox")
    result = await agent.resume(conversation)
    assert result.status == "completed"
