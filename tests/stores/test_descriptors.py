"""File descriptors of many turns: a journal keeps only the descriptor of its lock, and the error
near the limit.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from midturn.errors import StoreError
from midturn.events.types import ChatRequest, ChatResponse, Event, TurnEnd, TurnStart
from midturn.stores import lock
from midturn.stores.file_conversations import FileConversations
from midturn.stores.sync_forms import drive


def turn(words: str) -> list[Event]:
    return [
        TurnStart(),
        ChatRequest(content=words),
        ChatResponse(message="Yes."),
        TurnEnd(status="completed"),
    ]


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture
def many_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the number of open files that counts as many to zero."""
    monkeypatch.setattr(lock, "_MANY", 1 << 62)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
@pytest.mark.usefixtures("many_files")
def test_turn_keeps_one_descriptor_if_many_files_are_open(tmp_path: Path) -> None:
    store = FileConversations(tmp_path)
    drive(store.create("first")).close()
    before = open_files()
    journals = [drive(store.create(str(number))) for number in range(5)]
    assert open_files() == before + 5
    for journal in journals:
        drive(journal.append(turn("a")))
        drive(journal.append(turn("b")))
        assert drive(journal.answers.collect()) == ()
    assert open_files() == before + 5
    for journal in journals:
        journal.close()
        assert len(drive(store.read(journal.conversation)).events) == 8
    assert open_files() == before


@pytest.mark.usefixtures("many_files")
def test_history_is_read_before_descriptors_are_closed(tmp_path: Path) -> None:
    store = FileConversations(tmp_path)
    with_history = drive(store.create("a"))
    for words in ("a", "b"):
        drive(with_history.append(turn(words)))
    with_history.close()
    again = drive(store.open(with_history.conversation))
    assert len(again.events) == 8
    drive(again.append(turn("c")))
    again.close()
    assert len(drive(store.read(again.conversation)).events) == 12


@pytest.mark.usefixtures("many_files")
def test_replaced_log_is_not_appended(tmp_path: Path) -> None:
    journal = drive(FileConversations(tmp_path).create("a"))
    drive(journal.append(turn("a")))
    log = journal.path / "events.jsonl"
    content = log.read_bytes()
    log.rename(log.with_name("kept"))
    log.write_bytes(content)
    with pytest.raises(StoreError, match="replaced"):
        drive(journal.append(turn("b")))
    assert log.read_bytes() == content
    journal.close()


def test_near_the_limit_no_further_conversation_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FileConversations(tmp_path)
    running = drive(store.create("a"))
    monkeypatch.setattr(lock, "_descriptor_limit", lambda: 16)
    more = [os.dup(0) for _ in range(16)]
    with pytest.raises(StoreError, match="16 files open"):
        drive(store.create("b"))
    drive(running.append(turn("a")))
    for descriptor in more:
        os.close(descriptor)
    running.close()
    assert drive(store.ids(which="begun")) == [running.conversation]
