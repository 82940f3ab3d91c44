"""An agent that runs inside a tool of another one: its turn is a child of that call, in the same store, and is found again there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from midturn.clock import now
from midturn.errors import NoConversation
from midturn.events.types import Child, Event
from midturn.events.window import Window, turn_of_child
from midturn.journal import Journal
from midturn.runtime.driver import RunEnding
from midturn.runtime.nesting import OuterCall
from midturn.stores.metadata import Metadata, conversation_number, title
from midturn.stores.store import ConversationStore
from midturn.turn.view import TurnView


class NestedRun(Struct, frozen=True):
    """One run of an agent inside a call, as the turn around it has it on record: the call's `Host` of the turn inside."""

    outer: OuterCall
    child: Child

    def moved(self, now: Literal["moving", "resting", "over", "ended"]) -> None:
        """Say what the turn does now."""
        self.outer.moved(self.child, now)

    def window(self, events: Sequence[Event]) -> Window | None:
        """Return the turn as far as it is recorded."""
        return turn_of_child(events, self.child.event_id)

    def recorded_end(self, window: Window | None) -> RunEnding | None:
        """Return how the turn ended, where it has ended before; its limits stay shared."""
        record = TurnView(window).record
        ended = record.ended
        if not ended:
            return None
        self.outer.nest.family[self.child.event_id] = record
        return RunEnding(ended.status, ended.error)

    async def over(self, status: str) -> None:
        """Say that the turn is over. Where a person has ended it, the one around ends, and nothing more happens here."""
        if status == "ended_by_user":
            self.moved("ended")
            await self.outer.is_stopped()
        self.moved("over")


@asynccontextmanager
async def nested_journal(
    store: ConversationStore, outer: OuterCall, wanted: Child, words: str, *, is_named: bool
) -> AsyncGenerator[tuple[NestedRun, Journal]]:
    """Hold the conversation of a turn inside a call. It is named in the turn around before there is one, unless the program names one.

    Raises:
        MidturnError: Agents run too deep inside each other.
        StoreError: The conversation cannot be made, read or written.
    """
    child = await outer.child(wanted)
    while not is_named and (made := await _made(store, child, words)) != child.conversation:  # another conversation has that id
        child = await outer.child(replace(child, event_id="", timestamp="", more=0, conversation=made), lost=child.event_id)
    stopped = None
    async with await store.open(child.conversation) as journal:
        try:
            yield NestedRun(outer, child), journal
        except asyncio.CancelledError as error:
            stopped = error  # what was handed over by now is recorded on leaving: who comes next finds it
    if stopped:
        raise stopped


def wanted_child(outer: OuterCall, agent: str, text: str, conversation: str | None) -> Child:
    """Return what is to be recorded of a run inside a call."""
    digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return Child(
        call=outer.call,
        conversation=conversation or str(conversation_number()),
        agent=agent,
        text_sha256=digest,
        occurrence=outer.occurrence(agent, digest),
    )


async def _made(store: ConversationStore, child: Child, words: str) -> str:
    """Make the conversation of a child, where there is none; return the id that it has."""
    try:
        turn = (await store.port.look(child.conversation)).turn.events
    except NoConversation:
        return await store.port.add((), Metadata(title=title(words), created_at=now()), child.conversation)
    is_ours = not turn or turn_of_child(turn, child.event_id) is not None
    return child.conversation if is_ours else str(conversation_number())
