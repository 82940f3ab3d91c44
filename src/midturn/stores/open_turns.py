"""Open turns in folders of conversations: listed by the indexes, read from the ends of the logs.
Wrong index entries are corrected.
"""

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
from midturn.stores.conversation import SeenTurn, TurnCache
from midturn.stores.decisions import is_ready
from midturn.stores.directories import Directories
from midturn.stores.folder import Folder
from midturn.stores.open_index import OpenIndex, is_named, name_finished, name_open
from midturn.stores.port import LastTurn
from midturn.stores.queued_answer import AnswerQueueFolder

_LOG = logging.getLogger("midturn.store")


class OpenTurns:
    """The conversations whose last turn is open."""

    def __init__(self, directories: Directories) -> None:
        self.directories = directories
        """The folders of the conversations."""
        self._indexes = [(folder, OpenIndex(folder)) for folder in directories.folders]

    @cached_property
    def seen(self) -> TurnCache:
        """Cache of the last turns."""
        return TurnCache(self.directories.path)

    def marks(self) -> tuple[object, ...]:
        """Return time stamps that change when a turn begins, ends, or notifies its watchers."""
        return tuple(index.mark() for _, index in self._indexes)

    def ids(self, prefix: str = "") -> list[str]:
        """Return the conversations in the indexes, oldest first. With `prefix`, return only
        conversations whose question addresses may begin with it.
        """
        conversation, is_whole = parse_beginning(prefix)
        if not is_whole:
            first, *others = (
                index.ids(partial(self._scan, folder)) for folder, index in self._indexes
            )
            return sorted({*first, *chain.from_iterable(others)}) if others else first
        return (
            [conversation]
            if parse_address(f"{prefix}x") and self.directories.has(conversation)
            else []
        )

    def waiting(self, prefix: str = "", first: str = "") -> Iterator[tuple[str, SeenTurn]]:
        """Yield the conversations whose last turn is open, with their open questions, by ID, from
        `first` on.

        `prefix` is the start of the addresses of the questions. An unreadable conversation is
        logged and skipped.
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
        """Return the last turn of a conversation that runs inside a tool, with its queued
        answers.
        """
        try:
            turn = self.seen.look(id).turn
            with self.directories.open(id) as folder:
                return LastTurn(turn, AnswerQueueFolder(folder).collect())
        except StoreError:
            return None

    def is_ready(self, id: str) -> bool:
        """Return whether the turn of a conversation can continue, and the conversation is not
        locked.
        """
        with suppress(StoreError), self.directories.open(id) as folder:
            turn = LastTurn(self.seen.look(id).turn, AnswerQueueFolder(folder).collect())
            return is_ready(turn, self.find) and not lock.is_held(folder)
        return False

    def reindex(self) -> list[str]:
        """Examine every conversation, without the indexes; return the conversations with an open
        turn that were missing in the indexes.
        """
        missing: list[str] = []
        for folder, index in self._indexes:
            named = set(index.ids(list))
            found = self._scan(folder)
            index.renew(found)
            missing += [number for number in found if number not in named]
        return missing

    def mend(self, number: str, seen: SeenTurn) -> None:
        """Remove a finished conversation from the index. If it is locked, the process with the lock
        removes it.
        """
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
        """Examine every conversation in a folder; return the conversations whose last turn is
        open.
        """
        found: list[str] = []
        for number, path in Directories(folder).all():
            try:
                if open_turn(self.seen.unfinished(path)):
                    found.append(number)
            except StoreError as error:
                _LOG.warning("a conversation is left out: %r", str(error))
        return found


def name_if_open(conversation: Folder, id: str, turn: Sequence[Event]) -> None:
    """Add a conversation with this last turn to the index if the turn is open.

    Used for conversations that another program copied into the folder.
    """
    if open_turn(turn) and not is_named(conversation, id):
        with suppress(
            StoreError
        ):  # the index is not writable, so the conversation is found by scanning
            name_open(conversation, id)
