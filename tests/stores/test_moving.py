"""Copying conversations from one store into another."""

from __future__ import annotations

from pathlib import Path

import pytest

import midturn as mt
from midturn.errors import StoreLocked
from midturn.stores.export import Copying
from midturn.stores.memory_conversations import MemoryStore
from midturn.stores.metadata import Metadata
from midturn.stores.opening import FileStore
from midturn.stores.store import ConversationStore
from support.agents import ship
from support.loops import in_a_loop


def _agent(store: ConversationStore) -> mt.Agent:
    model = mt.ScriptedModel([{"calls": [{"name": "ship", "arguments": {}}]}, {"text": "Done."}])
    return mt.Agent(model, tools=[ship], store=store)


@pytest.fixture
def target(tmp_path: Path) -> FileStore:
    return FileStore(tmp_path / "target")


@in_a_loop
async def test_finished_turns_are_copied_exactly_and_an_open_one_is_ended(
    store: ConversationStore, target: FileStore
) -> None:
    asked = await _agent(store).run("Ship it.")
    await store.port.describe(asked.conversation, title="Shipping", labels=("a", "b"))

    copied = await Copying(store, target).copy(asked.conversation)

    assert (copied.id, copied.fate, copied.was_open) == (asked.conversation, "copied", True)
    lines = await store.port.lines(asked.conversation)
    assert (await target.port.lines(copied.id))[: len(lines)] == lines
    there = await target.read(copied.id)
    assert (there.metadata.title, there.metadata.labels) == ("Shipping", ("a", "b"))
    assert [event.type for event in there.events[len(lines) :]] == [
        "inquiry_response",
        "tool_call_response",
        "turn_end",
    ]
    assert (there.events[-1].to_json()["status"], there.events[-1].to_json()["error"]) == (
        "failed",
        "the turn was open in the original store",
    )
    assert await target.pending() == []
    assert [question.id for question in await store.pending()] == [asked.pending[0].id], (
        "it waits on where it was"
    )

    await store.answer(asked.pending[0].id, True)
    await _agent(store).resume(asked.conversation)
    again = FileStore(target.files.directories.path(copied.id).parent.parent / "again")
    assert not (await Copying(store, again).copy(asked.conversation)).was_open
    assert await again.port.lines(asked.conversation) == await store.port.lines(asked.conversation)


@in_a_loop
async def test_copied_flags_are_listed_and_have_no_effect(target: FileStore) -> None:
    source = MemoryStore()
    head = '"timestamp":"2026-01-01T00:00:00Z","event_id"'
    flags = '{"cfg":[{"key":"conversation.tools.mine.run","value":"unattended"}]}'
    lines = [
        f'{{"type":"turn_start",{head}:"a","more":2}}'.encode(),
        f'{{"type":"config_delta",{head}:"b","delta":{flags},"more":1}}'.encode(),
        f'{{"type":"turn_end",{head}:"c","status":"completed"}}'.encode(),
    ]
    made = await source.port.add(lines, Metadata())

    await Copying(source, target).copy(made)

    (delta,) = [
        event.delta
        for event in (await target.read(made)).events
        if isinstance(event, mt.events.ConfigDelta)
    ]
    assert delta == {
        "imported": {"cfg": [{"key": "conversation.tools.mine.run", "value": "unattended"}]}
    }
    assert (await Copying(source, target).copy(made)).fate == "was there"


@in_a_loop
async def test_copying_again_changes_nothing(store: ConversationStore, target: FileStore) -> None:
    asked = await _agent(store).run("Ship it.")
    await Copying(store, target).copy(asked.conversation)
    assert (await Copying(store, target).copy(asked.conversation)).fate == "was there"
    await _agent(target).run("Again.", conversation=asked.conversation)
    assert (await Copying(store, target).copy(asked.conversation)).fate == "was there"
    assert await target.ids() == [asked.conversation]


@in_a_loop
async def test_other_conversation_with_the_same_id_is_kept(
    store: ConversationStore, target: FileStore
) -> None:
    asked = await _agent(store).run("Ship it.")
    lines = [
        b'{"type":"turn_start","timestamp":"2026-01-01T00:00:00Z","event_id":"other","more":0}'
    ]
    assert (
        await target.port.add(
            lines, (await store.read(asked.conversation)).metadata, asked.conversation
        )
        == asked.conversation
    )

    copied = await Copying(store, target).copy(asked.conversation)

    assert copied.fate == "renamed"
    assert await target.port.lines(asked.conversation) == lines
    assert (await target.port.lines(copied.id))[0] == (await store.port.lines(asked.conversation))[
        0
    ]


@in_a_loop
async def test_a_turn_that_runs_is_not_copied(store: ConversationStore, target: FileStore) -> None:
    asked = await _agent(store).run("Ship it.")
    async with await store.open(asked.conversation):
        with pytest.raises(StoreLocked):
            await Copying(store, target).copy(asked.conversation)
    assert await target.ids() == []


@in_a_loop
async def test_partial_copy_of_a_killed_import_is_replaced(
    tmp_path: Path, target: FileStore
) -> None:
    source = MemoryStore()
    asked = await _agent(source).run("Ship it.")
    folder = tmp_path / "target"
    await target.new("before")
    (folder / f".new-{asked.conversation}").mkdir()
    (folder / f".new-{asked.conversation}" / "events.jsonl").write_bytes(b'{"type":"turn_sta')
    (folder / f".{asked.conversation}").symlink_to(f"{asked.conversation}-ship-it")

    assert (await Copying(source, target).copy(asked.conversation)).id == asked.conversation
    assert (await target.port.lines(asked.conversation))[0] == (
        await source.port.lines(asked.conversation)
    )[0]
    assert not list(folder.glob(".new-*"))


def test_invalid_id_creates_no_directory(tmp_path: Path, target: FileStore) -> None:
    line = b'{"type":"turn_start","timestamp":"2026-01-01T00:00:00Z","event_id":"first","more":0}'
    made = target.run_sync("add", target.port.add([line], Metadata(), "../../1795316322915573"))
    assert made.isdecimal()
    assert [path.name for path in tmp_path.iterdir()] == ["target"]
