"""Conversations of one store in another, as history: under the same id, with the same lines, and nothing in them that goes on or holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from midturn.clock import SYSTEM
from midturn.errors import StoreError, StoreLocked
from midturn.record.codec import clean, decode_event, decode_lines, encode_event
from midturn.record.events import ConfigDelta, Event
from midturn.record.window import open_turn
from midturn.store.batch import numbered, stamped
from midturn.store.metadata import Metadata, event_ids
from midturn.store.port import HeldBy
from midturn.store.store import ConversationStore
from midturn.turn.effects import Record
from midturn.turn.inputs import TurnFailed, TurnSettings
from midturn.turn.turn import Turn
from midturn.values.text import TimeOfDay

Fate: TypeAlias = Literal["copied", "was there", "renamed"]
"""Of a conversation: it has the same id there; it was there already, and may have gone on; or another has its id, and it has a new one."""

_OPEN_THERE = "it was open where it came from"


class Unreadable(StoreError):  # noqa: N818
    """A conversation cannot be read where it lies: others that lie there can be copied all the same."""


class Copied(Struct, frozen=True):
    """Where a conversation is now; `was_open`: its last turn was, and is ended in the copy."""

    id: str
    title: str
    fate: Fate
    was_open: bool


class History(Struct, frozen=True):
    """What is kept of a conversation that was begun elsewhere: its lines, and those that end its last turn where it was open."""

    lines: Sequence[bytes]
    ending: Sequence[bytes] = ()

    @classmethod
    def of(cls, lines: Sequence[bytes], clock: TimeOfDay = SYSTEM) -> History:
        """Take lines as they are, but for flags, which hold in no other store, and end the turn that is open in them."""
        kept = [_without_force(line) for line in lines]
        return cls(kept, [encode_event(event) for event in _ending(decode_lines(map(clean, kept), "imported"), clock)])


class Copying:
    """Copies from one store to another. Copying again changes nothing, so an interrupted copy is simply begun anew."""

    def __init__(self, source: ConversationStore, target: ConversationStore) -> None:
        """Stand between two stores."""
        self._source = source
        self._target = target
        self._there: set[str] | None = None

    async def copy(self, id: str) -> Copied:
        """Copy a conversation.

        Raises:
            StoreLocked: A process goes on with its turn.
            Unreadable: It is damaged, or lies in no file of its own.
            StoreError: The other store cannot be read or written.
        """
        history, metadata = await self._read(id)
        made, fate = await self._add(id, history, metadata)
        return Copied(made, metadata.title, fate, bool(history.ending))

    async def _read(self, id: str) -> tuple[History, Metadata]:
        try:
            found = await self._source.port.look(id)
            if not isinstance(found, HeldBy):
                return History.of(await self._source.port.lines(id)), (await self._source.read(id)).metadata
        except StoreError as error:
            raise Unreadable(str(error)) from error
        raise StoreLocked(f"The turn of conversation {id} is running, in {found.holder}: it stays where it is.", found.holder, found.since)

    async def _add(self, id: str, history: History, metadata: Metadata) -> tuple[str, Fate]:
        if self._there is None:
            self._there = set(await self._target.ids())
        if id in self._there and (await self._target.port.lines(id))[: len(history.lines)] == history.lines:
            return id, "was there"
        made = await self._target.port.add([*history.lines, *history.ending], metadata, id)
        self._there.add(made)
        return made, "copied" if made == id else "renamed"


def _without_force(line: bytes) -> bytes:
    """Return a line in which nothing holds any more: what flags set is told as what was imported."""
    if b'"config_delta"' not in line:
        return line
    event = decode_event(clean(line), "")
    if not isinstance(event, ConfigDelta) or event.delta is None:
        return line
    return encode_event(replace(event, delta={"imported": event.delta}))


def _ending(events: Sequence[Event], clock: TimeOfDay) -> Sequence[Event]:
    window = open_turn(events)
    if window is None:
        return ()
    turn = Turn.load(window.events, TurnSettings(tools={}), event_ids())
    effects = turn.step(TurnFailed(_OPEN_THERE))
    return numbered(stamped([effect.event for effect in effects if isinstance(effect, Record)], clock))
