"""Conversations in directories: `<id>-<slug>`, in one folder or in several that share their ids."""

from __future__ import annotations

import logging
import secrets
import shutil
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from midturn.core.events import Event
from midturn.core.limits import DEFAULT_LIMITS, Limits
from midturn.errors import StoreError
from midturn.store import lock, reader
from midturn.store.clock import now
from midturn.store.conversation import Conversation
from midturn.store.directories import Directories
from midturn.store.event_file import EventFile
from midturn.store.folder import Folder, telling
from midturn.store.handover import FileAnswers
from midturn.store.ids import conversation_id, title
from midturn.store.inbox import Inbox
from midturn.store.journal import FileJournal, Writer
from midturn.store.jp.importing import is_jp, read_jp
from midturn.store.metadata import Metadata, change_metadata, read_metadata, write_first_metadata
from midturn.store.settling import take_over

_LOG = logging.getLogger(__name__)


class FileStore(Inbox):
    """The `ConversationStore` on disk. New conversations go into the first of its folders; nothing is made before there is one."""

    def __init__(self, *folders: Path, limits: Limits = DEFAULT_LIMITS) -> None:
        self._directories = Directories(*(folder.absolute() for folder in folders))
        self._limits = limits

    # What there is --------------------------------------------------------------------------------------------------------

    def ids(self) -> list[str]:
        """Return the ids of all conversations, oldest first."""
        return [number for number, _ in self._directories.all()]

    def path(self, id: str) -> Path:
        """Return a conversation's directory. `id` may be the directory's whole name, too."""
        return self._directories.path(id)

    def read(self, id: str) -> Conversation:
        """Read a conversation."""
        return Conversation.open(self.path(id))

    def lines(self, id: str) -> list[bytes]:
        """Return the lines of a conversation as they are, without their newlines: one for each of its events."""
        path = self.path(id)
        if is_jp(path):
            return list(read_jp(path).lines)
        with Folder.at(path) as folder, reader.EventReader(folder) as events:
            return events.lines()

    # Writing --------------------------------------------------------------------------------------------------------------

    def create(self, first_words: str) -> FileJournal:
        """Begin a conversation, and hold it."""
        with ExitStack() as undone:
            with self._directories.new(first_words) as folder:
                write_first_metadata(folder, Metadata(title=title(first_words), created_at=now()))
                writer = undone.enter_context(Writer(folder, lock.for_a_turn(), self._limits))
            undone.pop_all()
        return self._journal(writer)

    def open(self, id: str) -> FileJournal:
        """Hold a conversation; what was handed over to a holder that died is recorded first."""
        folder = self._folder(id)
        try:
            writer = Writer(folder, lock.for_a_turn(), self._limits)
        except BaseException:
            folder.close()
            raise
        try:
            take_over(writer, FileAnswers(folder))
            return self._journal(writer)
        except BaseException:
            writer.close()
            folder.close()
            raise

    def rename(self, id: str, **changes: str | tuple[str, ...]) -> Metadata:
        """Change a conversation's `title`, `labels` or `last_activated_at`; return all of its metadata."""
        with self._folder(id) as folder:
            return change_metadata(folder, **changes)

    def add(self, lines: Iterable[bytes], metadata: Metadata, number: int | None = None) -> str:
        """Make a conversation of lines that were written elsewhere, durably; return its id: `number`, or the next that is free."""
        with self._directories.new(metadata.title, number) as folder:
            write_first_metadata(folder, metadata)
            events = EventFile(folder)
            try:
                events.append([line + b"\n" for line in lines])
            finally:
                events.close()
        with folder, Folder.at(folder.path.parent) as parent:
            folder.sync()
            parent.sync()
        return conversation_id(folder.path.name) or ""

    def fork(self, id: str, turns: int | None = None) -> str:
        """Copy the finished turns (the first `turns` of them) into a new conversation, byte for byte; return its id.

        An open turn stays behind: its questions can be answered in one place only.
        """
        lines = self.lines(id)
        with self._folder(id) as folder:
            metadata, _ = read_metadata(folder)
        return self.add(lines[: self.read(id).finished_length(turns)], metadata)

    def remove(self, id: str) -> None:
        """Remove a conversation for good.

        Raises:
            StoreLocked: Somebody writes it.
        """
        path = self.path(id)
        with Folder.at(path) as folder:
            held = lock.Lock(folder, lock.for_a_moment())
            try:
                gone = path.with_name(f".removed-{path.name}-{secrets.token_hex(4)}")
                with telling("remove", path):
                    path.rename(gone)
                    shutil.rmtree(gone)
            finally:
                held.release()

    # Questions ------------------------------------------------------------------------------------------------------------

    def last_turn(self, id: str) -> Sequence[Event]:
        """Return the events of the last turn of a conversation, read from the end of its file."""
        path = self.path(id)
        if is_jp(path):
            return ()
        with Folder.at(path) as folder, reader.EventReader(folder) as events:
            return events.last_turn()

    def unfinished_turns(self) -> Iterator[tuple[str, Sequence[Event]]]:
        """Return the last turn of each conversation that does not say that it is over. One that cannot be read does not hide the others."""
        for number, path in self._directories.all():
            try:
                turn = _unfinished(path)
            except StoreError as error:
                _LOG.warning("a conversation is left out: %r", str(error))
                continue
            if turn:
                yield number, turn

    @contextmanager
    def writing(self, id: str) -> Generator[Writer]:
        """Hold a conversation for one append."""
        with self._folder(id) as folder, Writer(folder, lock.for_a_moment(), self._limits) as writer:
            yield writer

    @contextmanager
    def answers(self, id: str) -> Generator[FileAnswers]:
        """Return what is handed over to the holder of a conversation."""
        with self._folder(id) as folder:
            yield FileAnswers(folder)

    def is_held(self, id: str) -> bool:
        """Say whether somebody writes the conversation just now."""
        with self._folder(id) as folder:
            return lock.is_held(folder)

    # ----------------------------------------------------------------------------------------------------------------------

    def _folder(self, id: str) -> Folder:
        return Folder.at(self.path(id))

    def _journal(self, writer: Writer) -> FileJournal:
        folder = writer.folder
        return FileJournal(conversation_id(folder.path.name) or "", writer, after=lambda: self._after(folder))

    def _after(self, folder: Folder) -> None:
        """Look once more, now that others can write: who came while the conversation was still held, has handed an answer over."""
        with folder:
            answers = FileAnswers(folder)
            try:
                if answers.collect():
                    with Writer(folder, lock.for_a_moment(), self._limits) as writer:
                        take_over(writer, answers)
            except StoreError as error:  # they stay where they are: whoever opens the conversation next records them
                _LOG.warning("answers wait in %r: %r", str(folder.path), str(error))


def _unfinished(path: Path) -> Sequence[Event]:
    if is_jp(path):
        return ()
    with Folder.at(path) as folder, reader.EventReader(folder) as events:
        return events.unfinished_turn()
