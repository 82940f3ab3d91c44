"""Pruning in every store: old finished conversations, and conversations that never began."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import midturn as mt
from midturn.stores import pruning
from midturn.stores.memory_conversations import MemoryStore
from midturn.stores.opening import FileStore
from midturn.stores.postgres.conversations import PostgresStore
from midturn.stores.pruning import Pruning, made
from midturn.stores.store import ConversationStore
from support.agents import ship
from support.loops import in_a_loop
from support.serving import free_port

DAY = timedelta(days=1)
LATER = timedelta(days=100)


@pytest.fixture(
    params=["disk", "memory", pytest.param("database", marks=pytest.mark.real("PostgreSQL"))]
)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ConversationStore:
    """Return an empty store of each kind."""
    if request.param == "database":
        return PostgresStore(request.getfixturevalue("url"))
    return FileStore(tmp_path / "conversations") if request.param == "disk" else MemoryStore()


class SettableClock:
    """A clock that a test sets."""

    def __init__(self, **since: int) -> None:
        self._since = timedelta(**since)

    def now(self) -> datetime:
        return datetime.now(UTC) + self._since


def agent(store: ConversationStore) -> mt.Agent:
    return mt.Agent(
        mt.ScriptedModel([{"calls": [{"name": "ship"}]}, {"text": "Done."}] * 2),
        tools=[ship],
        store=store,
    )


def later(store: ConversationStore, **since: int) -> ConversationStore:
    return ConversationStore(store.port, clock=SettableClock(**since))


async def finished(store: ConversationStore, words: str = "Ship it.") -> str:
    asked = await agent(store).run(words)
    await store.answer(asked.pending[0].id, True)
    return (await agent(store).resume(asked.conversation)).conversation


@in_a_loop
async def test_old_finished_conversations_are_pruned_and_open_ones_kept(
    store: ConversationStore,
) -> None:
    over, waits = await finished(store), (await agent(store).run("Ship it.")).conversation
    ready = await agent(store).run("Ship it.")
    await store.answer(ready.pending[0].id, True)  # and no process has continued it

    assert (await later(store, days=89).prune(90 * DAY)).finished == ()
    assert [one.id for one in await later(store, days=100).prunable(90 * DAY)] == [over]
    pruned = await later(store, days=100).prune(90 * DAY)

    assert (pruned.finished, pruned.empty, pruned.left) == ((over,), (), {})
    assert await store.ids() == [waits, ready.conversation]
    assert (await agent(store).resume(ready.conversation)).status == "completed"


@in_a_loop
async def test_age_is_that_of_the_last_event(store: ConversationStore) -> None:
    over = await finished(store)
    async with await store.open(over) as held:  # it is locked by another process
        assert (await later(store, days=100).prune(90 * DAY)).finished == ()
        assert held.conversation == over
    lines = await store.port.lines(over)
    old = await store.port.add(lines, (await store.read(over)).metadata, "1500000000000000")
    assert made(old) < datetime(2018, 1, 1, tzinfo=UTC)

    assert (await later(store, days=89).prune(90 * DAY)).finished == ()
    assert set((await later(store, days=91).prune(90 * DAY)).finished) == {over, old}


@in_a_loop
async def test_empty_conversation_is_pruned_after_an_hour(store: ConversationStore) -> None:
    killed = await store.new("Killed")
    # no list shows it
    assert (await store.ids(), await store.port.ids(), await store.port.newest(1)) == (
        [],
        [killed],
        [],
    )

    assert (await later(store, minutes=59).prune(90 * DAY)).empty == ()
    assert (await later(store, minutes=61).prune(90 * DAY)).empty == (killed,)
    assert await store.ids() == []


@in_a_loop
async def test_turn_begun_during_pruning_keeps_its_conversation(store: ConversationStore) -> None:
    over, empty = await finished(store), await store.new("Empty")
    now = datetime.now(UTC) + LATER
    looking = Pruning(store.port, now, 90 * DAY)
    found = [one async for one in looking.found()]
    assert {one.id for one in found} == {over, empty}
    for id in (over, empty):
        assert (await agent(store).run("Once more.", conversation=id)).status == "suspended"

    assert [await looking.remove(one) for one in found] == [False, False]
    assert len(await store.pending()) == 2


@in_a_loop
async def test_inner_conversations_are_pruned_with_the_outer_one(store: ConversationStore) -> None:
    inner = agent(store)

    @mt.tool
    async def delegate() -> str:
        """Have another agent do it."""
        return (await inner.run("Ship it.")).text or ""

    outer = mt.Agent(
        mt.ScriptedModel([{"calls": [{"name": "delegate"}]}, {"text": "Done."}]),
        tools=[delegate],
        store=store,
    )
    around = await outer.run("Delegate it.")
    (question,) = await store.pending()
    family = set(await store.ids())
    assert len(family) == 2
    assert (await later(store, days=100).prune(DAY)).finished == ()
    await store.answer(question.id, True)
    await outer.resume(around.conversation)

    pruned = await later(store, days=100).prune(90 * DAY)

    assert (pruned.finished[0], set(pruned.finished)) == (around.conversation, family)
    assert await store.ids() == []


@in_a_loop
async def test_orphaned_inner_conversation_is_pruned(store: ConversationStore) -> None:
    """The process was killed between the two removals."""
    inner = agent(store)

    @mt.tool
    async def delegate() -> str:
        """Have another agent do it."""
        return (await inner.run("Ship it.")).text or ""

    outer = mt.Agent(
        mt.ScriptedModel([{"calls": [{"name": "delegate"}]}, {"text": "Done."}]),
        tools=[delegate],
        store=store,
    )
    around = (await outer.run("Delegate it.")).conversation
    await store.answer((await store.pending())[0].id, True)
    await outer.resume(around)
    (inside,) = set(await store.ids()) - {around}
    await store.port.remove(around)

    assert (await later(store, days=100).prune(90 * DAY)).finished == (inside,)


@in_a_loop
async def test_many_conversations_are_pruned_in_pages(
    store: ConversationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "_PAGE", 2)
    over = [await finished(store) for _ in range(5)]

    assert (await later(store, days=100).prune(90 * DAY)).finished == tuple(over)


@in_a_loop
async def test_unreadable_conversation_is_reported_and_others_are_pruned(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "conversations")
    damaged, linked, over = [await finished(store) for _ in range(3)]
    (store.files.directories.path(damaged) / "events.jsonl").write_text("not a line of JSON\n")
    events = store.files.directories.path(linked) / "events.jsonl"
    events.rename(tmp_path / "elsewhere")
    events.symlink_to(tmp_path / "elsewhere")

    pruned = await later(store, days=100).prune(90 * DAY)

    assert pruned.finished == (over,)
    assert set(pruned.left) == {damaged, linked}
    assert f"`midturn conversation rm {damaged}`" in str(pruned)
    assert f"`midturn conversation rm {damaged} --store there`" in "".join(
        pruned.reasons(" --store there")
    )
    assert pruned.removable == (damaged,)
    assert "symbolic link" in pruned.left[linked]
    assert set(await store.ids()) == {damaged, linked}


@pytest.mark.parametrize("command", [["serve"], ["worker", "shop:agent"]], ids=["serve", "worker"])
def test_server_and_worker_prune_after_the_configured_time(
    tmp_path: Path, command: list[str]
) -> None:
    store = FileStore(tmp_path / "conversations")
    over, waits = asyncio.run(finished(store)), agent(store).run_sync("Ship it.").conversation
    (tmp_path / "shop.py").write_text(
        "import midturn as mt\nagent = mt.Agent(mt.ScriptedModel([]))\n"
    )
    homes = {
        name: str(tmp_path)
        for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
    }
    environment = {"PATH": os.environ["PATH"], "MIDTURN_CFG_CONVERSATION__KEEP": "1ms", **homes}
    options = ["--port", str(free_port())] if command == ["serve"] else []
    started = [
        sys.executable,
        "-m",
        "midturn",
        *command,
        "--store",
        str(tmp_path / "conversations"),
        *options,
    ]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        started, cwd=tmp_path, env=environment, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe
    ) as process:
        while over in FileStore(tmp_path / "conversations").ids_sync():
            assert process.poll() is None
        process.terminate()
        process.communicate(timeout=120)
    assert store.ids_sync() == [waits]
