"""A store whose conversations are gone with the process."""

from __future__ import annotations

from midturn.core.limits import DEFAULT_LIMITS, Limits
from midturn.store.memory_conversations import MemoryConversations
from midturn.store.store import ConversationStore


class MemoryStore(ConversationStore):
    """Conversations of one process, gone with it: for tests, and for programs that keep nothing.

    Args:
        limits: How deep answers may be nested, and how much one batch may weigh.
    """

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        super().__init__(MemoryConversations(limits))
