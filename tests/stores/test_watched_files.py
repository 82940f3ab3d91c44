"""Which conversations a watcher of files reads: those that have changed, and few others."""

from __future__ import annotations

from pathlib import Path

import pytest

from midturn.events.types import TurnEnd
from midturn.stores import file_watcher
from midturn.stores.file_watcher import DirectoryWatcher
from midturn.stores.opening import open_store
from midturn.stores.port import ChangeCursor
from midturn.stores.store import ConversationStore
from midturn.stores.sync_forms import drive
from midturn.stores.watching import Watch
from support.stored import append, asking, finished, hold, keep, path_of, release, reopen


@pytest.fixture
def store(tmp_path: Path) -> ConversationStore:
    """The store as opened by another process."""
    return open_store(tmp_path)


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ConversationStore:
    """A store that compares only conversations with notifications."""
    monkeypatch.setattr(file_watcher, "_COMPARED_FILES", 0)
    return open_store(tmp_path)


def poll_changes(watched: ConversationStore, since: ChangeCursor | None = None) -> ChangeCursor:
    """Poll for changes."""
    return drive(watched.port.growing.lengths(since))


def test_poll_reads_notified_and_locked_conversations(
    store: ConversationStore, watched: ConversationStore
) -> None:
    waiting = [keep(store, asking()[0]) for _ in range(5)]
    over = keep(store, finished())
    first = poll_changes(watched)
    assert (sorted(first.lengths), first.is_whole) == (sorted([*waiting, over]), True)
    second = poll_changes(watched, first)
    assert second.lengths == {}

    store.answer_sync(f"{waiting[2]}-e4", True)
    third = poll_changes(watched, second)
    assert list(third.lengths) == [waiting[2]]
    assert third.lengths[waiting[2]] > first.lengths[waiting[2]]

    tape, _ = asking()
    running = hold(store, tape)
    fourth = poll_changes(watched, third)
    assert list(fourth.lengths) == [running.conversation]
    append(running, [tape.model("More.")])  # no notification is sent for a locked conversation
    fifth = poll_changes(watched, fourth)
    assert fifth.lengths[running.conversation] > fourth.lengths[running.conversation]
    append(running, [TurnEnd(status="completed")])
    release(running)
    sixth = poll_changes(watched, fifth)
    assert list(sixth.lengths) == [running.conversation]
    assert poll_changes(watched, sixth).lengths == {}


def test_locked_conversation_is_polled_until_released(
    store: ConversationStore, watched: ConversationStore
) -> None:
    tape, _ = asking()
    running = hold(store, tape)
    first = poll_changes(watched)
    append(running, [tape.model("More.")])
    second = poll_changes(watched, first)
    assert second.lengths[running.conversation] > first.lengths[running.conversation]


def test_removed_conversation_is_reported_to_watchers(
    store: ConversationStore, watched: ConversationStore
) -> None:
    kept, over = keep(store, asking()[0]), keep(store, finished())
    watch = Watch(watched, watched.port.growing)
    assert drive(watch.look()) == []
    store.remove_sync(over)
    assert drive(watch.look()) == []
    store.remove_sync(kept)
    assert [(change.kind, change.conversation) for change in drive(watch.look())] == [
        ("turn_ended", kept)
    ]


def test_slow_watcher_reads_all(
    store: ConversationStore, watched: ConversationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_watcher, "_MAX_NOTIFICATIONS", 2)
    waiting = [keep(store, asking()[0]) for _ in range(5)]
    slow = quick = poll_changes(watched)
    for each in waiting:
        store.answer_sync(f"{each}-e4", True)
        quick = poll_changes(watched, quick)
        assert list(quick.lengths) == [each]
    assert sorted(poll_changes(watched, slow).lengths) == waiting


def test_change_without_notification_is_found_after_a_while(
    store: ConversationStore, watched: ConversationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example because an editor has written the file."""
    monkeypatch.setattr(file_watcher, "_COMPARED_FILES", 2)
    waiting = [keep(store, asking()[0]) for _ in range(5)]
    last = poll_changes(watched)
    seen: list[str] = []
    for _ in range(3):
        last = poll_changes(watched, last)
        seen += last.lengths
    assert sorted(seen) == waiting


def test_index_change_without_notifications_causes_a_full_poll(
    store: ConversationStore, watched: ConversationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def notified(_: DirectoryWatcher) -> set[str]:
        return set()

    monkeypatch.setattr(DirectoryWatcher, "notified", notified)
    waiting = [keep(store, asking()[0]) for _ in range(3)]
    last = poll_changes(watched)
    assert poll_changes(watched, last).lengths == {}
    store.answer_sync(f"{waiting[1]}-e4", True)
    assert sorted(poll_changes(watched, last).lengths) == waiting


def test_conversation_without_a_link_is_found(
    store: ConversationStore, watched: ConversationStore, tmp_path: Path
) -> None:
    kept = keep(store, asking()[0])
    (tmp_path / f".{kept}").unlink()
    assert poll_changes(watched).lengths == {
        kept: (path_of(store, kept) / "events.jsonl").stat().st_size
    }


def test_answer_to_an_earlier_question_is_reported(
    store: ConversationStore, watched: ConversationStore
) -> None:
    """The first poll reads nothing.

    Open questions are read from the log when a conversation changes.
    """
    kept = [keep(store, asking()[0]) for _ in range(3)]
    watch = Watch(watched, watched.port.growing)
    assert drive(watch.look()) == []
    store.answer_sync(f"{kept[1]}-e4", True)
    assert [(change.kind, change.id) for change in drive(watch.look())] == [
        ("answered", f"{kept[1]}-e4")
    ]
    release(reopen(store, kept[1]))
    assert drive(watch.look()) == []
