"""Conversations of one store in another: the same lines, byte for byte, under the same id; only seals are each store's own."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AsyncExitStack
from typing import Literal, TypeAlias

from msgspec import Struct

from midturn.core.stream import open_turn
from midturn.store.seal import without_seal
from midturn.store.store import ConversationStore

Fate: TypeAlias = Literal["copied", "was there", "renamed"]
"""Of a conversation: it has the same id there; it was there already, byte for byte, and may have gone on; or another one has its id, and it
has a new one."""


class Copied(Struct, frozen=True):
    """Where a conversation is now; `is_open`: its last turn is, and goes on in whichever store it is answered."""

    id: str
    fate: Fate
    is_open: bool


class Copying:
    """Copies from one store to another. Copying again changes nothing, so whoever was interrupted begins anew."""

    def __init__(self, source: ConversationStore, target: ConversationStore) -> None:
        """Stand between two stores."""
        self._source = source
        self._target = target
        self._there: set[str] | None = None

    async def copy(self, id: str) -> Copied:
        """Copy a conversation.

        An open turn is held meanwhile, so that nothing happens in it, and what was handed over to a holder that died comes along.

        Raises:
            StoreLocked: A process goes on with its turn.
            StoreError: One of the stores cannot be read or written.
        """
        async with AsyncExitStack() as held:
            events = (await self._source.read(id)).events
            if open_turn(events):
                events = (await held.enter_async_context(await self._source.open(id))).events
            made, fate = await self._add(id, await self._source.port.lines(id))
        return Copied(made, fate, open_turn(events) is not None)

    async def _add(self, id: str, lines: list[bytes]) -> tuple[str, Fate]:
        if self._there is None:
            self._there = set(await self._target.ids())
        if id in self._there and _bare((await self._target.port.lines(id))[: len(lines)]) == _bare(lines):
            return id, "was there"
        held = await self._source.port.verdicts(id, lines) or ()
        made = await self._target.port.add(lines, (await self._source.read(id)).metadata, id, held)
        self._there.add(made)
        return made, "copied" if made == id else "renamed"


def _bare(lines: Iterable[bytes]) -> list[bytes]:
    """Return lines without their seals: those say who vouches for them in which store."""
    return [without_seal(line) for line in lines]
