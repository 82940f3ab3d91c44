"""Events during a write of the journal.

No event is lost, and the order of the answers does not change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

import midturn as mt
from midturn.errors import AlreadyAnswered, NotOpen
from midturn.events.types import Event, InquiryAnswered, inquiry_requests, turn_ends
from midturn.runtime.driver import Driver
from midturn.stores.memory_conversations import MemoryJournal, MemoryStore
from midturn.turn.view import TurnView
from support.concurrent_questions import WORDS, play_concurrent_questions
from support.yielding_store import YieldingStore

SEEDS = 60


async def _all_played(rounds: int | None) -> list[list[object]]:
    return [
        await play_concurrent_questions(
            seed, MemoryStore() if rounds is None else YieldingStore(rounds)
        )
        for seed in range(SEEDS)
    ]


@pytest.mark.parametrize("rounds", [1, 3])
def test_random_turns_have_the_same_answers_if_every_write_yields(rounds: int) -> None:
    assert asyncio.run(_all_played(rounds)) == asyncio.run(_all_played(None))


@mt.tool
async def careful(ctx: mt.ToolContext) -> str:
    """Ask twice."""
    return f"{await ctx.ask(WORDS[0])} {await ctx.ask(WORDS[1])}"


class Person(mt.Prompter):
    """Answers at once."""

    async def prompt(self, prompt: mt.Prompt) -> mt.Reply:
        """Answer."""
        return mt.Answered(True if prompt.kind == "run" else "yes")


async def _interrupted_during(
    write: int, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, Sequence[Event], int]:
    """Run a turn that asks twice, and report an interrupt during one of its writes."""
    drivers: list[Driver] = []
    drive = Driver.run

    async def run(self: Driver, *args: object) -> object:
        drivers.append(self)
        return await drive(self, *args)  # type: ignore[arg-type]

    async def during(number: int, journal: MemoryJournal) -> None:
        del journal
        if number == write:
            drivers[-1].interrupt()

    with monkeypatch.context() as patched:
        patched.setattr(Driver, "run", run)
        store = YieldingStore(during=during)
        agent = mt.Agent(
            mt.ScriptedModel([{"calls": [{"name": "careful"}]}, {"text": "Done."}]),
            tools=[careful],
            store=store,
            prompter=Person(),
        )
        result = await agent.run("Go")
    return result.status, (await store.read(result.conversation)).events, store.conversations.writes


def test_an_interrupt_during_any_write_ends_the_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    _, whole, writes = asyncio.run(_interrupted_during(0, monkeypatch))
    assert writes > 3
    for write in range(1, writes + 1):
        status, events, _ = asyncio.run(_interrupted_during(write, monkeypatch))
        (end,) = turn_ends(events)
        assert events[-1] is end, write
        assert end.status == status == ("completed" if write == writes else "ended_by_user"), write
        assert not TurnView.last(events).open_ids, write
        assert len(events) <= len(whole) + 2, write


def test_an_interrupt_during_the_first_write_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    status, events, _ = asyncio.run(_interrupted_during(1, monkeypatch))
    assert status == "ended_by_user"
    assert [event.type for event in events] == ["turn_start", "chat_request", "turn_end"]


async def _answered_during(write: int) -> tuple[Sequence[Event], bool]:
    """Run a turn, and submit an answer from outside during one of its writes."""
    submitted: list[asyncio.Task[bool]] = []

    async def submit(id: str) -> bool:
        try:
            await store.answer(id, "from outside")
        except (NotOpen, AlreadyAnswered):  # the answer at the prompt came first
            return False
        return True

    async def during(number: int, journal: MemoryJournal) -> None:
        if (
            number >= write
            and not submitted
            and (open_ids := TurnView.last(journal.events).open_ids)
        ):
            submitted.append(asyncio.create_task(submit(f"{journal.conversation}-{open_ids[0]}")))

    store = YieldingStore(during=during)
    agent = mt.Agent(
        mt.ScriptedModel([{"calls": [{"name": "careful"}]}, {"text": "Done."}]),
        tools=[careful],
        store=store,
        prompter=Person(),
    )
    result = await agent.run("Go")
    was_accepted = [await task for task in submitted]
    return (await store.read(result.conversation)).events, was_accepted == [True]


def test_each_question_has_one_response_if_an_answer_arrives_during_a_write() -> None:
    for write in range(1, 8):
        events, was_accepted = asyncio.run(_answered_during(write))
        answers = [event.answer for event in events if isinstance(event, InquiryAnswered)]
        assert len(answers) == len([*inquiry_requests(events)]) == 2
        assert ("from outside" in answers) == was_accepted, write


class Absent(mt.Prompter):
    """Waits forever. Only an answer from outside closes the prompt."""

    concurrent = True

    async def prompt(self, prompt: mt.Prompt) -> mt.Reply:
        """Wait."""
        if prompt.kind == "run":
            return mt.Answered(True)
        await asyncio.Event().wait()
        raise AssertionError


def test_answers_submitted_during_writes_are_all_recorded() -> None:
    async def play() -> Sequence[Event]:
        submitted: dict[str, asyncio.Task[mt.Receipt]] = {}

        async def during(number: int, journal: MemoryJournal) -> None:
            for event_id in TurnView.last(journal.events).open_ids:
                if event_id not in submitted and number:
                    submitted[event_id] = asyncio.create_task(
                        store.answer(f"{journal.conversation}-{event_id}", f"to {event_id}")
                    )

        async def both(ctx: mt.ToolContext) -> str:
            """Ask twice at once."""
            return str(await asyncio.gather(ctx.ask(WORDS[0]), ctx.ask(WORDS[1])))

        store = YieldingStore(during=during)
        model = mt.ScriptedModel([{"calls": [{"name": "both"}]}, {"text": "Done."}])
        agent = mt.Agent(model, tools=[mt.tool(both)], store=store, prompter=Absent())
        result = await agent.run("Go")
        await asyncio.gather(*submitted.values())
        return (await store.read(result.conversation)).events

    events = asyncio.run(play())
    assert {str(event.answer) for event in events if isinstance(event, InquiryAnswered)} == {
        f"to {request.event_id}" for request in inquiry_requests(events)
    }
