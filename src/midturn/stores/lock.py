"""One writer per conversation: an advisory lock on a file inside its directory.

The kernel releases it when its holder dies, so the text in the file is only there to say who it is: stale text is harmless. Who holds
it for one append only does not sign, and is waited for.
"""

from __future__ import annotations

import fcntl
import os
import stat
from functools import cache
from pathlib import Path
from typing import Self

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from midturn.clock import now, pause
from midturn.errors import Busy, StoreError, StoreLocked
from midturn.events.open_question import OpenQuestion, ProcessMark
from midturn.security.process_ancestry import boot, namespace
from midturn.stores.folder import PRIVATE, Folder, check_regular, refusal, telling

NAME = "lock"
_STEP = 0.005  # seconds between two tries while it is held for a moment
_TRIES = 1_000


class Holder(Struct, frozen=True, omit_defaults=True):
    """The holder of a conversation: its process, on which host, since when (RFC 3339). Without a process, it is only for a moment.

    The number of the process is for people. Whether one has it here is looked up only under the same `boot` id and in the same `namespace`
    of processes: containers share a volume, a host's name and a kernel, and count from 1 each.
    """

    pid: int | None = None
    since: str | None = None
    host: str | None = None
    boot: str | None = None
    namespace: str | None = None

    def __str__(self) -> str:
        """Say who it is."""
        if not self.pid:
            return "another process"
        return f"pid {self.pid} on {self.host}" if self.host else f"pid {self.pid}"

    def is_us(self) -> bool:
        """Say whether it is this process."""
        return self.pid == os.getpid() and self._is_here()

    def stays(self) -> bool:
        """Say whether it holds the conversation for long: not where no signature is there, or where the text is older than the lock."""
        if not self.pid:
            return False
        if not self._is_here():
            return True
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except (PermissionError, OverflowError):
            return True
        return True

    def _is_here(self) -> bool:
        """Say whether its number means here what it meant where it signed; who signed without a boot id is known by its host alone."""
        if self.host not in (None, _host()):
            return False
        return self.boot is None or (self.boot, self.namespace) == (boot(), namespace())


class Lock:
    """A conversation's lock, held until `release`."""

    def __init__(self, folder: Folder) -> None:
        """Open the lock's file; `take` makes one that is held."""
        try:
            self._fd = folder.unchecked(NAME, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise refusal("lock", folder.path / NAME, error) from error
        self._is_signed = False

    @classmethod
    async def take(cls, folder: Folder, holder: Holder) -> Self:
        """Take the lock and sign as `holder`; one who holds it only for a moment is waited for.

        Raises:
            StoreLocked: It is held elsewhere: `holder` and `since` say who.
            Busy: Others took it before us again and again.
            StoreError: The lock file cannot be opened, or the conversation was removed meanwhile.
        """
        lock = cls(folder)
        try:
            if not lock.try_to_take():
                await lock._taken(folder)
            lock._sign(holder, _checked(folder, lock._fd))
        except OSError as error:
            lock.close()
            raise refusal("lock", folder.path / NAME, error) from error
        except BaseException:
            lock.close()
            raise
        return lock

    def try_to_take(self) -> bool:
        """Take the lock for a moment, if it is free."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Let go of the file, and with it of the lock."""
        os.close(self._fd)
        self._fd = -1

    def release(self) -> None:
        """Give the conversation back."""
        if self._fd < 0:
            return
        try:
            if self._is_signed:
                os.ftruncate(self._fd, 0)
        except OSError:
            return  # the text is only a hint, and a disk in trouble must not keep the lock
        finally:
            self.close()

    async def _taken(self, folder: Folder) -> None:
        for _ in range(_TRIES):
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = self._read()
                if holder.stays():
                    raise _locked(folder, holder) from None
                await pause(_STEP)
            else:
                return
        raise Busy(f"Others write the conversation at {folder.path} again and again. Try again in a moment.")

    def _read(self) -> Holder:
        """Return the signature; None while a holder has not signed yet."""
        check_regular(os.fstat(self._fd))
        return _decoded(os.pread(self._fd, 1_000, 0))

    def _sign(self, holder: Holder, there: os.stat_result) -> None:
        """Say who holds it. Only now, under the lock, is anything changed; the old text is overwritten before it is cut."""
        if stat.S_IMODE(there.st_mode) != PRIVATE:
            os.fchmod(self._fd, PRIVATE)
        text = msgspec.json.encode(holder) + b"\n" if holder.pid else b""
        self._is_signed = bool(text)
        if text:
            os.pwrite(self._fd, text, 0)
        if there.st_size > len(text):
            os.ftruncate(self._fd, len(text))


def is_held(folder: Folder) -> bool:
    """Say whether the conversation is being written just now."""
    with telling("look at", folder, NAME):
        try:
            fd = folder.open(NAME, os.O_RDONLY)
        except FileNotFoundError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
    return False


def holder_now(folder: Folder) -> Holder | None:
    """Return who holds the conversation just now; None where it is free, or held for a moment only."""
    if not is_held(folder):
        return None
    try:
        holder = _decoded(folder.read(NAME)[:1_000])
    except OSError:  # it is gone by now
        return None
    return holder if holder.pid else None


def for_a_turn() -> Holder:
    """Sign as this process, from now on, until it is done."""
    return Holder(os.getpid(), now(), host=_host(), boot=boot() or None, namespace=namespace())


def for_a_moment() -> Holder:
    """Do not sign, for one append: the next writer can wait for that."""
    return Holder()


@cache
def _host() -> str:
    return os.uname().nodename


def _decoded(text: bytes) -> Holder:
    try:
        return msgspec.json.decode(text, type=Holder)
    except ValueError:
        return Holder()


def _checked(folder: Folder, fd: int) -> os.stat_result:
    """Return what the file is, under the lock.

    Raises:
        OSError: It is not a regular file.
        StoreError: The conversation was removed after the file was opened, or the file belongs to another user, too.
    """
    there = os.fstat(fd)
    check_regular(there)
    if there.st_nlink == 0:
        raise StoreError(f"The conversation at {folder.path} was removed.")
    if there.st_nlink > 1:
        raise StoreError(f"{folder.path / NAME} has another name elsewhere (a hard link), so it is not written. Remove it.")
    return there


def _locked(folder: Folder, holder: Holder) -> StoreLocked:
    who = "this process" if holder.is_us() else str(holder)
    since = f" since {holder.since}" if holder.since else ""
    return StoreLocked(
        f"The conversation at {folder.path} is being written by {who}{since}. Wait until it is done, or end it; "
        "its open questions can be answered meanwhile.",
        str(holder),
        holder.since,
    )


# ----------------------------------------------------------------------------------------------------------------------
# Marks of processes, told apart from later ones of the same number


_ENDED = ("Z", "X", "x")
_STARTED = 19  # the place of the start time in /proc/<pid>/stat, counted behind the name
_PARENT = 1


def mark(pid: int) -> ProcessMark:
    """Return what tells this process from any other."""
    return ProcessMark(pid, _started(pid), boot(), namespace() or "")


def lives(process: ProcessMark | None) -> bool:
    """Say whether a process still runs. One of another machine, or of before it was started, does not.

    One in another container cannot be looked up from here: it counts as running, as one that holds a conversation does.
    """
    if process is None or process.boot != boot():
        return False
    return not _is_here(process) or is_found(process)


def is_found(process: ProcessMark | None) -> bool:
    """Say whether a process still runs where this one does: what it asked is not to be taken up by the next that asks the same."""
    if process is None or process.boot != boot() or not _is_here(process):
        return False
    started = _started(process.pid)
    return bool(started) and started == process.started


def _is_here(process: ProcessMark) -> bool:
    return process.namespace in ("", namespace() or "")


def looked_at(question: OpenQuestion, now: str) -> OpenQuestion | None:
    """Return the question with what is so just now: whether the process that asked still waits. None where it is over by its own end."""
    if question.deadline and question.deadline <= now:
        return None
    asker = question.asker
    if asker is None:
        return question
    return replace(question, asker=replace(asker, waits=not asker.cancelled and lives(asker.process)))


def parent(pid: int) -> int:
    """Return the process that started another one; 0 where that cannot be told."""
    fields = _stat(pid)
    if fields:
        return int(fields[_PARENT])
    return int(ps(pid, "ppid") or 0)


def _started(pid: int) -> str:
    """Return when a process was started; nothing where it has ended, also if its parent has not taken note of that."""
    fields = _stat(pid)
    state = fields[0] if fields else ps(pid, "stat")
    if state[:1] in _ENDED:
        return ""
    return fields[_STARTED] if fields else ps(pid, "lstart")


def _stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:  # it is gone, or there is no /proc here
        return []


def ps(pid: int, column: str) -> str:
    """Return what `ps` says of a process, on systems without `/proc`; an empty text on others."""
    if Path("/proc/self/stat").exists():
        return ""
    import subprocess  # only systems without /proc need another program for that

    printed = subprocess.run(["/bin/ps", "-o", f"{column}=", "-p", str(pid)], capture_output=True, check=False, env={"LC_ALL": "C"})  # noqa: S603
    return os.fsdecode(printed.stdout).strip()
