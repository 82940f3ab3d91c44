"""The index of open turns: finished conversations are not read, and a wrong index is repaired."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from pathlib import Path

import pytest

from midturn.events.types import TurnEnd
from midturn.stores import conversation, open_index
from midturn.stores.file_conversations import FileConversations
from midturn.stores.folder import Folder
from midturn.stores.open_turns import OpenTurns
from midturn.stores.opening import open_store
from midturn.stores.store import ConversationStore
from support.processes import Forked, kill, line
from support.stored import append, asking, finished, hold, keep, release, reopen


@pytest.fixture
def store(tmp_path: Path) -> ConversationStore:
    return open_store(tmp_path)


def indexed(folder: Path) -> list[str]:
    """Return the conversations listed in the index."""
    return sorted(path.name for path in (folder / "open").glob("[0-9]*"))


def waiting(store: ConversationStore) -> list[str]:
    """Return the conversations with open questions."""
    return [question.conversation for question in store.pending_sync()]


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Collect the conversations that are read."""
    seen: list[Path] = []
    original = conversation.unfinished_turn

    def look(path: Path) -> object:
        seen.append(path)
        return original(path)

    monkeypatch.setattr(conversation, "unfinished_turn", look)
    return seen


def test_turn_is_in_the_index_from_before_its_first_to_after_its_last_event(
    store: ConversationStore, tmp_path: Path
) -> None:
    tape, _ = asking()
    journal = hold(store, tape)
    assert indexed(tmp_path) == [journal.conversation]

    append(journal, [TurnEnd(status="completed")])
    assert indexed(tmp_path) == []
    release(journal)


def test_answer_that_ends_the_turn_removes_it_from_the_index(
    store: ConversationStore, tmp_path: Path
) -> None:
    kept = keep(store, asking()[0])

    store.answer_sync(f"{kept}-e4", cancel=True)

    assert indexed(tmp_path) == []


def test_finished_conversations_are_not_read(store: ConversationStore, reads: list[Path]) -> None:
    for number in range(5):
        keep(store, finished(f"{number}."))
    kept = keep(store, asking()[0])

    assert waiting(store) == [kept]
    assert [path.name.partition("-")[0] for path in reads] == [kept]


def test_unchanged_conversation_is_not_read_again(
    store: ConversationStore, reads: list[Path]
) -> None:
    kept = keep(store, asking()[0])
    assert waiting(store) == waiting(store) == [kept]
    assert len(reads) == 1

    store.answer_sync(f"{kept}-e4", True)
    assert waiting(store) == []


def test_only_conversations_beyond_the_cache_size_are_read_again(
    store: ConversationStore, reads: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conversation, "_MAX_CACHED_TURNS", 3)
    kept = [keep(store, asking()[0]) for _ in range(5)]

    assert waiting(store) == waiting(store) == kept
    assert len(reads) == 5 + 3

    for each in kept[:3]:
        store.answer_sync(f"{each}-e4", cancel=True)
    assert waiting(store) == kept[3:]
    reads.clear()
    assert waiting(store) == kept[3:]
    assert reads == []


def test_ended_turns_are_not_kept_in_memory(
    store: ConversationStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server runs for months, and the open turns are few compared to all turns that it has
    seen.
    """
    monkeypatch.setattr(conversation, "_MAX_FINISHED_TURNS", 2)
    assert isinstance(store.port, FileConversations)
    kept = [keep(store, asking()[0])]

    for _ in range(20):
        over = keep(store, asking()[0])
        assert waiting(store) == [*kept, over]
        store.answer_sync(f"{over}-e4", cancel=True)

    assert waiting(store) == kept
    assert len(store.port.turns.seen._turns) <= 1 + 2


def test_page_of_questions_does_not_read_earlier_pages(
    store: ConversationStore, reads: list[Path]
) -> None:
    kept = [keep(store, asking()[0]) for _ in range(5)]

    page = store.pending_sync(after=f"{kept[1]}-e4", limit=2)

    assert [question.conversation for question in page] == kept[2:4]
    assert {path.name.partition("-")[0] for path in reads} <= set(kept[1:4])


def test_index_is_listed_again_only_after_a_turn_begins_or_ends(
    store: ConversationStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[Path] = []
    original = Folder.names

    def names(folder: Folder) -> list[str]:
        if folder.path.is_relative_to(tmp_path):  # threads of earlier tests list other stores
            listed.append(folder.path)
        return original(folder)

    monkeypatch.setattr(Folder, "names", names)
    first, second = (keep(store, asking()[0]) for _ in range(2))
    assert (waiting(store), waiting(store)) == ([first, second], [first, second])
    assert len(listed) == 2  # a change with the same timestamp would not be noticed

    os.utime(tmp_path / "open", (0, 0))
    assert (waiting(store), waiting(store)) == ([first, second], [first, second])
    assert len(listed) == 3

    store.answer_sync(f"{first}-e4", cancel=True)
    assert waiting(store) == [second]
    third = keep(open_store(tmp_path), asking()[0])
    assert waiting(store) == [second, third]


HOLDER = """
import sys
from midturn.events.types import TurnStart
from midturn.stores.opening import open_store
from midturn.stores.sync_forms import drive
journal = drive(open_store(sys.argv[1]).create("dies"))
drive(journal.append([TurnStart()]))
print(journal.conversation, flush=True)
sys.stdin.read()
"""


def test_turn_of_a_killed_process_stays_in_the_index(tmp_path: Path) -> None:
    holder = Forked(HOLDER, tmp_path)
    conversation = line(holder).strip()
    kill(holder)

    assert indexed(tmp_path) == [conversation]


@pytest.mark.parametrize(
    "damage", ["missing", "another boot", "no boot file", "not a directory", "unreadable boot"]
)
def test_untrusted_index_is_rebuilt_by_one_scan(
    store: ConversationStore, tmp_path: Path, damage: str
) -> None:
    kept = keep(store, asking()[0])
    keep(store, finished())
    (tmp_path / "open" / kept).unlink()
    (boot,) = (tmp_path / "open").glob(".boot-*")
    match damage:
        case "missing":
            shutil.rmtree(tmp_path / "open")
        case "another boot":
            boot.write_text("the power was cut")
        case "no boot file":
            boot.unlink()
        case "not a directory":
            shutil.rmtree(tmp_path / "open")
            (tmp_path / "open").touch()
        case _:
            boot.write_bytes(b"\xff\xfe")

    assert waiting(store) == [kept]
    if damage != "not a directory":
        assert indexed(tmp_path) == [kept]
    assert waiting(open_store(tmp_path)) == [kept]


def test_hosts_sharing_a_store_cause_no_scans(
    store: ConversationStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = keep(store, asking()[0])
    scans: list[Path] = []
    original = OpenTurns._scan
    monkeypatch.setattr(
        OpenTurns,
        "_scan",
        lambda self, folder: scans.append(folder) or original(self, folder),  # type: ignore[misc]
    )

    for host in ("there", "here", "there", "here"):
        monkeypatch.setattr(open_index, "host", lambda host=host: host)
        monkeypatch.setattr(open_index, "boot", lambda host=host: f"boot of {host}")
        assert waiting(open_store(tmp_path)) == [kept]

    assert len(scans) == 2


def test_a_store_that_cannot_be_written_is_scanned_in_memory(
    store: ConversationStore, tmp_path: Path
) -> None:
    kept = keep(store, asking()[0])
    shutil.rmtree(tmp_path / "open")
    (tmp_path / "open").symlink_to("/proc")

    assert waiting(store) == [kept]
    assert (tmp_path / "open").is_symlink()


def test_stale_entry_is_removed_by_its_reader(store: ConversationStore, tmp_path: Path) -> None:
    kept = keep(store, finished())
    for name in (kept, "17"):
        (tmp_path / "open" / name).touch()

    assert waiting(store) == []
    assert kept not in indexed(tmp_path)


def test_entry_is_kept_while_the_conversation_is_locked(
    store: ConversationStore, tmp_path: Path
) -> None:
    """The next turn may begin just then."""
    journal = hold(store, finished())
    (tmp_path / "open" / journal.conversation).touch()

    assert waiting(store) == []
    assert indexed(tmp_path) == [journal.conversation]
    release(journal)


@pytest.mark.parametrize("look", ["read", "questions", "answer", "open"])
def test_reading_a_conversation_repairs_the_index(
    store: ConversationStore, tmp_path: Path, look: str
) -> None:
    """The conversation was added by a pull or a copy."""
    kept = keep(store, asking()[0])
    (tmp_path / "open" / kept).unlink()
    assert waiting(store) == []

    match look:
        case "read":
            store.read_sync(kept)
        case "questions":
            assert len(store.pending_sync(kept)) == 1
        case "answer":
            asyncio.run(store.answer(f"{kept}-e4", True))
        case _:
            release(reopen(store, kept))

    assert indexed(tmp_path) == [kept]


def test_full_scan_finds_conversations_of_other_programs(
    store: ConversationStore, tmp_path: Path
) -> None:
    kept = keep(store, asking()[0])
    (tmp_path / "open" / kept).unlink()

    assert isinstance(store.port, FileConversations)
    assert store.port.turns.reindex() == [kept]
    assert store.port.turns.reindex() == []
    assert waiting(store) == [kept]


def test_index_is_private_and_not_followed_through_links(
    store: ConversationStore, tmp_path: Path
) -> None:
    kept = keep(store, asking()[0])
    assert (tmp_path / "open").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "open" / kept).stat().st_mode & 0o777 == 0o600
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / "open" / kept).unlink()
    (tmp_path / "open" / kept).symlink_to(victim)
    os.utime(victim, ns=(0, 0))

    with Folder.at(next(tmp_path.glob("1*-*"))) as folder:
        open_index.name_finished(folder, kept)

    assert victim.read_text() == "precious"
    assert victim.stat().st_mtime_ns == 0


def test_index_entries_are_links_to_one_empty_file(
    store: ConversationStore, tmp_path: Path
) -> None:
    """Creating a file for each turn would be slower than every other write before the turn's
    first event.
    """
    for _ in range(3):
        keep(store, asking()[0])

    (inode,) = {(tmp_path / "open" / name).stat().st_ino for name in indexed(tmp_path)}
    assert (tmp_path / "open" / ".empty").stat().st_ino == inode
    assert len(waiting(store)) == 3


@pytest.mark.parametrize("why", [errno.EPERM, errno.EMLINK])
def test_index_entries_are_files_without_hard_links(
    why: int, store: ConversationStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(why, os.strerror(why))

    monkeypatch.setattr(os, "link", refuse)
    for _ in range(2):
        keep(store, asking()[0])

    assert len(waiting(store)) == 2
    assert {(tmp_path / "open" / name).stat().st_nlink for name in indexed(tmp_path)} == {1}


def test_link_in_place_of_the_empty_file_is_not_followed(
    store: ConversationStore, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    os.utime(victim, ns=(0, 0))
    (tmp_path / "open").mkdir(mode=0o700)
    (tmp_path / "open" / ".empty").symlink_to(victim)

    kept = keep(store, asking()[0])
    store.answer_sync(store.pending_sync()[0].id, True)
    append(journal := reopen(store, kept), [TurnEnd(status="completed")])
    release(journal)

    assert indexed(tmp_path) == []
    assert (victim.read_text(), victim.stat().st_mtime_ns, victim.stat().st_nlink) == (
        "precious",
        0,
        1,
    )
