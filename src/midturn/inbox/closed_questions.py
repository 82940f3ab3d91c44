"""Explains to a client of another protocol why its answer to a question was not recorded."""

from __future__ import annotations

from midturn.errors import MidturnError, NoSuchQuestion
from midturn.events.open_question import Address, parse_address
from midturn.events.types import TurnStart
from midturn.stores.answer_service import too_late
from midturn.stores.store import ConversationStore


async def why_not_open(
    store: ConversationStore, conversation: str | None, address: str, *, owner: str
) -> MidturnError:
    """Return the error for an answer to a question that is not open.

    A question from another conversation is reported as unknown, so that a client cannot find out
    about the conversations of other clients.

    Args:
        store: The store.
        conversation: The client's conversation. None if it has none yet.
        address: Address of the question, as the client sent it.
        owner: Name of the conversation in the client's protocol, such as `thread`.
    """
    at = parse_address(address)
    if at is not None and conversation is not None and await _belongs_to(store, conversation, at):
        return await too_late(store.port, at)
    return NoSuchQuestion(f"This {owner} has no question {address!r:.100}.", id=address)


async def _belongs_to(store: ConversationStore, conversation: str, at: Address) -> bool:
    """Return whether a question was asked in a conversation, or in an agent inside its tools."""
    if at.conversation == conversation:
        return True
    try:
        events = (await store.read(at.conversation)).events
    except MidturnError:  # the conversation does not exist
        return False
    return any(
        event.parent is not None and event.parent.root == conversation
        for event in events
        if isinstance(event, TurnStart)
    )
