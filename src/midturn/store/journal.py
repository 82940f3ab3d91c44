"""The log of one conversation, held for writing: a `PortJournal` on an `events.jsonl`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from midturn.record.events import Event, OpaqueEvent, TurnEnd, TurnStart
from midturn.record.provider_view import NO_PAST, EventLog, Past
from midturn.record.window import Window, last_turn, starts_turn
from midturn.store.batch import as_written, may_close
from midturn.store.decisions import outdated
from midturn.store.event_file import EventFile
from midturn.store.folder import Folder, refusal
from midturn.store.lock import Holder, Lock
from midturn.store.metadata import conversation_in
from midturn.store.open_index import is_named, name_finished, name_open
from midturn.store.port import LastTurn
from midturn.store.submission import FileFeed, HandedOver, HandoverFolder
from midturn.store.tail import NAME, NOTHING
from midturn.values.json_value import DEFAULT_LIMITS, Limits


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
