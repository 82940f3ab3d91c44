"""Agents that run inside a tool call. The turn of such an agent belongs to the call, and its
conversation is in the same store. If the call is replayed, the agent continues this turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256

from msgspec import Struct
from msgspec.structs import replace

from midturn.clock import now
from midturn.errors import NoConversation
from midturn.events.types import Child, Event
from midturn.events.window import Window, turn_of_child
from midturn.journal import Journal
from midturn.runtime.driver import RunEnding
from midturn.runtime.nesting import ParentCall, TurnState
from midturn.stores.metadata import Metadata, conversation_number, title
from midturn.stores.store import ConversationStore
from midturn.turn.view import TurnView


class NestedRun(Struct, frozen=True):
    """A run of an agent inside a call. The outer turn records the run. `NestedRun` implements
    `ParentTurn` for the nested turn.
    """

    outer: ParentCall
    child: Child

    def report_state(self, state: TurnState) -> None:
        """Report the state of the nested turn to the outer call."""
        self.outer.report_state(self.child, state)

    def window(self, events: Sequence[Event]) -> Window | None:
        """Return the recorded events of the nested turn, or None."""
        return turn_of_child(events, self.child.event_id)

    def recorded_end(self, window: Window | None) -> RunEnding | None:
        """Return the recorded end of the nested turn, or None. The usage of an ended turn still
        counts towards the shared limits.
        """
        record = TurnView(window).record
        ended = record.ended
        if not ended:
            return None
        self.outer.nesting.family[self.child.event_id] = record
        return RunEnding(ended.status, ended.error)

    async def over(self, status: str) -> None:
        """Report that the nested turn is over. If a person ended it, the outer turn ends, and this
        call does not return.
        """
        if status == "ended_by_user":
            self.report_state("ended")
            await self.outer.wait_until_stopped()
        self.report_state("over")


@asynccontextmanager
async def nested_journal(
    store: ConversationStore, outer: ParentCall, wanted: Child, words: str, *, is_named: bool
) -> AsyncGenerator[tuple[NestedRun, Journal]]:
    """Lock the conversation of a nested turn. Before that, the outer turn records the
    conversation, so that it can be found after a crash.

    Raises:
        MidturnError: The agents are nested too deeply.
        StoreError: The conversation cannot be created, read or written.
    """
    child = await outer.child(wanted)
    while (
        not is_named
        and (made := await _ensure_conversation(store, child, words)) != child.conversation
    ):  # the id belongs to another conversation
        child = await outer.child(
            replace(child, event_id="", timestamp="", more=0, conversation=made),
            lost=child.event_id,
        )
    cancelled = None
    async with await store.open(child.conversation) as journal:
        try:
            yield NestedRun(outer, child), journal
        except asyncio.CancelledError as error:
            # raised after the lock is released, so that queued answers are recorded first
            cancelled = error
    if cancelled:
        raise cancelled


def wanted_child(outer: ParentCall, agent: str, text: str, conversation: str | None) -> Child:
    """Return the record of a nested run."""
    digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return Child(
        call=outer.call,
        conversation=conversation or str(conversation_number()),
        agent=agent,
        text_sha256=digest,
        occurrence=outer.occurrence(agent, digest),
    )


async def _ensure_conversation(store: ConversationStore, child: Child, words: str) -> str:
    """Create the conversation of a nested turn if it does not exist. Return the id of the
    conversation. If the id of `child` belongs to another conversation, return a new id.
    """
    try:
        turn = (await store.port.look(child.conversation)).turn.events
    except NoConversation:
        return await store.port.add(
            (), Metadata(title=title(words), created_at=now()), child.conversation
        )
    is_ours = not turn or turn_of_child(turn, child.event_id) is not None
    return child.conversation if is_ours else str(conversation_number())
