"""What a process keeps of a store's logs for the next one: used where it fits the files, and of no harm where it does not."""

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
from midturn.stores.index_cache import Derived, FolderState, Listed, folder_state
from midturn.stores.opening import open_store
from midturn.stores.ready_turns import Calm, _files
from midturn.stores.store import ConversationStore
from midturn.stores.sync_forms import drive
from support.faulty_disk import FaultyDisk
from support.processes import Forked, Killed, output
from support.stored import asking, every, finished, keep, path_of, release, reopen

IMPORTS = """
import sys
from pathlib import Path
from midturn.stores import ready_turns
from midturn.stores.opening import open_store
from midturn.stores.sync_forms import drive
"""
SAVE = """
ready_turns._SAVED = ready_turns._CLOCK_STEP = 0
store = open_store(sys.argv[1])
print("begun", flush=True)
for _ in range(int(sys.argv[2])):
    (Path(sys.argv[1]) / "index").is_dir() and [path.unlink(missing_ok=True) for path in (Path(sys.argv[1]) / "index").glob("calm-*")]
    store.files.__dict__.pop("_due", None)
    store.ready_sync()
    drive(store.claim(1))
print("done", flush=True)
"""


@pytest.fixture(autouse=True)
def _saved_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready_turns, "_SAVED", 0)
    monkeypatch.setattr(ready_turns, "_CLOCK_STEP", 0)
    monkeypatch.setattr(ready_turns, "_DOUBTED", 0)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Note which conversations are read."""
    seen: list[str] = []
    original = conversation.unfinished_turn

    def look(path: Path) -> object:
        seen.append(path.name.partition("-")[0])
        return original(path)

    monkeypatch.setattr(conversation, "unfinished_turn", look)
    return seen


def claimed(worker: ConversationStore) -> list[str]:
    """Claim what is due, and let go of it again."""
    found = drive(worker.claim(10))
    for journal in found:
        release(journal)
    return [journal.conversation for journal in found]


def kept_for_the_next(folder: Path) -> Derived[Calm]:
    """Have a worker read all, and keep what is calm."""
    worker = open_store(folder)
    for _ in range(3):
        claimed(worker)
    found = Derived(folder, "calm", Calm)
    assert found.load()
    return found


def test_a_new_process_reads_none_that_has_not_changed(tmp_path: Path, looks: list[str]) -> None:
    store = open_store(tmp_path)
    kept = [keep(store, asking()[0]) for _ in range(5)]
    kept_for_the_next(tmp_path)
    looks.clear()

    assert claimed(open_store(tmp_path)) == open_store(tmp_path).ready_sync() == []
    assert looks == []

    store.answer_sync(f"{kept[3]}-e4", True)
    looks.clear()
    assert open_store(tmp_path).ready_sync() == claimed(open_store(tmp_path)) == [kept[3]]
    assert set(looks) == {kept[3]}


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
    "spoil", [_missing, _cut, _of_another_version, _of_before_the_start, _with_a_wrong_byte, _a_directory, _a_link]
)


@spoiled
def test_one_that_cannot_be_used_is_made_again(tmp_path: Path, looks: list[str], spoil: Callable[[Path], None]) -> None:
    store = open_store(tmp_path)
    kept = [keep(store, asking()[0]) for _ in range(4)]
    kept_for_the_next(tmp_path)
    store.answer_sync(f"{kept[1]}-e4", True)
    (file,) = (tmp_path / "index").glob("calm-*")
    spoil(file)
    looks.clear()

    assert open_store(tmp_path).ready_sync() == [kept[1]]
    assert set(looks) == set(kept)


def test_what_it_says_of_other_files_does_not_count(tmp_path: Path) -> None:
    """A lie: each is said to wait for people, in files that are not what they are, or that are of another conversation."""
    store = open_store(tmp_path)
    kept = [keep(store, asking()[0]) for _ in range(3)]
    waits, over = kept[0], keep(store, finished())
    store.answer_sync(f"{kept[2]}-e4", True)
    (tmp_path / "open" / over).touch()
    of_another = _files(str(path_of(store, waits))).state
    Derived(tmp_path, "calm", Calm).save(Calm([*kept, over, "12345"], [of_another, of_another, of_another, 7, 7], {"12345": "x"}))

    assert open_store(tmp_path).ready_sync() == claimed(open_store(tmp_path)) == [kept[2]]
    assert [question.conversation for question in store.pending_sync()] == kept[:2]


def test_a_lie_about_the_very_files_is_found_by_and_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready_turns, "_DOUBTED", 2)
    store = open_store(tmp_path)
    kept = [keep(store, asking()[0]) for _ in range(5)]
    store.answer_sync(f"{kept[3]}-e4", True)
    states = [_files(str(path_of(store, each))).state for each in kept]
    Derived(tmp_path, "calm", Calm).save(Calm(kept, states, {}))
    worker = open_store(tmp_path)

    assert kept[3] in [each for _ in range(5) for each in claimed(worker)]


def test_what_was_read_in_the_same_step_of_the_clock_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready_turns, "_CLOCK_STEP", 3_600_000_000_000)
    store = open_store(tmp_path)
    young = keep(store, asking()[0])
    old = keep(store, asking()[0])
    for path in path_of(store, old).iterdir():
        os.utime(path, (time.time() - 7200, time.time() - 7200))
    found = kept_for_the_next(tmp_path).load()

    assert found
    assert (old in found.ids, young in found.ids) == (True, False)


def test_a_process_that_is_killed_while_it_is_made_leaves_nothing_half(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    kept = [keep(store, asking()[0]) for _ in range(30)]
    store.answer_sync(f"{kept[7]}-e4", True)
    making = Killed(IMPORTS, SAVE)
    for pause in range(12):
        assert making.begin(tmp_path, 1_000) == "begun"
        time.sleep(pause / 300)
        making.kill()
        assert open_store(tmp_path).ready_sync() == [kept[7]]
    making.end()
    kept_for_the_next(tmp_path)
    assert [path.name for path in (tmp_path / "index").iterdir()] == [f"calm-{host()}"]


def test_two_processes_that_make_it_at_once_do_not_disturb_each_other(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    kept = [keep(store, asking()[0]) for _ in range(10)]
    store.answer_sync(f"{kept[7]}-e4", True)
    both = [Forked(IMPORTS + SAVE, tmp_path, 30) for _ in range(2)]
    assert [output(each) for each in both] == ["begun\ndone\n"] * 2
    assert open_store(tmp_path).ready_sync() == [kept[7]]


@pytest.mark.parametrize(
    ("kind", "error"), [("write", errno.ENOSPC), ("short write", errno.ENOSPC), ("mkdir", errno.EROFS), ("replace", errno.EIO)]
)
def test_where_it_cannot_be_written_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, error: int) -> None:
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
    assert kept_for_the_next(tmp_path).load()


def test_an_ended_turn_is_forgotten(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    kept = [keep(store, asking()[0]) for _ in range(3)]
    kept_for_the_next(tmp_path)
    journal = reopen(store, kept[1])
    drive(journal.append([TurnEnd(status="completed")]))
    release(journal)

    found = kept_for_the_next(tmp_path).load()
    worker = open_store(tmp_path)
    for _ in range(3):
        assert claimed(worker) == []
    assert found
    assert set(found.ids) <= set(kept)


def test_a_deadline_is_kept_and_costs_no_look_before_it_passes(tmp_path: Path, looks: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def later(_: object) -> str:
        return "2060-01-01T00:00:00.000000Z"

    store = open_store(tmp_path)
    moments = {"0": "", "1": "2100-01-01T00:00:00.000000Z", "2": "2050-01-01T00:00:00.000000Z"}
    kept: dict[str, str] = {}
    for name, until in moments.items():
        tape, asked = asking()
        tape.events[tape.events.index(asked)] = replace(asked, deadline=until)
        kept[name] = keep(store, tape)
    kept_for_the_next(tmp_path)
    looks.clear()
    worker = open_store(tmp_path)
    assert claimed(worker) == drive(worker.port.overdue("2040")) == []
    assert looks == []

    monkeypatch.setattr(ready_turns, "stamp", later)
    assert drive(worker.port.overdue("2060")) == [kept["2"]]
    assert set(looks) == {kept["2"]}


# ----------------------------------------------------------------------------------------------------------------------
# The list of all ids


@pytest.fixture
def lists(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Note which folders are listed."""
    seen: list[Path] = []
    original = directories._names
    monkeypatch.setattr(directories, "_names", lambda folder: seen.append(folder) or original(folder))  # type: ignore[misc]
    monkeypatch.setattr(index_cache, "_MANY", 0)
    monkeypatch.setattr(index_cache, "_CLOCK_STEP", 0)
    return seen


def listed(folder: Path) -> list[str]:
    """List the ids as a new process does, and then again."""
    every(open_store(folder))  # it makes the folder of the index, and so changes the one that it lists
    return every(open_store(folder))


def test_a_folder_is_listed_once_for_all_processes(tmp_path: Path, lists: list[Path]) -> None:
    store = open_store(tmp_path)
    kept = [keep(store, finished()) for _ in range(4)]
    assert listed(tmp_path) == kept
    lists.clear()
    assert every(open_store(tmp_path)) == kept
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
def test_a_list_that_cannot_be_used_is_made_again(tmp_path: Path, lists: list[Path], spoil: Callable[[Path], None]) -> None:
    kept = [keep(open_store(tmp_path), finished()) for _ in range(4)]
    assert listed(tmp_path) == kept
    spoil(tmp_path / "index" / f"ids-{host()}")
    lists.clear()
    assert every(open_store(tmp_path)) == kept
    assert lists == [tmp_path]


def test_a_list_of_another_folder_or_time_does_not_count(tmp_path: Path, lists: list[Path]) -> None:
    kept = [keep(open_store(tmp_path), finished()) for _ in range(3)]
    found = tmp_path.stat()
    state = folder_state(tmp_path)
    others: list[FolderState] = [(state[0] + 1, *state[1:]), (state[0], state[1] - 1, *state[2:]), (*state[:3], state[3] + 1)]
    for states in (*([other] for other in others), [state] * 2, []):
        Derived(tmp_path, "ids", Listed).save(Listed.of(states, ["1234567890123456"]))
        os.utime(tmp_path, ns=(found.st_atime_ns, found.st_mtime_ns))
        assert every(open_store(tmp_path)) == kept
    assert lists


# ----------------------------------------------------------------------------------------------------------------------
# What was begun since: nothing is listed again


def test_what_was_begun_since_is_known_without_listing_anything(tmp_path: Path, lists: list[Path]) -> None:
    kept = [keep(open_store(tmp_path), finished()) for _ in range(3)]
    assert listed(tmp_path) == kept
    same = open_store(tmp_path)
    lists.clear()

    for _ in range(3):
        kept.append(keep(open_store(tmp_path), finished()))
        kept.append(same.fork_sync(kept[0]))
        assert every(open_store(tmp_path)) == every(same) == kept
        assert drive(open_store(tmp_path).port.newest(1)) == drive(same.port.newest(1)) == kept[-1:]
    assert lists == []


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.usefixtures("lists")
def test_what_others_have_made_or_removed_is_found_whatever_was_begun(tmp_path: Path, when: str) -> None:
    store = open_store(tmp_path)
    kept = [keep(store, finished()) for _ in range(3)]

    def begin(expected: str) -> None:
        if when == expected:
            kept.append(keep(store, finished()))

    other = tmp_path / "1234567890123456-x"
    for make, there in ((other.mkdir, ["1234567890123456"]), (other.rmdir, [])):
        assert listed(tmp_path) == every(open_store(tmp_path))
        begin("before")
        make()
        begin("after")
        assert every(store) == every(open_store(tmp_path)) == there + kept


@pytest.mark.usefixtures("lists")
def test_what_is_made_while_another_is_begun_is_found(tmp_path: Path) -> None:
    kept = [keep(open_store(tmp_path), finished()) for _ in range(3)]
    assert listed(tmp_path) == kept

    with directories.Directories(tmp_path).new("begun") as folder:
        (tmp_path / "1234567890123456-x").mkdir()
    folder.close()

    assert every(open_store(tmp_path)) == ["1234567890123456", *kept, folder.name.partition("-")[0]]


def _of_another_kind(file: Path) -> None:
    file.write_text('{"what": "is this?"}\n')


@pytest.mark.parametrize("spoil", [_missing, _cut, _a_directory, _a_link, _of_another_kind])
def test_steps_that_cannot_be_read_lead_nowhere(tmp_path: Path, lists: list[Path], spoil: Callable[[Path], None]) -> None:
    kept = [keep(open_store(tmp_path), finished()) for _ in range(3)]
    assert listed(tmp_path) == kept
    kept.append(keep(open_store(tmp_path), finished()))
    spoil(tmp_path / "index" / f"ids-{host()}.since")
    lists.clear()

    assert every(open_store(tmp_path)) == kept
    assert lists == [tmp_path]


@pytest.mark.parametrize(("kind", "error"), [("write", errno.ENOSPC), ("short write", errno.ENOSPC)])
def test_a_disk_that_takes_no_step_leads_nowhere(
    tmp_path: Path, lists: list[Path], monkeypatch: pytest.MonkeyPatch, kind: str, error: int
) -> None:
    kept = [keep(open_store(tmp_path), finished()) for _ in range(3)]
    assert listed(tmp_path) == kept
    disk, making = FaultyDisk(monkeypatch), directories.Directories(tmp_path).new("begun")
    with making as folder:
        disk.fail(kind, error)
    disk.heal()
    folder.close()

    assert every(open_store(tmp_path)) == [*kept, folder.name.partition("-")[0]]
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
    """A folder in which nothing has changed for a while, as any must be whose list is kept."""
    monkeypatch.setattr(index_cache, "_MANY", 0)
    for _ in range(3):
        keep(open_store(tmp_path), finished())
    (tmp_path / "index").mkdir()
    os.utime(tmp_path, (0, 0))
    assert len(every(open_store(tmp_path))) == 3
    return tmp_path


def there(folder: Path) -> list[str]:
    """Return the conversations that are there."""
    return sorted(path.name.partition("-")[0] for path in folder.iterdir() if path.name[0].isdigit())


def test_processes_that_begin_at_once_hide_nothing_from_each_other(calm: Path) -> None:
    both = [Forked(IMPORTS + BEGIN, calm, 40) for _ in range(2)]
    while any(each.poll() is None for each in both):
        before = there(calm)
        assert set(before) <= set(every(open_store(calm)))
    assert [output(each) for each in both] == ["begun\ndone\n"] * 2

    assert len(every(open_store(calm))) == 3 + 80


def test_one_that_is_killed_while_it_begins_is_no_step(calm: Path) -> None:
    making = Killed(IMPORTS, BEGIN)
    for pause in range(8):
        assert making.begin(calm, 1_000) == "begun"
        time.sleep(pause / 300)
        making.kill()
        assert every(open_store(calm)) == there(calm)
    making.end()


def test_the_index_of_open_turns_is_listed_once_for_all_processes(
    tmp_path: Path, lists: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    listings: list[Path] = []
    original = Folder.names
    monkeypatch.setattr(Folder, "names", lambda folder: listings.append(folder.path) or original(folder))  # type: ignore[misc]
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
def test_a_list_that_grows_is_what_it_would_be_if_it_were_made_anew(ids: list[str], made: list[str]) -> None:
    states: list[FolderState] = [(1, 2, 3, 4)]
    grown = Listed(states, "\n".join(ids)).grown(states, made)
    assert grown.ids == Listed.of(states, sorted([*ids, *made])).ids == sorted([*ids, *made])
    assert list(grown.newest_first()) == grown.ids[::-1]
