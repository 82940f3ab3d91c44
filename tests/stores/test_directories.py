"""Conversation directories: names, unique ids, links and leftovers."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from midturn.errors import StoreError
from midturn.stores.batch import event_id
from midturn.stores.directories import Directories
from midturn.stores.file_conversations import FileConversations
from midturn.stores.metadata import conversation_id, slug, title
from midturn.stores.opening import FileStore, open_store
from midturn.stores.sync_forms import drive
from support.processes import Forked, kill, line, output
from support.stored import all_conversation_ids, asking, create, keep, release

CREATOR = """
import sys
from pathlib import Path
from midturn.stores.file_conversations import FileConversations
from midturn.stores.sync_forms import drive
store = FileConversations(*map(Path, sys.argv[2:]))
for number in range(25):
    journal = drive(store.create(f"{sys.argv[1]} {number}"))
    print(journal.conversation)
    journal.close()
"""


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("Ship it, please!", "ship-it-please"),
        ("  Größe des Überfalls?\nzwei", "groe-des-uberfalls-zwei"),
        ("../../etc/passwd", "etc-passwd"),
        ("日本語で", "untitled"),
        ("", "untitled"),
        ("x" * 100, "x" * 40),
        ("one two three four five six seven", "one-two-three-four-five-six"),
        ("\ud800 half", "half"),
        ("a\0b", "a-b"),
    ],
)
def test_a_slug_is_safe_in_any_file_system(words: str, expected: str) -> None:
    assert slug(words) == expected
    assert conversation_id(f"17-{slug(words)}") == "17"


def test_title_is_the_first_nonempty_line() -> None:
    assert title("\n  \n Ship it \nnow") == "Ship it"
    assert len(title("word " * 100)) <= 80
    assert title("half \ud800") == "half ?"


def test_an_event_id_can_be_typed() -> None:
    ids = {event_id() for _ in range(1_000)}
    assert len(ids) == 1_000
    assert all(
        (len(each) == 12 and each.isalnum() and each.islower()) or each.isdigit() for each in ids
    )


def test_an_id_is_the_time_in_microseconds(tmp_path: Path) -> None:
    before = time.time_ns() // 1_000

    journal = drive(FileConversations(tmp_path).create("Ship it"))

    assert before <= int(journal.conversation) <= time.time_ns() // 1_000
    assert journal.path.name == f"{journal.conversation}-ship-it"
    assert conversation_id(journal.path.name) == journal.conversation


def test_concurrent_creations_get_different_ids(tmp_path: Path) -> None:
    makers = [Forked(CREATOR, name, tmp_path) for name in ("here", "there")]
    ids = [each for maker in makers for each in output(maker).split()]

    assert len(set(ids)) == 50
    assert sorted(ids, key=int) == all_conversation_ids(open_store(tmp_path))


def test_an_id_is_unique_in_all_folders_of_a_workspace(tmp_path: Path) -> None:
    folders = (tmp_path / "shared", tmp_path / "local")
    makers = [Forked(CREATOR, "here", *folders), Forked(CREATOR, "there", *folders[::-1])]
    ids = [each for maker in makers for each in output(maker).split()]

    assert len(set(ids)) == 50
    assert (
        sorted(ids, key=int)
        == all_conversation_ids(FileStore(*folders))
        == all_conversation_ids(FileStore(*folders[::-1]))
    )
    assert len(list(folders[0].glob("1*"))) == len(list(folders[1].glob("1*"))) == 25


def test_no_directory_before_the_first_conversation(tmp_path: Path) -> None:
    store = open_store(tmp_path / "var" / "conversations")

    assert all_conversation_ids(store) == []
    assert store.pending_sync() == []
    assert list(tmp_path.iterdir()) == []


def test_other_directories_are_ignored(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    kept = keep(store, asking()[0])
    (tmp_path / "notes").mkdir()
    (tmp_path / ".new-5").mkdir()
    (tmp_path / "17-file").touch()

    assert all_conversation_ids(store) == [kept]


def test_an_unknown_id_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"There is no conversation '17' in "):
        open_store(tmp_path).read_sync("17")


def test_id_cannot_escape_the_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="There is no conversation"):
        open_store(tmp_path).read_sync("../17-a")


def test_copied_directory_needs_its_full_name(tmp_path: Path) -> None:
    for name in ("17-a", "17-b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "events.jsonl").touch()
    store = open_store(tmp_path)

    with pytest.raises(
        StoreError, match=r"Several directories .*17-a, .*17-b\. Use the full name of the directory"
    ):
        store.read_sync("17")
    assert store.read_sync("17-b").path == tmp_path / "17-b"


def test_a_conversation_that_cannot_be_made_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(StoreError, match="Cannot create"):
        create(open_store(tmp_path / "file" / "conversations"))


def test_the_store_does_not_move_with_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = open_store("var")
    monkeypatch.chdir("/")

    release(create(store))

    assert (tmp_path / "var").is_dir()


def test_id_is_resolved_without_a_listing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = open_store(tmp_path)
    kept = keep(store, asking()[0])
    assert (tmp_path / f".{kept}").readlink() == Path(f"{kept}-ship-it")

    def listed(*_: object) -> None:
        raise AssertionError("the folder is listed")

    monkeypatch.setattr(os, "scandir", listed)
    assert store.read_sync(kept).id == kept
    store.answer_sync(f"{kept}-e4", True)
    assert keep(store, asking()[0]) != kept


def test_older_store_is_listed_once_and_gets_links(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(tmp_path)
    first, second = keep(store, asking()[0]), keep(store, asking()[0])
    for link in tmp_path.glob(".1*"):
        link.unlink()

    assert store.read_sync(first).id == first
    monkeypatch.delattr(os, "scandir")
    assert store.read_sync(second).id == second


@pytest.mark.parametrize("target", ["/etc", "../elsewhere", "18-other", ".", "17-linked"])
def test_link_outside_the_store_is_ignored(tmp_path: Path, target: str) -> None:
    for name in ("17-real", "18-other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "events.jsonl").touch()
    (tmp_path / "17-linked").symlink_to("18-other")
    (tmp_path / ".17").symlink_to(target)

    assert open_store(tmp_path).read_sync("17").path == tmp_path / "17-real"


def test_ids_of_jp_are_kept_and_sort_before_ours(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    kept = keep(store, asking()[0])
    (tmp_path / "17700000000-roses").mkdir()
    (tmp_path / "17700000000-roses" / "events.jsonl").touch()

    assert all_conversation_ids(store) == ["17700000000", kept]
    assert store.read_sync("17700000000").events == ()


def test_a_removed_conversation_leaves_no_link(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    kept = keep(store, asking()[0])

    store.remove_sync(kept)

    assert [path.name for path in tmp_path.iterdir()] == ["open"]
    assert not list((tmp_path / "open").glob("1*"))


def test_ids_are_listed_again_only_after_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (3, 1, 2):
        (tmp_path / f"{number}-x").mkdir()
    long_ago = time.time_ns() - 60_000_000_000
    os.utime(tmp_path, ns=(long_ago, long_ago))
    listed: list[Path] = []
    scandir = os.scandir

    def scan(path: Path) -> Any:
        if path == tmp_path:  # threads of earlier tests list other stores
            listed.append(path)
        return scandir(path)

    monkeypatch.setattr(os, "scandir", scan)
    directories = Directories(tmp_path)

    assert [directories.ids() for _ in range(3)] == [["1", "2", "3"]] * 3
    assert len(listed) == 1

    (tmp_path / "4-x").mkdir()  # a directory made now may have the same file-system timestamp
    assert [directories.ids() for _ in range(2)] == [["1", "2", "3", "4"]] * 2
    assert len(listed) == 3


KILLED = """
import os, shutil, sys
from pathlib import Path
from midturn.stores.directories import Directories
from midturn.stores.opening import open_store

def wait(*_: object, **__: object) -> None:
    print("now", flush=True)
    sys.stdin.read()

if sys.argv[2:]:
    shutil.rmtree = wait
    open_store(sys.argv[1]).remove_sync(sys.argv[2])
else:
    with Directories(Path(sys.argv[1])).new("half made"):
        wait()
"""


def hidden(folder: Path) -> list[str]:
    """Return the hidden leftovers of conversations."""
    return sorted(
        path.name for path in folder.iterdir() if path.name.startswith((".new-", ".removed-"))
    )


def test_leftovers_of_killed_processes_are_removed_after_an_hour(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    gone, kept = (keep(store, asking()[0]) for _ in range(2))
    for process in (Forked(KILLED, tmp_path), Forked(KILLED, tmp_path, gone)):
        assert line(process) == "now"
        kill(process)
    assert all_conversation_ids(open_store(tmp_path)) == [kept]
    assert len(hidden(tmp_path)) == 2

    for name in hidden(tmp_path):
        os.utime(tmp_path / name, (time.time() - 7200, time.time() - 7200))
    assert all_conversation_ids(open_store(tmp_path)) == [kept]
    assert hidden(tmp_path) == []
    links = [path.name for path in tmp_path.iterdir() if path.is_symlink()]
    assert links == [f".{kept}"]


def test_cleanup_keeps_links_to_conversations(tmp_path: Path) -> None:
    kept = keep(open_store(tmp_path), asking()[0])
    (tmp_path / f".removed-{kept}-x-1").mkdir()
    os.utime(tmp_path / f".removed-{kept}-x-1", (0, 0))
    (tmp_path / ".new-link").symlink_to(tmp_path)
    assert all_conversation_ids(open_store(tmp_path)) == [kept]
    assert hidden(tmp_path) == [".new-link"]
    assert (tmp_path / f".{kept}").is_symlink()
