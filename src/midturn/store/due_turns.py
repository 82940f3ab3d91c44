"""Turns that are due, among any number that wait for people: what a worker on files looks at, and when.

With a hundred thousand conversations, a look at each of them would take a core. So one whose turn waits for people alone is *calm*: it is
left in peace until its bell rings (`answer_bell`). All others, those that a process holds and those that may go on, are *near*, and looked
at each time. Who hands an answer over, and who takes a conversation for a turn, rings as well, so that the answers of a process that dies
are found.

A bell is for speed only, and another host's is not heard. So a *round* goes on with each look: the next few files are compared with what
they were when they were read. Where the index has changed and nothing has rung, that round is made at once.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from midturn.errors import StoreError
from midturn.record.window import awaited_children, parent_of
from midturn.store import lock
from midturn.store.answer_bell import AnswerBell
from midturn.store.decisions import FindTurn, is_due
from midturn.store.directories import Directories
from midturn.store.handover import ANSWERS, FileAnswers
from midturn.store.open_index import OpenIndex
from midturn.store.port import LastTurn
from midturn.store.tail import NAME as LOG

if TYPE_CHECKING:
    from midturn.store.seen_turns import Seen, SeenTurns

_LOG = logging.getLogger("midturn.store")
_COMPARED = 250  # files in one look: half a hundredth of a core with one look a second
_BESIDE = 25  # the same, in a look that a bell has called for: where many are answered, there are many looks
_HURRIED = 5_000  # the same, in a round that is made at once
_READ = 100  # conversations that a look may find to be read; then it ends, so that nothing else waits for long


class Rounds:
    """Which conversations are near, and which of the calm ones come by next.

    Args:
        names: Lists the conversations with an open turn, the oldest first.
        directories: Where they are.
        indexes: The indexes that name them.
        bell: Rings for them.
    """

    def __init__(
        self, names: Callable[[], Sequence[str]], directories: Directories, indexes: Sequence[OpenIndex], bell: AnswerBell
    ) -> None:
        self._names = names
        self.directories = directories
        self._indexes = indexes
        self._bell = bell
        self._near: set[str] = set()
        self._calm: dict[str, int] = {}
        self._around: dict[str, str] = {}
        self._left: Iterator[str] = iter(())
        self._is_hurried = False
        self._marks: tuple[object, ...] = ()
        self._has_heard = False

    @property
    def is_behind(self) -> bool:
        """Whether a round is to be made at once, and is not done."""
        return self._is_hurried

    def near(self) -> list[str]:
        """Return what is to be looked at now, the oldest first. It stays near until it is left, or is over."""
        self._hear()
        self._go_round()
        return sorted(self._near)

    def state(self, id: str) -> int:
        """Return what changes when something is recorded in a conversation, when it is taken for a turn, or handed an answer."""
        place = self.directories.place(id)
        return hash((_changed(f"{place}/{LOG}"), _changed(f"{place}/{lock.NAME}"), _changed(f"{place}/{ANSWERS}")))

    def leave(self, id: str, state: int) -> None:
        """Leave one in peace until its bell rings or its files change; `state` is what theirs was before they were read."""
        self._near.discard(id)
        self._calm[id] = state

    def drop(self, id: str) -> None:
        """Forget one that is over, or that cannot be read."""
        self._near.discard(id)
        self._calm.pop(id, None)

    def go_with(self, id: str, inside: Collection[str]) -> None:
        """Look at a conversation whenever there is something to see in one of those that run inside its tools."""
        self._around.update(dict.fromkeys(inside, id))

    def _hear(self) -> None:
        marks = tuple(index.mark() for index in self._indexes)
        heard = self._bell.heard()
        if heard is None:
            self._calm.clear()
        if heard is None or (marks != self._marks and not heard and not self._has_heard):
            self._begin()
            self._is_hurried = True
        self._marks, self._has_heard = marks, bool(heard)
        for id in heard or ():  # noqa: A001  what it is everywhere here
            self._come_near(id)

    def _come_near(self, id: str) -> None:
        known = {""}
        while id not in known:
            known.add(id)
            self._near.add(id)
            id = self._around.get(id, "")  # noqa: A001  from one conversation to the one around it

    def _begin(self) -> None:
        """Begin a round through all that are named now."""
        names = self._names()
        named = set(names)
        self._calm = {id: state for id, state in self._calm.items() if id in named}  # noqa: A001  as above
        self._around = {inside: id for inside, id in self._around.items() if id in named}  # noqa: A001  as above
        self._left = iter(names)

    def _go_round(self) -> None:
        read = 0
        for _ in range(_HURRIED if self._is_hurried else _BESIDE if self._has_heard else _COMPARED):
            id = next(self._left, "")  # noqa: A001  as above
            if not id:
                self._is_hurried = False
                self._begin()
                return
            if self._calm.get(id) != self.state(id):
                self._come_near(id)
                read += 1
            if read == _READ:
                return


class DueTurns:
    """The conversations whose turn is due, for as long as a worker runs.

    Args:
        rounds: Which are looked at.
        seen: Reads what their turns wait for.
        find: Finds the turns inside of tools.
        mend: Takes one out of the index whose turn is over.
    """

    def __init__(self, rounds: Rounds, seen: SeenTurns, find: FindTurn, mend: Callable[[str, Seen], None]) -> None:
        self.rounds = rounds
        self._seen = seen
        self._find = find
        self._mend = mend

    def look(self) -> Iterator[str]:
        """Yield those that are due, the oldest first; they may be held meanwhile."""
        for id in self.rounds.near():  # noqa: A001  what it is everywhere here
            try:
                if self._goes_on(id):
                    yield id
            except StoreError as error:
                _LOG.warning("a conversation is left out: %r", str(error))
                self.rounds.drop(id)

    def _goes_on(self, id: str) -> bool:
        """Say whether the turn of one is due; it is left in peace where it waits for people."""
        state = self.rounds.state(id)
        with self.rounds.directories.open(id) as folder:
            if lock.is_held(folder):
                return False
            seen = self._seen.look(id)
            if not seen.is_open:
                self.rounds.drop(id)
                self._mend(id, seen)
                return False
            self.rounds.go_with(id, [child.conversation for child in awaited_children(seen.turn)])
            handed = FileAnswers(folder).collect()
        goes_on = parent_of(seen.turn) is None and is_due(LastTurn(seen.turn, handed), self._find)
        if not goes_on:
            self.rounds.leave(id, state)
            self._seen.forget(id)
        return goes_on


def _changed(file: str) -> tuple[int, int] | None:
    """Return what tells that a file is another one, or has another content; None where there is none."""
    try:
        found = os.lstat(file)
    except OSError:
        return None
    return found.st_size, found.st_mtime_ns
