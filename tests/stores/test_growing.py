"""What those who watch files look at: conversations that have changed, and few others."""

from __future__ import annotations

from pathlib import Path

import pytest

from midturn.events.types import TurnEnd
from midturn.stores import file_watcher
from midturn.stores.file_watcher import FolderBell
from midturn.stores.opening import open_store
from midturn.stores.port import Growth
from midturn.stores.store import ConversationStore
from midturn.stores.sync_forms import drive
from midturn.stores.watching import Watch
from support.stored import append, asking, finished, hold, keep, path_of, release, reopen


@pytest.fixture
def store(tmp_path: Path) -> ConversationStore:
    """The store of another process."""
    return open_store(tmp_path)


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ConversationStore:
    """A store where nothing is compared that was not heard of."""
    monkeypatch.setattr(file_watcher, "_COMPARED", 0)
    return open_store(tmp_path)


def grown(watched: ConversationStore, since: Growth | None = None) -> Growth:
    """Look."""
    return drive(watched.port.growing.lengths(since))


def test_a_look_is_for_those_whose_bell_rang_and_for_those_that_are_held(store: ConversationStore, watched: ConversationStore) -> None:
    waiting = [keep(store, asking()[0]) for _ in range(5)]
    over = keep(store, finished())
    first = grown(watched)
    assert (sorted(first.lengths), first.is_whole) == (sorted([*waiting, over]), True)
    second = grown(watched, first)
    assert second.lengths == {}

    store.answer_sync(f"{waiting[2]}-e4", True)
    third = grown(watched, second)
    assert list(third.lengths) == [waiting[2]]
    assert third.lengths[waiting[2]] > first.lengths[waiting[2]]

    tape, _ = asking()
    running = hold(store, tape)
    fourth = grown(watched, third)
    assert list(fourth.lengths) == [running.conversation]
    append(running, [tape.model("More.")])  # no bell rings for that
    fifth = grown(watched, fourth)
    assert fifth.lengths[running.conversation] > fourth.lengths[running.conversation]
    append(running, [TurnEnd(status="completed")])
    release(running)
    sixth = grown(watched, fifth)
    assert list(sixth.lengths) == [running.conversation]
    assert grown(watched, sixth).lengths == {}


def test_one_that_was_held_at_the_first_look_is_looked_at_until_it_is_let_go(store: ConversationStore, watched: ConversationStore) -> None:
    tape, _ = asking()
    running = hold(store, tape)
    first = grown(watched)
    append(running, [tape.model("More.")])
    second = grown(watched, first)
    assert second.lengths[running.conversation] > first.lengths[running.conversation]


def test_one_that_is_removed_is_gone_and_its_watchers_hear_so(store: ConversationStore, watched: ConversationStore) -> None:
    kept, over = keep(store, asking()[0]), keep(store, finished())
    watch = Watch(watched, watched.port.growing)
    assert drive(watch.look()) == []
    store.remove_sync(over)
    assert drive(watch.look()) == []
    store.remove_sync(kept)
    assert [(change.kind, change.conversation) for change in drive(watch.look())] == [("turn_ended", kept)]


def test_a_slow_watcher_looks_at_all(store: ConversationStore, watched: ConversationStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_watcher, "_KEPT", 2)
    waiting = [keep(store, asking()[0]) for _ in range(5)]
    slow = quick = grown(watched)
    for each in waiting:
        store.answer_sync(f"{each}-e4", True)
        quick = grown(watched, quick)
        assert list(quick.lengths) == [each]
    assert sorted(grown(watched, slow).lengths) == waiting


def test_what_no_bell_told_of_is_found_by_and_by(
    store: ConversationStore, watched: ConversationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An editor has written it, say."""
    monkeypatch.setattr(file_watcher, "_COMPARED", 2)
    waiting = [keep(store, asking()[0]) for _ in range(5)]
    last = grown(watched)
    seen: list[str] = []
    for _ in range(3):
        last = grown(watched, last)
        seen += last.lengths
    assert sorted(seen) == waiting


def test_where_no_bell_is_heard_a_change_of_the_index_has_all_looked_at(
    store: ConversationStore, watched: ConversationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def heard(_: FolderBell) -> set[str]:
        return set()

    monkeypatch.setattr(FolderBell, "heard", heard)
    waiting = [keep(store, asking()[0]) for _ in range(3)]
    last = grown(watched)
    assert grown(watched, last).lengths == {}
    store.answer_sync(f"{waiting[1]}-e4", True)
    assert sorted(grown(watched, last).lengths) == waiting


def test_one_without_a_link_is_found(store: ConversationStore, watched: ConversationStore, tmp_path: Path) -> None:
    kept = keep(store, asking()[0])
    (tmp_path / f".{kept}").unlink()
    assert grown(watched).lengths == {kept: (path_of(store, kept) / "events.jsonl").stat().st_size}


def test_what_was_open_before_a_watcher_came_is_heard_to_be_answered(store: ConversationStore, watched: ConversationStore) -> None:
    """Nothing is read for a first look; what was open is read from the log when something happens."""
    kept = [keep(store, asking()[0]) for _ in range(3)]
    watch = Watch(watched, watched.port.growing)
    assert drive(watch.look()) == []
    store.answer_sync(f"{kept[1]}-e4", True)
    assert [(change.kind, change.id) for change in drive(watch.look())] == [("answered", f"{kept[1]}-e4")]
    release(reopen(store, kept[1]))
    assert drive(watch.look()) == []
