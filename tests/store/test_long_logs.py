"""Logs of any length are read in parts, from the beginning or from near the end: none of it is kept that was read."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from midturn.record.window import Window, turns
from midturn.store import tail
from midturn.store.conversation import turns_in
from midturn.store.file_store import FileStore
from midturn.store.memory_conversations import MemoryStore
from midturn.store.store import ConversationStore
from support.stored import append, create, release
from support.tapes import Tape

TURNS = 40


@pytest.fixture(params=["disk", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ConversationStore:
    monkeypatch.setattr(tail, "LARGEST_BLOCK", 700)  # bytes: about a turn
    return FileStore(tmp_path / "conversations") if request.param == "disk" else MemoryStore()


def long(store: ConversationStore, words: str = "Hello") -> str:
    """Make a conversation of many turns, the last of which is open."""
    tape = Tape("e")
    for number in range(TURNS):
        tape.start()
        tape.user(f"{words} {number}")
        tape.model("Hello yourself")
        if number < TURNS - 1:
            tape.end()
    journal = create(store)
    for window in turns(tape.events):
        append(journal, window.events)
    release(journal)
    return journal.conversation


def said(windows: list[Window]) -> list[tuple[str, ...]]:
    return [tuple(event.event_id for event in window.events) for window in windows]


def test_all_parts_together_are_the_conversation(store: ConversationStore) -> None:
    conversation = long(store)
    whole = store.read_sync(conversation)

    found = list(turns_in(store.parts_sync(conversation)))

    assert found == turns(whole.events)
    assert [window.open for window in found] == [*[False] * (TURNS - 1), True]
    assert [line for part in store.parts_sync(conversation) for line in part.lines] == store.run_sync(
        "lines", store.port.lines(conversation)
    )


@pytest.mark.parametrize("last", [1, 2, 7, TURNS, TURNS + 5])
def test_the_last_turns_are_in_what_is_read_from_the_end(store: ConversationStore, last: int) -> None:
    conversation = long(store)

    found = list(turns_in(store.parts_sync(conversation, last=last)))

    assert said(found[-last:]) == said(turns(store.read_sync(conversation).events)[-last:])
    assert isinstance(store, MemoryStore) or len(found) == min(last, TURNS)


@pytest.mark.parametrize("length", [10, 690, 700, 5_000])
def test_a_line_may_be_longer_than_a_part(store: ConversationStore, length: int) -> None:
    conversation = long(store, "x" * length)

    assert list(turns_in(store.parts_sync(conversation))) == turns(store.read_sync(conversation).events)
    assert said(list(turns_in(store.parts_sync(conversation, last=3)))[-3:]) == said(turns(store.read_sync(conversation).events)[-3:])


def test_what_is_wrong_is_named_with_its_line_wherever_reading_began(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "LARGEST_BLOCK", 700)
    store = FileStore(tmp_path / "conversations")
    conversation = long(store)
    file = store.files.path(conversation) / "events.jsonl"
    rows = file.read_text().splitlines()
    file.write_text("\n".join([rows[0], "", *rows[1:-1], "{broken", rows[-1]]) + "\n{torn")
    wanted = list(store.read_sync(conversation).problems)

    for last in (None, 1, 3):
        parts = list(store.parts_sync(conversation, last=last))
        events = [event for part in parts for event in part.decode()]
        assert [getattr(event, "problem", "") for event in events if getattr(event, "problem", "")] == wanted[:1]
        assert [problem for part in parts for problem in part.problems] == wanted[1:]


def test_reading_in_parts_keeps_little_in_memory(tmp_path: Path) -> None:
    """What a hundred turns of a megabyte take: no more than a few parts."""
    store = FileStore(tmp_path / "conversations")
    conversation = long(store, "x" * 1_000_000)

    tracemalloc.start()
    try:
        count = sum(1 for _ in turns_in(store.parts_sync(conversation)))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert count == TURNS
    assert most < 30_000_000
