"""Conversations in memory, which behave like conversations on disk."""

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
from midturn.stores.port import (
    ChangeCursor,
    CommittedBatch,
    Decide,
    LastTurn,
    LockedBy,
    MayGo,
    Which,
    following,
)
from midturn.stores.queued_answer import QueuedAnswer, oldest_first
from midturn.stores.store import ConversationStore
from midturn.turn.pending import pending
from midturn.turn.view import TurnView

if TYPE_CHECKING:
    import asyncio


# --------------------------------------------------------------------------------------------------
# A conversation in memory, and its lock


class MemoryFeed:
    """The answer queue of a locked conversation in memory. A new answer wakes the waiters
    immediately, in any thread.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, QueuedAnswer] = {}
        self._wakers: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}

    def put(self, answer: QueuedAnswer) -> bool:
        """Queue an answer. Return False if another answer with the same key is queued already."""
        if self._waiting.setdefault(answer.key, answer) is not answer:
            return False
        for waker, loop in list(self._wakers.items()):
            with suppress(RuntimeError):  # the waiter's loop has ended
                loop.call_soon_threadsafe(waker.set)
        return True

    def waiting(self) -> tuple[QueuedAnswer, ...]:
        """Return all queued answers, oldest first."""
        return oldest_first(self._waiting.copy().values())

    def remove(self, key: str) -> None:
        """Remove a queued answer."""
        self._waiting.pop(key, None)

    async def collect(self) -> tuple[QueuedAnswer, ...]:
        """Return all queued answers, oldest first."""
        return self.waiting()

    async def changed(self) -> None:
        """Wait until another answer is queued."""
        waker = asyncio.Event()
        self._wakers[waker] = asyncio.get_running_loop()
        try:
            await waker.wait()
        finally:
            del self._wakers[waker]

    async def refuse(self, key: str) -> None:
        """Refuse a queued answer."""
        self.remove(key)


class MemoryConversation:
    """Equivalent of a conversation's directory on disk: events, metadata, lock, queued answers."""

    def __init__(
        self, id: str, events: Sequence[Event], metadata: Metadata, limits: Limits = DEFAULT_LIMITS
    ) -> None:
        self.id = id
        self.events = list(events)
        self.metadata = metadata
        self.answers = MemoryFeed()
        self.mutex = threading.Lock()
        """Held briefly by readers and writers in any thread."""
        self.since = ""
        """Time at which the conversation was locked for a turn; empty if it is free."""
        self.tries = Tries()
        """Number and time of the workers' attempts to continue its open turn."""
        self.key = ""
        """Key of the conversation; empty if it has none."""
        self._limits = limits

    @property
    def is_held(self) -> bool:
        """Whether the conversation is locked for a turn."""
        return bool(self.since)

    def hold(self) -> None:
        """Lock the conversation for a turn.

        Raises:
            StoreLocked: The conversation is already locked.
        """
        with self.mutex:
            self.check_free()
            self.since = now()

    def check_free(self) -> None:
        """Check that the conversation is not locked.

        Raises:
            StoreLocked: The conversation is locked.
        """
        if self.since:
            message = (
                f"The conversation {self.id} is being written by this process since {self.since}."
                " Wait until it is done, or end it."
            )
            raise StoreLocked(message, holder_here(), self.since)

    def release(self) -> None:
        """Release the conversation."""
        self.since = ""

    def last_turn(self) -> LastTurn:
        """Return the last turn and the queued answers."""
        windows = turns(self.events)
        return LastTurn(windows[-1].events if windows else (), self.answers.waiting())

    def append(self, batch: Sequence[Event]) -> None:
        """Record a batch.

        Raises:
            StoreError: The batch is larger than the limits allow; no event of it is recorded.
        """
        written, _ = as_written(
            batch, self._limits
        )  # also refuse batches that cannot be written to a file
        self.events.extend(written)
        waiting = self.answers.waiting() if may_close(written) else ()
        for handed in outdated(waiting, self.events) if waiting else ():
            self.answers.remove(handed.key)


class MemoryJournal:
    """The only writer of a conversation in memory, until `close`."""

    def __init__(self, held: MemoryConversation) -> None:
        """Write to a conversation that the caller locked."""
        self._held = held
        self._closed = False
        self.events: Sequence[Event] = EventLog(held.events)
        """Everything recorded so far, oldest first."""
        self.answers = held.answers
        """Answers that other tasks queued."""

    @property
    def conversation(self) -> str:
        """The conversation's id."""
        return self._held.id

    async def append(self, batch: Sequence[Event]) -> None:
        """Record a batch.

        Raises:
            StoreError: The batch is larger than the limits allow, or the journal is closed; no
                event of the batch is recorded.
        """
        if self._closed:
            raise StoreError(
                f"The conversation {self._held.id} is closed: nothing more can be recorded by this"
                " writer."
            )
        with self._held.mutex:
            self._held.append(batch)

    def mark_ready(self) -> None:
        """Do nothing: workers poll all turns."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the conversation."""
        if not self._closed:
            self._closed = True
            self._held.release()


def holder_here() -> str:
    """Return a description of this process."""
    return f"pid {os.getpid()} on {os.uname().nodename}"


_POLL_INTERVAL = 0.05  # seconds between two polls for due conversations
_CHANGE_POLL_INTERVAL = 0.25  # seconds between two polls for changes


class MemoryChangeFeed:
    """The change feed of conversations in memory. A length is a number of events."""

    def __init__(self, events: Callable[[], Mapping[str, int]]) -> None:
        self._events = events

    async def wait_for_change(self, since: int) -> int:
        """Wait until the next poll."""
        if since:
            await pause(_CHANGE_POLL_INTERVAL)
        return since + 1

    async def lengths(self, since: ChangeCursor | None = None) -> ChangeCursor:
        """Return the number of events of each conversation."""
        del since  # all conversations are counted, because that is cheap
        return ChangeCursor(self._events())

    async def events_within(self, id: str, length: int) -> int:
        """Return the length, because lengths are numbers of events."""
        del id
        return length


class MemoryKeyValueStore:
    """Small named values, in memory."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    async def kept(self, beginning: str) -> Mapping[str, bytes]:
        """Return the values whose names start with `beginning`."""
        return {name: content for name, content in self._kept.items() if name.startswith(beginning)}

    async def keep(self, name: str, content: bytes | None) -> None:
        """Store a value under a name; None removes it."""
        if content is None:
            self._kept.pop(name, None)
        else:
            self._kept[name] = content


class MemoryConversations:
    """A `StorePort` whose conversations are lost when the process ends."""

    needs_loop = False
    is_for_people = False
    is_own = True

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self._kept: dict[str, MemoryConversation] = {}
        self.beside = MemoryKeyValueStore()
        """Small named values stored with the conversations."""
        self.growing = MemoryChangeFeed(
            lambda: {kept.id: len(kept.events) for kept in list(self._kept.values())}
        )
        """The change feed of the conversations."""
        self.limits = limits
        """Limits of a batch of events."""
        self._names: dict[str, object] = {}
        self._keys: dict[str, str] = {}  # IDs of conversations by key

    @property
    def place(self) -> str:
        """Name of this object's memory, which no other object shares."""
        return f"memory {id(self)}"

    async def create(self, first_words: str) -> MemoryJournal:
        """Create and lock a conversation."""
        return await self.open(self._add((), Metadata(title=title(first_words), created_at=now())))

    async def open(self, id: str) -> MemoryJournal:
        """Lock a conversation."""
        kept = self._get(id)
        kept.hold()
        return MemoryJournal(kept)

    async def claim(self, limit: int = 1, without: Collection[str] = ()) -> Sequence[MemoryJournal]:
        """Lock conversations that are due and free."""
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
        """Run the block while no other block runs for the same name."""
        own = object()

        async def take() -> bool | None:
            return self._names.setdefault(name, own) is own or None

        await patiently(take)
        try:
            yield
        finally:
            del self._names[name]

    async def wait_for_work(self) -> None:
        """Wait until the next poll."""
        await pause(_POLL_INTERVAL)

    async def settle(self, id: str, decide: Decide) -> CommittedBatch | LockedBy:
        """Append the events that `decide` returns."""
        kept = self._get(id)
        with kept.mutex:
            turn = kept.last_turn()
            if kept.is_held:
                return LockedBy(conversation=id, turn=turn, holder=holder_here(), since=kept.since)
            kept.append(decided(decide, turn, id))
            return CommittedBatch(turn)

    async def look(self, id: str) -> CommittedBatch | LockedBy:
        """Return the last turn, and the task that locked the conversation, if any."""
        return await self.settle(id, lambda _: ())

    async def queue_answer(self, held: LockedBy, answer: QueuedAnswer) -> bool:
        """Queue an answer for the task that locked the conversation."""
        kept = self._get(held.conversation)
        with kept.mutex:
            return kept.is_held and kept.answers.put(answer)

    async def questions(
        self, prefix: str = "", *, after: str | None = None, limit: int | None = None
    ) -> list[OpenQuestion]:
        """Return open questions."""
        found = [
            asked
            for kept in self._open()
            for asked in pending(kept.last_turn().events, kept.id)
            if asked.id.startswith(prefix)
        ]
        return following(found, after)[:limit]

    async def ids(
        self, *, after: str | None = None, limit: int | None = None, which: Which = "all"
    ) -> list[str]:
        """Return ids of conversations, oldest first."""
        match which:
            case "all":
                found = list(self._kept)
            case "begun":
                found = [kept.id for kept in list(self._kept.values()) if kept.events]
            case "open":
                found = [kept.id for kept in self._open()]
            case "ready":
                found = [kept.id for kept in self._open() if self._can_continue(kept, is_ready)]
            case "ready_or_interrupted":
                found = [kept.id for kept in self._open() if self._can_continue(kept, is_due)]
        return list(islice((number for number in found if after is None or number > after), limit))

    async def find_key(self, key: str) -> str | None:
        """Return the conversation that has this key."""
        return self._keys.get(key)

    async def assign_key(self, key: str, id: str) -> str:
        """Give a key to a conversation, unless an existing conversation has it."""
        kept = self._get(id)
        holder = self._keys.setdefault(key, id)
        if holder == id:
            kept.key = key
        return holder

    async def overdue(self, now: str) -> list[str]:
        """Return conversations with a question whose deadline has passed."""
        return [
            kept.id
            for kept in self._open()
            if "" < TurnView.last(kept.last_turn().events).first_deadline <= now
        ]

    async def newest(self, limit: int, before: str = "") -> list[str]:
        """Return the newest conversations that contain events, the newest first."""
        return [
            kept.id
            for kept in reversed(list(self._kept.values()))
            if kept.events and (not before or kept.id < before)
        ][:limit]

    async def described(
        self, *, after: str = "", limit: int = 500, only: Collection[str] | None = None
    ) -> list[tuple[str, Metadata]]:
        """Return the metadata of a page of the conversations, oldest first."""
        every = (
            list(self._kept.values())
            if only is None
            else [self._kept[id] for id in sorted(only) if id in self._kept]  # noqa: A001
        )
        return [(kept.id, kept.metadata) for kept in every if kept.events and kept.id > after][
            :limit
        ]

    async def read(self, id: str) -> Conversation:
        """Return a conversation as it is now."""
        kept = self._get(id)
        with kept.mutex:
            return Conversation(id, kept.events, metadata=kept.metadata)

    async def part(self, id: str, mark: Mark) -> Part:
        """Return the whole conversation as one part."""
        del mark
        whole = await self.read(id)
        return Part(
            lines=await self.lines(id),
            metadata=whole.metadata,
            decode=lambda: whole.events,
            problems=whole.problems,
        )

    async def last_turns(self, id: str, count: int, before: int | None = None) -> Mark:
        """Return the start of the conversation, because it is always read as a whole."""
        del id, count, before
        return Mark()

    async def lines(self, id: str) -> list[bytes]:
        """Return the events as the lines of a file."""
        return [encode_event(event) for event in (await self.read(id)).events]

    async def add(self, lines: Iterable[bytes], metadata: Metadata, id: str | None = None) -> str:
        """Create a conversation from existing lines; return its ID."""
        return self._add(decode_lines(list(lines), "memory"), metadata, id)

    async def describe(self, id: str, **changes: str | tuple[str, ...]) -> Metadata:
        """Change a conversation's `title`, `labels` or `last_activated_at`; return all of its
        metadata.
        """
        kept = self._get(id)
        kept.metadata = msgspec.structs.replace(kept.metadata, **changes)
        return kept.metadata

    async def remove(self, id: str, may_go: MayGo | None = None) -> bool:
        """Remove a conversation."""
        kept = self._get(id)
        with kept.mutex:
            kept.check_free()
            if may_go and not may_go(kept.last_turn()):
                return False
            del self._kept[id]
            if kept.key:
                del self._keys[kept.key]
        return True

    def _open(self) -> list[MemoryConversation]:
        return [kept for kept in list(self._kept.values()) if open_turn(kept.events)]

    def _can_continue(
        self, kept: MemoryConversation, judged: Callable[[LastTurn, FindTurn], bool]
    ) -> bool:
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


# --------------------------------------------------------------------------------------------------
# The store of conversations in memory


class MemoryStore(ConversationStore):
    """Conversations that are lost when the process ends, for tests and for programs without
    storage.

    Args:
        limits: Limits for the nesting of answers and the size of a batch.
    """

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        super().__init__(MemoryConversations(limits))

    def __repr__(self) -> str:
        return public_repr(self, "MemoryStore")
