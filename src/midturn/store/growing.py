"""Growth of files, for those who watch a store: which conversations may have changed since the last look.

A look at each of a hundred thousand, four times a second, would take a core. So a look is for those whose bell rang (`answer_bell`), for
those that a process holds, since what a turn records rings no bell, and for the next few of all that are named: what another host or an
editor has written is found by and by. Where bells may have been missed, or the index has changed and nothing rang, the look is for all.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from threading import Lock
from typing import Final

from msgspec import Struct

from midturn.errors import StoreError
from midturn.store import lock
from midturn.store.answer_bell import FolderBell
from midturn.store.directories import Directories
from midturn.store.open_index import OPEN, OpenIndex
from midturn.store.port import Growth
from midturn.store.tail import NAME as LOG

_COMPARED: Final = 100  # conversations in one look that nothing was heard of
_KEPT: Final = 10_000  # bells that are kept for slow watchers


class _Place(Struct, frozen=True):
    """Where a watcher is.

    Args:
        heard: How many bells it has heard.
        rang: Whether one rang just before: it has changed the indexes, which were looked at earlier.
        marks: What the indexes were.
        held: What was held.
        names: The conversations with an open turn, as they were when this round through them began.
        compared: How many of these were compared.
    """

    heard: int
    rang: bool
    marks: tuple[object, ...]
    held: frozenset[str]
    names: Sequence[str]
    compared: int


class Growing:
    """How long conversations are that may have grown.

    Args:
        names: Lists the conversations with an open turn, the oldest first.
        directories: Where they are.
        indexes: The indexes that name them.
        bell: Rings for them.
    """

    def __init__(
        self, names: Callable[[], Sequence[str]], directories: Directories, indexes: Sequence[OpenIndex], bell: FolderBell
    ) -> None:
        self._names = names
        self._directories = directories
        self._indexes = indexes
        self._bell = bell
        self._rung: deque[str] = deque(maxlen=_KEPT)
        self._count = 0
        self._lost = 0
        self._mutex = Lock()

    async def stirred(self, most: float) -> None:
        """Return when a bell rings, or after some seconds."""
        if most:
            await self._bell.wait(most)
        else:
            self._bell.listen()

    def since(self, before: Growth | None) -> Growth:
        """Return what may have changed since an earlier look; everything at first."""
        place = before.token if before and isinstance(before.token, _Place) else None
        with self._mutex:
            marks = tuple(index.mark() for index in self._indexes)
            heard = self._heard(place.heard if place else -1)
            count = self._count
        if place is None or heard is None or (marks != place.marks and not heard and not place.rang):
            lengths, _, held = self._look(self._directories.ids())
            return Growth(lengths, _Place(count, bool(heard), marks, held, self._names(), 0), is_whole=True)
        names, compared = (place.names, place.compared) if place.compared < len(place.names) else (self._names(), 0)
        some = names[compared : compared + _COMPARED]
        lengths, gone, held = self._look({*heard, *place.held, *some})
        return Growth(lengths, _Place(count, bool(heard), marks, held, names, compared + len(some)), gone)

    def _heard(self, count: int) -> set[str] | None:
        """Return for which it rang since this many bells; None where some of them were missed. It is called by one at a time."""
        names = self._bell.heard()
        if names is None:
            self._lost = self._count = self._count + 1
            self._rung.clear()
        else:
            self._rung.extend(names)
            self._count += len(names)
        missed = self._count - count
        if count < self._lost or missed > len(self._rung):
            return None
        return set(islice(reversed(self._rung), missed))

    def _look(self, ids: Iterable[str]) -> tuple[dict[str, int], list[str], frozenset[str]]:
        lengths: dict[str, int] = {}
        gone: list[str] = []
        held: list[str] = []
        for id in ids:  # noqa: A001  what it is everywhere here
            place = self._directories.place(id)
            length = _size(f"{place}/{LOG}")
            if length is None:  # it has no link, it is gone, or nothing is recorded in it
                length = self._listed(id)
            if length is not None:
                lengths[id] = length
                if _size(f"{place}/{lock.NAME}"):  # who holds it for a turn has signed
                    held.append(id)
            elif not self._is_named(id):  # else its first turn begins right now
                gone.append(id)
        return lengths, gone, frozenset(held)

    def _is_named(self, id: str) -> bool:
        return any(os.access(f"{folder}/{OPEN}/{id}", os.F_OK) for folder in self._directories.folders)

    def _listed(self, id: str) -> int | None:
        try:
            return _size(f"{self._directories.path(id)}/{LOG}")
        except StoreError:
            return None


def _size(file: str) -> int | None:
    try:
        return os.lstat(file).st_size
    except OSError:
        return None
