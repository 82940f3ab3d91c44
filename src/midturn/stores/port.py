"""`StorePort`: the operations that a storage backend must provide. Files, memory and databases
implement it.

A `StorePort` is small on purpose. Behaviour that is the same for all backends (answering, listing
open questions, forking, recording queued answers, authorization) is implemented once on top of it,
in `ConversationStore`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypeAlias

from msgspec import Struct

from midturn.errors import StoreError
from midturn.events.open_question import parse_address
from midturn.events.types import Event, user_requests
from midturn.journal import AnswerQueue, Journal
from midturn.question.json_value import Limits
from midturn.stores.log_tail import Mark, Part
from midturn.stores.metadata import Metadata, title

if TYPE_CHECKING:  # annotations only: none of these classes is decoded from JSON
    from midturn.events.open_question import OpenQuestion
    from midturn.stores.conversation import Conversation
    from midturn.stores.queued_answer import QueuedAnswer


Which: TypeAlias = Literal["all", "begun", "open", "ready", "ready_or_interrupted"]
"""Selects conversations. `all`: every conversation. `begun`: conversations with events. Lists
show only these, because a process may be killed before it records any event. `open`:
conversations whose last turn is open. `ready`: free conversations whose turn can continue because
a question was answered. `ready_or_interrupted`: ready conversations, and free conversations whose
run ended in the middle of a model request or a call.
"""


NO_KEYS: Final = (
    "This store does not support keys of conversations, because its `StorePort` has no `find_key`"
    " and `assign_key`. Upgrade the package of the store, or create the conversation without a key."
)


class LastTurn(Struct, frozen=True):
    """The last turn of a conversation, finished or not, and the queued answers that the process
    with the lock has not recorded yet.
    """

    events: Sequence[Event]
    handed: tuple[QueuedAnswer, ...] = ()
    is_for_people: bool = False
    """Whether the store is in the user's data directory. Only a person may answer there, not a
    process that a tool started.
    """


Decide: TypeAlias = Callable[[LastTurn], Sequence[Event]]
MayGo: TypeAlias = Callable[[LastTurn], bool]
"""Returns whether a conversation with this last turn may be removed.

The function must be pure, because it may be called again.
"""


class CommittedBatch(Struct, frozen=True):
    """The conversation was not locked, and the decided events are recorded. `turn` is the last
    turn before these events.
    """

    turn: LastTurn


class LockedBy(Struct, frozen=True, kw_only=True):
    """The conversation is locked, so nothing was recorded. `token` is an opaque value that
    `queue_answer` needs.
    """

    conversation: str
    turn: LastTurn
    holder: str = ""
    since: str = ""
    token: object = None


class PortAnswerQueue(AnswerQueue, Protocol):
    """The answer queue of a locked conversation, as implemented by a store."""

    async def collect(self) -> tuple[QueuedAnswer, ...]:
        """Return all queued answers, oldest first."""
        ...


class PortJournal(Journal, Protocol):
    """A locked conversation. After each batch, queued answers to closed questions are removed."""

    @property
    def answers(self) -> PortAnswerQueue:
        """Answers that other processes queued."""
        ...

    def mark_ready(self) -> None:
        """Mark the open turn for a worker, which examines it after the lock is released.

        A store whose workers poll all turns does nothing.
        """
        ...


class ChangeCursor(Struct, frozen=True):
    """The lengths of conversations at one call of `ChangeFeed.lengths`, to find later changes.

    The unit of a length is private to the store. A length changes with every recorded batch.
    """

    lengths: Mapping[str, int]
    token: object = None
    """Private to the store; passed to the next call."""
    gone: Collection[str] | None = None
    """Removed conversations that had an open turn; None if the store cannot determine them."""
    is_whole: bool = False
    """Whether `lengths` contains all conversations, even if only changed ones were requested."""


def following(questions: Sequence[OpenQuestion], last: str | None) -> list[OpenQuestion]:
    """Return the open questions that follow the question `last` of the previous page.

    If that question has been closed since, the other questions of its conversation are returned
    again.
    """
    at = parse_address(last or "")
    if last is None or at is None:
        return list(questions)
    place = next((index for index, question in enumerate(questions) if question.id == last), None)
    return (
        list(questions[place + 1 :])
        if place is not None
        else [one for one in questions if one.conversation >= at.conversation]
    )


class KeyValueStore(Protocol):
    """Small named values stored with the conversations: accounts linked to people, questions sent
    through channels, partly filled forms.
    """

    async def kept(self, beginning: str) -> Mapping[str, bytes]:
        """Return the values whose names start with `beginning`."""
        ...

    async def keep(self, name: str, content: bytes | None) -> None:
        """Durably store a value, which replaces the previous one; None removes it."""
        ...


class ChangeFeed(Protocol):
    """Changes of conversations, made by any process on any machine."""

    async def wait_for_change(self, since: int) -> int:
        """Wait until a question or a turn may have changed since an earlier call, which returned
        `since`.

        With 0 it returns immediately. A store without notifications waits until the next poll.
        """
        ...

    async def lengths(self, since: ChangeCursor | None = None) -> ChangeCursor:
        """Return the lengths of the conversations that may have changed since an earlier call,
        which returned `since`. If `since` is None, return the lengths of all conversations.
        """
        ...

    async def events_within(self, id: str, length: int) -> int:
        """Return the number of events that a conversation had when `lengths` returned this
        length.

        Raises:
            StoreError: There is no such conversation, or the conversation cannot be read.
        """
        ...


class StorePort(Protocol):
    """A storage backend. IDs are decimal numbers. As strings, they sort by time of creation."""

    @property
    def needs_loop(self) -> bool:
        """Whether the methods of the store need an event loop."""
        ...

    @property
    def is_for_people(self) -> bool:
        """Whether the store is in the user's data directory. Only a person may answer there, not a
        process that a tool started.
        """
        ...

    @property
    def is_own(self) -> bool:
        """Whether the store belongs only to the operating system's user of this process."""
        ...

    @property
    def limits(self) -> Limits:
        """Limits of a batch of events."""
        ...

    @property
    def place(self) -> str:
        """Name of the storage location. Two ports for the same location have the same name."""
        ...

    @property
    def beside(self) -> KeyValueStore:
        """Small named values stored with the conversations."""
        ...

    @property
    def growing(self) -> ChangeFeed:
        """The change feed of the conversations."""
        ...

    async def create(self, first_words: str) -> PortJournal:
        """Create and lock a conversation. Its name is made from the first words of the request."""
        ...

    async def open(self, id: str) -> PortJournal:
        """Lock a conversation.

        Raises:
            StoreLocked: The conversation is already locked.
            StoreError: There is no such conversation, or the conversation cannot be read or
                written.
        """
        ...

    async def claim(self, limit: int = 1, without: Collection[str] = ()) -> Sequence[PortJournal]:
        """Lock up to `limit` conversations that are due and free, except the conversations in
        `without`. No other process gets the locked conversations.

        A turn is due if it can continue without people: one of its questions was answered, its
        process died, or the pause after a failure of its model is over.
        """
        ...

    async def wait_for_work(self) -> None:
        """Wait until a conversation may have become due, at most one second."""
        ...

    def alone(self, name: str) -> AbstractAsyncContextManager[None]:
        """Run the block while no other block runs for the same name, in any process.

        The lock of a process that dies in the block is released. The block must be short and must
        not be nested.

        Raises:
            Busy: Another process kept the lock for too long.
        """
        ...

    async def settle(self, id: str, decide: Decide) -> CommittedBatch | LockedBy:
        """Append the events that `decide` returns for the last turn, atomically and durably, unless
        the conversation is locked.

        `decide` must be pure: it is called again if another process writes first. If it raises an
        exception, nothing is recorded.
        """
        ...

    async def look(self, id: str) -> CommittedBatch | LockedBy:
        """Return the last turn of a conversation, and the process that locked it, if any. This
        takes no lock, and records nothing.
        """
        ...

    async def queue_answer(self, held: LockedBy, answer: QueuedAnswer) -> bool:
        """Durably queue an answer for the process with the lock. Return False if that process has
        ended, or if another answer is queued already.
        """
        ...

    async def questions(
        self, prefix: str = "", *, after: str | None = None, limit: int | None = None
    ) -> list[OpenQuestion]:
        """Return open questions whose address begins with `prefix`, by conversation, the oldest
        first.

        `after` is the last address of the previous page; see `following`.
        """
        ...

    async def ids(
        self, *, after: str | None = None, limit: int | None = None, which: Which = "all"
    ) -> list[str]:
        """Return ids of conversations, oldest first; `after` is the last id of the previous page."""
        ...

    async def find_key(self, key: str) -> str | None:  # noqa: ARG002  a store overrides it
        """Return the ID of the conversation that has this key, or None if there is none.

        Raises:
            StoreError: The store does not support keys, or cannot be read.
        """
        raise StoreError(NO_KEYS)

    async def assign_key(self, key: str, id: str) -> str:  # noqa: ARG002  as above
        """Give a key to a conversation, unless an existing conversation has the key; return the ID
        of the conversation that has it now. Atomic and durable.

        Removing a conversation releases its key.

        Raises:
            StoreError: The store does not support keys, or cannot be written.
        """
        raise StoreError(NO_KEYS)

    async def overdue(self, now: str) -> list[str]:
        """Return the conversations that may have a question whose deadline has passed, so that the
        caller need not read all conversations.

        `now` is the time in RFC 3339. A store may use the clock of its server instead.
        """
        ...

    async def newest(self, limit: int, before: str = "") -> list[str]:
        """Return the newest conversations that contain events, the newest first; with `before`,
        only conversations before this id.
        """
        ...

    async def described(
        self, *, after: str = "", limit: int = 500, only: Collection[str] | None = None
    ) -> list[tuple[str, Metadata]]:
        """Return IDs and metadata of a page of the conversations that have events, oldest first.

        With `only`, the page is limited to these conversations. Missing and unreadable
        conversations are left out.
        """
        ...

    async def read(self, id: str) -> Conversation:
        """Read a conversation, without a lock."""
        ...

    async def part(self, id: str, mark: Mark) -> Part:
        """Return a part of a conversation from a mark on: a few megabytes, or the store's own
        maximum.
        """
        ...

    async def last_turns(self, id: str, count: int, before: int | None = None) -> Mark:
        """Return a mark from which reading yields the last `count` turns, and possibly a few
        earlier ones.

        With `before`, count the turns before the turn with this number (from 1). Only in this case,
        the mark contains the number of turns before it.
        """
        ...

    async def lines(self, id: str) -> list[bytes]:
        """Return the lines of a conversation byte for byte, without their newlines: one for each
        of its events.
        """
        ...

    async def add(self, lines: Iterable[bytes], metadata: Metadata, id: str | None = None) -> str:
        """Create a conversation from existing lines, durably and atomically; return its ID.

        Args:
            lines: The lines, without their newlines.
            metadata: The metadata of the new conversation.
            id: The wanted ID. If it is None or another conversation has it, the ID is made from
                the current time.
        """
        ...

    async def describe(self, id: str, **changes: str | tuple[str, ...]) -> Metadata:
        """Change a conversation's `title`, `labels` or `last_activated_at`; return all of its
        metadata.
        """
        ...

    async def remove(self, id: str, may_go: MayGo | None = None) -> bool:
        """Remove a conversation permanently.

        Return False if `may_go` returns False for the last turn. `may_go` is called while no
        other process can write.

        Raises:
            StoreLocked: The conversation is locked.
        """
        ...


async def titles(port: StorePort, ids: Collection[str]) -> dict[str, str]:
    """Return the titles of conversations; missing and unreadable conversations are left out."""
    named = await port.described(limit=len(ids), only=ids)
    found = {id: metadata.title for id, metadata in named}  # noqa: A001  the common name of IDs
    for id in [id for id, named in found.items() if not named]:  # noqa: A001  as above
        with suppress(StoreError):
            found[id] = await first_words(port, id)
    return found


async def first_words(port: StorePort, id: str) -> str:
    """Return the text that lists show for a conversation without a title: its first request. The
    log is read only up to this request.

    Raises:
        StoreError: There is no such conversation, or the conversation cannot be read.
    """
    mark: Mark | None = Mark()
    while mark:
        part = await port.part(id, mark)
        asked = part.metadata.title or next(
            (title(request.content) for request in user_requests(part.decode())), ""
        )
        if asked:
            return asked
        mark = part.following
    return ""
