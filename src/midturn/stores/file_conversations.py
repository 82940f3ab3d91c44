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
from midturn.security.private_files import ensure_private, read_private, write_private
from midturn.stores import lock
from midturn.stores.batch import decided
from midturn.stores.claims import alone_among_files, may_try
from midturn.stores.conversation import PASTS, Conversation
from midturn.stores.decisions import is_due
from midturn.stores.directories import Directories, remove_tree
from midturn.stores.file_watcher import FileGrowing, FolderBell
from midturn.stores.folder import Folder, telling
from midturn.stores.journal import EventFile, FileJournal, Writer
from midturn.stores.jp import read_jp
from midturn.stores.log_tail import EventReader, Mark, Part, is_jp
from midturn.stores.metadata import REMOVED, Metadata, change_metadata, conversation_id, read_metadata, title, write_first_metadata
from midturn.stores.open_index import name_finished, ring
from midturn.stores.open_turns import OpenTurns, name_if_open
from midturn.stores.port import Beside, Decide, HeldBy, LastTurn, MayGo, PortOfBefore, Settled, Which, following
from midturn.stores.queued_answer import HandedOver, HandoverFolder
from midturn.stores.ready_turns import DueTurns

_LOG = logging.getLogger("midturn.store")
_LOOK = 1.0  # seconds between two looks for conversations that are due


class FileConversations(PortOfBefore):
    """The `StorePort` on disk. New conversations go into the first of its folders; nothing is made before there is one."""

    needs_loop = False

    def __init__(self, *folders: Path, limits: Limits = DEFAULT_LIMITS, found: Callable[[], None] | None = None) -> None:
        self.directories = Directories(*(folder.absolute() for folder in folders), found=found)
        """The folder of each conversation."""
        self.limits = limits
        """Limits of a batch of events."""

    @property
    def beside(self) -> Beside:
        """Small things kept beside the conversations."""
        return FilesBeside(self.directories)

    @property
    def place(self) -> str:
        """Name of these folders."""
        return os.pathsep.join(str(folder.resolve()) for folder in self.directories.folders)

    # Holding --------------------------------------------------------------------------------------------------------------

    async def create(self, first_words: str) -> FileJournal:
        """Begin a conversation, and hold it."""
        with ExitStack() as undone:
            with self.directories.new(first_words) as folder:
                write_first_metadata(folder, Metadata(title=title(first_words), created_at=now()))
                writer = undone.enter_context(await Writer.open(folder, lock.for_a_turn(), self.limits))
            undone.pop_all()
        return FileJournal(writer)

    async def open(self, id: str) -> FileJournal:
        """Hold a conversation."""
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
        ring(folder, id)
        return journal

    @property
    def is_for_people(self) -> bool:
        """Whether they lie in the user's own directories."""
        return self.directories.are_for_people

    @property
    def is_own(self) -> bool:
        """Whether every folder of them belongs to the user of this process."""
        return self.directories.are_own

    async def claim(self, limit: int = 1, without: Collection[str] = ()) -> Sequence[FileJournal]:
        """Hold conversations that are due and free."""
        claimed: list[FileJournal] = []
        for number in self._due.look():
            if number not in without and (journal := await self._tried(number)):
                claimed.append(journal)
            if len(claimed) == limit:
                break
        return claimed

    async def _tried(self, id: str) -> FileJournal | None:
        """Hold a conversation that is due, unless another worker was faster, or its pause is not over."""
        with self.directories.open(id) as folder:
            if lock.is_held(folder):
                return None
        try:
            journal = await self.open(id)
        except StoreLocked:
            return None
        with self.directories.open(id) as folder:
            turn = self._last_turn(folder)
            if is_due(turn, self.turns.find, self._due.time.now(turn.events)) and may_try(folder, turn.events[-1].event_id):
                return journal
        journal.close()
        return None

    def alone(self, name: str) -> AbstractAsyncContextManager[None]:
        """Let no other block run for the same name meanwhile, in whichever process."""
        return alone_among_files(self.directories.begun(), name)

    async def woken(self) -> None:
        """Return when a turn was answered, at the latest after a second; at once where not all were looked at yet."""
        await self._due.rounds.rung(_LOOK)

    # Answers --------------------------------------------------------------------------------------------------------------

    async def settle(self, id: str, decide: Decide) -> Settled | HeldBy:
        """Append what is decided, under the lock."""
        with self.directories.open(id) as folder:
            try:
                writer = await Writer.open(folder, lock.for_a_moment(), self.limits)
            except StoreLocked as held:
                return HeldBy(conversation=id, turn=self._last_turn(folder), holder=held.holder, since=held.since or "")
            with writer:
                turn = replace(writer.last_turn(), is_for_people=self.directories.are_for_people)
                writer.mend(open_turn(turn.events))
                written = writer.append(decided(decide, turn, id))
                if turn.handed and written:
                    writer.tidy(turn.handed, (*turn.events, *written))
            if written:
                ring(folder, id)
            return Settled(turn)

    async def look(self, id: str) -> Settled | HeldBy:
        """Return the last turn as it is now, and who holds the conversation for a turn."""
        with self.directories.open(id) as folder:
            holder = lock.holder_now(folder)
            turn = self._last_turn(folder)
            name_if_open(folder, id, turn.events)
        return HeldBy(conversation=id, turn=turn, holder=str(holder), since=holder.since or "") if holder else Settled(turn)

    async def hand_over(self, held: HeldBy, answer: HandedOver) -> bool:
        """Put an answer beside the conversation, where its holder finds it."""
        with self.directories.open(held.conversation) as folder:
            if not lock.is_held(folder) or not HandoverFolder(folder).put(answer):
                return False
            ring(folder, held.conversation)
            return True

    # Reading --------------------------------------------------------------------------------------------------------------

    async def questions(self, prefix: str = "", *, after: str | None = None, limit: int | None = None) -> list[OpenQuestion]:
        """Return open questions, read from the ends of the files."""
        last = parse_address(after or "")
        looks = self.turns.waiting(prefix, last.conversation if last else "")
        asked = ([question for question in seen.questions if question.id.startswith(prefix)] for _, seen in looks)
        return list(islice((question for of_one in asked for question in following(of_one, after)), limit))

    async def ids(self, *, after: str | None = None, limit: int | None = None, which: Which = "all") -> list[str]:
        """Return ids of conversations, oldest first."""
        match which:
            case "all":
                numbers = self.directories.ids()
                return list(islice(numbers, start := bisect_right(numbers, after or ""), None if limit is None else start + limit))
            case "begun":
                numbers = self.directories.ids()
                found = filter(self.directories.has_events, islice(numbers, bisect_right(numbers, after or ""), None))
            case "open":
                found = (number for number, _ in self.turns.waiting(first=after or ""))
            case "ready":
                found = (number for number in self._due.all() if self.turns.is_ready(number))
            case "ready_or_interrupted":
                found = iter(self._due.all())
        return list(islice((number for number in found if after is None or number > after), limit))

    async def described(self, *, after: str = "", limit: int = 500, only: Collection[str] | None = None) -> list[tuple[str, Metadata]]:
        """Return a page of what conversations are called in which anything is recorded, oldest first."""
        found: list[tuple[str, Metadata]] = []
        named = self.directories.ids() if only is None else sorted(only)
        for number in islice((number for number in named if number > after and self.directories.has_events(number)), limit):
            with suppress(StoreError), self.directories.open(number) as folder:  # it is gone
                found.append((number, read_metadata(folder)[0]))
        return found

    async def read(self, id: str) -> Conversation:
        """Read a conversation."""
        conversation = Conversation.open(self.directories.path(id))
        with Folder.at(self.directories.path(id)) as folder:
            name_if_open(folder, conversation.id, conversation.turns[-1].events if conversation.turns else ())
        return conversation

    async def part(self, id: str, mark: Mark) -> Part:
        """Return some megabytes of whole lines."""
        path = self.directories.path(id)
        if is_jp(path):
            whole = await self.read(id)
            return Part(lines=await self.lines(id), metadata=whole.metadata, decode=lambda: whole.events, problems=whole.problems)
        with Folder.at(path) as folder, EventReader(folder) as events:
            return events.part(mark, *read_metadata(folder))

    async def last_turns(self, id: str, count: int, before: int | None = None) -> Mark:
        """Return where the last turns begin, as we write them."""
        path = self.directories.path(id)
        if is_jp(path):
            return Mark()
        with Folder.at(path) as folder, EventReader(folder) as events:
            return events.last_turns(count, before)

    async def lines(self, id: str) -> list[bytes]:
        """Return the lines of a conversation as they are, without their newlines: one for each of its events."""
        path = self.directories.path(id)

        if is_jp(path):
            return list(read_jp(path).lines)
        with Folder.at(path) as folder, EventReader(folder) as events:
            return events.lines()

    async def newest(self, limit: int, before: str = "") -> list[str]:
        """Return the newest conversations in which anything is recorded, the newest first."""
        if before:
            numbers = self.directories.ids()
            older = reversed(numbers[: bisect_left(numbers, before)])
        else:
            older = self.directories.newest_first()
        return list(islice(filter(self.directories.has_events, older), limit))

    async def overdue(self, now: str) -> list[str]:
        """Return conversations with a question whose deadline has passed."""
        return self._due.overdue(now)

    # Changing -------------------------------------------------------------------------------------------------------------

    async def add(self, lines: Iterable[bytes], metadata: Metadata, id: str | None = None) -> str:
        """Make a conversation of lines that were written elsewhere, durably; return its id."""
        with self.directories.new(metadata.title, id) as folder:
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
        """Change a conversation's `title`, `labels` or `last_activated_at`; return all of its metadata."""
        with self.directories.open(id) as folder:
            return change_metadata(folder, **changes)

    async def remove(self, id: str, may_go: MayGo | None = None) -> bool:
        """Remove a conversation for good."""
        path = self.directories.path(id)
        with Folder.at(path) as folder:
            held = await lock.Lock.take(folder, lock.for_a_moment())
            try:
                if may_go and not may_go(self._last_turn(folder)):
                    return False
                gone = path.with_name(f"{REMOVED}{path.name}-{os.urandom(4).hex()}")
                with telling("remove", path):
                    path.rename(gone)
                    name_finished(folder, conversation_id(path.name) or "")
                    self.directories.forget(path)
                    PASTS.keep(folder.place, NO_PAST)  # what was read of it is forgotten, too
                    remove_tree(gone)
            finally:
                held.release()
        return True

    def _last_turn(self, folder: Folder) -> LastTurn:
        handed = HandoverFolder(folder).collect()  # before the events: what is not there any more is recorded by then
        with EventReader(folder) as events:
            return LastTurn(events.last_turn(), handed, self.directories.are_for_people)

    # Most programs open a store for one conversation that they know, and look at no other.

    @cached_property
    def turns(self) -> OpenTurns:
        """Conversations whose last turn is open."""
        return OpenTurns(self.directories)

    @property
    def growing(self) -> FileGrowing:
        """Growth of the conversations."""
        return self._growing

    @cached_property
    def _growing(self) -> FileGrowing:
        return FileGrowing(self.turns, FolderBell(self.directories.folders))

    @cached_property
    def _due(self) -> DueTurns:
        return DueTurns.of(self.turns)


_BESIDE = "beside"


class FilesBeside:
    """Small things kept by name, such as pairings of people with accounts elsewhere.

    Each is a file that only its owner can read, in a folder beside the conversations.
    """

    def __init__(self, directories: Directories) -> None:
        self._directories = directories

    async def kept(self, beginning: str) -> Mapping[str, bytes]:
        """Return what is kept under names with this beginning."""
        folder = self._directories.folders[0] / _BESIDE
        try:
            files = [file for file in os.listdir(folder) if file.startswith(_file(beginning))]  # noqa: PTH208  texts are enough
            names = sorted(map(unquote, files))
        except FileNotFoundError:
            return {}
        found = {name: read_private(folder / _file(name)) for name in names}
        return {name: content for name, content in found.items() if content is not None}

    async def keep(self, name: str, content: bytes | None) -> None:
        """Keep something under a name."""
        path = self._directories.begun() / _BESIDE / _file(name)
        with telling("write", path):
            if content is None:
                path.unlink(missing_ok=True)
                return
            ensure_private(path.parent)
            write_private(path, content)


def _file(name: str) -> str:
    return quote(name, safe="")
