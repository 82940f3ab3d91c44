"""What an inquirer stands on: a conversation that somebody holds, or one on disk that it holds itself."""

from __future__ import annotations

import os
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TypeAlias

from midturn.errors import StoreError
from midturn.store.conversation import Conversation
from midturn.store.file_store import FileStore
from midturn.store.store import ConversationJournal

Held: TypeAlias = ConversationJournal | Conversation | str | os.PathLike[str]


def hold(conversation: Held, stack: ExitStack) -> ConversationJournal:
    """Return the journal of a conversation that is held, or hold it until `stack` is closed."""
    if isinstance(conversation, Conversation):
        if conversation.path is None:
            held = f"`store.open({conversation.id!r})`"
            raise StoreError(f"Conversation {conversation.id} is in memory, and was only read. Pass what holds it: {held}.")
        return _held_on_disk(conversation.path, stack)
    if isinstance(conversation, str | os.PathLike):
        return _held_on_disk(Path(conversation), stack)
    return conversation


def _held_on_disk(path: Path, stack: ExitStack) -> ConversationJournal:
    directory = path.absolute()
    return stack.enter_context(closing(FileStore(directory.parent).open(directory.name)))
