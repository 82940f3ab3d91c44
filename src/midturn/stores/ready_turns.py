"""Finds the turns that a worker can continue, among any number of turns that wait for people.

Repeatedly examining each of 100,000 conversations would take a whole core. Therefore, a
conversation whose turn waits only for people is *idle*: it is not examined until a notification
arrives for it (`open_index.notify`). All other conversations are *active*: locked conversations,
and conversations that may continue. They are examined in each scan. Queuing an answer and locking a
conversation for a turn also send a notification, so that answers queued for a process that dies are
found.

Notifications from other hosts are not received. Therefore, each scan also compares the files of a
few idle conversations with their state when they were read, until all were compared (a rotation).
If the index has changed without a notification, a whole rotation is made without pauses.

The idle conversations are saved in a file (`index_cache`), so that the next process compares
100,000 files instead of reading them. The file may be wrong, so each scan reads a few conversations
that this process has not read yet. A conversation with a deadline becomes active when the deadline
has passed; a store without deadlines does no work for this.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Collection, Iterator, Mapping
from heapq import heappop, heappush
from itertools import islice
from threading import Lock

from msgspec import Struct

from midturn.clock import SYSTEM, SYSTEM_TIME, stamp
from midturn.errors import StoreError
from midturn.events.window import parent_of
from midturn.stores import lock
from midturn.stores.decisions import is_due
from midturn.stores.file_watcher import DirectoryWatcher
from midturn.stores.index_cache import IndexCache
from midturn.stores.log_tail import NAME as LOG
from midturn.stores.open_turns import OpenTurns
from midturn.stores.port import LastTurn
from midturn.stores.queued_answer import ANSWERS, AnswerQueueFolder
from midturn.turn.view import TurnView

_LOG = logging.getLogger("midturn.store")
# number of idle conversations whose files are compared in one scan. With one scan per second, this
# takes 0.5 % of a core
_COMPARED_FILES = 250
# number of idle conversations that are compared in a scan after a notification. It is smaller,
# because many answered turns cause many scans
_COMPARED_WHEN_NOTIFIED = 25
# number of idle conversations that are compared in a scan during a rotation without pauses
_COMPARED_AT_ONCE = 5_000
# number of changed conversations after which a scan ends, so that it does not block for long
_MAX_CHANGED = 100
# maximum number of conversations per scan that are read although the saved file contains them,
# because this process has not read them yet
_UNVERIFIED = 4
_ALL = 1 << 62
_CLOCK_STEP = 2_000_000_000  # nanoseconds: longer than the resolution of any file system's clock
# the idle conversations are saved after this number of changes, plus 1 % of the number of
# conversations
_SAVE_AFTER = 100


class Files(Struct, frozen=True):
    """State of the files that change when an event is recorded, a lock is taken for a turn, or an
    answer is queued.
    """

    state: int
    changed_at: int = 0
    """Modification time of the newest file, in nanoseconds."""


class IdleSnapshot(Struct):
    """The saved idle conversations: their IDs, the state of their files when they were read, and
    their deadlines.
    """

    ids: list[str]
    states: list[int]
    deadlines: Mapping[str, str]


class IdleCache:
    """The idle conversations, with the state of their files when they were read and the time at
    which each becomes active.
    """

    def __init__(self, derived: IndexCache[IdleSnapshot]) -> None:
        self._derived = derived
        self._states: dict[str, int] = {}
        self._deadlines: dict[str, str] = {}
        self._next: list[tuple[str, str]] = []
        self._recent: set[str] = set()
        self._unread: Iterator[str] = iter(())
        self._changes = 0

    def load(self) -> None:
        """Load the idle conversations that another process saved."""
        kept = self._derived.load()
        if kept and len(kept.ids) == len(kept.states):
            self._states = dict(zip(kept.ids, kept.states, strict=True))
            self._unread = iter(kept.ids)
            for id, until in kept.deadlines.items():  # noqa: A001  the common name of IDs
                self._wait(id, until)

    def save(self) -> None:
        """Save the cache for the next process, if enough has changed."""
        if self._changes > _SAVE_AFTER + len(self._states) // 100:
            self._changes = 0
            kept = {name: state for name, state in self._states.items() if name not in self._recent}
            deadlines = {name: until for name, until in self._deadlines.items() if name in kept}
            self._derived.save(IdleSnapshot(list(kept), list(kept.values()), deadlines))

    def is_unchanged(self, id: str, state: int) -> bool:
        """Return whether a conversation is idle and its files have not changed."""
        return self._states.get(id) == state

    def mark_idle(self, id: str, files: Files, until: str) -> None:
        """Add an idle conversation; `until` is the time at which it becomes active, or empty."""
        self._changes += 1
        self._states[id] = files.state
        if (
            files.changed_at + _CLOCK_STEP > time.time_ns()
        ):  # a second change in the same tick of the file system's clock would not change the state
            self._recent.add(id)
        else:
            self._recent.discard(id)
        self._wait(id, until)

    def drop(self, id: str) -> None:
        """Remove a conversation."""
        self._states.pop(id, None)
        self._deadlines.pop(id, None)
        self._recent.discard(id)

    def keep_only(self, named: Collection[str]) -> None:
        """Remove all conversations except those in `named`."""
        for id in self._states.keys() - named:  # noqa: A001  as above
            self.drop(id)

    def passed(self, now: str) -> Iterator[str]:
        """Yield the conversations whose deadline has passed."""
        while self._next and self._next[0][0] <= now:
            until, id = heappop(self._next)  # noqa: A001  as above
            if self._deadlines.get(id) == until:
                yield id

    def unverified(self) -> Iterator[str]:
        """Yield a few conversations that this process has not read."""
        return islice(self._unread, _UNVERIFIED)

    def _wait(self, id: str, until: str) -> None:
        if until:
            self._deadlines[id] = until
            heappush(self._next, (until, id))
        else:
            self._deadlines.pop(id, None)


class ReadyScanner:
    """Chooses the conversations to examine: the active ones, and the idle ones in rotation.

    Args:
        turns: The conversations with an open turn.
        watcher: Watcher of the folders of these conversations.
    """

    def __init__(self, turns: OpenTurns, watcher: DirectoryWatcher) -> None:
        self._turns = turns
        self._watcher = watcher
        self._active: set[str] = set()
        self._idle = IdleCache(IndexCache(turns.directories.folders[0], "calm", IdleSnapshot))
        self._outer: dict[str, str] = {}
        self._rotation: Iterator[str] = iter(())
        self._is_catching_up = False
        self._marks: tuple[object, ...] | None = None
        self._was_notified = False

    async def wait(self, most: float) -> None:
        """Wait for a notification for a conversation, at most `most` seconds. Return immediately
        during a rotation without pauses.
        """
        await self._watcher.wait(0.0 if self._is_catching_up else most)

    def active(self) -> list[str]:
        """Return the active conversations, oldest first. A conversation stays active until it
        becomes idle or is finished.
        """
        self._read_notifications()
        if self._is_catching_up:
            self._continue_rotation(_COMPARED_AT_ONCE, _MAX_CHANGED)
        else:
            self._idle.save()
            self._continue_rotation(
                _COMPARED_WHEN_NOTIFIED if self._was_notified else _COMPARED_FILES, _MAX_CHANGED
            )
            self._active.update(self._idle.unverified())
        for id in self._idle.passed(stamp(SYSTEM)):  # noqa: A001  the common name of IDs
            self._activate(id)
        return sorted(self._active)

    def catch_up(self) -> None:
        """Finish a rotation without pauses."""
        self._read_notifications()
        while self._is_catching_up:
            self._continue_rotation(_ALL, _ALL)

    def files(self, id: str) -> Files:
        """Return the current state of a conversation's files."""
        return _files(self._turns.directories.place(id))

    def mark_idle(self, id: str, files: Files, until: str) -> None:
        """Mark a conversation as idle until a notification arrives for it, its files change, or
        `until` has passed.

        Args:
            id: ID of the conversation.
            files: State of the conversation's files before they were read.
            until: Time at which the conversation becomes active again, in RFC 3339; empty if there
                is none.
        """
        self._active.discard(id)
        self._idle.mark_idle(id, files, until)

    def drop(self, id: str) -> None:
        """Stop examining a conversation that is finished or cannot be read."""
        self._active.discard(id)
        self._idle.drop(id)

    def activate_with(self, id: str, inside: Collection[str]) -> None:
        """Make a conversation active whenever one of the conversations inside its tools becomes
        active.
        """
        self._outer.update(dict.fromkeys(inside, id))

    def _read_notifications(self) -> None:
        marks = self._turns.marks()
        notified = self._watcher.notified()
        if self._marks is None:
            self._idle.load()
        if notified is None or (marks != self._marks and not notified and not self._was_notified):
            self._begin_rotation()
            self._is_catching_up = True
        self._marks, self._was_notified = marks, bool(notified)
        for id in notified or ():  # noqa: A001  as above
            self._activate(id)

    def _activate(self, id: str) -> None:
        known = {""}
        while id not in known:
            known.add(id)
            self._active.add(id)
            id = self._outer.get(id, "")  # noqa: A001  from a nested conversation to its outer one

    def _begin_rotation(self) -> None:
        names = self._turns.ids()
        named = set(names)
        self._idle.keep_only(named)
        self._outer = {inside: id for inside, id in self._outer.items() if id in named}  # noqa: A001  as above
        self._rotation = iter(names)

    def _continue_rotation(self, compared: int, read: int) -> None:
        for _ in range(compared):
            id = next(self._rotation, "")  # noqa: A001  as above
            if not id:
                self._is_catching_up = False
                self._begin_rotation()
                return
            if not self._idle.is_unchanged(id, self.files(id).state):
                self._activate(id)
                read -= 1
            if read == 0:
                return


class ReadyTurns:
    """The conversations whose turn is due, for a worker.

    Args:
        turns: The conversations with an open turn.
        scanner: Chooses which of these conversations to examine.
    """

    def __init__(self, turns: OpenTurns, scanner: ReadyScanner) -> None:
        self.scanner = scanner
        self.time = SYSTEM_TIME
        """Clock for deadlines."""
        self._turns = turns
        self._until: dict[str, str] = {}
        self._mutex = Lock()

    @classmethod
    def of(cls, turns: OpenTurns) -> ReadyTurns:
        """Return a scanner that watches the folders of these turns."""
        return cls(turns, ReadyScanner(turns, DirectoryWatcher(turns.directories.folders)))

    def scan(self) -> Iterator[str]:
        """Yield the conversations that are due, oldest first. Another process may lock them
        before they are used.
        """
        for id in self.scanner.active():  # noqa: A001  the common name of IDs
            try:
                if self._is_due(id):
                    yield id
            except StoreError as error:
                _LOG.warning("a conversation is left out: %r", str(error))
                self.scanner.drop(id)
                self._note(id, "")

    def all(self) -> list[str]:
        """Return all due conversations, including idle conversations."""
        with self._mutex:
            self.scanner.catch_up()
            return list(self.scan())

    def overdue(self, now: str) -> list[str]:
        """Return all conversations with a question whose deadline has passed, including idle
        conversations.
        """
        self.all()
        return sorted(id for id, until in self._until.items() if until <= now)  # noqa: A001  as above

    def _is_due(self, id: str) -> bool:
        """Return whether the turn of a conversation is due. If it waits for people, it becomes
        idle.
        """
        files = self.scanner.files(id)
        with self._turns.directories.open(id) as folder:
            if lock.is_held(folder):
                return False
            seen = self._turns.seen.look(id)
            if not seen.is_open:
                self.scanner.drop(id)
                self._note(id, "")
                self._turns.mend(id, seen)
                return False
            self.scanner.activate_with(
                id, [child.conversation for child in TurnView(seen.window).awaited_children]
            )
            handed = AnswerQueueFolder(folder).collect()
        turn = LastTurn(seen.turn, handed)
        until = TurnView(seen.window).first_deadline
        self._note(id, until)
        is_due_now = parent_of(seen.turn) is None and is_due(
            turn, self._turns.find, self.time.now(seen.turn)
        )
        if not is_due_now:
            self.scanner.mark_idle(id, files, until)
            self._turns.seen.forget(id)
        return is_due_now

    def _note(self, id: str, until: str) -> None:
        """Store the deadline of a conversation, so that overdue conversations can be listed."""
        if until:
            self._until[id] = until
        else:
            self._until.pop(id, None)


def _files(place: str) -> Files:
    """Return the state of a conversation's files. The state changes when a file changes or is
    missing.
    """
    found: list[int] = []
    newest = 0
    for name in (LOG, lock.NAME, ANSWERS):
        try:
            there = os.lstat(f"{place}/{name}")
        except OSError:
            found.append(-1)
        else:
            found += (there.st_ino, there.st_size, there.st_mtime_ns)
            newest = max(newest, there.st_mtime_ns)
    return Files(hash(tuple(found)), newest)
