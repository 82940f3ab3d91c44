"""The log of one conversation, held for writing: the `Journal` of `ports` on an `events.jsonl`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from midturn.core.events import Event
from midturn.core.limits import DEFAULT_LIMITS, Limits
from midturn.store.batch import encode_batch, numbered
from midturn.store.event_file import EventFile
from midturn.store.folder import Folder
from midturn.store.handover import FileAnswers
from midturn.store.lock import Holder, Lock
from midturn.store.reader import EventReader, read_events


class Writer:
    """The lock and the file of a conversation. Use it in a `with` statement.

    Raises:
        StoreLocked: Another process writes the conversation.
        StoreError: It cannot be opened or repaired.
    """

    def __init__(self, folder: Folder, holder: Holder, limits: Limits = DEFAULT_LIMITS) -> None:
        """Take the lock, signed as `holder`, and open the file, repaired where a process died while it wrote."""
        self.folder = folder
        self._limits = limits
        self._lock = Lock(folder, holder)
        try:
            self.file = EventFile(folder)
        except BaseException:
            self._lock.release()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give the conversation back."""
        self.file.close()
        self._lock.release()

    def last_turn(self) -> tuple[Event, ...]:
        """Read the last turn, from the end of the file."""
        with EventReader(self.folder) as reader:
            return reader.last_turn()

    def append(self, batch: Sequence[Event]) -> tuple[Event, ...]:
        """Write a batch at once and return it as it was written; it is durable when this returns.

        Raises:
            StoreError: It is too large, or the disk refused; nothing of the batch is recorded.
        """
        if not batch:
            return ()
        written = numbered(batch)
        self.file.append(encode_batch(written, self._limits))
        return written


class FileJournal:
    """The one writer of a conversation, until `close`.

    `answers` is what others hand over meanwhile; `syncs` counts how often the disk was waited for.
    """

    def __init__(self, conversation: str, writer: Writer, after: Callable[[], None]) -> None:
        """Take over `writer`. `after` is called once when the journal has been closed."""
        self._conversation = conversation
        self._writer: Writer = writer
        self._after = after
        self._closed = False
        self._events: list[Event] = read_events(writer.file.fd, writer.file.end, writer.file.path)
        self.answers = FileAnswers(writer.folder)

    @property
    def conversation(self) -> str:
        """The conversation's id."""
        return self._conversation

    @property
    def path(self) -> Path:
        """The conversation's directory."""
        return self._writer.folder.path

    @property
    def syncs(self) -> int:
        """How often this journal has waited for the disk."""
        return self._writer.file.syncs

    @property
    def events(self) -> Sequence[Event]:
        """Everything recorded so far, oldest first."""
        return self._events

    async def append(self, batch: Sequence[Event]) -> None:
        """Write a batch at once; when this returns, it is durable (one write, one sync, made here and now).

        Raises:
            StoreError: The disk refused, or the batch is too large; nothing of it is recorded, everything before it is.
        """
        self._events.extend(self._writer.append(batch))

    def close(self) -> None:
        """Release the conversation."""
        if not self._closed:
            self._closed = True
            self._writer.close()
            self._after()
