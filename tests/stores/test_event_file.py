"""The hand of the one writer on `events.jsonl`."""

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
SECOND = [b'{"type":"tool_call_response","more":2}\n', b'{"type":"chat_response","more":1}\n', b'{"type":"turn_end"}\n']


def torn(folder: Folder) -> list[bytes]:
    return [folder.read(name) for name in sorted(folder.names()) if name.startswith("events.torn-")]


def test_a_batch_costs_one_sync(folder: Folder) -> None:
    file = EventFile(folder)

    file.append(FIRST)
    file.append(SECOND)
    file.close()

    assert file.syncs == 2
    assert folder.read("events.jsonl") == b"".join(FIRST + SECOND)


def test_a_last_batch_that_is_cut_anywhere_is_kept_beside_and_never_half_read(folder: Folder) -> None:
    """At each offset, its last newline included."""
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


def test_a_clean_file_is_opened_without_a_write(folder: Folder) -> None:
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
    """A real one: a file system of 64 KiB in memory."""
    with Folder.at(full_disk) as folder:
        file = EventFile(folder)
        file.append(FIRST)

        with pytest.raises(StoreError, match=r"Cannot write .*events\.jsonl: No space left on device\. The 69 bytes .* are safe on disk"):
            file.append([b"x" * 200_000 + b"\n"])
        assert folder.read("events.jsonl") == b"".join(FIRST)

        file.append(SECOND)
        file.close()
        assert folder.read("events.jsonl") == b"".join(FIRST + SECOND)


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=700", "none", tmp_path], capture_output=True, check=False)
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


def test_a_write_that_the_system_cuts_short_leaves_nothing_behind(tmp_path: Path) -> None:
    """A limit on the size of files does what a quota does: it takes the first bytes of the batch, and then no more."""
    printed = output(python(LIMITED, tmp_path))

    assert "File too large" in printed
    assert (tmp_path / "events.jsonl").read_bytes() == b'{"n":1}\n{"n":3}\n'


def test_a_file_that_an_editor_replaced_is_not_written_behind_its_back(folder: Folder) -> None:
    file = EventFile(folder)
    file.append(FIRST)
    edited = folder.path / "edited"
    edited.write_bytes(b"".join(FIRST))
    edited.replace(folder.path / "events.jsonl")

    with pytest.raises(StoreError, match="was replaced by another file while this process was writing it"):
        file.append(SECOND)
    assert folder.read("events.jsonl") == b"".join(FIRST)


def test_a_file_that_somebody_appended_to_is_not_written_behind_their_back(folder: Folder) -> None:
    file = EventFile(folder)
    file.append(FIRST)
    with (folder.path / "events.jsonl").open("ab") as other:
        other.write(b'{"type":"note"}\n')

    with pytest.raises(StoreError, match="has 85 bytes instead of the 69 that were recorded"):
        file.append(SECOND)


def test_a_file_that_is_gone_is_missed(folder: Folder) -> None:
    file = EventFile(folder)
    folder.remove("events.jsonl")

    with pytest.raises(StoreError, match=r"Cannot write .*events\.jsonl: No such file"):
        file.append(FIRST)


def test_a_disk_that_takes_nothing_back_is_not_written_again(folder: Folder) -> None:
    """The descriptor of a closed file refuses everything, truncating included."""
    file = EventFile(folder)
    file.append(FIRST)
    reader = os.open(file.path, os.O_RDONLY)
    os.dup2(reader, file.fd)
    os.close(reader)

    with pytest.raises(StoreError, match="Bad file descriptor"):
        file.append(SECOND)
    with pytest.raises(StoreError, match=r"can no longer be written .* Open the conversation again"):
        file.append(SECOND)
