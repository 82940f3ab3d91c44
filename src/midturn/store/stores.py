"""The places where conversations are kept: on disk, or in memory."""

from __future__ import annotations

from pathlib import Path

from midturn.core.limits import DEFAULT_LIMITS, Limits
from midturn.store.file_conversations import FileConversations
from midturn.store.memory_conversations import MemoryConversations
from midturn.store.store import ConversationStore


class FileStore(ConversationStore):
    """Conversations on disk, in one directory or in several that share their ids; new ones are made in the first."""

    def __init__(self, *folders: Path, limits: Limits = DEFAULT_LIMITS, sealed: bool = False) -> None:
        self.files = FileConversations(*folders, limits=limits, sealed=sealed)
        """The files themselves."""
        super().__init__(self.files)


class MemoryStore(ConversationStore):
    """Conversations of one process, gone with it: for tests, and for programs that keep nothing.

    Args:
        limits: How deep answers may be nested, and how much one batch may weigh.
    """

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        super().__init__(MemoryConversations(limits))
