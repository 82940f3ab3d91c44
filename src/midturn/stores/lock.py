"""One writer per conversation: an advisory lock on a file inside its directory.

The kernel releases the lock when its process dies. A process that locks a conversation for a turn
writes a description of itself (`Holder`) into the file. This text does not lock anything, so stale
text is harmless. A process that locks for a single append writes no text; other writers wait for
the end of the append.
"""

from __future__ import annotations

import fcntl
import os
import resource
import stat
import sys
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
from midturn.stores.folder import PRIVATE, Folder, check_regular, refusal, reporting_os_errors

NAME = "lock"
_RETRY_DELAY = 0.005  # seconds between two tries while the conversation is locked for one append
_TRIES = 1_000
# number of file descriptors that are reserved for logs that are opened for one append, and for
# other uses
_RESERVE = 48
# a process has many files open if it uses more than 1/32 of its limit (see `is_one_of_many_files`)
_MANY = 32


class Holder(Struct, frozen=True, omit_defaults=True):
    """The text in a lock file: the process that has a conversation locked, its host, and the time
    of locking (RFC 3339). Without a process, the conversation is locked only for one append.

    The process ID is checked only if this process has the same `boot` ID and PID `namespace`.
    Containers can share a volume, a host name and a kernel, but each container counts process IDs
    from 1.
    """

    pid: int | None = None
    since: str | None = None
    host: str | None = None
    boot: str | None = None
    namespace: str | None = None

    def __str__(self) -> str:
        """Describe the process."""
        if not self.pid:
            return "another process"
        return f"pid {self.pid} on {self.host}" if self.host else f"pid {self.pid}"

    def is_us(self) -> bool:
        """Return whether this is the current process."""
        return self.pid == os.getpid() and self._is_here()

    def stays(self) -> bool:
        """Return whether the conversation is locked for a turn. Return False if the file names no
        process, or a process that has ended. In that case, another process has the lock for one
        append.
        """
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
        """Return whether the process ID is valid in this process: same host, boot and namespace.
        Without a boot ID, only the host is compared.
        """
        if self.host not in (None, _host()):
            return False
        return self.boot is None or (self.boot, self.namespace) == (boot(), namespace())


class Lock:
    """A conversation's lock, held until `release`."""

    def __init__(self, folder: Folder) -> None:
        """Open the lock file, without locking it; see `take`."""
        try:
            self._fd = folder.unchecked(NAME, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise refusal("lock", folder.path / NAME, error) from error
        self._is_signed = False

    @classmethod
    async def take(cls, folder: Folder, holder: Holder) -> Self:
        """Take the lock, and write `holder` into the file. If another process has the lock only for
        one append, wait.

        Raises:
            StoreLocked: Another process has the lock: `holder` and `since` describe it.
            Busy: Other processes repeatedly took the lock first.
            StoreError: The lock file cannot be opened, or the conversation was removed in the
                meantime.
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
        """Take the lock if it is free; return whether it was taken. Nothing is written to the
        file.
        """
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def close(self) -> None:
        """Close the file, and with it release the lock."""
        os.close(self._fd)
        self._fd = -1

    @property
    def is_one_of_many_files(self) -> bool:
        """Whether the process has many files open, compared with its limit."""
        return self._fd >= _descriptor_limit() // _MANY

    def check_descriptors_left(self) -> None:
        """Refuse to begin a turn if there may be too few descriptors for its log and the logs of
        the running turns.

        Raises:
            StoreError: The process is close to its limit of open files.
        """
        limit = _descriptor_limit()
        if self._fd >= limit - min(
            _RESERVE, limit // 4
        ):  # the system assigns the lowest free number, so it shows how many are in use
            raise StoreError(
                f"This process may have {limit:,} files open at once (`ulimit -n`), and nearly all"
                " are in use, so no further conversation is opened; running turns are not"
                " affected. Raise the limit, or run fewer turns in one process."
            )

    def release(self) -> None:
        """Release the conversation."""
        if self._fd < 0:
            return
        try:
            if self._is_signed:
                os.ftruncate(self._fd, 0)
        except OSError:
            return  # the text is only a hint, and the lock must be released even if the disk fails
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
                await pause(_RETRY_DELAY)
            else:
                return
        raise Busy(
            f"Other processes keep writing the conversation at {folder.path}. Try again in a"
            " moment."
        )

    def _read(self) -> Holder:
        """Return the text in the file; an empty `Holder` if the process has not written it yet."""
        check_regular(os.fstat(self._fd))
        return _decoded(os.pread(self._fd, 1_000, 0))

    def _sign(self, holder: Holder, there: os.stat_result) -> None:
        """Write `holder` into the file. Call this while holding the lock.

        The old text is overwritten before the file is truncated, so that a reader always finds a
        text.
        """
        if stat.S_IMODE(there.st_mode) != PRIVATE:
            os.fchmod(self._fd, PRIVATE)
        text = msgspec.json.encode(holder) + b"\n" if holder.pid else b""
        self._is_signed = bool(text)
        if text:
            os.pwrite(self._fd, text, 0)
        if there.st_size > len(text):
            os.ftruncate(self._fd, len(text))


def _descriptor_limit() -> int:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit


def is_held(folder: Folder) -> bool:
    """Return whether the conversation is locked now."""
    with reporting_os_errors("access", folder, NAME):
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
    """Return the process that has the conversation locked for a turn, or None if the conversation
    is free, or locked for one append.
    """
    if not is_held(folder):
        return None
    try:
        holder = _decoded(folder.read(NAME)[:1_000])
    except OSError:  # the file was removed
        return None
    return holder if holder.pid else None


def for_a_turn() -> Holder:
    """Return the `Holder` for a lock during a turn: this process and the current time."""
    return Holder(os.getpid(), now(), host=_host(), boot=boot() or None, namespace=namespace())


def for_a_moment() -> Holder:
    """Return the empty `Holder` for a lock during a single append. Other writers wait for the end
    of this append.
    """
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
    """Return the status of the lock file. Call this while holding the lock.

    Raises:
        OSError: The lock file is not a regular file.
        StoreError: The conversation was removed after the file was opened, or the file has a
            second name (a hard link).
    """
    there = os.fstat(fd)
    check_regular(there)
    if there.st_nlink == 0:
        raise StoreError(f"The conversation at {folder.path} was removed.")
    if there.st_nlink > 1:
        raise StoreError(
            f"{folder.path / NAME} has another name elsewhere (a hard link), so it is not written."
            " Remove it."
        )
    return there


def _locked(folder: Folder, holder: Holder) -> StoreLocked:
    who = "this process" if holder.is_us() else str(holder)
    since = f" since {holder.since}" if holder.since else ""
    return StoreLocked(
        f"The conversation at {folder.path} is being written by {who}{since}. Wait until it is"
        " done, or end it; its open questions can be answered meanwhile.",
        str(holder),
        holder.since,
    )


# --------------------------------------------------------------------------------------------------
# Marks of processes, which distinguish a process from later processes with the same ID


_ENDED = ("Z", "X", "x")
_STARTED = 19  # index of the start time in /proc/<pid>/stat, counted after the name
_PARENT = 1


def mark(pid: int) -> ProcessMark:
    """Return a mark that distinguishes the process from all others."""
    return ProcessMark(pid, _started(pid), boot(), namespace() or "")


def lives(process: ProcessMark | None) -> bool:
    """Return whether a process is running. A process of another machine, or from before the last
    boot, is not running.

    A process in another container cannot be looked up, so it is treated as running.
    """
    if process is None or process.boot != boot():
        return False
    return not _is_here(process) or is_found(process)


def is_found(process: ProcessMark | None) -> bool:
    """Return whether a process is running in this PID namespace. If so, no other process takes
    over its question.
    """
    if process is None or process.boot != boot() or not _is_here(process):
        return False
    started = _started(process.pid)
    return bool(started) and started == process.started


def _is_here(process: ProcessMark) -> bool:
    return process.namespace in ("", namespace() or "")


def looked_at(question: OpenQuestion, now: str) -> OpenQuestion | None:
    """Return the question with the current state of the process that asks, or None if its deadline
    has passed, because the agent then shows its own dialog.
    """
    if question.deadline and question.deadline <= now:
        return None
    asker = question.asker
    if asker is None:
        return question
    return replace(
        question, asker=replace(asker, waits=not asker.cancelled and lives(asker.process))
    )


def parent(pid: int) -> int:
    """Return the parent of a process, or 0 if it is unknown."""
    fields = _stat(pid)
    if fields:
        return int(fields[_PARENT])
    return int(ps(pid, "ppid") or 0)


def _started(pid: int) -> str:
    """Return the start time of a process, or an empty string if it has ended, even if its parent
    has not read its exit status yet.
    """
    fields = _stat(pid)
    state = fields[0] if fields else ps(pid, "stat")
    if state[:1] in _ENDED:
        return ""
    return fields[_STARTED] if fields else ps(pid, "lstart")


def _stat(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:  # the process has ended, or the system has no /proc
        return []


def ps(pid: int, column: str) -> str:
    """Return a column of `ps` for a process, on systems without `/proc`; an empty string on
    others.
    """
    if Path("/proc/self/stat").exists():
        return ""
    import subprocess  # only systems without /proc need another program for that

    printed = subprocess.run(  # noqa: S603
        ["/bin/ps", "-o", f"{column}=", "-p", str(pid)],
        capture_output=True,
        check=False,
        env={"LC_ALL": "C"},
    )
    return os.fsdecode(printed.stdout).strip()
