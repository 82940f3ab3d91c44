"""A conversation that a command holds for writing, from its first look at it to its last word."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from midturn.core.events import Event
from midturn.store.file_store import FileStore
from midturn.store.store import ConversationJournal


class Held:
    """Use it in a `with` statement; `journal` is the conversation's log."""

    def __init__(self, store: FileStore, journal: ConversationJournal) -> None:
        self._store = store
        self.journal = journal

    @classmethod
    def existing(cls, store: FileStore, conversation: str) -> Self:
        """Hold a conversation.

        Raises:
            StoreLocked: Another process holds it.
            StoreError: There is none, or it cannot be read or written.
        """
        return cls(store, store.open(conversation))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.journal.close()

    @property
    def conversation(self) -> str:
        """The conversation's id."""
        return self.journal.conversation

    @property
    def events(self) -> Sequence[Event]:
        """Everything recorded so far."""
        return self.journal.events

    def has_answers(self) -> bool:
        """Say whether somebody has handed an answer over."""
        return bool(self.journal.answers.collect())

    def take_answers(self) -> None:
        """Have what was handed over recorded: whoever opens a conversation does that first."""
        self.journal.close()
        self.journal = self._store.open(self.conversation)
