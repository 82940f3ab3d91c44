"""The lock of a conversation: one writer at a time."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from midturn.errors import StoreError, StoreLocked
from midturn.stores.folder import Folder
from midturn.stores.lock import Holder, Lock, for_a_moment, for_a_turn, holder_now, is_held
from midturn.stores.sync_forms import drive
from support.processes import Forked, kill, line

HOLDER = """
import sys
from pathlib import Path
from midturn.stores.folder import Folder
from midturn.stores.lock import Holder, Lock, for_a_turn
from midturn.stores.sync_forms import drive
held = drive(Lock.take(Folder.at(Path(sys.argv[1])), for_a_turn()))
print("held", flush=True)
sys.stdin.read()
held.release()
print("released", flush=True)
"""

NUMBERED = """
import os, sys
while (child := os.fork()) or os.getpid() != int(sys.argv[2]):
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
    if child == int(sys.argv[2]):
        os._exit(0)
"""
"""Continues as the process with a given number in its PID namespace."""
UNSHARE = (
    "unshare",
    *([] if os.geteuid() == 0 else ["--map-root-user"]),
    "--pid",
    "--mount-proc",
    "--fork",
)
CAN_UNSHARE = (
    shutil.which("unshare") is not None
    and subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode == 0
)


def take(folder: Folder, holder: Holder) -> Lock:
    return drive(Lock.take(folder, holder))


def test_second_writer_is_told_the_holder_and_its_start(folder: Folder) -> None:
    holder = Forked(HOLDER, folder.path)
    assert line(holder) == "held"

    with pytest.raises(
        StoreLocked, match=rf"written by pid {holder.pid} on .* since 20\d\d-"
    ) as refused:
        take(folder, for_a_turn())

    assert refused.value.holder == f"pid {holder.pid} on {os.uname().nodename}"
    assert (refused.value.since or "").endswith("Z")
    assert is_held(folder)
    holder.communicate()
    assert not is_held(folder)
    take(folder, for_a_turn()).release()


def test_same_process_cannot_lock_twice(folder: Folder) -> None:
    held = take(folder, for_a_turn())

    with pytest.raises(StoreLocked, match="written by this process since"):
        take(folder, for_a_turn())

    held.release()


def test_lock_file_of_a_killed_holder_blocks_no_one(folder: Folder) -> None:
    holder = Forked(HOLDER, folder.path)
    assert line(holder) == "held"
    kill(holder)
    assert folder.read("lock").startswith(b'{"pid":')

    take(folder, for_a_turn()).release()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0\xff",
        b"[" * 100_000,
        b'{"pid":"x"}',
        b'{"pid":-1,"since":7}',
        b'{"pid":99999999999999999999}',
    ],
)
def test_lock_file_content_is_only_a_hint(folder: Folder, content: bytes) -> None:
    (folder.path / "lock").write_bytes(content)

    take(folder, for_a_turn()).release()


def test_short_lock_is_waited_for(folder: Folder) -> None:
    code = HOLDER.replace("for_a_turn", "for_a_moment").replace(
        "sys.stdin.read()", "import time; time.sleep(0.1)"
    )
    holder = Forked(code, folder.path)
    assert line(holder) == "held"

    take(folder, for_a_turn()).release()

    assert line(holder) == "released"
    holder.communicate()


def test_linked_lock_file_is_refused_and_its_target_unchanged(
    folder: Folder, tmp_path_factory: pytest.TempPathFactory
) -> None:
    victim = tmp_path_factory.mktemp("elsewhere") / "victim"
    victim.write_text("precious")
    (folder.path / "lock").symlink_to(victim)

    with pytest.raises(StoreError, match="it is a symbolic link"):
        take(folder, for_a_turn())

    assert victim.read_text() == "precious"


def test_a_refused_writer_does_not_touch_the_file(folder: Folder) -> None:
    held = take(folder, for_a_turn())
    signed = folder.read("lock")

    with pytest.raises(StoreLocked):
        take(folder, for_a_moment())

    assert folder.read("lock") == signed
    held.release()


def test_fifo_as_lock_file_does_not_block(folder: Folder) -> None:
    os.mkfifo(folder.path / "lock")

    with pytest.raises(StoreError, match="not a regular file"):
        take(folder, for_a_turn())

    holder = os.open(folder.path / "lock", os.O_RDWR | os.O_NONBLOCK)
    fcntl.flock(holder, fcntl.LOCK_EX)
    with pytest.raises(StoreError, match="not a regular file"):
        take(folder, for_a_turn())
    os.close(holder)


def test_conversation_removed_while_waiting_is_not_locked(folder: Folder) -> None:
    code = HOLDER.replace("for_a_turn", "for_a_moment").replace(
        "sys.stdin.read()", "import time; time.sleep(0.1)"
    )
    holder = Forked(
        code.replace("held.release()", "Path(sys.argv[1], 'lock').unlink(); held.release()"),
        folder.path,
    )
    assert line(holder) == "held"

    with pytest.raises(StoreError, match="was removed"):
        take(folder, for_a_turn())

    holder.communicate()


def test_lock_file_is_private(folder: Folder) -> None:
    path = folder.path / "lock"
    path.write_text("")
    path.chmod(0o644)

    take(folder, for_a_turn()).release()

    assert path.stat().st_mode & 0o777 == 0o600


def test_hard_linked_lock_file_is_not_written(tmp_path: Path) -> None:
    """Writing the holder into it would overwrite the hard-linked file."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    conversation = tmp_path / "conversation"
    conversation.mkdir()
    os.link(victim, conversation / "lock")

    with Folder.at(conversation) as folder, pytest.raises(StoreError, match="a hard link"):
        drive(Lock.take(folder, for_a_turn()))
    assert victim.read_text() == "precious"


@pytest.mark.skipif(not CAN_UNSHARE, reason="no namespace of processes can be made here")
def test_holder_in_another_container_is_detected_by_its_lock(folder: Folder) -> None:
    """Two containers on one volume with the same host name: the recorded PID is unknown here or
    belongs to another process.
    """
    free = next(number for number in range(50, 5_000) if not Path("/proc", str(number)).exists())
    command = [*UNSHARE, sys.executable, "-c", NUMBERED + HOLDER, str(folder.path), str(free)]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert line(holder) == "held"
    signed = msgspec.json.decode(folder.read("lock"), type=Holder)

    with pytest.raises(StoreLocked, match=rf"written by pid {signed.pid} on "):
        take(folder, for_a_moment())

    assert signed.pid == free
    assert holder_now(folder) == signed
    holder.communicate()
    take(folder, for_a_turn()).release()


def test_same_pid_in_another_container_is_another_process(folder: Folder) -> None:
    held = take(folder, replace(for_a_turn(), namespace="pid:[1]"))

    with pytest.raises(StoreLocked, match=rf"written by pid {os.getpid()} on "):
        take(folder, for_a_turn())

    held.release()
