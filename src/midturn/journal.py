"""The port through which a conversation is recorded: its log, and the answers that others hand over to its holder."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from midturn.events.types import AnsweredBy, Event, Note

if TYPE_CHECKING:
    from midturn.question.reply import Reply


class Journal(Protocol):
    """The log of one conversation, held for writing until the `async with` block is left. Nothing above it knows where it is kept."""

    @property
    def conversation(self) -> str:
        """The conversation's id."""
        ...

    @property
    def events(self) -> Sequence[Event]:
        """Everything recorded so far, oldest first; it grows with every batch, and cannot be changed otherwise."""
        ...

    @property
    def answers(self) -> AnswerFeed:
        """Answers that others hand over meanwhile."""
        ...

    async def append(self, batch: Sequence[Event]) -> None:
        """Write a batch at once; when this returns, it is durable.

        Raises:
            StoreLocked: Another process has taken the conversation over; nothing of the batch is recorded.
            StoreError: The store refused; nothing of the batch is recorded.
        """
        ...

    async def __aenter__(self) -> Self:
        """Hold the conversation; it is held already."""
        ...

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Release the conversation. The error says why, so that the store knows when to have it tried again."""
        ...


class Handed(Protocol):
    """An answer from outside the prompts of this process."""

    @property
    def event_id(self) -> str:
        """The `event_id` of the request that it answers."""
        ...

    @property
    def reply(self) -> Reply:
        """The person's reply."""
        ...

    @property
    def by(self) -> AnsweredBy:
        """The answerer, and the way."""
        ...

    @property
    def digest(self) -> str:
        """The subject that was shown, where it may have changed since; see `OpenQuestion.digest`."""
        ...

    @property
    def note(self) -> Note | None:
        """A note on the request in place of an answer: then there is no reply."""
        ...

    @property
    def name(self) -> str:
        """The name of a vote or a note: there may be several on a request; empty of an answer."""
        ...

    @property
    def key(self) -> str:
        """The name that it is stored under."""
        ...


class AnswerFeed(Protocol):
    """The answers that were handed over to the holder of the conversation.

    One that is recorded goes away with the batch that records it, and one whose question is closed goes away unread.
    """

    async def collect(self) -> Sequence[Handed]:
        """Return all that are there, oldest first."""
        ...

    async def changed(self) -> None:
        """Return when something may have been handed over."""
        ...

    async def refuse(self, key: str) -> None:
        """Turn one down: its giver hears so, and its question stays open."""
        ...
