"""Turns that are due, among any number that wait for people: what a worker on files looks at, and when.

With a hundred thousand conversations, a look at each of them would take a core. So one whose turn waits for people alone is *calm*: it is
left in peace until its bell rings (`answer_bell`). All others, those that a process holds and those that may go on, are *near*, and looked
at each time. Who hands an answer over, and who takes a conversation for a turn, rings as well, so that the answers of a process that dies
are found.

A bell is for speed only, and another host's is not heard. So a *round* goes on with each look: the next few files are compared with what
they were when they were read. Where the index has changed and nothing has rung, that round is made at once.

What is calm is kept in a file beside the conversations (`derived`), so that the next process compares a hundred thousand instead of
reading them. It is a hint about logs: with each look, a few are read that were not read here. One whose question has a deadline comes near
when that has passed; a store without deadlines pays nothing for it.
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
from midturn.stores.file_watcher import FolderBell
from midturn.stores.index_cache import Derived
from midturn.stores.log_tail import NAME as LOG
from midturn.stores.open_turns import OpenTurns
from midturn.stores.port import LastTurn
from midturn.stores.queued_answer import ANSWERS, HandoverFolder
from midturn.turn.view import TurnView

_LOG = logging.getLogger("midturn.store")
_COMPARED = 250  # files in one look: half a hundredth of a core with one look a second
_BESIDE = 25  # the same, in a look that a bell has called for: where many are answered, there are many looks
_HURRIED = 5_000  # the same, in a round that is made at once
_READ = 100  # conversations that a look may find to be read; then it ends, so that nothing else waits for long
_DOUBTED = 4  # conversations in one look that another process has read
_ALL = 1 << 62
_CLOCK_STEP = 2_000_000_000  # nanoseconds: no file system's clock takes longer steps
_SAVED = 100  # changes, and one in a hundred conversations, after which the calm ones are saved


class Files(Struct, frozen=True):
    """Files that tell of a conversation that something was recorded, that it was taken for a turn, or handed an answer."""

    state: int
    changed_at: int = 0
    """The time of the newest of its files, in nanoseconds."""


class Calm(Struct):
    """Conversations in peace, as they are kept for the next process: their ids, and what their files were when they were read."""

    ids: list[str]
    states: list[int]
    deadlines: Mapping[str, str]


class Peace:
    """The calm ones: what their files were when they were read, and until when they may be left alone."""

    def __init__(self, derived: Derived[Calm]) -> None:
        self._derived = derived
        self._states: dict[str, int] = {}
        self._deadlines: dict[str, str] = {}
        self._next: list[tuple[str, str]] = []
        self._young: set[str] = set()
        self._unread: Iterator[str] = iter(())
        self._changes = 0

    def load(self) -> None:
        """Take over what another process has read."""
        kept = self._derived.load()
        if kept and len(kept.ids) == len(kept.states):
            self._states = dict(zip(kept.ids, kept.states, strict=True))
            self._unread = iter(kept.ids)
            for id, until in kept.deadlines.items():  # noqa: A001  what it is everywhere here
                self._wait(id, until)

    def save(self) -> None:
        """Keep it for the next process, where enough has changed for that."""
        if self._changes > _SAVED + len(self._states) // 100:
            self._changes = 0
            kept = {name: state for name, state in self._states.items() if name not in self._young}
            deadlines = {name: until for name, until in self._deadlines.items() if name in kept}
            self._derived.save(Calm(list(kept), list(kept.values()), deadlines))

    def is_left(self, id: str, state: int) -> bool:
        """Say whether one is calm, and nothing has happened to its files."""
        return self._states.get(id) == state

    def leave(self, id: str, files: Files, until: str) -> None:
        """Leave one in peace; `until` is when it is to be looked at all the same, or empty."""
        self._changes += 1
        self._states[id] = files.state
        if files.changed_at + _CLOCK_STEP > time.time_ns():  # a change in the same step of the clock is only heard of, by who listens
            self._young.add(id)
        else:
            self._young.discard(id)
        self._wait(id, until)

    def drop(self, id: str) -> None:
        """Forget one."""
        self._states.pop(id, None)
        self._deadlines.pop(id, None)
        self._young.discard(id)

    def keep_only(self, named: Collection[str]) -> None:
        """Forget all others."""
        for id in self._states.keys() - named:  # noqa: A001  as above
            self.drop(id)

    def passed(self, now: str) -> Iterator[str]:
        """Yield those whose moment has come."""
        while self._next and self._next[0][0] <= now:
            until, id = heappop(self._next)  # noqa: A001  as above
            if self._deadlines.get(id) == until:
                yield id

    def doubted(self) -> Iterator[str]:
        """Yield a few that were not read here."""
        return islice(self._unread, _DOUBTED)

    def _wait(self, id: str, until: str) -> None:
        if until:
            self._deadlines[id] = until
            heappush(self._next, (until, id))
        else:
            self._deadlines.pop(id, None)


class Rounds:
    """Order of looking: the conversations that are near, then the calm ones in turn.

    Args:
        turns: The conversations with an open turn.
        bell: Rings for them.
    """

    def __init__(self, turns: OpenTurns, bell: FolderBell) -> None:
        self._turns = turns
        self._bell = bell
        self._near: set[str] = set()
        self._calm = Peace(Derived(turns.directories.folders[0], "calm", Calm))
        self._around: dict[str, str] = {}
        self._left: Iterator[str] = iter(())
        self._is_hurried = False
        self._marks: tuple[object, ...] | None = None
        self._has_heard = False

    async def rung(self, most: float) -> None:
        """Return when a bell rings, at the latest after `most` seconds; at once where a round is to be made, and is not done."""
        await self._bell.wait(0.0 if self._is_hurried else most)

    def near(self) -> list[str]:
        """Return what is to be looked at now, the oldest first. It stays near until it is left, or is over."""
        self._hear()
        if self._is_hurried:
            self._go_round(_HURRIED, _READ)
        else:
            self._calm.save()
            self._go_round(_BESIDE if self._has_heard else _COMPARED, _READ)
            self._near.update(self._calm.doubted())
        for id in self._calm.passed(stamp(SYSTEM)):  # noqa: A001  what it is everywhere here
            self._come_near(id)
        return sorted(self._near)

    def catch_up(self) -> None:
        """Compare all that are to be compared at once, however many they are."""
        self._hear()
        while self._is_hurried:
            self._go_round(_ALL, _ALL)

    def files(self, id: str) -> Files:
        """Return what the files of a conversation are now."""
        return _files(self._turns.directories.place(id))

    def leave(self, id: str, files: Files, until: str) -> None:
        """Leave one in peace until its bell rings, its files change, or a moment has come.

        Args:
            id: The id of the conversation.
            files: What its files were before they were read.
            until: The moment, in RFC 3339; empty where there is none.
        """
        self._near.discard(id)
        self._calm.leave(id, files, until)

    def drop(self, id: str) -> None:
        """Forget one that is over, or that cannot be read."""
        self._near.discard(id)
        self._calm.drop(id)

    def go_with(self, id: str, inside: Collection[str]) -> None:
        """Look at a conversation whenever there is something to see in one of those that run inside its tools."""
        self._around.update(dict.fromkeys(inside, id))

    def _hear(self) -> None:
        marks = self._turns.marks()
        heard = self._bell.heard()
        if self._marks is None:
            self._calm.load()
        if heard is None or (marks != self._marks and not heard and not self._has_heard):
            self._begin()
            self._is_hurried = True
        self._marks, self._has_heard = marks, bool(heard)
        for id in heard or ():  # noqa: A001  as above
            self._come_near(id)

    def _come_near(self, id: str) -> None:
        known = {""}
        while id not in known:
            known.add(id)
            self._near.add(id)
            id = self._around.get(id, "")  # noqa: A001  from one conversation to the one around it

    def _begin(self) -> None:
        """Begin a round through all that are named now."""
        names = self._turns.ids()
        named = set(names)
        self._calm.keep_only(named)
        self._around = {inside: id for inside, id in self._around.items() if id in named}  # noqa: A001  as above
        self._left = iter(names)

    def _go_round(self, compared: int, read: int) -> None:
        for _ in range(compared):
            id = next(self._left, "")  # noqa: A001  as above
            if not id:
                self._is_hurried = False
                self._begin()
                return
            if not self._calm.is_left(id, self.files(id).state):
                self._come_near(id)
                read -= 1
            if read == 0:
                return


class DueTurns:
    """The conversations whose turn is due, for as long as a worker runs.

    Args:
        turns: The conversations with an open turn.
        rounds: Which are looked at.
    """

    def __init__(self, turns: OpenTurns, rounds: Rounds) -> None:
        self.rounds = rounds
        self.time = SYSTEM_TIME
        """The time by which deadlines pass."""
        self._turns = turns
        self._until: dict[str, str] = {}
        self._mutex = Lock()

    @classmethod
    def of(cls, turns: OpenTurns) -> DueTurns:
        """Look at them in rounds, and as the bells of their folders ring."""
        return cls(turns, Rounds(turns, FolderBell(turns.directories.folders)))

    def look(self) -> Iterator[str]:
        """Yield those that are due, the oldest first; they may be held meanwhile."""
        for id in self.rounds.near():  # noqa: A001  what it is everywhere here
            try:
                if self._goes_on(id):
                    yield id
            except StoreError as error:
                _LOG.warning("a conversation is left out: %r", str(error))
                self.rounds.drop(id)
                self._note(id, "")

    def all(self) -> list[str]:
        """Return all that are due, whether or not they were looked at before."""
        with self._mutex:
            self.rounds.catch_up()
            return list(self.look())

    def overdue(self, now: str) -> list[str]:
        """Return those with a question whose deadline has passed, whether or not they were looked at before."""
        self.all()
        return sorted(id for id, until in self._until.items() if until <= now)  # noqa: A001  as above

    def _goes_on(self, id: str) -> bool:
        """Say whether the turn of one is due; it is left in peace where it waits for people."""
        files = self.rounds.files(id)
        with self._turns.directories.open(id) as folder:
            if lock.is_held(folder):
                return False
            seen = self._turns.seen.look(id)
            if not seen.is_open:
                self.rounds.drop(id)
                self._note(id, "")
                self._turns.mend(id, seen)
                return False
            self.rounds.go_with(id, [child.conversation for child in TurnView(seen.window).awaited_children])
            handed = HandoverFolder(folder).collect()
        turn = LastTurn(seen.turn, handed)
        until = TurnView(seen.window).first_deadline
        self._note(id, until)
        goes_on = parent_of(seen.turn) is None and is_due(turn, self._turns.find, self.time.now(seen.turn))
        if not goes_on:
            self.rounds.leave(id, files, until)
            self._turns.seen.forget(id)
        return goes_on

    def _note(self, id: str, until: str) -> None:
        """Note the deadline of one; those that are over by now are listed."""
        if until:
            self._until[id] = until
        else:
            self._until.pop(id, None)


def _files(place: str) -> Files:
    """Return what tells that a file is another one, or has another content; where there is none, that tells it, too."""
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
