"""Open turns in folders of conversations: named by the indexes, read from the ends of the logs, and each index mended where it is wrong."""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property, partial
from itertools import chain, islice
from pathlib import Path

from midturn.errors import StoreError
from midturn.events.open_question import parse_address, parse_beginning
from midturn.events.types import Event
from midturn.events.window import open_turn
from midturn.stores import lock
from midturn.stores.conversation import Seen, SeenTurns
from midturn.stores.decisions import is_ready
from midturn.stores.directories import Directories
from midturn.stores.folder import Folder
from midturn.stores.open_index import OpenIndex, is_named, name_finished, name_open
from midturn.stores.port import LastTurn
from midturn.stores.queued_answer import HandoverFolder

_LOG = logging.getLogger("midturn.store")


class OpenTurns:
    """The conversations whose last turn is open."""

    def __init__(self, directories: Directories) -> None:
        self.directories = directories
        """The folders of the conversations."""
        self._indexes = [(folder, OpenIndex(folder)) for folder in directories.folders]

    @cached_property
    def seen(self) -> SeenTurns:
        """The content of the ends of their logs."""
        return SeenTurns(self.directories.path)

    def marks(self) -> tuple[object, ...]:
        """Return what changes when a turn begins or ends, or a bell rings, on whichever host."""
        return tuple(index.mark() for _, index in self._indexes)

    def ids(self, prefix: str = "") -> list[str]:
        """Return the conversations that the indexes name, the oldest first; only those whose questions may begin with `prefix`."""
        conversation, is_whole = parse_beginning(prefix)
        if not is_whole:
            first, *others = (index.ids(partial(self._scan, folder)) for folder, index in self._indexes)
            return sorted({*first, *chain.from_iterable(others)}) if others else first
        return [conversation] if parse_address(f"{prefix}x") and self.directories.has(conversation) else []

    def waiting(self, prefix: str = "", first: str = "") -> Iterator[tuple[str, Seen]]:
        """Yield what each conversation waits for whose last turn is open, by its id, the oldest conversation first, from `first` on.

        `prefix` is what the addresses of its questions begin with. One that cannot be read hides no other.
        """
        named = self.ids(prefix)
        if named and not prefix:
            self.seen.make_room(named)
        for number in islice(named, bisect_left(named, first), None):
            try:
                seen = self.seen.look(number)
                if seen.is_open:
                    if prefix:
                        with Folder.at(seen.path) as folder:
                            name_if_open(folder, number, seen.turn)
                    yield number, seen
                else:
                    self.mend(number, seen)
            except StoreError as error:
                _LOG.warning("a conversation is left out: %r", str(error))

    def find(self, id: str) -> LastTurn | None:
        """Return the last turn of a conversation that runs inside a tool, and what was handed over to it."""
        try:
            turn = self.seen.look(id).turn
            with self.directories.open(id) as folder:
                return LastTurn(turn, HandoverFolder(folder).collect())
        except StoreError:
            return None

    def is_ready(self, id: str) -> bool:
        """Say whether the turn of a conversation can go on, and no one holds it."""
        with suppress(StoreError), self.directories.open(id) as folder:
            turn = LastTurn(self.seen.look(id).turn, HandoverFolder(folder).collect())
            return is_ready(turn, self.find) and not lock.is_held(folder)
        return False

    def reindex(self) -> list[str]:
        """Look at every conversation, whatever the indexes say; return those with an open turn that they did not name."""
        missing: list[str] = []
        for folder, index in self._indexes:
            named = set(index.ids(list))
            found = self._scan(folder)
            index.renew(found)
            missing += [number for number in found if number not in named]
        return missing

    def mend(self, number: str, seen: Seen) -> None:
        """Take a conversation that is finished out of the index, unless it is being written: then its writer does that."""
        with suppress(StoreError), Folder.at(seen.path) as folder:
            held = lock.Lock(folder)
            if held.try_to_take():
                try:
                    if not open_turn(self.seen.unfinished(seen.path)):
                        name_finished(folder, number)
                finally:
                    held.release()
            else:
                held.close()

    def _scan(self, folder: Path) -> list[str]:
        """Look at every conversation in a folder; return those whose last turn is open."""
        found: list[str] = []
        for number, path in Directories(folder).all():
            try:
                if open_turn(self.seen.unfinished(path)):
                    found.append(number)
            except StoreError as error:
                _LOG.warning("a conversation is left out: %r", str(error))
        return found


def name_if_open(conversation: Folder, id: str, turn: Sequence[Event]) -> None:
    """Name a conversation with this last turn, which another program may have put there, where the turn is open."""
    if open_turn(turn) and not is_named(conversation, id):
        with suppress(StoreError):  # it cannot be written here: then it is found by looking
            name_open(conversation, id)
