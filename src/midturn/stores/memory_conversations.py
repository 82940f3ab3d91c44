"""Conversations in memory, with the behaviour of those on disk."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Self

import msgspec

from midturn.clock import SYSTEM_TIME, now, pause
from midturn.errors import NoConversation, StoreError, StoreLocked
from midturn.events.codec import decode_lines, encode_event
from midturn.events.open_question import OpenQuestion
from midturn.events.provider_view import EventLog
from midturn.events.types import Event
from midturn.events.window import open_turn, parent_of, turns
from midturn.question.json_value import DEFAULT_LIMITS, Limits
from midturn.question.public_names import public_repr
from midturn.stores.batch import as_written, decided, may_close
from midturn.stores.claims import Tries, patiently
from midturn.stores.conversation import Conversation
from midturn.stores.decisions import FindTurn, is_due, is_ready, outdated
from midturn.stores.log_tail import Mark, Part
from midturn.stores.metadata import Metadata, conversation_number, title
from midturn.stores.port import Decide, Growth, HeldBy, LastTurn, MayGo, PortOfBefore, Settled, Which, following
from midturn.stores.queued_answer import HandedOver, oldest_first
from midturn.stores.store import ConversationStore
from midturn.turn.pending import pending
from midturn.turn.view import TurnView

if TYPE_CHECKING:
    import asyncio


# ----------------------------------------------------------------------------------------------------------------------
# A conversation in memory, and its holder


class MemoryFeed:
    """Answers handed over to the holder of a conversation in memory; a wait for more ends at once, in any thread."""

    def __init__(self) -> None:
        self._waiting: dict[str, HandedOver] = {}
        self._wakers: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}

    def put(self, answer: HandedOver) -> bool:
        """Hand one over; the first wins, and for any other this is False."""
        if self._waiting.setdefault(answer.key, answer) is not answer:
            return False
        for waker, loop in list(self._wakers.items()):
            with suppress(RuntimeError):  # that loop has ended
                loop.call_soon_threadsafe(waker.set)
        return True

    def waiting(self) -> tuple[HandedOver, ...]:
        """Return all of them, oldest first."""
        return oldest_first(self._waiting.copy().values())

    def remove(self, key: str) -> None:
        """Take one away."""
        self._waiting.pop(key, None)

    async def collect(self) -> tuple[HandedOver, ...]:
        """Return all of them, oldest first."""
        return self.waiting()

    async def changed(self) -> None:
        """Return when another one is handed over."""
        waker = asyncio.Event()
        self._wakers[waker] = asyncio.get_running_loop()
        try:
            await waker.wait()
        finally:
            del self._wakers[waker]

    async def refuse(self, key: str) -> None:
        """Turn one down."""
        self.remove(key)


class MemoryConversation:
    """The content of a directory on disk: events, metadata, the lock, the answers that were handed over."""

    def __init__(self, id: str, events: Sequence[Event], metadata: Metadata, limits: Limits = DEFAULT_LIMITS) -> None:
        self.id = id
        self.events = list(events)
        self.metadata = metadata
        self.answers = MemoryFeed()
        self.mutex = threading.Lock()
        """Taken for a moment by readers and writers in any thread."""
        self.since = ""
        """Since when it is held for a turn; empty while it is not."""
        self.tries = Tries()
        """Vain attempts of workers at its open turn."""
        self._limits = limits

    @property
    def is_held(self) -> bool:
        """Whether it is held for a turn."""
        return bool(self.since)

    def hold(self) -> None:
        """Hold it for a turn.

        Raises:
            StoreLocked: It is held elsewhere.
        """
        with self.mutex:
            self.check_free()
            self.since = now()

    def check_free(self) -> None:
        """Make sure that it is free.

        Raises:
            StoreLocked: It is held.
        """
        if self.since:
            message = f"The conversation {self.id} is being written by this process since {self.since}. Wait until it is done, or end it."
            raise StoreLocked(message, holder_here(), self.since)

    def release(self) -> None:
        """Give the conversation back."""
        self.since = ""

    def last_turn(self) -> LastTurn:
        """Return the last turn, and what was handed over."""
        windows = turns(self.events)
        return LastTurn(windows[-1].events if windows else (), self.answers.waiting())

    def append(self, batch: Sequence[Event]) -> None:
        """Record a batch.

        Raises:
            StoreError: It is larger than the limits allow; nothing of it is recorded.
        """
        written, _ = as_written(batch, self._limits)  # what no file would take is not taken here, either
        self.events.extend(written)
        waiting = self.answers.waiting() if may_close(written) else ()
        for handed in outdated(waiting, self.events) if waiting else ():
            self.answers.remove(handed.key)


class MemoryJournal:
    """The one writer of a conversation in memory, until `close`."""

    def __init__(self, held: MemoryConversation) -> None:
        """Write what the caller holds."""
        self._held = held
        self._closed = False
        self.events: Sequence[Event] = EventLog(held.events)
        """Everything recorded so far, oldest first."""
        self.answers = held.answers
        """Answers that others hand over meanwhile."""

    @property
    def conversation(self) -> str:
        """The conversation's id."""
        return self._held.id

    async def append(self, batch: Sequence[Event]) -> None:
        """Record a batch.

        Raises:
            StoreError: It is larger than the limits allow, or the journal is closed; nothing of it is recorded.
        """
        if self._closed:
            raise StoreError(f"The conversation {self._held.id} is closed: nothing more can be recorded by this writer.")
        with self._held.mutex:
            self._held.append(batch)

    def go_on_soon(self) -> None:
        """Do nothing: workers look at all turns again and again."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Release the conversation."""
        if not self._closed:
            self._closed = True
            self._held.release()


def holder_here() -> str:
    """Return this process as a holder."""
    return f"pid {os.getpid()} on {os.uname().nodename}"


_LOOK = 0.05  # seconds between two looks for conversations that are due
_WATCHED = 0.25  # seconds between two looks for what has happened


class MemoryGrowing:
    """Numbers of events of conversations in memory."""

    def __init__(self, events: Callable[[], Mapping[str, int]]) -> None:
        self._events = events

    async def stirred(self, since: int) -> int:
        """Return when it is time to look again."""
        if since:
            await pause(_WATCHED)
        return since + 1

    async def lengths(self, since: Growth | None = None) -> Growth:
        """Return how many events each conversation has."""
        del since  # counting costs nothing
        return Growth(self._events())

    async def events_within(self, id: str, length: int) -> int:
        """Return the length: it is counted in events."""
        del id
        return length


class MemoryBeside:
    """Small things kept beside conversations by name, in memory."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    async def kept(self, beginning: str) -> Mapping[str, bytes]:
        """Return what is kept under names with this beginning."""
        return {name: content for name, content in self._kept.items() if name.startswith(beginning)}

    async def keep(self, name: str, content: bytes | None) -> None:
        """Keep something under a name."""
        if content is None:
            self._kept.pop(name, None)
        else:
            self._kept[name] = content


class MemoryConversations(PortOfBefore):
    """The `StorePort` of one process: gone with it."""

    needs_loop = False
    is_for_people = False
    is_own = True

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._kept: dict[str, MemoryConversation] = {}
        self.beside = MemoryBeside()
        """Small things kept beside the conversations."""
        self.growing = MemoryGrowing(lambda: {kept.id: len(kept.events) for kept in list(self._kept.values())})
        """Their growth."""
        self.limits = limits
        """Limits of a batch of events."""
        self._names: dict[str, object] = {}

    @property
    def place(self) -> str:
        """Name of this memory."""
        return f"memory {id(self)}"

    async def create(self, first_words: str) -> MemoryJournal:
        """Begin a conversation, and hold it."""
        return await self.open(self._add((), Metadata(title=title(first_words), created_at=now())))

    async def open(self, id: str) -> MemoryJournal:
        """Hold a conversation."""
        kept = self._get(id)
        kept.hold()
        return MemoryJournal(kept)

    async def claim(self, limit: int = 1, without: Collection[str] = ()) -> Sequence[MemoryJournal]:
        """Hold conversations that are due and free."""
        claimed: list[MemoryJournal] = []
        for kept in self._open():
            if len(claimed) == limit:
                break
            turn = kept.last_turn()
            if (
                not kept.is_held
                and kept.id not in without
                and not parent_of(turn.events)
                and is_due(turn, self._find, SYSTEM_TIME.now(turn.events))
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

    async def settle(self, id: str, decide: Decide) -> Settled | HeldBy:
        """Append what is decided."""
        kept = self._get(id)
        with kept.mutex:
            turn = kept.last_turn()
            if kept.is_held:
                return HeldBy(conversation=id, turn=turn, holder=holder_here(), since=kept.since)
            kept.append(decided(decide, turn, id))
            return Settled(turn)

    async def look(self, id: str) -> Settled | HeldBy:
        """Return the last turn as it is now, and who holds the conversation."""
        return await self.settle(id, lambda _: ())

    async def hand_over(self, held: HeldBy, answer: HandedOver) -> bool:
        """Give an answer to the holder of the conversation."""
        kept = self._get(held.conversation)
        with kept.mutex:
            return kept.is_held and kept.answers.put(answer)

    async def questions(self, prefix: str = "", *, after: str | None = None, limit: int | None = None) -> list[OpenQuestion]:
        """Return open questions."""
        found = [asked for kept in self._open() for asked in pending(kept.last_turn().events, kept.id) if asked.id.startswith(prefix)]
        return following(found, after)[:limit]

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
                found = [kept.id for kept in self._open() if self._goes_on(kept, is_ready)]
            case "ready_or_interrupted":
                found = [kept.id for kept in self._open() if self._goes_on(kept, is_due)]
        return list(islice((number for number in found if after is None or number > after), limit))

    async def overdue(self, now: str) -> list[str]:
        """Return conversations with a question whose deadline has passed."""
        return [kept.id for kept in self._open() if "" < TurnView.last(kept.last_turn().events).first_deadline <= now]

    async def newest(self, limit: int, before: str = "") -> list[str]:
        """Return the newest conversations in which anything is recorded, the newest first."""
        return [kept.id for kept in reversed(list(self._kept.values())) if kept.events and (not before or kept.id < before)][:limit]

    async def described(self, *, after: str = "", limit: int = 500, only: Collection[str] | None = None) -> list[tuple[str, Metadata]]:
        """Return a page of what conversations are called, oldest first."""
        every = list(self._kept.values()) if only is None else [self._kept[id] for id in sorted(only) if id in self._kept]  # noqa: A001
        return [(kept.id, kept.metadata) for kept in every if kept.events and kept.id > after][:limit]

    async def read(self, id: str) -> Conversation:
        """Return a conversation as it is now."""
        kept = self._get(id)
        with kept.mutex:
            return Conversation(id, kept.events, metadata=kept.metadata)

    async def part(self, id: str, mark: Mark) -> Part:
        """Return all of it: what is read here is read at once."""
        del mark
        whole = await self.read(id)
        return Part(lines=await self.lines(id), metadata=whole.metadata, decode=lambda: whole.events, problems=whole.problems)

    async def last_turns(self, id: str, count: int, before: int | None = None) -> Mark:
        """Return the beginning."""
        del id, count, before
        return Mark()

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

    async def remove(self, id: str, may_go: MayGo | None = None) -> bool:
        """Forget a conversation."""
        kept = self._get(id)
        with kept.mutex:
            kept.check_free()
            if may_go and not may_go(kept.last_turn()):
                return False
            del self._kept[id]
        return True

    def _open(self) -> list[MemoryConversation]:
        return [kept for kept in list(self._kept.values()) if open_turn(kept.events)]

    def _goes_on(self, kept: MemoryConversation, judged: Callable[[LastTurn, FindTurn], bool]) -> bool:
        turn = kept.last_turn()
        return not kept.is_held and not parent_of(turn.events) and judged(turn, self._find)

    def _find(self, id: str) -> LastTurn | None:
        kept = self._kept.get(id)
        return kept.last_turn() if kept else None

    def _get(self, id: str) -> MemoryConversation:
        try:
            return self._kept[id]
        except KeyError:
            raise NoConversation(f"There is no conversation {id!r} in memory.") from None

    def _add(self, events: Iterable[Event], metadata: Metadata, wanted: str | None = None) -> str:
        number = conversation_number()
        while str(number) in self._kept:
            number += 1
        added = wanted if wanted and wanted not in self._kept else str(number)
        self._kept[added] = MemoryConversation(added, tuple(events), metadata, self.limits)
        self._kept = dict(sorted(self._kept.items()))
        return added


# ----------------------------------------------------------------------------------------------------------------------
# A store whose conversations are gone with the process


class MemoryStore(ConversationStore):
    """Conversations of one process, gone with it: for tests, and for programs that keep nothing.

    Args:
        limits: How deep answers may be nested, and how much one batch may weigh.
    """

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        super().__init__(MemoryConversations(limits))

    def __repr__(self) -> str:
        return public_repr(self, "MemoryStore")
