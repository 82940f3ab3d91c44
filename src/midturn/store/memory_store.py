"""Conversations in memory, with the behaviour of those on disk: for tests, and for programs that keep nothing."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager

from midturn.core.events import Event
from midturn.core.limits import DEFAULT_LIMITS, Limits
from midturn.errors import StoreError
from midturn.store.clock import now
from midturn.store.conversation import Conversation
from midturn.store.ids import conversation_number, title
from midturn.store.inbox import Inbox
from midturn.store.memory_conversation import MemoryAnswers, MemoryConversation, MemoryJournal
from midturn.store.metadata import Metadata
from midturn.store.settling import take_over


class MemoryStore(Inbox):
    """The `ConversationStore` of one process: gone with it."""

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._kept: dict[str, MemoryConversation] = {}
        self._limits = limits

    def ids(self) -> list[str]:
        """Return the ids of all conversations, oldest first."""
        return list(self._kept)

    def path(self, id: str) -> None:
        """Return None: there is no directory."""
        self._get(id)

    def read(self, id: str) -> Conversation:
        """Return a conversation as it is now."""
        kept = self._get(id)
        return Conversation(id, kept.events, metadata=kept.metadata)

    def create(self, first_words: str) -> MemoryJournal:
        """Begin a conversation, and hold it."""
        return self.open(self._add((), Metadata(title=title(first_words), created_at=now())))

    def open(self, id: str) -> MemoryJournal:
        """Hold a conversation."""
        kept = self._get(id)
        kept.hold()
        take_over(kept, kept.answers)
        return MemoryJournal(kept, after=lambda: self._after(kept))

    def remove(self, id: str) -> None:
        """Forget a conversation."""
        with self.writing(id):
            del self._kept[id]

    def fork(self, id: str, turns: int | None = None) -> str:
        """Copy the finished turns (the first `turns` of them) into a new conversation; return its id."""
        original = self.read(id)
        return self._add(original.events[: original.finished_length(turns)], original.metadata)

    def last_turn(self, id: str) -> Sequence[Event]:
        """Return the events of the last turn of a conversation."""
        return self._get(id).last_turn()

    def unfinished_turns(self) -> Iterator[tuple[str, Sequence[Event]]]:
        """Return the last turn of each conversation."""
        return ((kept.id, kept.last_turn()) for kept in list(self._kept.values()))

    @contextmanager
    def writing(self, id: str) -> Generator[MemoryConversation]:
        """Hold a conversation for one append."""
        kept = self._get(id)
        kept.hold()
        try:
            yield kept
        finally:
            kept.release()

    @contextmanager
    def answers(self, id: str) -> Generator[MemoryAnswers]:
        """Return what is handed over to the holder of a conversation."""
        yield self._get(id).answers

    def is_held(self, id: str) -> bool:
        """Say whether somebody writes the conversation just now."""
        return self._get(id).is_held

    def _get(self, id: str) -> MemoryConversation:
        try:
            return self._kept[id]
        except KeyError:
            raise StoreError(f"There is no conversation {id!r} in memory.") from None

    def _add(self, events: Sequence[Event], metadata: Metadata) -> str:
        number = conversation_number()
        while str(number) in self._kept:
            number += 1
        self._kept[str(number)] = MemoryConversation(str(number), events, metadata, self._limits)
        return str(number)

    def _after(self, kept: MemoryConversation) -> None:
        """Record what was handed over while the conversation was still held."""
        if kept.answers.collect() and not kept.is_held:
            with self.writing(kept.id):
                take_over(kept, kept.answers)
