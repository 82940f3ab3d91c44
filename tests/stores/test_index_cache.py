"""Caches of a file store that one process leaves for the next.

A cache that does not match the files is ignored.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from midturn.events.types import TurnEnd
from midturn.stores import conversation, directories, index_cache, ready_turns
from midturn.stores.folder import Folder, host
from midturn.stores.index_cache import FolderState, IdList, IndexCache, folder_state
from midturn.stores.opening import open_store
from midturn.stores.ready_turns import IdleSnapshot, _files
from midturn.stores.store import ConversationStore
from midturn.stores.sync_forms import drive
from support.faulty_disk import FaultyDisk
from support.processes import Forked, KillableProgram, output
from support.stored import all_conversation_ids, asking, finished, keep, path_of, release, reopen

IMPORTS = """
import sys
from pathlib import Path
from midturn.stores import ready_turns
from midturn.stores.opening import open_store
from midturn.stores.sync_forms import drive
"""
SAVE = """
ready_turns._SAVE_AFTER = ready_turns._CLOCK_STEP = 0
store = open_store(sys.argv[1])
print("begun", flush=True)
for _ in range(int(sys.argv[2])):
    (Path(sys.argv[1]) / "index").is_dir() and [path.unlink(missing_ok=True) for path in (Path(sys.argv[1]) / "index").glob("calm-*")]
    store.files.__dict__.pop("_ready_turns", None)
    store.ready_sync()
    drive(store.claim(1))
print("done", flush=True)
"""


@pytest.fixture(autouse=True)
def _saved_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready_turns, "_SAVE_AFTER", 0)
    monkeypatch.setattr(ready_turns, "_CLOCK_STEP", 0)
    monkeypatch.setattr(ready_turns, "_UNVERIFIED", 0)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Collect the conversations that are read."""
    seen: list[str] = []
    original = conversation.unfinished_turn

    def look(path: Path) -> object:
        seen.append(path.name.partition("-")[0])
        return original(path)

    monkeypatch.setattr(conversation, "unfinished_turn", look)
    return seen


def claimed(worker: ConversationStore) -> list[str]:
    """Claim the ready turns and release them again."""
    found = drive(worker.claim(10))
    for journal in found:
        release(journal)
    return [journal.conversation for journal in found]


def write_cache(folder: Path) -> IndexCache[IdleSnapshot]:
    """Let a worker read all conversations and write the cache of idle ones."""
    worker = open_store(folder)
    for _ in range(3):
        claimed(worker)
    found = IndexCache(folder, "calm", IdleSnapshot)
    assert found.load()
    return found


def test_new_process_reads_no_unchanged_conversation(tmp_path: Path, reads: list[str]) -> None:
    store = open_store(tmp_path)
    kept = [keep(store, asking()[0]) for _ in range(5)]
    write_cache(tmp_path)
    reads.clear()

    assert claimed(open_store(tmp_path)) == open_store(tmp_path).ready_sync() == []
    assert reads == []

    store.answer_sync(f"{kept[3]}-e4", True)
    reads.clear()
    assert open_store(tmp_path).ready_sync() == claimed(open_store(tmp_path)) == [kept[3]]
    assert set(reads) == {kept[3]}


def _missing(file: Path) -> None:
    file.unlink(missing_ok=True)


def _cut(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def _of_another_version(file: Path) -> None:
    file.write_bytes(file.read_bytes().replace(b"midturn 2 ", b"midturn 3 ", 1))


def _of_before_the_start(file: Path) -> None:
    head, _, rest = file.read_bytes().partition(b"\n")
    words = head.split(b" ")
    file.write_bytes(b" ".join([*words[:2], b"0ld-boot-1d", words[-1]]) + b"\n" + rest)


def _with_a_wrong_byte(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)


def _a_directory(file: Path) -> None:
    file.unlink(missing_ok=True)
    file.mkdir()


def _a_link(file: Path) -> None:
    file.rename(file.with_name("away"))
    file.symlink_to("away")


spoiled = pytest.mark.parametrize(
    "spoil",
    [
        _missing,
        _cut,
        _of_another_version,
        _of_before_the_start,
        _with_a_wrong_byte,
        _a_directory,
        _a_link,
    ],
)


@spoiled
def test_unusable_cache_is_rebuilt(
    tmp_path: Path, reads: list[str], spoil: Callable[[Path], None]
) -> None:
    store = open_store(tmp_path)
    kept = [keep(store, asking()[0]) for _ in range(4)]
    write_cache(tmp_path)
    store.answer_sync(f"{kept[1]}-e4", True)
    (file,) = (tmp_path / "index").glob("calm-*")
    spoil(file)
    reads.clear()

    assert open_store(tmp_path).ready_sync() == [kept[1]]
    assert set(reads) == set(kept)


def test_cache_entry_for_other_files_is_ignored(tmp_path: Path) -> None:
    """The cache claims that conversations wait, but the files have changed or belong to other
    conversations.
    """
    store = open_store(tmp_path)
    kept = [keep(store, asking()[0]) for _ in range(3)]
    waits, over = kept[0], keep(store, finished())
    store.answer_sync(f"{kept[2]}-e4", True)
    (tmp_path / "open" / over).touch()
    of_another = _files(str(path_of(store, waits))).state
    states = [of_another, of_another, of_another, 7, 7]
    IndexCache(tmp_path, "calm", IdleSnapshot).save(
        IdleSnapshot([*kept, over, "12345"], states, {"12345": "x"})
    )

    assert open_store(tmp_path).ready_sync() == claimed(open_store(tmp_path)) == [kept[2]]
    assert [question.conversation for question in store.pending_sync()] == kept[:2]


def test_wrong_cache_entry_is_found_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ready_turns, "_UNVERIFIED", 2)
    store = open_store(tmp_path)
    kept = [keep(store, asking()[0]) for _ in range(5)]
    store.answer_sync(f"{kept[3]}-e4", True)
    states = [_files(str(path_of(store, each))).state for each in kept]
    IndexCache(tmp_path, "calm", IdleSnapshot).save(IdleSnapshot(kept, states, {}))
    worker = open_store(tmp_path)

    assert kept[3] in [each for _ in range(5) for each in claimed(worker)]


def test_file_with_a_current_timestamp_is_not_cached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ready_turns, "_CLOCK_STEP", 3_600_000_000_000)
    store = open_store(tmp_path)
    young = keep(store, asking()[0])
    old = keep(store, asking()[0])
    for path in path_of(store, old).iterdir():
        os.utime(path, (time.time() - 7200, time.time() - 7200))
    found = write_cache(tmp_path).load()

    assert found
    assert (old in found.ids, young in found.ids) == (True, False)


def test_killed_process_leaves_no_partial_cache(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    kept = [keep(store, asking()[0]) for _ in range(30)]
    store.answer_sync(f"{kept[7]}-e4", True)
    making = KillableProgram(IMPORTS, SAVE)
    for pause in range(12):
        assert making.begin(tmp_path, 1_000) == "begun"
        time.sleep(pause / 300)
        making.kill()
        assert open_store(tmp_path).ready_sync() == [kept[7]]
    making.end()
    write_cache(tmp_path)
    assert [path.name for path in (tmp_path / "index").iterdir()] == [f"calm-{host()}"]


def test_two_processes_write_the_cache_at_once(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    kept = [keep(store, asking()[0]) for _ in range(10)]
    store.answer_sync(f"{kept[7]}-e4", True)
    both = [Forked(IMPORTS + SAVE, tmp_path, 30) for _ in range(2)]
    assert [output(each) for each in both] == ["begun\ndone\n"] * 2
    assert open_store(tmp_path).ready_sync() == [kept[7]]


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("write", errno.ENOSPC),
        ("short write", errno.ENOSPC),
        ("mkdir", errno.EROFS),
        ("replace", errno.EIO),
    ],
)
def test_unwritable_cache_is_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, error: int
) -> None:
    store = open_store(tmp_path)
    kept = [keep(store, asking()[0]) for _ in range(4)]
    store.answer_sync(f"{kept[1]}-e4", True)
    disk = FaultyDisk(monkeypatch)
    disk.fail(kind, error)

    assert [open_store(tmp_path).ready_sync() for _ in range(2)] == [[kept[1]]] * 2
    worker = open_store(tmp_path)
    drive(worker.port.overdue("2020"))
    assert disk.refused
    assert list((tmp_path / "index").glob("calm-*")) == []
    disk.heal()
    assert write_cache(tmp_path).load()


def test_ended_turn_is_removed_from_the_cache(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    kept = [keep(store, asking()[0]) for _ in range(3)]
    write_cache(tmp_path)
    journal = reopen(store, kept[1])
    drive(journal.append([TurnEnd(status="completed")]))
    release(journal)

    found = write_cache(tmp_path).load()
    worker = open_store(tmp_path)
    for _ in range(3):
        assert claimed(worker) == []
    assert found
    assert set(found.ids) <= set(kept)


def test_cached_deadline_needs_no_read_before_it_passes(
    tmp_path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def later(_: object) -> str:
        return "2060-01-01T00:00:00.000000Z"

    store = open_store(tmp_path)
    moments = {"0": "", "1": "2100-01-01T00:00:00.000000Z", "2": "2050-01-01T00:00:00.000000Z"}
    kept: dict[str, str] = {}
    for name, until in moments.items():
        tape, asked = asking()
        tape.events[tape.events.index(asked)] = replace(asked, deadline=until)
        kept[name] = keep(store, tape)
    write_cache(tmp_path)
    reads.clear()
    worker = open_store(tmp_path)
    assert claimed(worker) == drive(worker.port.overdue("2040")) == []
    assert reads == []

    monkeypatch.setattr(ready_turns, "stamp", later)
    assert drive(worker.port.overdue("2060")) == [kept["2"]]
    assert set(reads) == {kept["2"]}


# --------------------------------------------------------------------------------------------------
# The cached list of all ids


@pytest.fixture
def lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Collect the directories of the test that are listed."""
    seen: list[Path] = []
    original = directories._names

    def names(folder: Path) -> list[str]:
        if folder.is_relative_to(tmp_path):  # threads of earlier tests list other stores
            seen.append(folder)
        return original(folder)

    monkeypatch.setattr(directories, "_names", names)
    monkeypatch.setattr(index_cache, "_MIN_SAVED_NAMES", 0)
    monkeypatch.setattr(index_cache, "_CLOCK_STEP", 0)
    return seen


def listed(folder: Path) -> list[str]:
    """List the ids as a new process does, twice."""
    all_conversation_ids(
        open_store(folder)
    )  # creates the index directory, which changes the listed directory
    return all_conversation_ids(open_store(folder))


def test_directory_is_listed_once_for_all_processes(tmp_path: Path, lists: list[Path]) -> None:
    store = open_store(tmp_path)
    kept = [keep(store, finished()) for _ in range(4)]
    assert listed(tmp_path) == kept
    lists.clear()
    assert all_conversation_ids(open_store(tmp_path)) == kept
    assert drive(open_store(tmp_path).port.newest(2)) == kept[:1:-1]
    assert drive(open_store(tmp_path).port.newest(9, kept[2])) == kept[1::-1]
    assert drive(open_store(tmp_path).port.newest(1)) == kept[-1:]
    assert lists == []

    kept.append(keep(store, finished()))
    assert drive(open_store(tmp_path).port.newest(1)) == kept[-1:]
    store.remove_sync(kept.pop(1))
    (copied, original) = (tmp_path / "1234567890123456-copied", path_of(store, kept[0]))
    copied.mkdir()
    (copied / "events.jsonl").write_bytes((original / "events.jsonl").read_bytes())
    assert listed(tmp_path) == ["1234567890123456", *kept]


@spoiled
def test_unusable_list_is_rebuilt(
    tmp_path: Path, lists: list[Path], spoil: Callable[[Path], None]
) -> None:
    kept = [keep(open_store(tmp_path), finished()) for _ in range(4)]
    assert listed(tmp_path) == kept
    spoil(tmp_path / "index" / f"ids-{host()}")
    lists.clear()
    assert all_conversation_ids(open_store(tmp_path)) == kept
    assert lists == [tmp_path]


def test_list_of_another_directory_or_time_is_ignored(tmp_path: Path, lists: list[Path]) -> None:
    kept = [keep(open_store(tmp_path), finished()) for _ in range(3)]
    found = tmp_path.stat()
    state = folder_state(tmp_path)
    others: list[FolderState] = [
        (state[0] + 1, *state[1:]),
        (state[0], state[1] - 1, *state[2:]),
        (*state[:3], state[3] + 1),
    ]
    for states in (*([other] for other in others), [state] * 2, []):
        IndexCache(tmp_path, "ids", IdList).save(IdList.of(states, ["1234567890123456"]))
        os.utime(tmp_path, ns=(found.st_atime_ns, found.st_mtime_ns))
        assert all_conversation_ids(open_store(tmp_path)) == kept
    assert lists


# --------------------------------------------------------------------------------------------------
# New conversations are added to the cached list without listing the directory again


def test_new_conversation_is_known_without_listing(tmp_path: Path, lists: list[Path]) -> None:
    kept = [keep(open_store(tmp_path), finished()) for _ in range(3)]
    assert listed(tmp_path) == kept
    same = open_store(tmp_path)
    lists.clear()

    for _ in range(3):
        kept.append(keep(open_store(tmp_path), finished()))
        kept.append(same.fork_sync(kept[0]))
        assert all_conversation_ids(open_store(tmp_path)) == all_conversation_ids(same) == kept
        assert drive(open_store(tmp_path).port.newest(1)) == drive(same.port.newest(1)) == kept[-1:]
    assert lists == []


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.usefixtures("lists")
def test_changes_by_other_programs_are_found(tmp_path: Path, when: str) -> None:
    store = open_store(tmp_path)
    kept = [keep(store, finished()) for _ in range(3)]

    def begin(expected: str) -> None:
        if when == expected:
            kept.append(keep(store, finished()))

    other = tmp_path / "1234567890123456-x"
    for make, there in ((other.mkdir, ["1234567890123456"]), (other.rmdir, [])):
        assert listed(tmp_path) == all_conversation_ids(open_store(tmp_path))
        begin("before")
        make()
        begin("after")
        assert (
            all_conversation_ids(store)
            == all_conversation_ids(open_store(tmp_path))
            == there + kept
        )


@pytest.mark.usefixtures("lists")
def test_conversation_added_during_a_creation_is_found(tmp_path: Path) -> None:
    kept = [keep(open_store(tmp_path), finished()) for _ in range(3)]
    assert listed(tmp_path) == kept

    with directories.Directories(tmp_path).new("begun") as folder:
        (tmp_path / "1234567890123456-x").mkdir()
    folder.close()

    assert all_conversation_ids(open_store(tmp_path)) == [
        "1234567890123456",
        *kept,
        folder.name.partition("-")[0],
    ]


def _of_another_kind(file: Path) -> None:
    file.write_text('{"what": "is this?"}\n')


@pytest.mark.parametrize("spoil", [_missing, _cut, _a_directory, _a_link, _of_another_kind])
def test_unreadable_list_updates_cause_a_new_listing(
    tmp_path: Path, lists: list[Path], spoil: Callable[[Path], None]
) -> None:
    kept = [keep(open_store(tmp_path), finished()) for _ in range(3)]
    assert listed(tmp_path) == kept
    kept.append(keep(open_store(tmp_path), finished()))
    spoil(tmp_path / "index" / f"ids-{host()}.since")
    lists.clear()

    assert all_conversation_ids(open_store(tmp_path)) == kept
    assert lists == [tmp_path]


@pytest.mark.parametrize(
    ("kind", "error"), [("write", errno.ENOSPC), ("short write", errno.ENOSPC)]
)
def test_failed_list_update_causes_a_new_listing(
    tmp_path: Path, lists: list[Path], monkeypatch: pytest.MonkeyPatch, kind: str, error: int
) -> None:
    kept = [keep(open_store(tmp_path), finished()) for _ in range(3)]
    assert listed(tmp_path) == kept
    disk, making = FaultyDisk(monkeypatch), directories.Directories(tmp_path).new("begun")
    with making as folder:
        disk.fail(kind, error)
    disk.heal()
    folder.close()

    assert all_conversation_ids(open_store(tmp_path)) == [*kept, folder.name.partition("-")[0]]
    assert lists


BEGIN = """
from midturn.stores.directories import Directories
print("begun", flush=True)
for number in range(int(sys.argv[2])):
    with Directories(Path(sys.argv[1])).new("begun") as folder:
        pass
    folder.close()
print("done", flush=True)
"""


@pytest.fixture
def calm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory without recent changes; only the list of such a directory is cached."""
    monkeypatch.setattr(index_cache, "_MIN_SAVED_NAMES", 0)
    for _ in range(3):
        keep(open_store(tmp_path), finished())
    (tmp_path / "index").mkdir()
    os.utime(tmp_path, (0, 0))
    assert len(all_conversation_ids(open_store(tmp_path))) == 3
    return tmp_path


def there(folder: Path) -> list[str]:
    return sorted(
        path.name.partition("-")[0] for path in folder.iterdir() if path.name[0].isdigit()
    )


def test_concurrent_creations_are_all_listed(calm: Path) -> None:
    both = [Forked(IMPORTS + BEGIN, calm, 40) for _ in range(2)]
    while any(each.poll() is None for each in both):
        before = there(calm)
        assert set(before) <= set(all_conversation_ids(open_store(calm)))
    assert [output(each) for each in both] == ["begun\ndone\n"] * 2

    assert len(all_conversation_ids(open_store(calm))) == 3 + 80


def test_list_is_correct_after_a_killed_creation(calm: Path) -> None:
    making = KillableProgram(IMPORTS, BEGIN)
    for pause in range(8):
        assert making.begin(calm, 1_000) == "begun"
        time.sleep(pause / 300)
        making.kill()
        assert all_conversation_ids(open_store(calm)) == there(calm)
    making.end()


def test_open_index_is_listed_once_for_all_processes(
    tmp_path: Path, lists: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    listings: list[Path] = []
    original = Folder.names

    def names(folder: Folder) -> list[str]:
        if folder.path.is_relative_to(tmp_path):  # threads of earlier tests list other stores
            listings.append(folder.path)
        return original(folder)

    monkeypatch.setattr(Folder, "names", names)
    store = open_store(tmp_path)
    kept = [keep(store, asking()[0]) for _ in range(3)]

    def waiting() -> list[str]:
        return [question.conversation for question in open_store(tmp_path).pending_sync()]

    assert waiting() == kept
    listings.clear()
    assert waiting() == kept
    assert listings == []

    kept.append(keep(store, asking()[0]))
    store.answer_sync(f"{kept.pop(1)}-e4", cancel=True)
    assert waiting() == waiting() == kept
    assert listings.count(tmp_path / "open") == 1
    assert lists == []


@pytest.mark.parametrize("ids", [[], ["7"], ["5", "7", "9"]])
@pytest.mark.parametrize("made", [[], ["8"], ["99", "98"], ["1", "98"]])
def test_updated_list_equals_a_new_listing(ids: list[str], made: list[str]) -> None:
    states: list[FolderState] = [(1, 2, 3, 4)]
    grown = IdList(states, "\n".join(ids)).grown(states, made)
    assert grown.ids == IdList.of(states, sorted([*ids, *made])).ids == sorted([*ids, *made])
    assert list(grown.newest_first()) == grown.ids[::-1]
