"""Conversations in directories: `<id>-<slug>`, in one folder or in several that share their ids."""

from __future__ import annotations

import logging
import os
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, suppress
from functools import cached_property
from itertools import islice
from pathlib import Path
from urllib.parse import quote, unquote

from msgspec.structs import replace

from midturn.clock import now
from midturn.errors import StoreError, StoreLocked
from midturn.events.open_question import OpenQuestion, parse_address
from midturn.events.provider_view import NO_PAST
from midturn.events.window import open_turn
from midturn.question.json_value import DEFAULT_LIMITS, Limits
from midturn.question.text import sha256
from midturn.security.private_files import ensure_private, read_private, write_private
from midturn.stores import lock
from midturn.stores.batch import decided
from midturn.stores.claims import alone_among_files, may_try
from midturn.stores.conversation import PASTS, Conversation
from midturn.stores.decisions import is_due
from midturn.stores.directories import Directories, remove_tree
from midturn.stores.disk_threads import DiskQueue, on_disk
from midturn.stores.file_watcher import DirectoryWatcher, FileChangeFeed
from midturn.stores.folder import DIRECTORY, Folder, reporting_os_errors
from midturn.stores.journal import EventFile, FileJournal, Writer
from midturn.stores.jp import read_jp
from midturn.stores.log_tail import EventReader, Mark, Part, is_jp
from midturn.stores.metadata import (
    REMOVED,
    Metadata,
    change_metadata,
    conversation_id,
    read_metadata,
    title,
    write_first_metadata,
)
from midturn.stores.open_index import name_finished, notify
from midturn.stores.open_turns import OpenTurns, name_if_open
from midturn.stores.port import (
    CommittedBatch,
    Decide,
    KeyValueStore,
    LastTurn,
    LockedBy,
    MayGo,
    Which,
    following,
)
from midturn.stores.queued_answer import AnswerQueueFolder, QueuedAnswer
from midturn.stores.ready_turns import ReadyTurns
from midturn.stores.sync_forms import drive

_LOG = logging.getLogger("midturn.store")
_POLL_INTERVAL = 1.0  # seconds between two polls for due conversations


class FileConversations:
    """The `StorePort` on disk. New conversations are created in the first folder. This folder is
    created together with its first conversation.
    """

    needs_loop = False

    def __init__(
        self,
        *folders: Path,
        limits: Limits = DEFAULT_LIMITS,
        found: Callable[[], None] | None = None,
    ) -> None:
        self.directories = Directories(*(folder.absolute() for folder in folders), found=found)
        """The folder of each conversation."""
        self.limits = limits
        """Limits of a batch of events."""
        self._writes = (
            DiskQueue()
        )  # orders writes of metadata and values, each of which replaces a file

    @property
    def beside(self) -> KeyValueStore:
        """Small named values stored with the conversations."""
        return FileKeyValueStore(self.directories, self._writes)

    @property
    def place(self) -> str:
        """Name of these folders."""
        return os.pathsep.join(str(folder.resolve()) for folder in self.directories.folders)

    # Locking
    # ----------------------------------------------------------------------------------------------

    async def create(self, first_words: str) -> FileJournal:
        """Create and lock a conversation."""
        with ExitStack() as undone:  # also undone if the caller is cancelled

            def create() -> Writer:
                with self.directories.new(first_words) as folder:
                    write_first_metadata(
                        folder, Metadata(title=title(first_words), created_at=now())
                    )
                    writer = undone.enter_context(
                        drive(Writer.open(folder, lock.for_a_turn(), self.limits))
                    )  # the conversation is new, so its lock is free
                writer.save_descriptors()
                return writer

            journal = FileJournal(await on_disk(create))
            undone.pop_all()
        return journal

    async def open(self, id: str) -> FileJournal:
        """Lock a conversation."""
        folder = self.directories.open(id)
        try:
            writer = await Writer.open(folder, lock.for_a_turn(), self.limits)
            try:
                place = folder.place
                journal = FileJournal(writer, PASTS.of(place))
            except BaseException:
                writer.close()
                raise
        except BaseException:
            folder.close()
            raise
        PASTS.keep(place, journal.past)
        notify(folder, id)
        return journal

    @property
    def is_for_people(self) -> bool:
        """Whether the conversations are in the user's data directory."""
        return self.directories.are_for_people

    @property
    def is_own(self) -> bool:
        """Whether all folders belong to the user of this process."""
        return self.directories.are_own

    async def claim(self, limit: int = 1, without: Collection[str] = ()) -> Sequence[FileJournal]:
        """Lock conversations that are due and free."""
        claimed: list[FileJournal] = []
        for number in self._ready_turns.scan():
            if number not in without and (journal := await self._tried(number)):
                claimed.append(journal)
            if len(claimed) == limit:
                break
        return claimed

    async def _tried(self, id: str) -> FileJournal | None:
        """Lock a due conversation, or None if another process has the lock, or if the pause after a
        failure is not over.
        """
        with self.directories.open(id) as folder:
            if lock.is_held(folder):
                return None
        try:
            journal = await self.open(id)
        except StoreLocked:
            return None
        with self.directories.open(id) as folder:
            turn = self._last_turn(folder)
            if is_due(turn, self.turns.find, self._ready_turns.time.now(turn.events)) and may_try(
                folder, turn.events[-1].event_id
            ):
                return journal
        journal.close()
        return None

    def alone(self, name: str) -> AbstractAsyncContextManager[None]:
        """Run the block while no other block runs for the same name, in any process."""
        return alone_among_files(self.directories.begun(), name)

    async def wait_for_work(self) -> None:
        """Wait until a turn is answered, at most one second. Return immediately if the scanner has
        not compared all idle conversations yet.
        """
        await self._ready_turns.scanner.wait(_POLL_INTERVAL)

    # Answers
    # ----------------------------------------------------------------------------------------------

    async def settle(self, id: str, decide: Decide) -> CommittedBatch | LockedBy:
        """Append the events that `decide` returns, under the lock."""
        with self.directories.open(id) as folder:
            try:
                writer = await Writer.open(folder, lock.for_a_moment(), self.limits)
            except StoreLocked as held:
                return LockedBy(
                    conversation=id,
                    turn=self._last_turn(folder),
                    holder=held.holder,
                    since=held.since or "",
                )
            with writer:
                turn = replace(writer.last_turn(), is_for_people=self.directories.are_for_people)
                writer.mend(open_turn(turn.events))
                batch = decided(decide, turn, id)
                if batch:
                    await writer.append(
                        batch, lambda written: writer.tidy(turn.handed, (*turn.events, *written))
                    )
            if batch:
                notify(folder, id)
            return CommittedBatch(turn)

    async def look(self, id: str) -> CommittedBatch | LockedBy:
        """Return the last turn, and the process that locked the conversation for a turn, if any."""
        with self.directories.open(id) as folder:
            holder = lock.holder_now(folder)
            turn = self._last_turn(folder)
            name_if_open(folder, id, turn.events)
        return (
            LockedBy(conversation=id, turn=turn, holder=str(holder), since=holder.since or "")
            if holder
            else CommittedBatch(turn)
        )

    async def queue_answer(self, held: LockedBy, answer: QueuedAnswer) -> bool:
        """Write an answer to the answer queue of a locked conversation."""
        with self.directories.open(held.conversation) as folder:
            if not lock.is_held(folder) or not await on_disk(
                lambda: AnswerQueueFolder(folder).put(answer)
            ):
                return False
            notify(folder, held.conversation)
            return True

    # Reading
    # ----------------------------------------------------------------------------------------------

    async def questions(
        self, prefix: str = "", *, after: str | None = None, limit: int | None = None
    ) -> list[OpenQuestion]:
        """Return open questions, read from the ends of the files."""
        last = parse_address(after or "")
        looks = self.turns.waiting(prefix, last.conversation if last else "")
        asked = (
            [question for question in seen.questions if question.id.startswith(prefix)]
            for _, seen in looks
        )
        return list(
            islice((question for of_one in asked for question in following(of_one, after)), limit)
        )

    async def ids(
        self, *, after: str | None = None, limit: int | None = None, which: Which = "all"
    ) -> list[str]:
        """Return ids of conversations, oldest first."""
        match which:
            case "all":
                numbers = self.directories.ids()
                return list(
                    islice(
                        numbers,
                        start := bisect_right(numbers, after or ""),
                        None if limit is None else start + limit,
                    )
                )
            case "begun":
                numbers = self.directories.ids()
                found = filter(
                    self.directories.has_events,
                    islice(numbers, bisect_right(numbers, after or ""), None),
                )
            case "open":
                found = (number for number, _ in self.turns.waiting(first=after or ""))
            case "ready":
                found = (
                    number for number in self._ready_turns.all() if self.turns.is_ready(number)
                )
            case "ready_or_interrupted":
                found = iter(self._ready_turns.all())
        return list(islice((number for number in found if after is None or number > after), limit))

    async def described(
        self, *, after: str = "", limit: int = 500, only: Collection[str] | None = None
    ) -> list[tuple[str, Metadata]]:
        """Return the metadata of a page of the conversations that have events, oldest first."""
        found: list[tuple[str, Metadata]] = []
        named = self.directories.ids() if only is None else sorted(only)
        for number in islice(
            (number for number in named if number > after and self.directories.has_events(number)),
            limit,
        ):
            with (
                suppress(StoreError),
                self.directories.open(number) as folder,
            ):  # the conversation was removed
                found.append((number, read_metadata(folder)[0]))
        return found

    async def read(self, id: str) -> Conversation:
        """Read a conversation."""
        conversation = Conversation.open(self.directories.path(id))
        with Folder.at(self.directories.path(id)) as folder:
            name_if_open(
                folder, conversation.id, conversation.turns[-1].events if conversation.turns else ()
            )
        return conversation

    async def part(self, id: str, mark: Mark) -> Part:
        """Return some megabytes of whole lines."""
        path = self.directories.path(id)
        if is_jp(path):
            whole = await self.read(id)
            return Part(
                lines=await self.lines(id),
                metadata=whole.metadata,
                decode=lambda: whole.events,
                problems=whole.problems,
            )
        with Folder.at(path) as folder, EventReader(folder) as events:
            return events.part(mark, *read_metadata(folder))

    async def last_turns(self, id: str, count: int, before: int | None = None) -> Mark:
        """Return the start of the last turns. Only turns that midturn itself wrote are counted."""
        path = self.directories.path(id)
        if is_jp(path):
            return Mark()
        with Folder.at(path) as folder, EventReader(folder) as events:
            return events.last_turns(count, before)

    async def lines(self, id: str) -> list[bytes]:
        """Return the lines of a conversation as they are, without their newlines: one for each
        of its events.
        """
        path = self.directories.path(id)

        if is_jp(path):
            return list(read_jp(path).lines)
        with Folder.at(path) as folder, EventReader(folder) as events:
            return events.lines()

    async def find_key(self, key: str) -> str | None:
        """Return the conversation that has this key."""
        index, name = self.directories.folders[0] / _KEYS, _key_name(key)
        with reporting_os_errors("read", index / name):
            try:
                with Folder(index, os.open(index, DIRECTORY)) as keys:
                    id = keys.read(name).decode("ascii", "replace")  # noqa: A001  what the wire calls it
            except FileNotFoundError:
                return None
        return id if self.directories.has(id) else None  # an older version may have removed it

    async def assign_key(self, key: str, id: str) -> str:
        """Give a key to a conversation, under a lock, unless an existing conversation has it."""
        async with self.alone(f"key {key}"):
            found = await self.find_key(key)
            if found is None:
                await on_disk(lambda: self._write_key(_key_name(key), id), self._writes)
            return found or id

    def _write_key(self, name: str, id: str) -> None:
        """Make a conversation durable, and then its entry in the index of keys.

        The conversation's directory has the name of the entry, so that `remove` finds it.
        """
        place = self.directories.path(id)
        with reporting_os_errors("write", place / _KEY):
            with Folder.at(place) as folder, Folder.at(place.parent) as parent:
                folder.replace(_KEY, name.encode())
                parent.sync()
            with Folder.at(self.directories.begun()) as store:
                store.make_inside(_KEYS)
                with store.inside(_KEYS) as keys:
                    keys.replace(name, id.encode())

    def _remove_key(self, folder: Folder, id: str) -> None:
        """Release the key of a conversation.

        Call this before the conversation is removed. Until then, no other process replaces the
        entry.
        """
        try:
            name = folder.read(_KEY).decode("ascii", "replace")
            index = self.directories.folders[0] / _KEYS
            with Folder(index, os.open(index, DIRECTORY)) as keys:
                if keys.read(name) == id.encode():
                    keys.remove(name)
        except FileNotFoundError:
            pass  # the conversation has no key

    async def newest(self, limit: int, before: str = "") -> list[str]:
        """Return the newest conversations that contain events, the newest first."""
        if before:
            numbers = self.directories.ids()
            older = reversed(numbers[: bisect_left(numbers, before)])
        else:
            older = self.directories.newest_first()
        return list(islice(filter(self.directories.has_events, older), limit))

    async def overdue(self, now: str) -> list[str]:
        """Return conversations with a question whose deadline has passed."""
        return self._ready_turns.overdue(now)

    # Changing
    # ----------------------------------------------------------------------------------------------

    async def add(self, lines: Iterable[bytes], metadata: Metadata, id: str | None = None) -> str:
        """Durably create a conversation from the lines of another store, and return its ID."""
        return await on_disk(lambda: self._add(lines, metadata, id))

    def _add(self, lines: Iterable[bytes], metadata: Metadata, wanted: str | None) -> str:
        with self.directories.new(metadata.title, wanted) as folder:
            write_first_metadata(folder, metadata)
            events = EventFile(folder)
            try:
                events.append([line + b"\n" for line in lines])
            finally:
                events.close()
        name_if_open(folder, conversation_id(folder.name) or "", self._last_turn(folder).events)
        with folder, Folder.at(folder.path.parent) as parent:
            folder.sync()
            parent.sync()
        return conversation_id(folder.name) or ""

    async def describe(self, id: str, **changes: str | tuple[str, ...]) -> Metadata:
        """Change a conversation's `title`, `labels` or `last_activated_at`; return all of its
        metadata.
        """
        with self.directories.open(id) as folder:
            return await on_disk(lambda: change_metadata(folder, **changes), self._writes)

    async def remove(self, id: str, may_go: MayGo | None = None) -> bool:
        """Remove a conversation permanently."""
        path = self.directories.path(id)
        with Folder.at(path) as folder:
            held = await lock.Lock.take(folder, lock.for_a_moment())
            try:
                if may_go and not may_go(self._last_turn(folder)):
                    return False
                gone = path.with_name(f"{REMOVED}{path.name}-{os.urandom(4).hex()}")
                with reporting_os_errors("remove", path):
                    self._remove_key(folder, conversation_id(path.name) or "")
                    path.rename(gone)
                    name_finished(folder, conversation_id(path.name) or "")
                    self.directories.forget(path)
                    PASTS.keep(folder.place, NO_PAST)  # remove its history from the cache
                    await on_disk(lambda: _remove_durably(gone))
            finally:
                held.release()
        return True

    def _last_turn(self, folder: Folder) -> LastTurn:
        handed = AnswerQueueFolder(
            folder
        ).collect()  # read before the events: an answer that is removed in between is in the events
        with EventReader(folder) as events:
            return LastTurn(events.last_turn(), handed, self.directories.are_for_people)

    # Created on first use, because most programs open a store for a single known conversation.

    @cached_property
    def turns(self) -> OpenTurns:
        """Conversations whose last turn is open."""
        return OpenTurns(self.directories)

    @property
    def growing(self) -> FileChangeFeed:
        """The change feed of the conversations."""
        return self._change_feed

    @cached_property
    def _change_feed(self) -> FileChangeFeed:
        return FileChangeFeed(self.turns, DirectoryWatcher(self.directories.folders))

    @cached_property
    def _ready_turns(self) -> ReadyTurns:
        return ReadyTurns.of(self.turns)


_KEY = ".key"
"""File in a conversation's directory with the name of its entry in the index of keys."""
_KEYS = "keys"
"""Directory of the index of keys: one file for each key, with the conversation's ID."""


def _key_name(key: str) -> str:
    return sha256(key.encode())


_BESIDE = "beside"


def _remove_durably(path: Path) -> None:
    """Remove a renamed directory. The rename is synced first: after a power cut, a removed
    conversation must not reappear.
    """
    with Folder.at(path.parent) as parent:
        parent.sync()
    remove_tree(path)


class FileKeyValueStore:
    """Small named values, such as accounts linked to people.

    Each value is a file that only its owner can read, in a folder next to the conversations.
    """

    def __init__(self, directories: Directories, writes: DiskQueue) -> None:
        self._directories = directories
        self._writes = writes

    async def kept(self, beginning: str) -> Mapping[str, bytes]:
        """Return the values whose names start with `beginning`."""
        folder = self._directories.folders[0] / _BESIDE
        try:
            files = [file for file in os.listdir(folder) if file.startswith(_file(beginning))]  # noqa: PTH208  texts are enough
            names = sorted(map(unquote, files))
        except FileNotFoundError:
            return {}
        found = {name: read_private(folder / _file(name)) for name in names}
        return {name: content for name, content in found.items() if content is not None}

    async def keep(self, name: str, content: bytes | None) -> None:
        """Store a value under a name, durably; None removes it."""
        path = self._directories.begun() / _BESIDE / _file(name)

        def write() -> None:
            with reporting_os_errors("write", path):
                if content is not None:
                    ensure_private(path.parent)
                    write_private(path, content)
                elif path.parent.is_dir():
                    path.unlink(missing_ok=True)
                else:
                    return
                with Folder.at(path.parent) as folder:
                    folder.sync()

        await on_disk(write, self._writes)


def _file(name: str) -> str:
    return quote(name, safe="")
