"""Where conversations are kept: the protocol, on disk (`FileStore`) or in memory (`MemoryStore`)."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

from msgspec import UNSET, UnsetType

from midturn.core.json_value import Json
from midturn.core.stream import OpenQuestion
from midturn.ports import Journal
from midturn.store.answering import Receipt
from midturn.store.conversation import Conversation
from midturn.store.file_store import FileStore
from midturn.store.handover import Answers


class ConversationJournal(Journal, Protocol):
    """A journal with the answers that others hand over while it is held."""

    @property
    def answers(self) -> Answers:
        """What was handed over and not yet taken."""
        ...


class ConversationStore(Protocol):
    """Conversations by id. Reading needs no lock; one writer at a time holds each."""

    def create(self, first_words: str) -> ConversationJournal:
        """Begin a conversation, and hold it; its name is made of the first words of the request."""
        ...

    def open(self, id: str) -> ConversationJournal:
        """Hold a conversation for writing.

        Raises:
            StoreLocked: Another process holds it.
            StoreError: There is none, or it cannot be read or written.
        """
        ...

    def read(self, id: str) -> Conversation:
        """Read a conversation.

        Raises:
            StoreError: There is none, or it cannot be read.
        """
        ...

    def ids(self) -> list[str]:
        """Return the ids of all conversations, oldest first."""
        ...

    def path(self, id: str) -> Path | None:
        """Return a conversation's directory; None where it is in memory."""
        ...

    def remove(self, id: str) -> None:
        """Remove a conversation for good."""
        ...

    def fork(self, id: str, turns: int | None = None) -> str:
        """Copy the finished turns of a conversation (the first `turns` of them) into a new one; return its id."""
        ...

    def pending(self) -> list[OpenQuestion]:
        """Return the open questions of all conversations, the oldest conversation first."""
        ...

    def ready(self) -> list[str]:
        """Return the conversations whose turn can go on: an open question was answered, and nobody holds them."""
        ...

    async def answer(  # noqa: PLR0913 (a public signature)
        self,
        id: str,
        value: Json | UnsetType = UNSET,
        *,
        approve: bool | None = None,
        arguments: Json | UnsetType = UNSET,
        reply: str | None = None,
        cancel: bool = False,
        reason: str | None = None,
        user: str | None = None,
        via: str = "api",
    ) -> Receipt:
        """Answer an open question (`id`: its request's `event_id`, or a unique beginning of it) in exactly one way.

        Args:
            id: Of the question.
            value: The answer; of a whole form, an object by question id.
            approve: The decision about a call (kind `run`), a result (`deliver`) or the answers of a form (`review`).
            arguments: What the call shall run with, or the content to deliver, instead.
            reply: Words for the model instead of an answer; may be empty.
            cancel: End the turn.
            reason: Why; recorded with a value or a decision.
            user: Who answers, as the calling program knows them.
            via: How: `inbox`, `web`, `api`, `mcp`.

        Raises:
            AnswerError: It does not fit; `problems` says why. A secret is never taken here.
            AlreadyAnswered: Somebody was first; `by` says who.
            NotOpen: There is no such question, or its turn is over.
        """
        ...


def open_store(path: str | os.PathLike[str]) -> FileStore:
    """Return the store in the directory `path`, which is created with the first conversation."""
    return FileStore(Path(path))
