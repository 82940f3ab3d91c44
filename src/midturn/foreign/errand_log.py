"""Errands as they lie in a store: found, opened, written to.

**Guarantee.** Every change is decided inside `StorePort.settle`, on the turn as it is at that moment: what was looked at before is only
a hint.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from midturn.errors import StoreError
from midturn.foreign.errand import Errand, asked_by, begin, errand_of
from midturn.foreign.room import SESSION
from midturn.foreign.words import tool_name
from midturn.ports import Clock
from midturn.record.asker import Asker
from midturn.record.events import Event
from midturn.store.batch import stamped
from midturn.store.metadata import event_ids
from midturn.store.port import Settled
from midturn.store.store import ConversationStore

_LOG = logging.getLogger(__name__)
_LOCKED_TRIES = 100
_UNNAMED = "unnamed"
PAUSE = 0.1
"""Seconds before another try to write."""
Decide: TypeAlias = Callable[[Sequence[Event]], Sequence[Event]]
"""Says what to write, from the turn as it is while nothing else writes."""


class ErrandLog:
    """The conversations of other agents' calls, in one store."""

    def __init__(self, store: ConversationStore, clock: Clock) -> None:
        self.store = store
        self.clock = clock
        self.ids = event_ids()

    async def turn(self, conversation: str) -> tuple[Event, ...]:
        """Return the events of an errand."""
        return tuple((await self.store.port.look(conversation)).turn.events)

    async def find(self, conversation: str) -> Errand | None:
        """Find an errand by its conversation, whichever process opened it."""
        try:
            return errand_of(conversation, await self.turn(conversation))
        except StoreError:
            return None

    async def is_unreadable(self, conversation: str) -> bool:
        """Say whether a conversation is there, and cannot be read just now."""
        try:
            await self.turn(conversation)
        except StoreError:
            return conversation in await self.store.port.ids()
        return False

    async def open_turns(self) -> list[tuple[str, tuple[Event, ...]]]:
        """Return the open turns, oldest first. A conversation that is gone by now, or damaged, is passed over: others can still ask."""
        found: list[tuple[str, tuple[Event, ...]]] = []
        for conversation in await self.store.port.ids(which="open"):
            try:
                found.append((conversation, await self.turn(conversation)))
            except StoreError as error:
                _LOG.warning("%s", error)
        return found

    async def open(self, asking: Errand, words: str, *asks: Callable[[Errand], Event]) -> Errand:
        """Record a new errand, with the questions that a person is asked at once."""
        async with await self.store.create(f"{asking.asker.name}: {words}") as journal:
            call = next(self.ids)
            errand = replace(asking, conversation=journal.conversation, call=call, id=asking.id or call, tool=tool_name(asking.tool))
            events = [*begin(errand, words), *(ask(errand) for ask in asks)]
            named = [event if event.event_id else replace(event, event_id=next(self.ids)) for event in events]
            await journal.append(stamped(named, self.clock))
        await self.store.port.describe(errand.conversation, labels=_labels(asking.asker))
        return errand

    async def note(self, errand: Errand, asker: Asker) -> None:
        """Record what is now known of its asker, unless the errand is over."""
        await self.write(errand, lambda turn: asked_by(turn, asker, self.ids))

    async def write(self, errand: Errand, decide: Decide) -> None:
        """Write what `decide` says.

        Raises:
            StoreError: Another process does not let go of the conversation.
        """
        for _ in range(_LOCKED_TRIES):
            settled = await self.store.port.settle(errand.conversation, lambda last: stamped(decide(last.events), self.clock))
            if isinstance(settled, Settled):
                return
            await asyncio.sleep(PAUSE)
        raise StoreError(f"Another process holds conversation {errand.conversation}; what {errand.asker.name} was told is not recorded.")


def _labels(asker: Asker) -> tuple[str, ...]:
    return asker.agent or asker.name, f"{SESSION}{asker.session or _UNNAMED}"
