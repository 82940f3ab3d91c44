"""Reading a conversation. Reading takes no lock, never writes, and returns everything that is
readable.

Last turns on disk are cached, and read again only if their file has changed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TypeAlias

import msgspec
from msgspec import Struct

from midturn.events.codec import decode_lines
from midturn.events.open_question import OpenQuestion
from midturn.events.provider_view import NO_PAST, HistoryPrefix, provider_view
from midturn.events.types import Event, VisibleEvent, problem_in, user_requests
from midturn.events.window import Window, open_turn, turns
from midturn.question.public_names import public_repr
from midturn.stores import jp
from midturn.stores.folder import Folder
from midturn.stores.log_tail import EVENTS, NAME, EventReader, Part, is_jp
from midturn.stores.metadata import Metadata, conversation_id, decode_metadata, read_metadata, title
from midturn.turn.pending import pending, pending_in
from midturn.turn.view import Exchange, TurnView, pairs


class Conversation:
    """The events of a conversation at the time it was read, and values computed from them.

    `id` is its number, `path` its directory (None if it is in memory), `events` all events, oldest
    first, and `metadata` its title and labels. `problems` has a line for each unreadable part, with
    file and line number.
    """

    def __init__(
        self,
        id: str,
        events: Sequence[Event],
        *,
        path: Path | None = None,
        metadata: Metadata | None = None,
        problems: Sequence[str] = (),
    ) -> None:
        """Create a conversation from values. `problems` describes errors in files other than the
        log.
        """
        self.id = id
        self.events: tuple[Event, ...] = tuple(events)
        self.path = path
        self.metadata = metadata or Metadata()
        self.problems: tuple[str, ...] = (*problems_of(self.events), *problems)

    def __repr__(self) -> str:
        return public_repr(self, "Conversation", f"id={self.id!r}")

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Conversation:
        """Read the conversation in the directory `path`, or a conversation that `jp` has recorded
        (`events.json`).

        Args:
            path: The conversation's directory.

        Raises:
            StoreError: There is no conversation, or the conversation cannot be read; the message
                names the file.
        """
        directory = Path(os.path.realpath(path))
        if is_jp(directory):
            return cls._open_jp(directory)
        with Folder.at(directory) as folder:
            metadata, problem = read_metadata(folder)
            with EventReader(folder) as reader:
                recorded = reader.stream()
        problems = (*recorded.torn, *([problem] if problem else []))
        return cls(
            _id_of(directory), recorded.events, path=directory, metadata=metadata, problems=problems
        )

    @classmethod
    def _open_jp(cls, directory: Path) -> Conversation:
        legacy = jp.read_jp(directory)
        events = decode_lines(legacy.lines, str(directory / EVENTS))
        try:
            metadata, problem = decode_metadata(msgspec.json.encode(legacy.metadata)), ""
        except ValueError as error:
            metadata, problem = (
                Metadata(),
                f"{directory / jp.METADATA}: {error}. The conversation is read without it.",
            )
        return cls(
            _id_of(directory),
            events,
            path=directory,
            metadata=metadata,
            problems=[problem] if problem else [],
        )

    @property
    def title(self) -> str:
        """Title of the conversation; the first message if there is no title."""
        return self.metadata.title or next(
            (title(request.content) for request in user_requests(self.events)), ""
        )

    @cached_property
    def turns(self) -> tuple[Window, ...]:
        """The events turn by turn; only the last turn can be `open`."""
        return tuple(turns(self.events))

    def pairs(self) -> list[Exchange]:
        """Return every question with its response, or with None if it has no response."""
        return pairs(self.events)

    def provider_view(self) -> list[VisibleEvent]:
        """Return the events for a model: each call with exactly one result, without questions and
        approvals.
        """
        return provider_view(self.events)

    def pending(self) -> list[OpenQuestion]:
        """Return the open questions, in the order in which they were asked."""
        return pending(self.turns[-1].events, self.id) if self.turns else []

    def finished_length(self, limit: int | None = None) -> int:
        """Count the events of the finished turns, or of the first `limit` of them."""
        finished = [window for window in self.turns if not window.open]
        return sum(len(window.events) for window in finished[:limit])


def turns_in(parts: Iterable[Part]) -> Iterator[Window]:
    """Yield the turns of a conversation that is read in parts. At any time, only one part and one
    incomplete turn are in memory.
    """
    left: Sequence[Event] = ()
    for part in parts:
        events = [*left, *part.decode()]
        whole = turns(events)
        if part.following is None:
            yield from whole
            return
        yield from whole[:-1]
        left = whole[-1].events if whole else events


def problems_of(events: Iterable[Event]) -> tuple[str, ...]:
    """Describe the unreadable events."""
    return tuple(filter(None, map(problem_in, events)))


def _id_of(directory: Path) -> str:
    return conversation_id(directory.name) or directory.name


_MAX_HISTORIES = 16
_MAX_CACHED_BYTES = 64 * 1024 * 1024


class HistoryCache:
    """Histories of the most recently opened conversations, by directory.

    Each history is compared with the file, byte by byte, before it is used.
    """

    def __init__(self) -> None:
        self._pasts: dict[str, HistoryPrefix] = {}
        self._bytes = 0
        self._lock = Lock()

    def of(self, place: str) -> HistoryPrefix:
        """Return the cached history of a conversation."""
        return self._pasts.get(place, NO_PAST)

    def forget(self) -> None:
        """Clear the cache."""
        with self._lock:
            self._pasts.clear()
            self._bytes = 0

    def keep(self, place: str, past: HistoryPrefix) -> None:
        """Cache a history. The least recently used histories are removed if there are too many
        histories, or if the histories are too large.
        """
        if not past and place not in self._pasts:
            return
        with self._lock:
            self._bytes -= self._pasts.pop(place, NO_PAST).size
            if 0 < past.size <= _MAX_CACHED_BYTES:
                self._pasts[place] = past
                self._bytes += past.size
            while len(self._pasts) > _MAX_HISTORIES or self._bytes > _MAX_CACHED_BYTES:
                self._bytes -= self._pasts.pop(next(iter(self._pasts))).size


PASTS = HistoryCache()
"""The histories cached in this process.

A program that opens its store for each request reads each history only once.
"""

_MAX_CACHED_TURNS = 10_000
_MAX_FINISHED_TURNS = 100  # maximum number of finished turns in the cache
_State: TypeAlias = tuple[int, int, int]


class SeenTurn(Struct, frozen=True, dict=True):
    """The last turn of a conversation and its open questions. If the turn has ended, `turn` is
    empty and `window` is None.
    """

    path: Path
    id: str
    turn: Sequence[Event]
    window: Window | None

    @property
    def is_open(self) -> bool:
        """Whether the turn is open."""
        return self.window is not None

    @cached_property
    def questions(self) -> Sequence[OpenQuestion]:
        """The open questions of the turn."""
        return pending_in(TurnView(self.window), self.id) if self.window else ()


class TurnCache:
    """Cache of the last turns of conversations, for programs that examine many turns repeatedly."""

    def __init__(self, path: Callable[[str], Path]) -> None:
        """`path` returns the directory of a conversation, and is called again if the directory
        has been removed.
        """
        self._path = path
        self._turns: dict[str, tuple[str, _State, SeenTurn]] = {}

    def look(self, id: str) -> SeenTurn:
        """Return the last turn of a conversation.

        Raises:
            StoreError: There is no such conversation, or the conversation cannot be read.
        """
        known = self._turns.get(id)
        if known and known[1] == _state(known[0]):
            return known[2]
        path = self._path(id)
        file = f"{os.fspath(path)}/{NAME}"
        state = _state(file)
        turn = unfinished_turn(path)
        window = open_turn(turn)
        seen = SeenTurn(path, id, turn, window)
        if state and window is not None:
            if len(self._turns) >= _MAX_CACHED_TURNS and id not in self._turns:
                # removes the newest entry: conversations are examined in order, so the oldest is
                # needed next
                self._turns.popitem()
            self._turns[id] = file, state, seen
        else:
            self._turns.pop(id, None)
        return seen

    def unfinished(self, path: Path) -> Sequence[Event]:
        """Return the open last turn of the conversation in a directory, without the cache. Return
        no events if the turn has ended.
        """
        return unfinished_turn(path)

    def forget(self, id: str) -> None:
        """Remove a conversation from the cache."""
        self._turns.pop(id, None)

    def make_room(self, ids: Collection[str]) -> None:
        """Remove all conversations except `ids` if the cache contains many others. Pass all
        conversations with an open turn as `ids`.
        """
        if len(self._turns) >= min(_MAX_CACHED_TURNS, len(ids) + _MAX_FINISHED_TURNS):
            for id in self._turns.keys() - set(ids):  # noqa: A001  the common name of IDs
                self._turns.pop(id, None)


def unfinished_turn(path: Path) -> Sequence[Event]:
    """Return the last turn of the conversation in `path`, read from the end of the log. Return no
    events if the turn has ended.
    """
    if is_jp(path):
        return ()
    with Folder.at(path) as folder, EventReader(folder) as events:
        return events.unfinished_turn()


def _state(file: str) -> _State | None:
    """Return a state that changes when a batch is recorded or the file is replaced."""
    try:
        found = os.lstat(file)
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
