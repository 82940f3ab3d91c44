"""A store whose conversations are files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from midturn.store.file_conversations import FileConversations
from midturn.store.store import ConversationStore
from midturn.values.json_value import DEFAULT_LIMITS, Limits


class FileStore(ConversationStore):
    """Conversations on disk, in one directory or in several that share their ids; new ones are made in the first."""

    def __init__(self, *folders: str | os.PathLike[str], limits: Limits = DEFAULT_LIMITS, found: Callable[[], None] | None = None) -> None:
        """Keep them there; `found` makes the first directory, where it is more than that."""
        paths = [folder if isinstance(folder, Path) else Path(folder) for folder in folders]
        self.files = FileConversations(*paths, limits=limits, found=found)
        """The files themselves."""
        super().__init__(self.files)
