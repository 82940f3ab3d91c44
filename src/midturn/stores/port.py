"""`StorePort`: the abilities that a place for conversations must have. Files, memory and databases are equals.

A `StorePort` is small on purpose. What is the same everywhere (answering, listing what is open, forking, taking over answers, who may
answer) is written once on top of it, in `ConversationStore`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol, TypeAlias

from msgspec import Struct

from midturn.errors import Renamed, StoreError
from midturn.events.open_question import parse_address
from midturn.events.types import Event, user_requests
from midturn.journal import AnswerFeed, Journal
from midturn.question.json_value import Limits
from midturn.stores.log_tail import Mark, Part
from midturn.stores.metadata import Metadata, title

if TYPE_CHECKING:  # nothing here is read from JSON, so these are not needed at run time
    from midturn.events.open_question import OpenQuestion
    from midturn.stores.conversation import Conversation
    from midturn.stores.queued_answer import HandedOver


class PortOfBefore(Renamed):
    """Refuses what a port of earlier versions had, and says what to use instead."""

    _gone: ClassVar[Mapping[str, str]] = {
        "latest": "`store.port.latest()` is `store.port.newest(1)` now.",
        **{name: f"`store.port.{name}` is `store.port.growing.{name}` now." for name in ("events_within", "lengths", "stirred")},
    }


Which: TypeAlias = Literal["all", "begun", "open", "ready", "ready_or_interrupted"]
"""Conversations: all; those in which anything is recorded, which lists show, for the process that made one may have been killed before
that; those whose last turn is open; those of these that can go on: a question was answered, and they are free; these, and free ones whose
run ended in the middle of a model request or a call."""


class LastTurn(Struct, frozen=True):
    """The last turn of a conversation, finished or not, and what was handed over to its holder and is not recorded yet."""

    events: Sequence[Event]
    handed: tuple[HandedOver, ...] = ()
    is_for_people: bool = False
    """Whether it lies in the user's own directories, where only a person answers: no process that a tool has started."""


Decide: TypeAlias = Callable[[LastTurn], Sequence[Event]]
MayGo: TypeAlias = Callable[[LastTurn], bool]
"""Whether a conversation with this last turn may be removed. It is pure, and may be asked again."""


class Settled(Struct, frozen=True):
    """The conversation is free; `turn` is its last turn, before what was decided, which is recorded."""

    turn: LastTurn


class HeldBy(Struct, frozen=True, kw_only=True):
    """The conversation is held, so nothing was recorded. `token` is the store's own, for `hand_over`."""

    conversation: str
    turn: LastTurn
    holder: str = ""
    since: str = ""
    token: object = None


class PortFeed(AnswerFeed, Protocol):
    """The answers for a holder, as a store keeps them."""

    async def collect(self) -> tuple[HandedOver, ...]:
        """Return all that are there, oldest first."""
        ...


class PortJournal(Journal, Protocol):
    """A conversation that is held. After each batch, what was handed over for a question that is closed now goes away."""

    @property
    def answers(self) -> PortFeed:
        """Answers that others hand over meanwhile."""
        ...

    def go_on_soon(self) -> None:
        """Have a worker look at the open turn once it is let go: it was answered meanwhile. A polled store does nothing."""
        ...


class Growth(Struct, frozen=True):
    """Lengths of conversations. A length has no unit that others could use, but it changes with whatever is recorded."""

    lengths: Mapping[str, int]
    token: object = None
    """The store's own, for the next call."""
    gone: Collection[str] | None = None
    """Those with an open turn that are not there any more; None where the store cannot tell."""
    is_whole: bool = False
    """Whether these are all that there are, although only those were asked for that may have changed."""


def following(questions: Sequence[OpenQuestion], last: str | None) -> list[OpenQuestion]:
    """Leave out of open questions, listed in order, what was on the pages before.

    Where the last question of those is closed by now, what else its conversation asks is shown again.
    """
    at = parse_address(last or "")
    if last is None or at is None:
        return list(questions)
    place = next((index for index, question in enumerate(questions) if question.id == last), None)
    return list(questions[place + 1 :]) if place is not None else [one for one in questions if one.conversation >= at.conversation]


class Beside(Protocol):
    """Small things kept beside the conversations, by name: pairings of people with accounts, cards sent to them, forms half filled in."""

    async def kept(self, beginning: str) -> Mapping[str, bytes]:
        """Return what is kept under names with this beginning."""
        ...

    async def keep(self, name: str, content: bytes | None) -> None:
        """Keep something under a name, durably, in the place of what was there; None: nothing any more."""
        ...


class Growing(Protocol):
    """Growth of conversations, for those who watch them: whichever process records something, on whichever machine."""

    async def stirred(self, since: int) -> int:
        """Return when something may have happened to a question, or to a turn, after an earlier call returned `since`.

        With 0 it returns at once. A store that hears of nothing returns when it is time to look again.
        """
        ...

    async def lengths(self, since: Growth | None = None) -> Growth:
        """Return how long each conversation is that may have changed since an earlier call returned `since`; of all without one."""
        ...

    async def events_within(self, id: str, length: int) -> int:
        """Return how many events a conversation had when it was as long as `lengths` has said.

        Raises:
            StoreError: There is none, or it cannot be read.
        """
        ...


class StorePort(Protocol):
    """One place where conversations are kept. Ids are decimal numbers that sort by age as text."""

    @property
    def needs_loop(self) -> bool:
        """Whether its methods wait for something that only an event loop can wait for."""
        ...

    @property
    def is_for_people(self) -> bool:
        """Whether it lies in the user's own directories, where only a person answers, and no process that a tool started."""
        ...

    @property
    def is_own(self) -> bool:
        """Whether it belongs to the user of the operating system that this process runs as, and to nobody else."""
        ...

    @property
    def limits(self) -> Limits:
        """Limits of a batch of events."""
        ...

    @property
    def place(self) -> str:
        """Name of the place: equal for two ports on the same one."""
        ...

    @property
    def beside(self) -> Beside:
        """Small things kept beside the conversations."""
        ...

    @property
    def growing(self) -> Growing:
        """Growth of its conversations."""
        ...

    async def create(self, first_words: str) -> PortJournal:
        """Begin a conversation, and hold it; its name is made of the first words of the request."""
        ...

    async def open(self, id: str) -> PortJournal:
        """Hold a conversation.

        Raises:
            StoreLocked: It is held elsewhere.
            StoreError: There is none, or it cannot be read or written.
        """
        ...

    async def claim(self, limit: int = 1, without: Collection[str] = ()) -> Sequence[PortJournal]:
        """Hold up to `limit` conversations that are due and free, none of them `without`; no other process gets them.

        Due is an open turn that does not wait for a person alone: a question of it was answered, or its process died, or its model was
        down and the pause after that is over.
        """
        ...

    async def woken(self) -> None:
        """Return when a conversation may have become due, at the latest after a second."""
        ...

    def alone(self, name: str) -> AbstractAsyncContextManager[None]:
        """Let the block run while no other one runs for the same name, in whichever process: what it looks up is so until it has written.

        A process that dies in it is out of it. It must be short, and must not be entered again from within.

        Raises:
            Busy: Another one does not get on with it.
        """
        ...

    async def settle(self, id: str, decide: Decide) -> Settled | HeldBy:
        """Append what `decide` returns for the last turn, at once and durably, unless the conversation is held.

        `decide` is pure: it may be called again where another write was faster. What it raises is passed on, and nothing is recorded.
        """
        ...

    async def look(self, id: str) -> Settled | HeldBy:
        """Return the last turn of a conversation as it is now, and who holds it. It takes no lock, and records nothing."""
        ...

    async def hand_over(self, held: HeldBy, answer: HandedOver) -> bool:
        """Give an answer to the holder of the conversation, durably; False where the holder is gone, or another answer is there."""
        ...

    async def questions(self, prefix: str = "", *, after: str | None = None, limit: int | None = None) -> list[OpenQuestion]:
        """Return open questions whose address begins with `prefix`, by conversation, the oldest first.

        `after` is the last address of the page before; see `following`.
        """
        ...

    async def ids(self, *, after: str | None = None, limit: int | None = None, which: Which = "all") -> list[str]:
        """Return ids of conversations, oldest first; `after` is the last one of the page before."""
        ...

    async def overdue(self, now: str) -> list[str]:
        """Return the conversations that may have a question whose deadline has passed, for which no other one is read.

        `now` is the time in RFC 3339; a store with a clock of its own may go by that.
        """
        ...

    async def newest(self, limit: int, before: str = "") -> list[str]:
        """Return the newest conversations in which anything is recorded, the newest first; only those before the id `before`, if any."""
        ...

    async def described(self, *, after: str = "", limit: int = 500, only: Collection[str] | None = None) -> list[tuple[str, Metadata]]:
        """Return a page of the conversations in which anything is recorded, oldest first, with what they are called.

        With `only`, none but these; those that are not there, or cannot be read, are left out.
        """
        ...

    async def read(self, id: str) -> Conversation:
        """Read a conversation. It takes no lock."""
        ...

    async def part(self, id: str, mark: Mark) -> Part:
        """Return a part of a conversation of a few megabytes, or as much as this store reads at once, from a mark on."""
        ...

    async def last_turns(self, id: str, count: int, before: int | None = None) -> Mark:
        """Return a mark from which on there are at least the last `count` turns, and as little before them as this store can tell.

        With `before`, those before the turn of this number, which counts from 1. Only then does the mark say how many turns are before it:
        without it, no turn is counted.
        """
        ...

    async def lines(self, id: str) -> list[bytes]:
        """Return the lines of a conversation byte for byte, without their newlines: one for each of its events."""
        ...

    async def add(self, lines: Iterable[bytes], metadata: Metadata, id: str | None = None) -> str:
        """Make a conversation of lines that were written elsewhere, durably and whole or not at all; return its id.

        Args:
            lines: The lines, without their newlines.
            metadata: What it is called.
            id: The id that it shall have; without one, or where another conversation has it, it gets an id of now.
        """
        ...

    async def describe(self, id: str, **changes: str | tuple[str, ...]) -> Metadata:
        """Change a conversation's `title`, `labels` or `last_activated_at`; return all of its metadata."""
        ...

    async def remove(self, id: str, may_go: MayGo | None = None) -> bool:
        """Remove a conversation for good; False where `may_go` refuses that of its last turn as it is then, while no one else writes it.

        Raises:
            StoreLocked: It is held.
        """
        ...


async def titles(port: StorePort, ids: Collection[str]) -> dict[str, str]:
    """Return what conversations are called; those that are gone, or cannot be read, are left out."""
    named = await port.described(limit=len(ids), only=ids)
    found = {id: metadata.title for id, metadata in named}  # noqa: A001  what the wire calls it
    for id in [id for id, named in found.items() if not named]:  # noqa: A001  as above
        with suppress(StoreError):
            found[id] = await first_words(port, id)
    return found


async def first_words(port: StorePort, id: str) -> str:
    """Return what a conversation without a title is called: what was asked first. No more of it is read than up to there.

    Raises:
        StoreError: There is none, or it cannot be read.
    """
    mark: Mark | None = Mark()
    while mark:
        part = await port.part(id, mark)
        asked = part.metadata.title or next((title(request.content) for request in user_requests(part.decode())), "")
        if asked:
            return asked
        mark = part.following
    return ""
