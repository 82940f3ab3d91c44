"""Conversations in directories: `<id>-<slug>`, in one folder or in several that share their ids."""

from __future__ import annotations

import logging
import os
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, suppress
from functools import cache, cached_property, partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from midturn.clock import now
from midturn.errors import StoreError, StoreLocked
from midturn.files import keep, user_data
from midturn.record.events import Event
from midturn.record.open_question import parse_address, parse_beginning
from midturn.record.provider_view import NO_PAST
from midturn.record.window import open_turn
from midturn.store import lock
from midturn.store.batch import decided
from midturn.store.directories import Directories
from midturn.store.event_file import EventFile, is_jp
from midturn.store.folder import Folder, telling
from midturn.store.held import alone_among_files, may_try
from midturn.store.journal import FileJournal, Writer
from midturn.store.metadata import REMOVED, Metadata, change_metadata, conversation_id, read_metadata, title, write_first_metadata
from midturn.store.open_index import OpenIndex, is_named, name_finished, name_open, ring
from midturn.store.port import Beside, Decide, Growth, HeldBy, LastTurn, MayGo, Settled, Which, following
from midturn.store.submission import HandoverFolder
from midturn.store.tail import NAME, EventReader, Mark, Part
from midturn.values.json_value import DEFAULT_LIMITS, Limits

if TYPE_CHECKING:
    from midturn.record.open_question import OpenQuestion
    from midturn.store.conversation import Conversation, KnownPasts, Seen, SeenTurns
    from midturn.store.due_turns import DueTurns
    from midturn.store.growing import FolderBell, Growing
    from midturn.store.submission import HandedOver

_LOG = logging.getLogger("midturn.store")
_LOOK = 1.0  # seconds between two looks for conversations that are due
_WATCHED = 0.25  # seconds between two looks for what turns have recorded that run


@cache
def _load_pasts() -> KnownPasts:
    """Load what is known of pasts: a new conversation has none."""
    from midturn.store.conversation import PASTS

    return PASTS


@cache
def _real_path(path: Path) -> str:
    """Resolve a path once in a process: the user's data directory is asked for by each store, and stays where it is."""
    return os.path.realpath(path)


class FileConversations:
    """The `StorePort` on disk. New conversations go into the first of its folders; nothing is made before there is one."""

    needs_loop = False

    def __init__(self, *folders: Path, limits: Limits = DEFAULT_LIMITS, found: Callable[[], None] | None = None) -> None:
        self._begun: set[str] = set()
        self._directories = Directories(*(folder.absolute() for folder in folders), found=found)
        self.limits = limits
        """Limits of a batch of events."""
        self._real = [keep(folder) for folder in self._directories.folders]

    @property
    def beside(self) -> Beside:
        """Small things kept beside the conversations."""
        from midturn.store.beside import FilesBeside  # only channels keep something there

        return FilesBeside(self._directories)

    @property
    def place(self) -> str:
        """Name of these folders."""
        return os.pathsep.join(str(folder.resolve()) for folder in self._directories.folders)

    # Holding --------------------------------------------------------------------------------------------------------------

    async def create(self, first_words: str) -> FileJournal:
        """Begin a conversation, and hold it."""
        with ExitStack() as undone:
            with self._directories.new(first_words) as folder:
                write_first_metadata(folder, Metadata(title=title(first_words), created_at=now()))
                writer = undone.enter_context(await Writer.open(folder, lock.for_a_turn(), self.limits))
            undone.pop_all()
        return FileJournal(writer)

    async def open(self, id: str) -> FileJournal:
        """Hold a conversation."""
        folder = self._folder(id)
        try:
            writer = await Writer.open(folder, lock.for_a_turn(), self.limits)
            try:
                place = folder.place
                journal = FileJournal(writer, _load_pasts().of(place))
            except BaseException:
                writer.close()
                raise
        except BaseException:
            folder.close()
            raise
        _load_pasts().keep(place, journal.past)
        ring(folder, id)
        return journal

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
        from midturn.store.decisions import is_due  # only workers take what is due

        with self._folder(id) as folder:
            if lock.is_held(folder):
                return None
        try:
            journal = await self.open(id)
        except StoreLocked:
            return None
        with self._folder(id) as folder:
            turn = self._last_turn(folder)
            if is_due(turn, self._find, self._due.time.now(turn.events)) and may_try(folder, turn.events[-1].event_id):
                return journal
        journal.close()
        return None

    def alone(self, name: str) -> AbstractAsyncContextManager[None]:
        """Let no other block run for the same name meanwhile, in whichever process."""
        return alone_among_files(self._directories.begun(), name)

    async def woken(self) -> None:
        """Return when a turn was answered, at the latest after a second; at once where not all were looked at yet."""
        await self._bell.wait(0.0 if self._due.rounds.is_behind else _LOOK)

    async def stirred(self, since: int) -> int:
        """Return when a turn that waits was answered, or when it is time to look: what a turn that runs records rings no bell."""
        await self._growing.stirred(_WATCHED if since else 0.0)
        return since + 1

    async def grown(self, since: Growth | None = None) -> Growth:
        """Return how long the files are that may have grown."""
        return self._growing.since(since)

    async def events_within(self, id: str, length: int) -> int:
        """Count the events in the first bytes of the file."""
        with self._folder(id) as folder, EventReader(folder) as events:
            return len(events.lines(length))

    # Answers --------------------------------------------------------------------------------------------------------------

    async def settle(self, id: str, decide: Decide) -> Settled | HeldBy:
        """Append what is decided, under the lock."""
        with self._folder(id) as folder:
            try:
                writer = await Writer.open(folder, lock.for_a_moment(), self.limits)
            except StoreLocked as held:
                return HeldBy(conversation=id, turn=self._last_turn(folder), holder=held.holder, since=held.since or "")
            with writer:
                turn = replace(writer.last_turn(), is_for_people=self._is_for_people)
                writer.mend(open_turn(turn.events))
                written = writer.append(decided(decide, turn, id))
                if turn.handed and written:
                    writer.tidy(turn.handed, (*turn.events, *written))
            if written:
                ring(folder, id)
            return Settled(turn)

    async def look(self, id: str) -> Settled | HeldBy:
        """Return the last turn as it is now, and who holds the conversation for a turn."""
        with self._folder(id) as folder:
            holder = lock.holder_now(folder)
            turn = self._last_turn(folder)
            _name(folder, id, turn.events)
        return HeldBy(conversation=id, turn=turn, holder=str(holder), since=holder.since or "") if holder else Settled(turn)

    async def hand_over(self, held: HeldBy, answer: HandedOver) -> bool:
        """Put an answer beside the conversation, where its holder finds it."""
        with self._folder(held.conversation) as folder:
            if not lock.is_held(folder) or not HandoverFolder(folder).put(answer):
                return False
            ring(folder, held.conversation)
            return True

    # Reading --------------------------------------------------------------------------------------------------------------

    async def questions(self, prefix: str = "", *, after: str | None = None, limit: int | None = None) -> list[OpenQuestion]:
        """Return open questions, read from the ends of the files."""
        last = parse_address(after or "")
        looks = self.looks(prefix, last.conversation if last else "")
        asked = ([question for question in seen.questions if question.id.startswith(prefix)] for _, seen in looks)
        return list(islice((question for of_one in asked for question in following(of_one, after)), limit))

    async def ids(self, *, after: str | None = None, limit: int | None = None, which: Which = "all") -> list[str]:
        """Return ids of conversations, oldest first."""
        match which:
            case "all":
                numbers = self._directories.ids()
                return list(islice(numbers, start := bisect_right(numbers, after or ""), None if limit is None else start + limit))
            case "begun":
                numbers = self._directories.ids()
                found = filter(self._is_begun, islice(numbers, bisect_right(numbers, after or ""), None))
            case "open":
                found = (number for number, _ in self.looks(first=after or ""))
            case "ready":
                found = (number for number in self._due.all() if self._is_ready(number))
        return list(islice((number for number in found if after is None or number > after), limit))

    def _is_begun(self, number: str) -> bool:
        """Say whether anything is recorded; what once was stays so, and one that cannot be looked at is for its reader to complain of."""
        if number in self._begun:
            return True
        try:
            path = self.path(number)
            size = (path / NAME).lstat().st_size if (path / NAME).exists() else is_jp(path)
        except (OSError, StoreError):
            return True
        if size:
            self._begun.add(number)
        return bool(size)

    async def described(self, *, after: str = "", limit: int = 500, only: Collection[str] | None = None) -> list[tuple[str, Metadata]]:
        """Return a page of what conversations are called in which anything is recorded, oldest first."""
        found: list[tuple[str, Metadata]] = []
        listed = await self.ids(after=after, limit=limit, which="begun") if only is None else filter(self._is_begun, sorted(only))
        for number in islice((number for number in listed if number > after), limit):
            with suppress(StoreError), self._folder(number) as folder:  # it is gone
                found.append((number, read_metadata(folder)[0]))
        return found

    async def read(self, id: str) -> Conversation:
        """Read a conversation."""
        from midturn.store.conversation import Conversation  # who begins one has nothing to read

        conversation = Conversation.open(self.path(id))
        with Folder.at(self.path(id)) as folder:
            _name(folder, conversation.id, conversation.turns[-1].events if conversation.turns else ())
        return conversation

    async def part(self, id: str, mark: Mark) -> Part:
        """Return some megabytes of whole lines."""
        path = self.path(id)
        if is_jp(path):
            whole = await self.read(id)
            return Part(lines=await self.lines(id), metadata=whole.metadata, decode=lambda: whole.events, problems=whole.problems)
        with Folder.at(path) as folder, EventReader(folder) as events:
            return events.part(mark, *read_metadata(folder))

    async def last_turns(self, id: str, count: int, before: int | None = None) -> Mark:
        """Return where the last turns begin, as we write them."""
        path = self.path(id)
        if is_jp(path):
            return Mark()
        with Folder.at(path) as folder, EventReader(folder) as events:
            return events.last_turns(count, before)

    async def lines(self, id: str) -> list[bytes]:
        """Return the lines of a conversation as they are, without their newlines: one for each of its events."""
        path = self.path(id)

        if is_jp(path):
            from midturn.store.jp import read_jp  # few are of `jp`

            return list(read_jp(path).lines)
        with Folder.at(path) as folder, EventReader(folder) as events:
            return events.lines()

    def all_ids(self) -> list[str]:
        """Return the ids of all conversations, oldest first."""
        return self._directories.ids()

    def check_free(self) -> None:
        """Refuse to go on where any conversation is held.

        Raises:
            StoreLocked: Its holder is named.
        """
        for number in self.all_ids():
            with self._folder(number) as folder:
                if holder := lock.holder_now(folder):
                    raise StoreLocked(f"The turn of conversation {number} is running in {holder}.", str(holder), holder.since)

    def has(self, id: str) -> bool:
        """Say whether there is such a conversation."""
        try:
            self.path(id)
        except StoreError:
            return False
        return True

    async def newest(self, limit: int, before: str = "") -> list[str]:
        """Return the newest conversations in which anything is recorded, the newest first."""
        numbers = self._directories.ids()
        older = reversed(numbers[: bisect_left(numbers, before)] if before else numbers)
        return list(islice(filter(self._is_begun, older), limit))

    async def overdue(self, now: str) -> list[str]:
        """Return conversations with a question whose deadline has passed."""
        return self._due.overdue(now)

    def path(self, id: str) -> Path:
        """Return a conversation's directory. `id` may be the directory's whole name, too."""
        return self._directories.path(id)

    # Changing -------------------------------------------------------------------------------------------------------------

    async def add(self, lines: Iterable[bytes], metadata: Metadata, id: str | None = None) -> str:
        """Make a conversation of lines that were written elsewhere, durably; return its id."""
        with self._directories.new(metadata.title, id) as folder:
            write_first_metadata(folder, metadata)
            events = EventFile(folder)
            try:
                events.append([line + b"\n" for line in lines])
            finally:
                events.close()
        _name(folder, conversation_id(folder.name) or "", _unfinished_turn(folder.path))
        with folder, Folder.at(folder.path.parent) as parent:
            folder.sync()
            parent.sync()
        return conversation_id(folder.name) or ""

    async def describe(self, id: str, **changes: str | tuple[str, ...]) -> Metadata:
        """Change a conversation's `title`, `labels` or `last_activated_at`; return all of its metadata."""
        with self._folder(id) as folder:
            return change_metadata(folder, **changes)

    async def remove(self, id: str, may_go: MayGo | None = None) -> bool:
        """Remove a conversation for good."""
        path = self.path(id)
        with Folder.at(path) as folder:
            held = await lock.Lock.take(folder, lock.for_a_moment())
            try:
                if may_go and not may_go(self._last_turn(folder)):
                    return False
                gone = path.with_name(f"{REMOVED}{path.name}-{os.urandom(4).hex()}")
                with telling("remove", path):
                    path.rename(gone)
                    name_finished(folder, conversation_id(path.name) or "")
                    self._directories.forget(path)
                    _load_pasts().keep(folder.place, NO_PAST)  # what was read of it is forgotten, too
                    import shutil  # only here is anything removed

                    shutil.rmtree(gone)
            finally:
                held.release()
        return True

    # ----------------------------------------------------------------------------------------------------------------------

    def looks(self, prefix: str = "", first: str = "") -> Iterator[tuple[str, Seen]]:
        """Yield what each conversation waits for whose last turn is open, by its id, the oldest conversation first, from `first` on.

        `prefix` is what the addresses of its questions begin with. One that cannot be read hides no other.
        """
        candidates = self._candidates(prefix)
        if candidates and not prefix:
            self._seen.make_room(candidates)
        for number in islice(candidates, bisect_left(candidates, first), None):
            try:
                seen = self._seen.look(number)
                if seen.is_open:
                    if prefix:
                        with Folder.at(seen.path) as folder:
                            _name(folder, number, seen.turn)
                    yield number, seen
                else:
                    self._mend(number, seen)
            except StoreError as error:
                _LOG.warning("a conversation is left out: %r", str(error))

    def reindex(self) -> list[str]:
        """Look at every conversation, whatever the index says; return those with an open turn that it did not name."""
        missing: list[str] = []
        for folder, index in self._indexes:
            named = set(index.ids(list))
            found = self._scan(folder)
            index.renew(found)
            missing += [number for number in found if number not in named]
        return missing

    def _candidates(self, prefix: str) -> list[str]:
        """Return the conversations that may have questions whose address begins like this."""
        conversation, is_whole = parse_beginning(prefix)
        if not is_whole:
            first, *others = (index.ids(partial(self._scan, folder)) for folder, index in self._indexes)
            return sorted({*first, *chain.from_iterable(others)}) if others else first
        return [conversation] if parse_address(f"{prefix}x") and self.has(conversation) else []

    def _scan(self, folder: Path) -> list[str]:
        """Look at every conversation in a folder; return those whose last turn is open."""
        found: list[str] = []
        for number, path in Directories(folder).all():
            try:
                if open_turn(_unfinished_turn(path)):
                    found.append(number)
            except StoreError as error:
                _LOG.warning("a conversation is left out: %r", str(error))
        return found

    def _mend(self, number: str, seen: Seen) -> None:
        """Take a conversation that is finished out of the index, unless it is being written: then its writer does that."""
        with suppress(StoreError), Folder.at(seen.path) as folder:
            held = lock.Lock(folder)
            if held.try_to_take():
                try:
                    if not open_turn(_unfinished_turn(seen.path)):
                        name_finished(folder, number)
                finally:
                    held.release()
            else:
                held.close()

    def _is_ready(self, id: str) -> bool:
        from midturn.store.decisions import is_ready  # only workers and lists of what is ready ask

        with suppress(StoreError), self._folder(id) as folder:
            turn = LastTurn(self._seen.look(id).turn, HandoverFolder(folder).collect())
            return is_ready(turn, self._find) and not lock.is_held(folder)
        return False

    def _last_turn(self, folder: Folder) -> LastTurn:
        handed = HandoverFolder(folder).collect()  # before the events: what is not there any more is recorded by then
        with EventReader(folder) as events:
            return LastTurn(events.last_turn(), handed, self._is_for_people)

    @cached_property
    def _is_for_people(self) -> bool:
        own = _real_path(user_data())
        return any(f"{real}/".startswith(f"{own}/") for real in self._real)

    def _find(self, id: str) -> LastTurn | None:
        """Return the last turn of a conversation that runs inside a tool, and what was handed over to it."""
        try:
            turn = self._seen.look(id).turn
            with self._folder(id) as folder:
                return LastTurn(turn, HandoverFolder(folder).collect())
        except StoreError:
            return None

    def _folder(self, id: str) -> Folder:
        return self._directories.open(id)

    # Most programs open a store for one conversation that they know, and look at no other.

    @cached_property
    def _indexes(self) -> Sequence[tuple[Path, OpenIndex]]:
        return [(folder, OpenIndex(folder)) for folder in self._directories.folders]

    @cached_property
    def _seen(self) -> SeenTurns:
        from midturn.store.conversation import SeenTurns

        return SeenTurns(self._directories.path)

    @cached_property
    def _due(self) -> DueTurns:
        from midturn.store.due_turns import DueTurns, Rounds  # only workers take what is due

        indexes = [index for _, index in self._indexes]
        rounds = Rounds(partial(self._candidates, ""), self._directories, indexes, self._bell)
        return DueTurns(rounds, self._seen, self._find, self._mend)

    @cached_property
    def _bell(self) -> FolderBell:
        return self._new_bell()

    def _new_bell(self) -> FolderBell:
        from midturn.store.growing import FolderBell  # only workers and watchers wait

        return FolderBell(self._directories.folders)

    @cached_property
    def _growing(self) -> Growing:
        from midturn.store.growing import Growing  # only watchers ask

        bell = self._new_bell()  # one of its own: who hears a bell silences it
        return Growing(partial(self._candidates, ""), self._directories, [index for _, index in self._indexes], bell)


def _unfinished_turn(path: Path) -> Sequence[Event]:
    from midturn.store.conversation import unfinished_turn  # who knows which conversation it is looks at no other

    return unfinished_turn(path)


def _name(folder: Folder, id: str, turn: Sequence[Event]) -> None:
    """Name a conversation in the index that another program has put there with an open turn."""
    if open_turn(turn) and not is_named(folder, id):
        with suppress(StoreError):  # it cannot be written here: then it is found by looking
            name_open(folder, id)
