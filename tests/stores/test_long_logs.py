"""Logs of any length are read in parts, from the beginning or from the end, and the parts are not
kept in memory.
"""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from midturn.events.codec import encode_event
from midturn.events.window import Window, turns
from midturn.stores import log_tail
from midturn.stores.conversation import turns_in
from midturn.stores.log_tail import Mark, Part
from midturn.stores.memory_conversations import MemoryStore
from midturn.stores.metadata import Metadata
from midturn.stores.opening import FileStore
from midturn.stores.port import titles
from midturn.stores.postgres import transactions
from midturn.stores.postgres.conversations import PostgresStore
from midturn.stores.store import ConversationStore, parts_from
from support.tapes import Tape

TURNS = 40


@pytest.fixture(
    params=["disk", "memory", pytest.param("database", marks=pytest.mark.real("PostgreSQL"))]
)
def store(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> ConversationStore:
    for reader in (log_tail, transactions):
        monkeypatch.setattr(reader, "LARGEST_BLOCK", 700)  # bytes: about one turn
    if request.param == "database":
        return PostgresStore(request.getfixturevalue("url"))
    return FileStore(tmp_path / "conversations") if request.param == "disk" else MemoryStore()


def long(store: ConversationStore, words: str = "Hello") -> str:
    """Create a conversation of many turns, the last of them open."""
    tape = Tape("e")
    for number in range(TURNS):
        tape.start()
        tape.user(f"{words} {number}")
        tape.model("Hello yourself")
        if number < TURNS - 1:
            tape.end()
    return added(store, tape, f"{words} 0"[:100])


def added(store: ConversationStore, tape: Tape, name: str = "") -> str:
    return store.run_sync(
        "add", store.port.add(map(encode_event, tape.events), Metadata(title=name))
    )


def texts_of(windows: list[Window]) -> list[tuple[str, ...]]:
    return [tuple(event.event_id for event in window.events) for window in windows]


def test_parts_together_are_the_conversation(store: ConversationStore) -> None:
    conversation = long(store)
    whole = store.read_sync(conversation)

    found = list(turns_in(store.parts_sync(conversation)))

    assert found == turns(whole.events)
    assert [window.open for window in found] == [*[False] * (TURNS - 1), True]
    assert [
        line for part in store.parts_sync(conversation) for line in part.lines
    ] == store.run_sync("lines", store.port.lines(conversation))


@pytest.mark.parametrize("last", [1, 2, 7, TURNS, TURNS + 5])
def test_reading_from_the_end_has_the_last_turns(store: ConversationStore, last: int) -> None:
    conversation = long(store)

    found = list(turns_in(store.parts_sync(conversation, last=last)))

    assert texts_of(found[-last:]) == texts_of(turns(store.read_sync(conversation).events)[-last:])
    assert isinstance(store, MemoryStore) or len(found) == min(last, TURNS)


@pytest.mark.parametrize(
    ("before", "count", "first"),
    [(2, 1, 1), (7, 3, 4), (7, 9, 1), (TURNS, 5, 35), (TURNS + 9, 2, 39), (1, 5, 1)],
)
def test_turns_before_another_one_are_found_by_its_number(
    store: ConversationStore, before: int, count: int, first: int
) -> None:
    conversation = long(store)

    mark = store.run_sync("mark", store.port.last_turns(conversation, count, before))
    found = list(turns_in(parts_from(store, conversation, mark)))

    assert mark.turns == (0 if isinstance(store, MemoryStore) else first - 1)
    assert texts_of(found) == texts_of(turns(store.read_sync(conversation).events)[mark.turns :])


@pytest.mark.parametrize("count", [1, 3, TURNS - 1, TURNS, TURNS + 9])
def test_searching_from_the_end_equals_counting(store: ConversationStore, count: int) -> None:
    for words in ("Hello", "x" * 9_000):
        conversation = long(store, words)

        found = store.run_sync("mark", store.port.last_turns(conversation, count))
        counted = store.run_sync("mark", store.port.last_turns(conversation, count, TURNS + 1))

        assert (found.offset, found.number) == (counted.offset, counted.number)


def test_turn_larger_than_one_part(store: ConversationStore) -> None:
    tape = Tape("e")
    for number in (1, 2):
        tape.start()
        tape.user(f"Hello {number}")
        for part in range(300):
            tape.model(f"Hello {part}")
        tape.end()
    conversation = added(store, tape)

    last = list(turns_in(store.parts_sync(conversation, last=1)))[-1]

    assert texts_of([last]) == texts_of(turns(store.read_sync(conversation).events)[-1:])


def test_part_of_a_database_log_by_number_of_lines(
    store: ConversationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "_MAX_LINES", 2)
    conversation = long(store)

    assert list(turns_in(store.parts_sync(conversation))) == turns(
        store.read_sync(conversation).events
    )


def test_titles_are_known_without_reading_logs(
    store: ConversationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    tape = Tape("e")
    tape.start()
    tape.user("Hello there")
    for number in range(TURNS):
        tape.model(f"Hello {number}")
    named, nameless = long(store, "Greetings"), added(store, tape)
    parts: list[Mark] = []
    original = store.port.part

    async def part(id: str, mark: Mark) -> Part:
        parts.append(mark)
        return await original(id, mark)

    monkeypatch.setattr(store.port, "part", part)

    found = store.run_sync(
        "titles", titles(store.port, [nameless, named, "1234567890123456", "none"])
    )

    assert found == {named: "Greetings 0", nameless: "Hello there"}
    assert parts == [Mark()]


@pytest.mark.parametrize("length", [10, 690, 700, 5_000])
def test_a_line_may_be_longer_than_a_part(store: ConversationStore, length: int) -> None:
    conversation = long(store, "x" * length)

    assert list(turns_in(store.parts_sync(conversation))) == turns(
        store.read_sync(conversation).events
    )
    assert texts_of(list(turns_in(store.parts_sync(conversation, last=3)))[-3:]) == texts_of(
        turns(store.read_sync(conversation).events)[-3:]
    )


def test_problems_have_their_line_number_in_every_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_tail, "LARGEST_BLOCK", 700)
    store = FileStore(tmp_path / "conversations")
    conversation = long(store)
    file = store.files.directories.path(conversation) / "events.jsonl"
    rows = file.read_text().splitlines()
    file.write_text("\n".join([rows[0], "", *rows[1:-1], "{broken", rows[-1]]) + "\n{torn")
    wanted = list(store.read_sync(conversation).problems)

    for last in (None, 1, 3):
        parts = list(store.parts_sync(conversation, last=last))
        events = [event for part in parts for event in part.decode()]
        assert [
            getattr(event, "problem", "") for event in events if getattr(event, "problem", "")
        ] == wanted[:1]
        assert [problem for part in parts for problem in part.problems] == wanted[1:]


def test_reading_in_parts_keeps_little_in_memory(tmp_path: Path) -> None:
    """Reading a hundred turns of a megabyte each takes no more memory than a few parts."""
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
