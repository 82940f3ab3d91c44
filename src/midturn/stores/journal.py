"""The log of one locked conversation: a `PortJournal` that is stored in an `events.jsonl` file.
Only whole batches are appended, and they are never changed.

A batch is one `write` and one sync. After the first batch, the conversation's directory is synced
once as well. On Linux, these two syncs also make the names of the new directories durable. On other
systems, the directory that contains the conversations is also synced once.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path
from types import TracebackType
from typing import Self

from midturn.clock import now_in_a_name
from midturn.errors import StoreError
from midturn.events.provider_view import NO_PAST, EventLog, HistoryPrefix
from midturn.events.types import Event, OpaqueEvent, TurnEnd, TurnStart
from midturn.events.window import Window, last_turn, starts_turn
from midturn.question.json_value import DEFAULT_LIMITS, Limits
from midturn.stores.batch import as_written, may_close
from midturn.stores.decisions import outdated
from midturn.stores.disk_threads import DiskQueue, on_disk
from midturn.stores.folder import PRIVATE, Folder, refusal, reporting_os_errors, sync, write_durably
from midturn.stores.lock import Holder, Lock
from midturn.stores.log_tail import NAME, NOTHING, FileEnd, read_ending
from midturn.stores.metadata import conversation_in
from midturn.stores.open_index import is_named, name_finished, name_open
from midturn.stores.port import LastTurn
from midturn.stores.queued_answer import AnswerQueueFolder, FileAnswerQueue, QueuedAnswer


class EventFile:
    """Writes the log file of a conversation. The content up to `end` (in bytes) is on the disk;
    `syncs` counts the syncs so far.
    """

    def __init__(self, folder: Folder) -> None:
        """Open the file, and create it if it is missing. An incomplete batch at the end is removed,
        and saved as `events.torn-<time>`.

        Raises:
            StoreError: The file cannot be opened or repaired.
        """
        self._folder = folder
        self.syncs = 0
        self._broken = ""
        self.is_closed_between_appends = False
        try:
            self.fd, self._opened = folder.opened(NAME, os.O_RDWR | os.O_APPEND | os.O_CREAT)
            try:
                if stat.S_IMODE(self._opened.st_mode) != PRIVATE:
                    os.fchmod(self.fd, PRIVATE)
                self.found = FileEnd(self.fd, self._opened.st_size)
                """Content of the file when it was opened."""
                self.ending = read_ending(self.found, folder)
                """The end of the file when it was opened: the committed size and the last turn."""
                self.end = self.ending.end
                if self.end < self.found.size:
                    self._cut_torn_end()
            except BaseException:
                os.close(self.fd)
                raise
        except OSError as error:
            raise refusal("open", self.path, error) from error

    @property
    def path(self) -> Path:
        """Path of the file."""
        return self._folder.path / NAME

    def close_between_appends(self) -> None:
        """From now on, open the file only while a batch is written."""
        os.close(self.fd)
        self.fd = -1
        self.is_closed_between_appends = True

    def _reopen(self) -> None:
        with reporting_os_errors("open", self._folder, NAME):
            self.fd, found = self._folder.opened(NAME, os.O_RDWR | os.O_APPEND)
            if (found.st_ino, found.st_dev) != (self._opened.st_ino, self._opened.st_dev):
                os.close(self.fd)
                self.fd = -1
                self._refuse("was replaced by another file")

    def close(self) -> None:
        """Close the file."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def append(self, lines: Sequence[bytes]) -> None:
        """Write the lines of one batch, each with its newline; they are on the disk when this
        returns.

        Raises:
            StoreError: The write failed, or another program changed the file. No event of the batch
                is recorded; earlier batches are.
        """
        if not self.is_closed_between_appends:
            self._append(b"".join(lines))
            return
        if not self._broken:
            self._reopen()
        try:
            self._append(b"".join(lines))
        finally:
            self.close()

    def _append(self, batch: bytes) -> None:
        self.check_ours()
        try:
            write_durably(self.fd, batch)
            self.syncs += 1
            if self.end == 0:
                self._sync_names()
        except OSError as error:
            self._take_back()
            raise StoreError(
                f"Cannot write {self.path}: {error.strerror or error}. The {self.end:,} bytes that"
                " were recorded before are safe on disk; the last batch is not recorded. Make room"
                " on the disk, or repair it, then open the conversation again."
            ) from error
        if os.fstat(self.fd).st_nlink == 0:  # the batch is synced, but the file was removed
            self._broken = (
                f"{self.path} was removed while this process was writing it. The last batch is"
                " not recorded."
            )
            raise StoreError(self._broken)
        self.end += len(batch)

    def check_ours(self) -> None:
        """Refuse to write if another program changed the file, because the events in memory would
        differ from those on disk.
        """
        if self._broken:
            raise StoreError(self._broken)
        if self.fd < 0 and not self.is_closed_between_appends:
            raise StoreError(f"{self.path} is closed: nothing more can be recorded by this writer.")
        try:
            name, base = self._folder.located(NAME)
            there = os.stat(name, dir_fd=base, follow_symlinks=False)
        except OSError as error:
            raise refusal("write", self.path, error) from error
        if there.st_ino != self._opened.st_ino or there.st_dev != self._opened.st_dev:
            self._refuse("was replaced by another file")
        if there.st_size != self.end:
            self._refuse(
                f"has {there.st_size:,} bytes instead of the {self.end:,} that were recorded"
            )

    def _refuse(self, what: str) -> None:
        raise StoreError(
            f"{self.path} {what} while this process was writing it. Nothing more is recorded here,"
            " so that nothing is lost: keep the version that you want under this name, then open"
            " the conversation again."
        )

    def _take_back(self) -> None:
        """Truncate the file after a failed write. If that fails as well, nothing may be appended
        until the file is opened again.
        """
        try:
            os.ftruncate(self.fd, self.end)
            self._sync(self.fd)
        except OSError as error:
            self._broken = (
                f"{self.path} can no longer be written ({error.strerror or error}). Open the"
                " conversation again."
            )

    def _cut_torn_end(self) -> None:
        torn = self.found.read(self.end, self.found.size)
        with reporting_os_errors("repair", self._folder, NAME):
            self._folder.write_new(f"events.torn-{now_in_a_name()}", torn)
            self._folder.sync()
            os.ftruncate(self.fd, self.end)
            self._sync(self.fd)
        self.syncs += 2  # writing the copy of the torn end took two syncs

    def _sync(self, fd: int) -> None:
        self.syncs += 1
        sync(fd)

    def _sync_names(self) -> None:
        """Sync the directory, because Btrfs may have stored it under its temporary hidden name."""
        with self._folder.inside(".") if self._folder.fd < 0 else nullcontext(self._folder) as own:
            self.syncs += 1
            own.sync()
        if sys.platform != "linux":
            with self._folder.inside("..") as parent:
                self.syncs += 1
                parent.sync()


class Writer:
    """The lock and the file of a conversation, until `close`."""

    def __init__(self, folder: Folder, lock: Lock, limits: Limits) -> None:
        """Open the file, and repair it if a process died while writing. The lock is released with
        the writer, or if opening fails.
        """
        self.folder = folder
        self.conversation = conversation_in(folder.name)
        """The conversation's id."""
        self.answers = AnswerQueueFolder(folder)
        self._limits = limits
        self._lock = lock
        self._queue = DiskQueue()
        try:
            lock.check_descriptors_left()
            self.file = EventFile(folder)
        except BaseException:
            lock.release()
            raise

    @classmethod
    async def open(cls, folder: Folder, holder: Holder, limits: Limits = DEFAULT_LIMITS) -> Self:
        """Take the lock for `holder`, and open the file.

        Raises:
            StoreLocked: Another process has the lock.
            StoreError: The file cannot be opened or repaired.
        """
        return cls(folder, await Lock.take(folder, holder), limits)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the conversation."""
        self._queue.wait_until_idle()
        self.file.close()
        self._lock.release()

    def save_descriptors(self) -> None:
        """If this process is close to its limit of open files, close all descriptors except that
        of the lock.
        """
        if self._lock.is_one_of_many_files and not self.file.is_closed_between_appends:
            self.file.close_between_appends()
            self.folder.close_descriptor()

    def last_turn(self) -> LastTurn:
        """Return the last turn as it was when the file was opened, and the queued answers."""
        return LastTurn(self.file.ending.events, self.answers.collect())

    def read(self, known: HistoryPrefix = NO_PAST) -> tuple[list[Event], HistoryPrefix]:
        """Return the last turn as it was when the file was opened, and the history before it. The
        cached content of the file is released.

        `known` is the history from an earlier read.
        """
        ending, found = self.file.ending, self.file.found
        past = (
            known.grown(found.pass_by(0, ending.begin), f"{self.folder.place}/{NAME}")
            if ending.begin
            else NO_PAST
        )
        found.forget()
        self.file.ending = NOTHING
        return list(ending.events), past

    async def append(
        self, batch: Sequence[Event], recorded: Callable[[tuple[Event, ...]], None]
    ) -> None:
        """Write a batch atomically, after all earlier batches. It is durable when this returns.

        Args:
            batch: The events.
            recorded: Called with the recorded events, even if the caller was cancelled in the
                meantime.

        Raises:
            StoreError: The batch is too large, or the write failed. No event of the batch is
                recorded.
        """
        written, lines = as_written(batch, self._limits)
        kinds = set(map(type, written))
        starts = TurnStart in kinds or (OpaqueEvent in kinds and any(map(starts_turn, written)))
        is_durable = False

        def write() -> None:
            nonlocal is_durable
            if starts:
                # checked first, so that a turn that cannot be written is not added to the index
                self.file.check_ours()
                name_open(self.folder, self.conversation)
            self.file.append(lines)
            is_durable = True
            if TurnEnd in kinds:
                name_finished(self.folder, self.conversation)

        try:
            await on_disk(write, self._queue)
        finally:
            if is_durable:
                recorded(written)

    def mend(self, turn: Window | None) -> None:
        """Add the conversation to the index of open turns, or remove it, according to its last
        turn.
        """
        is_open = turn is not None and turn.open
        if is_open != is_named(self.folder, self.conversation):
            (name_open if is_open else name_finished)(self.folder, self.conversation)

    def tidy(self, handed: Iterable[QueuedAnswer], last_turn: Sequence[Event]) -> None:
        """Remove queued answers to questions that are closed."""
        for answer in outdated(handed, last_turn):
            self.answers.remove(answer.key)


class FileJournal:
    """The only writer of a conversation, until `close`. `syncs` is the number of syncs."""

    def __init__(self, writer: Writer, known: HistoryPrefix = NO_PAST) -> None:
        """Take ownership of `writer` and its folder. `known` is the history from an earlier journal
        of this conversation.
        """
        self._writer = writer
        self._closed = False
        try:
            self._events, self.past = writer.read(known)
        except OSError as error:
            raise refusal("read", writer.folder.path / NAME, error) from error
        self.events: Sequence[Event] = EventLog(self._events, self.past)
        """Everything recorded so far, oldest first."""
        self.answers = FileAnswerQueue(writer.answers)
        """Answers that other processes queued."""
        writer.mend(last_turn(self.events))
        writer.save_descriptors()

    @property
    def conversation(self) -> str:
        """The conversation's id."""
        return self._writer.conversation

    @property
    def path(self) -> Path:
        """The conversation's directory."""
        return self._writer.folder.path

    @property
    def syncs(self) -> int:
        """Number of syncs of this journal."""
        return self._writer.file.syncs

    async def append(self, batch: Sequence[Event]) -> None:
        """Write a batch atomically: one write and one sync, in a thread if a loop is running. It is
        durable when this returns.

        Raises:
            StoreError: The write failed, or the batch is too large. No event of the batch is
                recorded; earlier batches are.
        """
        if batch:
            await self._writer.append(batch, self._record)

    def _record(self, written: Sequence[Event]) -> None:
        self._events.extend(written)
        if may_close(written) and (handed := self._writer.answers.collect()):
            self._writer.tidy(handed, self._last_turn)

    @property
    def _last_turn(self) -> Sequence[Event]:
        window = last_turn(self.events)
        return window.events if window else ()

    def mark_ready(self) -> None:
        """Do nothing: workers poll all turns."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the conversation."""
        if not self._closed:
            self._closed = True
            self._writer.close()
            self._writer.folder.close()
