"""`EventFile`, which appends to `events.jsonl`."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from midturn.errors import StoreError
from midturn.stores.folder import Folder
from midturn.stores.journal import EventFile
from support.processes import output, python

FIRST = [b'{"type":"turn_start","more":1}\n', b'{"type":"chat_request","content":"a"}\n']
SECOND = [
    b'{"type":"tool_call_response","more":2}\n',
    b'{"type":"chat_response","more":1}\n',
    b'{"type":"turn_end"}\n',
]


def torn(folder: Folder) -> list[bytes]:
    return [folder.read(name) for name in sorted(folder.names()) if name.startswith("events.torn-")]


def test_a_batch_costs_one_sync_and_the_first_one_another(folder: Folder) -> None:
    file = EventFile(folder)

    file.append(FIRST)
    file.append(SECOND)
    file.close()

    assert file.syncs == 3
    assert folder.read("events.jsonl") == b"".join(FIRST + SECOND)


@pytest.mark.parametrize("is_by_path", [False, True])
def test_first_batch_makes_the_name_of_the_directory_durable(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, *, is_by_path: bool
) -> None:
    """Btrfs may have stored the directory under the hidden name that it had before."""
    synced: list[bytes] = []
    sync = os.fsync

    def fsync(fd: int) -> None:
        if os.path.samestat(os.fstat(fd), folder.path.stat()):
            synced.append((folder.path / "events.jsonl").read_bytes())
        sync(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    file = EventFile(folder)
    if is_by_path:  # as in a process that has few descriptors left
        file.close_between_appends()
        folder.close_descriptor()
    file.append(FIRST)
    file.append(SECOND)
    file.close()

    assert synced == [b"".join(FIRST)]


def test_torn_last_batch_is_moved_aside_and_never_read_partly(folder: Folder) -> None:
    """The file is cut at each offset, including before its last newline."""
    before, last = b"".join(FIRST), b"".join(SECOND)
    for cut in range(len(last)):
        (folder.path / "events.jsonl").write_bytes(before + last[:cut])

        file = EventFile(folder)
        file.append(SECOND)
        file.close()

        assert folder.read("events.jsonl") == before + last
        assert torn(folder) == ([last[:cut]] if cut else [])
        for name in folder.names():
            folder.remove(name)


def test_intact_file_is_opened_without_a_write(folder: Folder) -> None:
    path = folder.path / "events.jsonl"
    path.write_bytes(b"".join(FIRST))
    before = path.stat().st_mtime_ns

    file = EventFile(folder)
    file.close()

    assert path.stat().st_mtime_ns == before
    assert file.syncs == 0


def test_two_torn_ends_are_both_kept(folder: Folder) -> None:
    for end in (b"first", b"second"):
        with (folder.path / "events.jsonl").open("ab") as file:
            file.write(end)
        EventFile(folder).close()

    assert torn(folder) == [b"first", b"second"]


def test_a_full_disk_loses_nothing_that_was_recorded(full_disk: Path) -> None:
    """Uses a real file system of 64 KiB in memory."""
    with Folder.at(full_disk) as folder:
        file = EventFile(folder)
        file.append(FIRST)

        with pytest.raises(
            StoreError,
            match=(
                r"Cannot write .*events\.jsonl: No space left on device\. The 69 bytes .* are safe"
                r" on disk"
            ),
        ):
            file.append([b"x" * 200_000 + b"\n"])
        assert folder.read("events.jsonl") == b"".join(FIRST)

        file.append(SECOND)
        file.close()
        assert folder.read("events.jsonl") == b"".join(FIRST + SECOND)


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "none", tmp_path],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("only root may mount a small disk")
    yield tmp_path
    subprocess.run(["umount", tmp_path], check=True)


LIMITED = """
import resource, sys
from pathlib import Path
from midturn.errors import StoreError
from midturn.stores.journal import EventFile
from midturn.stores.folder import Folder
file = EventFile(Folder.at(Path(sys.argv[1])))
file.append([b'{"n":1}\\n'])
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
try:
    file.append([b'{"n":2,"x":"' + b"x" * 200 + b'"}\\n'])
except StoreError as error:
    print(error)
file.append([b'{"n":3}\\n'])
"""


def test_short_write_is_removed(tmp_path: Path) -> None:
    """A file size limit acts like a quota: it accepts the first bytes of the batch and no
    more.
    """
    printed = output(python(LIMITED, tmp_path))

    assert "File too large" in printed
    assert (tmp_path / "events.jsonl").read_bytes() == b'{"n":1}\n{"n":3}\n'


def test_file_replaced_by_an_editor_is_not_written(folder: Folder) -> None:
    file = EventFile(folder)
    file.append(FIRST)
    edited = folder.path / "edited"
    edited.write_bytes(b"".join(FIRST))
    edited.replace(folder.path / "events.jsonl")

    with pytest.raises(
        StoreError, match="was replaced by another file while this process was writing it"
    ):
        file.append(SECOND)
    assert folder.read("events.jsonl") == b"".join(FIRST)


def test_file_appended_by_others_is_not_written(folder: Folder) -> None:
    file = EventFile(folder)
    file.append(FIRST)
    with (folder.path / "events.jsonl").open("ab") as other:
        other.write(b'{"type":"note"}\n')

    with pytest.raises(StoreError, match="has 85 bytes instead of the 69 that were recorded"):
        file.append(SECOND)


def test_removed_file_is_an_error(folder: Folder) -> None:
    file = EventFile(folder)
    folder.remove("events.jsonl")

    with pytest.raises(StoreError, match=r"Cannot write .*events\.jsonl: No such file"):
        file.append(FIRST)


def test_disk_that_refuses_truncation_is_not_written_again(folder: Folder) -> None:
    """The descriptor of a closed file refuses every call, including truncation."""
    file = EventFile(folder)
    file.append(FIRST)
    reader = os.open(file.path, os.O_RDONLY)
    os.dup2(reader, file.fd)
    os.close(reader)

    with pytest.raises(StoreError, match="Bad file descriptor"):
        file.append(SECOND)
    with pytest.raises(
        StoreError, match=r"can no longer be written .* Open the conversation again"
    ):
        file.append(SECOND)
