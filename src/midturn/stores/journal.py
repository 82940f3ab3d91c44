"""The log of one conversation, held for writing: a `PortJournal` on an `events.jsonl`. Whole batches go in, nothing is changed afterwards.

A batch is one `write` and one sync. On Linux, whose file systems keep the order in which names and files came to be, the first sync of
a new file makes its name and those of its new directories durable, too; elsewhere they are synced on their own, once.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from midturn.clock import now_in_a_name
from midturn.errors import StoreError
from midturn.events.provider_view import NO_PAST, EventLog, Past
from midturn.events.types import Event, OpaqueEvent, TurnEnd, TurnStart
from midturn.events.window import Window, last_turn, starts_turn
from midturn.question.json_value import DEFAULT_LIMITS, Limits
from midturn.stores.batch import as_written, may_close
from midturn.stores.decisions import outdated
from midturn.stores.folder import PRIVATE, Folder, refusal, sync, telling, write_durably
from midturn.stores.lock import Holder, Lock
from midturn.stores.log_tail import NAME, NOTHING, FileEnd, read_ending
from midturn.stores.metadata import conversation_in
from midturn.stores.open_index import is_named, name_finished, name_open
from midturn.stores.port import LastTurn
from midturn.stores.queued_answer import FileFeed, HandedOver, HandoverFolder


class EventFile:
    """The one writer's hand on the file: everything up to `end` (bytes) is on the disk; `syncs` counts what that took."""

    def __init__(self, folder: Folder) -> None:
        """Open the file, create it where it is missing, and cut a torn end (kept beside as `events.torn-<time>`).

        Raises:
            StoreError: It cannot be opened or repaired.
        """
        self._folder = folder
        self.syncs = 0
        self._broken = ""
        try:
            self.fd, self._opened = folder.opened(NAME, os.O_RDWR | os.O_APPEND | os.O_CREAT)
            try:
                if stat.S_IMODE(self._opened.st_mode) != PRIVATE:
                    os.fchmod(self.fd, PRIVATE)
                self.found = FileEnd(self.fd, self._opened.st_size)
                """Content of the file when it was opened."""
                self.ending = read_ending(self.found, folder)
                """Its end at that time."""
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

    def close(self) -> None:
        """Let go of the file."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def append(self, lines: Sequence[bytes]) -> None:
        """Write the lines of one batch, each with its newline; they are on the disk when this returns.

        Raises:
            StoreError: The disk refused, or another program changed the file: nothing of the batch is recorded, everything before it is.
        """
        self.check_ours()
        batch = b"".join(lines)
        try:
            write_durably(self.fd, batch)
            self.syncs += 1
            if self.end == 0:
                self._sync_names()
        except OSError as error:
            self._take_back()
            raise StoreError(
                f"Cannot write {self.path}: {error.strerror or error}. The {self.end:,} bytes that were recorded before are safe on disk; "
                "what came last is not recorded. Make room on the disk, or repair it, then open the conversation again."
            ) from error
        self.end += len(batch)

    def check_ours(self) -> None:
        """Refuse to write where another program has written: what is in memory would no longer be what is on disk."""
        if self._broken:
            raise StoreError(self._broken)
        if self.fd < 0:
            raise StoreError(f"{self.path} is closed: nothing more can be recorded by this writer.")
        try:
            there = os.stat(NAME, dir_fd=self._folder.fd, follow_symlinks=False)
        except OSError as error:
            raise refusal("write", self.path, error) from error
        if there.st_ino != self._opened.st_ino or there.st_dev != self._opened.st_dev:
            self._refuse("was replaced by another file")
        if there.st_size != self.end:
            self._refuse(f"has {there.st_size:,} bytes instead of the {self.end:,} that were recorded")

    def _refuse(self, what: str) -> None:
        raise StoreError(
            f"{self.path} {what} while this process was writing it. Nothing more is recorded here, so that nothing is lost: "
            "keep the version that you want under this name, then open the conversation again."
        )

    def _take_back(self) -> None:
        """Cut what a failed write left. If even that fails, nothing may follow it until the file is opened and looked at again."""
        try:
            os.ftruncate(self.fd, self.end)
            self._sync(self.fd)
        except OSError as error:
            self._broken = f"{self.path} can no longer be written ({error.strerror or error}). Open the conversation again."

    def _cut_torn_end(self) -> None:
        torn = self.found.read(self.end, self.found.size)
        with telling("repair", self._folder, NAME):
            self._folder.write_new(f"events.torn-{now_in_a_name()}", torn)
            self._folder.sync()
            os.ftruncate(self.fd, self.end)
            self._sync(self.fd)
        self.syncs += 2  # those of the torn copy

    def _sync(self, fd: int) -> None:
        self.syncs += 1
        sync(fd)

    def _sync_names(self) -> None:
        if sys.platform == "linux":
            return
        parent = os.open("..", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._folder.fd)
        try:
            for fd in (self._folder.fd, parent):
                self.syncs += 1
                os.fsync(fd)
        finally:
            os.close(parent)


class Writer:
    """The lock and the file of a conversation, until `close`."""

    def __init__(self, folder: Folder, lock: Lock, limits: Limits) -> None:
        """Open the file, repaired where a process died while it wrote. The lock is released with the writer, or where this fails."""
        self.folder = folder
        self.conversation = conversation_in(folder.name)
        """The conversation's id."""
        self.answers = HandoverFolder(folder)
        self._limits = limits
        self._lock = lock
        try:
            self.file = EventFile(folder)
        except BaseException:
            lock.release()
            raise

    @classmethod
    async def open(cls, folder: Folder, holder: Holder, limits: Limits = DEFAULT_LIMITS) -> Self:
        """Take the lock, signed as `holder`, and open the file.

        Raises:
            StoreLocked: The conversation is being written elsewhere.
            StoreError: It cannot be opened or repaired.
        """
        return cls(folder, await Lock.take(folder, holder), limits)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the conversation back."""
        self.file.close()
        self._lock.release()

    def last_turn(self) -> LastTurn:
        """Return the last turn as it was when the file was opened, and what was handed over."""
        return LastTurn(self.file.ending.events, self.answers.collect())

    def read(self, known: Past = NO_PAST) -> tuple[list[Event], Past]:
        """Return the last turn as it was when the file was opened, and everything before it; the memory that this took is free again.

        `known` is what was before the last turn at an earlier time.
        """
        ending, found = self.file.ending, self.file.found
        past = known.grown(found.pass_by(0, ending.begin), f"{self.folder.place}/{NAME}") if ending.begin else NO_PAST
        found.forget()
        self.file.ending = NOTHING
        return list(ending.events), past

    def append(self, batch: Sequence[Event]) -> tuple[Event, ...]:
        """Write a batch at once and return it as it was written; it is durable when this returns.

        Raises:
            StoreError: It is too large, or the disk refused; nothing of the batch is recorded.
        """
        if not batch:
            return ()
        written, lines = as_written(batch, self._limits)
        kinds = set(map(type, written))
        if TurnStart in kinds or (OpaqueEvent in kinds and any(map(starts_turn, written))):
            self.file.check_ours()  # no name for a turn that will not be written
            name_open(self.folder, self.conversation)
        self.file.append(lines)
        if TurnEnd in kinds:
            name_finished(self.folder, self.conversation)
        return written

    def mend(self, turn: Window | None) -> None:
        """Have the index say what is so, given the last turn."""
        is_open = turn is not None and turn.open
        if is_open != is_named(self.folder, self.conversation):
            (name_open if is_open else name_finished)(self.folder, self.conversation)

    def tidy(self, handed: Iterable[HandedOver], last_turn: Sequence[Event]) -> None:
        """Take away what was handed over for questions that are closed by now."""
        for answer in outdated(handed, last_turn):
            self.answers.remove(answer.key)


class FileJournal:
    """The one writer of a conversation, until `close`. `syncs` counts how often the disk was waited for."""

    def __init__(self, writer: Writer, known: Past = NO_PAST) -> None:
        """Take over `writer` with its folder; `known` is the past of an earlier journal of this conversation."""
        self._writer = writer
        self._closed = False
        try:
            self._events, self.past = writer.read(known)
        except OSError as error:
            raise refusal("read", writer.folder.path / NAME, error) from error
        self.events: Sequence[Event] = EventLog(self._events, self.past)
        """Everything recorded so far, oldest first."""
        self.answers = FileFeed(writer.answers)
        """Answers that others hand over meanwhile."""
        writer.mend(last_turn(self.events))

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
        """Write a batch at once; when this returns, it is durable (one write, one sync, made here and now).

        Raises:
            StoreError: The disk refused, or the batch is too large; nothing of it is recorded, everything before it is.
        """
        written = self._writer.append(batch)
        self._events.extend(written)
        if may_close(written) and (handed := self._writer.answers.collect()):
            self._writer.tidy(handed, self._last_turn)

    @property
    def _last_turn(self) -> Sequence[Event]:
        window = last_turn(self.events)
        return window.events if window else ()

    def go_on_soon(self) -> None:
        """Do nothing: workers look at all turns again and again."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Release the conversation."""
        if not self._closed:
            self._closed = True
            self._writer.close()
            self._writer.folder.close()
