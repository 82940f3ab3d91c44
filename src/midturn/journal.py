"""Interface between a running turn and the log of its conversation."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from midturn.events.types import AnsweredBy, Event, Note

if TYPE_CHECKING:
    from midturn.question.reply import Reply


class Journal(Protocol):
    """The log of one conversation, locked for writing until the `async with` block ends. The
    store decides where the log is stored.
    """

    @property
    def conversation(self) -> str:
        """The conversation ID."""
        ...

    @property
    def events(self) -> Sequence[Event]:
        """All recorded events, oldest first. Only `append` changes this sequence."""
        ...

    @property
    def answers(self) -> AnswerQueue:
        """Answers submitted by other processes while the conversation is locked."""
        ...

    async def append(self, batch: Sequence[Event]) -> None:
        """Record a batch of events atomically. The events are durable when this returns.

        Raises:
            StoreLocked: Another process took over the conversation. No event of the batch is
                recorded.
            StoreError: The store rejected the batch. No event of the batch is recorded.
        """
        ...

    async def __aenter__(self) -> Self:
        """Return the journal. The conversation is locked already."""
        ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Unlock the conversation. The store uses `error` to decide when the turn is retried."""
        ...


class QueuedReply(Protocol):
    """An answer that was not given at a prompt of this process, and is not recorded yet."""

    @property
    def event_id(self) -> str:
        """The `event_id` of the request that this answers."""
        ...

    @property
    def reply(self) -> Reply:
        """The person's reply."""
        ...

    @property
    def by(self) -> AnsweredBy:
        """The person who answered, and the interface."""
        ...

    @property
    def digest(self) -> str:
        """Digest of the subject that was shown, to detect a later change of the subject; see
        `OpenQuestion.digest`.
        """
        ...

    @property
    def note(self) -> Note | None:
        """A note on the request, submitted instead of an answer. If set, there is no `reply`."""
        ...

    @property
    def name(self) -> str:
        """Name that distinguishes several votes or notes on one request. Empty for an answer."""
        ...

    @property
    def key(self) -> str:
        """The key under which the answer is stored."""
        ...


class AnswerQueue(Protocol):
    """The queued answers of a locked conversation.

    The batch that records an answer removes it from the queue. Answers to closed questions are
    dropped.
    """

    async def collect(self) -> Sequence[QueuedReply]:
        """Return all queued answers, oldest first."""
        ...

    async def changed(self) -> None:
        """Wait until another answer may be queued."""
        ...

    async def refuse(self, key: str) -> None:
        """Reject an answer. The sender is notified, and the question stays open."""
        ...
