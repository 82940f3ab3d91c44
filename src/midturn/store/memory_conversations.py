"""Conversations in memory, with the behaviour of those on disk."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import islice

import msgspec

from midturn.clock import now, pause
from midturn.core.codec import decode_lines, encode_event
from midturn.core.events import Event
from midturn.core.limits import DEFAULT_LIMITS, Limits
from midturn.core.stream import OpenQuestion, open_turn
from midturn.core.stream.children import parent_of
from midturn.core.turn.pending import pending
from midturn.errors import StoreError, StoreLocked
from midturn.store.alone import patiently
from midturn.store.conversation import Conversation
from midturn.store.ids import conversation_number, title
from midturn.store.memory_conversation import MemoryConversation, MemoryJournal, holder_here
from midturn.store.metadata import Metadata
from midturn.store.port import Decide, Growth, HeldBy, LastTurn, Settled, Which
from midturn.store.readiness import is_due, is_ready
from midturn.store.submission import HandedOver

_LOOK = 0.05  # seconds between two looks for conversations that are due
_WATCHED = 0.25  # seconds between two looks for what has happened


class MemoryConversations:
    """The `StorePort` of one process: gone with it."""

    needs_loop = False

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._kept: dict[str, MemoryConversation] = {}
        self.limits = limits
        """What may be recorded here at once."""
        self._names: dict[str, object] = {}

    @property
    def place(self) -> str:
        """What names this memory."""
        return f"memory {id(self)}"

    async def create(self, first_words: str) -> MemoryJournal:
        """Begin a conversation, and hold it."""
        return await self.open(self._add((), Metadata(title=title(first_words), created_at=now())))

    async def open(self, id: str) -> MemoryJournal:
        """Hold a conversation."""
        kept = self._get(id)
        kept.hold()
        return MemoryJournal(kept)

    async def claim(self, limit: int = 1) -> Sequence[MemoryJournal]:
        """Hold conversations that are due and free."""
        claimed: list[MemoryJournal] = []
        for kept in self._open():
            if len(claimed) == limit:
                break
            turn = kept.last_turn()
            if (
                not kept.is_held
                and not parent_of(turn.events)
                and is_due(turn, self._find)
                and kept.tries.allow(turn.events[-1].event_id, time.time())
            ):
                with suppress(StoreLocked):
                    claimed.append(await self.open(kept.id))
                    kept.tries = kept.tries.once_more(turn.events[-1].event_id, time.time())
        return claimed

    @asynccontextmanager
    async def alone(self, name: str) -> AsyncGenerator[None]:
        """Let no other block run for the same name meanwhile."""
        own = object()

        async def take() -> bool | None:
            return self._names.setdefault(name, own) is own or None

        await patiently(take)
        try:
            yield
        finally:
            del self._names[name]

    async def woken(self) -> None:
        """Return when it is time to look again."""
        await pause(_LOOK)

    async def stirred(self, since: int) -> int:
        """Return when it is time to look again."""
        if since:
            await pause(_WATCHED)
        return since + 1

    async def grown(self, since: Growth | None = None) -> Growth:
        """Return how many events each conversation has."""
        del since  # counting costs nothing
        return Growth({kept.id: len(kept.events) for kept in list(self._kept.values())})

    async def events_within(self, id: str, length: int) -> int:
        """Return the length: it is counted in events."""
        self._get(id)
        return length

    async def settle(self, id: str, decide: Decide) -> Settled | HeldBy:
        """Append what is decided."""
        kept = self._get(id)
        with kept.mutex:
            turn = kept.last_turn()
            if kept.is_held:
                return HeldBy(conversation=id, turn=turn, holder=holder_here(), since=kept.since)
            kept.append(decide(turn))
            return Settled(turn)

    async def look(self, id: str) -> Settled | HeldBy:
        """Return the last turn as it is now, and who holds the conversation."""
        return await self.settle(id, lambda _: ())

    async def hand_over(self, held: HeldBy, answer: HandedOver) -> bool:
        """Give an answer to whoever holds the conversation."""
        kept = self._get(held.conversation)
        with kept.mutex:
            return kept.is_held and kept.answers.put(answer)

    async def questions(self, prefix: str = "", *, after: str | None = None, limit: int | None = None) -> list[OpenQuestion]:
        """Return open questions."""
        found = [asked for kept in self._open() for asked in pending(kept.last_turn().events, kept.id) if asked.id.startswith(prefix)]
        place = next((index for index, question in enumerate(found) if question.id == after), -1)
        return found[place + 1 :][:limit]

    async def ids(self, *, after: str | None = None, limit: int | None = None, which: Which = "all") -> list[str]:
        """Return ids of conversations, oldest first."""
        match which:
            case "all":
                found = list(self._kept)
            case "begun":
                found = [kept.id for kept in list(self._kept.values()) if kept.events]
            case "open":
                found = [kept.id for kept in self._open()]
            case "ready":
                found = [kept.id for kept in self._open() if self._is_ready(kept)]
        return list(islice((number for number in found if after is None or number > after), limit))

    async def latest(self) -> str | None:
        """Return the id of the newest conversation."""
        return max(self._kept, default=None)

    async def described(self, *, after: str = "", limit: int = 500) -> list[tuple[str, Metadata]]:
        """Return a page of what conversations are called, oldest first."""
        return [(kept.id, kept.metadata) for kept in list(self._kept.values()) if kept.events and kept.id > after][:limit]

    async def read(self, id: str) -> Conversation:
        """Return a conversation as it is now."""
        kept = self._get(id)
        with kept.mutex:
            return Conversation(id, kept.events, metadata=kept.metadata)

    async def lines(self, id: str) -> list[bytes]:
        """Return the events as a file would hold them."""
        return [encode_event(event) for event in (await self.read(id)).events]

    async def add(self, lines: Iterable[bytes], metadata: Metadata, id: str | None = None) -> str:
        """Make a conversation of lines that were written elsewhere; return its id."""
        return self._add(decode_lines(list(lines), "memory"), metadata, id)

    async def describe(self, id: str, **changes: str | tuple[str, ...]) -> Metadata:
        """Change a conversation's `title`, `labels` or `last_activated_at`; return all of its metadata."""
        kept = self._get(id)
        kept.metadata = msgspec.structs.replace(kept.metadata, **changes)
        return kept.metadata

    async def remove(self, id: str) -> None:
        """Forget a conversation."""
        kept = self._get(id)
        with kept.mutex:
            kept.check_free()
            del self._kept[id]

    def _open(self) -> list[MemoryConversation]:
        return [kept for kept in list(self._kept.values()) if open_turn(kept.events)]

    def _is_ready(self, kept: MemoryConversation) -> bool:
        turn = kept.last_turn()
        return not kept.is_held and not parent_of(turn.events) and is_ready(turn, self._find)

    def _find(self, id: str) -> LastTurn | None:
        kept = self._kept.get(id)
        return kept.last_turn() if kept else None

    def _get(self, id: str) -> MemoryConversation:
        try:
            return self._kept[id]
        except KeyError:
            raise StoreError(f"There is no conversation {id!r} in memory.") from None

    def _add(self, events: Iterable[Event], metadata: Metadata, wanted: str | None = None) -> str:
        number = conversation_number()
        while str(number) in self._kept:
            number += 1
        added = wanted if wanted and wanted not in self._kept else str(number)
        self._kept[added] = MemoryConversation(added, tuple(events), metadata, self.limits)
        self._kept = dict(sorted(self._kept.items()))
        return added
