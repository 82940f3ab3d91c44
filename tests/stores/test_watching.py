"""Watchers receive every change, however fast the changes follow each other."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

import pytest

import midturn as mt
from midturn.exchange import ModelRequest, TextPart, ToolCallPart
from midturn.stores.port import ChangeCursor, ChangeFeed
from midturn.stores.watching import Watch, happened_and_recorded
from support.processes import Forked, kill, line

TWO = ["asked", "answered", "asked", "answered", "turn_ended"]


@mt.tool
async def deploy(ctx: mt.ToolContext) -> str:
    """Deploy the service."""
    sure = await ctx.ask(mt.Question.boolean("sure", "Sure?"))
    return f"{sure} {await ctx.ask(mt.Question.text('where', 'Where?'))}"


def _say(request: ModelRequest) -> TextPart | ToolCallPart:
    return (
        TextPart("Done.")
        if request.events[-1].type == "tool_call_response"
        else ToolCallPart("call_1", "deploy", {})
    )


def _agent(store: mt.ConversationStore) -> mt.Agent:
    replies = mt.ScriptedPrompter({"deploy.sure": True, "deploy.where": "here"}, unscripted="raise")
    return mt.Agent(mt.FunctionModel(_say), tools=[deploy], store=store, prompter=replies)


async def _take(changes: AsyncGenerator[mt.StoreChange], count: int) -> list[mt.StoreChange]:
    async with asyncio.timeout(120):
        return [await anext(changes) for _ in range(count)]


async def _whole_turns_reported(store: mt.ConversationStore) -> None:
    """A whole turn between two polls, in a new conversation and in one that had ended."""
    waiting = await mt.Agent(mt.FunctionModel(_say), tools=[deploy], store=store).run(
        "This one waits."
    )
    old = (await _agent(store).run("Go.")).conversation
    changes = store.watch()
    assert [change.id for change in await _take(changes, 1)] == [waiting.pending[0].id]
    new = (await _agent(store).run("Go.")).conversation
    await _agent(store).run("Go again.", conversation=old)
    await _agent(store).run("And again.", conversation=old)
    heard = await _take(changes, 15)
    for conversation, kinds in ((new, TWO), (old, TWO + TWO)):
        of_it = [change for change in heard if change.conversation == conversation]
        assert [change.kind for change in of_it] == kinds
        assert all(change.answered_by for change in of_it if change.kind == "answered")
    await store.answer(waiting.pending[0].id, value=True)
    assert [(change.kind, change.id) for change in await _take(changes, 1)] == [
        ("answered", waiting.pending[0].id)
    ]
    await store.remove(waiting.conversation)
    assert [(change.kind, change.conversation) for change in await _take(changes, 1)] == [
        ("turn_ended", waiting.conversation)
    ]
    await changes.aclose()


def test_turn_between_two_polls_is_reported_completely(store: mt.ConversationStore) -> None:
    asyncio.run(_whole_turns_reported(store))


@pytest.mark.real("PostgreSQL")
def test_turn_between_two_database_polls_is_reported_completely(url: str) -> None:
    asyncio.run(_whole_turns_reported(mt.open_store(url)))


def test_single_conversation_is_watched(store: mt.ConversationStore) -> None:
    async def scene() -> None:
        mine = await store.new()
        changes = store.watch(mine)
        first = asyncio.create_task(anext(changes))
        await asyncio.sleep(0)
        await _agent(store).run("Another one.")
        await _agent(store).run("Go.", conversation=mine)
        heard = [await asyncio.wait_for(first, 120), *await _take(changes, 4)]
        assert [(change.kind, change.conversation) for change in heard] == [
            (kind, mine) for kind in TWO
        ]
        await changes.aclose()

    asyncio.run(scene())


async def _worker_watched_from_outside(
    store: mt.ConversationStore, outside: mt.ConversationStore
) -> None:
    """A watcher in the worker's process receives all events; a watcher outside receives the
    recorded events.
    """
    agent = mt.Agent(mt.FunctionModel(_say), tools=[deploy], store=store)
    waiting = await agent.run("This one waits.")
    changes = outside.watch(waiting.conversation, events=True)
    assert [change.kind for change in await _take(changes, 1)] == ["asked"]
    heard: asyncio.Queue[tuple[str, mt.Streamed]] = asyncio.Queue()
    working = asyncio.create_task(
        agent.work(on_event=lambda conversation, event: heard.put_nowait((conversation, event)))
    )
    ended: list[mt.Streamed] = []
    for value in (True, "here"):
        (question,) = await store.pending()
        await store.answer(question.id, value=value)
        while not ended or not isinstance(ended[-1], mt.TurnEnded):
            conversation, event = await asyncio.wait_for(heard.get(), 120)
            assert conversation == waiting.conversation
            ended.append(event)
        ended.append(mt.TextDelta(""))
    working.cancel()
    names = [type(event).__name__ for event in ended if not isinstance(event, mt.TextDelta)]
    assert names == [
        "ToolStarted",
        "Asked",
        "TurnEnded",
        "ToolStarted",
        "ToolFinished",
        "TurnEnded",
    ]
    seen: list[mt.StoreChange] = []
    while not seen or seen[-1].kind != "turn_ended":
        seen += await _take(changes, 1)
    await changes.aclose()
    recorded = [change.event for change in seen if change.kind == "recorded"]
    on_record = (await store.read(waiting.conversation)).events[4:]
    assert [event.event_id for event in recorded if event] == [
        event.event_id for event in on_record
    ]
    assert [change.kind for change in seen if change.kind != "recorded"] == TWO[1:]
    told = next(change.to_json() for change in seen if change.kind == "recorded")
    first = {"event": recorded[0].to_json() if recorded[0] else None, "position": 5}
    assert told == {"kind": "recorded", "conversation": waiting.conversation, **first}
    # resuming from any of these positions misses nothing
    for cut in range(4, 4 + len(on_record) + 1):
        again = outside.watch(waiting.conversation, events=True, after=cut)
        missed = [change for change in seen if change.kind != "recorded" or change.position > cut]
        left = missed[
            next(
                (place for place, change in enumerate(missed) if change.kind == "recorded"),
                len(missed),
            ) :
        ]
        assert [
            (change.kind, change.position, change.id) for change in await _take(again, len(left))
        ] == [(change.kind, change.position, change.id) for change in left]
        await again.aclose()


def test_worker_is_watched_from_inside_and_outside(store: mt.ConversationStore) -> None:
    asyncio.run(_worker_watched_from_outside(store, store))


@pytest.mark.real("PostgreSQL")
def test_worker_over_postgres_is_watched_from_outside(url: str) -> None:
    asyncio.run(_worker_watched_from_outside(mt.open_store(url), mt.open_store(url)))


_WORKER = """
import asyncio, sys
import midturn as mt

@mt.tool
async def deploy(ctx: mt.ToolContext) -> str:
    "Deploy the service."
    sure = await ctx.ask(mt.Question.boolean("sure", "Sure?"))
    return f"{sure} {await ctx.ask(mt.Question.text('where', 'Where?'))}"

def say(request):
    return mt.TextPart("Done.") if request.events[-1].type == "tool_call_response" else mt.ToolCallPart("call_1", "deploy", {})

agent = mt.Agent(mt.FunctionModel(say), tools=[deploy], store=mt.open_store(sys.argv[1]))
asyncio.run(agent.work(on_event=lambda conversation, event: print(type(event).__name__, flush=True)))
"""
HERE = [
    "ToolStarted",
    "Asked",
    "TurnEnded",
    "ToolStarted",
    "ToolFinished",
    "TextDelta",
    "TurnEnded",
]


async def _another_process_watched(place: str) -> None:
    """A worker in another process receives its own events, and this process receives each
    recorded event once.
    """
    store = mt.open_store(place)
    waiting = await mt.Agent(mt.FunctionModel(_say), tools=[deploy], store=store).run(
        "This one waits."
    )
    changes = store.watch(events=True)
    seen = await _take(changes, 1)
    worker = Forked(_WORKER, place)
    try:
        await store.answer(waiting.pending[0], value=True)
        while seen[-1].kind != "asked" or len(seen) == 1:
            seen += await _take(changes, 1)
        await store.answer(seen[-1].id, value="here")
        while seen[-1].kind != "turn_ended":
            seen += await _take(changes, 1)
        assert [await asyncio.to_thread(line, worker) for _ in HERE] == HERE
    finally:
        kill(worker)
        await changes.aclose()
    assert [change.position for change in seen if change.kind == "recorded"] == [5, 6, 7, 8, 9, 10]
    assert [change.kind for change in seen if change.kind != "recorded"] == TWO


def test_a_worker_in_another_process_is_watched(tmp_path: Path) -> None:
    asyncio.run(_another_process_watched(str(tmp_path / "conversations")))


@pytest.mark.real("PostgreSQL")
def test_a_worker_in_another_process_is_watched_through_a_database(url: str) -> None:
    asyncio.run(_another_process_watched(url))


class _ChangesDuringPoll:
    """Runs a function right after the lengths of conversations were returned, so that the logs
    read afterwards are longer.
    """

    def __init__(self, growing: ChangeFeed, happens: Callable[[], Awaitable[object]]) -> None:
        self._growing = growing
        self._happens = [happens]
        self.is_begun = False
        self.wait_for_change, self.events_within = growing.wait_for_change, growing.events_within

    async def lengths(self, since: ChangeCursor | None = None) -> ChangeCursor:
        grown = await self._growing.lengths(since)
        if self.is_begun and self._happens:
            await self._happens.pop()()
        return grown


async def _reported_once(store: mt.ConversationStore) -> None:
    waiting = await mt.Agent(mt.FunctionModel(_say), tools=[deploy], store=store).run(
        "This one waits."
    )
    growing = _ChangesDuringPoll(
        store.port.growing, lambda: _agent(store).resume(waiting.conversation)
    )
    watch = Watch(store, growing, read=happened_and_recorded)
    await watch.begin()
    await store.answer(waiting.pending[0], value=True)
    growing.is_begun = True
    heard = [change for _ in range(3) for change in await watch.look()]
    positions = [change.position for change in heard if change.kind == "recorded"]
    assert positions == [*range(5, len((await store.read(waiting.conversation)).events) + 1)]
    assert [change.kind for change in heard if change.kind != "recorded"] == TWO[1:]


def test_change_during_a_poll_is_reported_once(store: mt.ConversationStore) -> None:
    asyncio.run(_reported_once(store))


@pytest.mark.real("PostgreSQL")
def test_change_during_a_database_poll_is_reported_once(url: str) -> None:
    asyncio.run(_reported_once(mt.open_store(url)))


async def _removal_reported(store: mt.ConversationStore) -> None:
    """Remove a conversation that was open before the watcher started and that the watcher never
    read.
    """
    waiting, left = [
        (
            await mt.Agent(mt.FunctionModel(_say), tools=[deploy], store=store).run("Waits.")
        ).conversation
        for _ in range(2)
    ]
    watch = Watch(store, store.port.growing)
    await store.port.growing.wait_for_change(0)
    assert await watch.look() == await watch.look() == []
    await store.remove(waiting)
    found: list[mt.StoreChange] = []
    async with asyncio.timeout(120):
        while not found:
            await store.port.growing.wait_for_change(1)
            found = await watch.look()
    assert [(change.kind, change.conversation) for change in found] == [("turn_ended", waiting)]
    assert await store.open_turns() == {left}


def test_removal_is_reported(store: mt.ConversationStore) -> None:
    asyncio.run(_removal_reported(store))


@pytest.mark.real("PostgreSQL")
def test_removal_from_a_database_is_reported(url: str) -> None:
    asyncio.run(_removal_reported(mt.open_store(url)))


def test_watching_an_unknown_conversation_is_an_error(store: mt.ConversationStore) -> None:
    with pytest.raises(ValueError, match="pass the conversation as well"):
        store.watch(after=3)
    with pytest.raises(mt.StoreError, match="17000000000"):
        next(store.watch_sync("17000000000", after=3))


@mt.tool(run=lambda _arguments, _context: mt.People(ask=["ana", "bo"], only=True, approvals=2))
async def publish(env: str) -> str:
    """Publish."""
    return f"published to {env}"


def test_votes_edits_and_reassignments_are_changes(tmp_path: Path) -> None:
    async def scene() -> None:
        store = mt.open_store(tmp_path)
        model = mt.ScriptedModel(
            [{"calls": [{"name": "publish", "arguments": {"env": "staging"}}]}, {"text": "Done."}]
        )
        agent = mt.Agent(model, tools=[publish], store=store)
        question = (await agent.run("Go.")).pending[0]
        changes = store.watch()
        assert [change.kind for change in await _take(changes, 1)] == ["asked"]
        await store.answer(question.id, approve=True, user="ana", digest=question.digest)
        (voted,) = await _take(changes, 1)
        assert voted.kind == "changed"
        assert voted.question
        assert voted.question.whose
        assert voted.question.whose.voters == ("ana",)
        await store.answer(
            question.id, arguments={"env": "production"}, user="bo", digest=question.digest
        )
        await agent.resume(question.conversation)  # applies the rules to the edited call
        async with asyncio.timeout(120):
            edited = await anext(
                change
                async for change in changes
                if change.question and change.question.arguments != {"env": "staging"}
            )
        assert (edited.kind, edited.question and edited.question.arguments) == (
            "changed",
            {"env": "production"},
        )
        await store.reassign(question.id, ["ana"], user="bo")
        (passed,) = await _take(changes, 1)
        assert passed.question
        assert passed.question.whose
        assert (passed.kind, passed.question.whose.ask) == ("changed", ("ana",))
        await changes.aclose()

    asyncio.run(scene())
