"""Reports changes to a store's questions and turns as they happen.

Changes are computed from all batches of events that were recorded since the last check. A question
that was opened and closed between two checks is therefore reported, too.
"""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import aclosing
from typing import Literal, Protocol, TypeAlias, cast

import msgspec
from msgspec import Struct

from midturn.clock import pause
from midturn.errors import StoreError
from midturn.events.open_question import OpenQuestion
from midturn.events.types import AnsweredBy, Event
from midturn.events.window import open_turn, starts_turn
from midturn.question.json_value import Json
from midturn.stores.conversation import Conversation
from midturn.stores.port import ChangeCursor, ChangeFeed
from midturn.turn.pending import pending
from midturn.turn.view import TurnView


class Store(Protocol):
    """The store methods that `Watch` calls."""

    async def pending(self, conversation: str | None = None) -> list[OpenQuestion]:
        """Return the open questions of one conversation, or of all conversations."""
        ...

    async def open_turns(self, conversation: str | None = None) -> set[str]:
        """Return the IDs of conversations that have an open turn. With `conversation`, check only
        this conversation.
        """
        ...

    async def read(self, id: str) -> Conversation:
        """Read a conversation."""
        ...


# --------------------------------------------------------------------------------------------------
# Changes to questions and turns


class StoreChange(Struct, frozen=True, kw_only=True):
    """A change to a question or a turn.

    `asked`: `question` is open. `changed`: `question` is still open, but was changed by a vote,
    an edit of the call, a proposal, or a reassignment. `answered`: the question `id` was answered
    by `answered_by`. `withdrawn`: the question `id` was closed without an answer. `turn_ended`:
    the last turn of `conversation` has ended; `id` is empty. `recorded`: `event` was recorded. Its
    number in the conversation is `position`, counted from 1. This kind is only reported by
    `watch(events=True)`.

    Args:
        kind: One of the kinds above.
    """

    kind: Literal["asked", "changed", "answered", "withdrawn", "turn_ended", "recorded"]
    conversation: str
    id: str = ""
    question: OpenQuestion | None = None
    answered_by: AnsweredBy | None = None
    event: Event | None = None
    position: int = 0

    def to_json(self) -> dict[str, Json]:
        """Return the change as JSON, without unset fields."""
        shown: dict[str, Json] = {"kind": self.kind, "conversation": self.conversation}
        if self.id:
            shown["id"] = self.id
        if self.question:
            shown["question"] = self.question.to_json()
        if self.answered_by:
            shown["answered_by"] = cast("Json", msgspec.to_builtins(self.answered_by))
        if self.event:
            shown |= {"event": cast("Json", self.event.to_json()), "position": self.position}
        return shown


# --------------------------------------------------------------------------------------------------
# Computing changes from a conversation's events, one batch at a time


def happened(
    conversation: str, events: Sequence[Event], seen: int, known: Mapping[str, OpenQuestion]
) -> Iterator[StoreChange]:
    """Yield the changes that were made by each batch after the first `seen` events.

    Args:
        conversation: ID of the conversation.
        events: All events of the conversation.
        seen: Number of events whose changes were already reported.
        known: The open questions that were already reported, by ID.
    """
    seen, told = min(seen, len(events)), dict(known)
    start = _start(events, seen)
    before, running = _waiting(conversation, events[start:seen]), _running(events[start:seen])
    for end in _ends(events, seen):
        start = _start(events, end)
        now, runs = _waiting(conversation, events[start:end]), _running(events[start:end])
        for question in before.values():
            if question.id not in now and question.id in told:
                del told[question.id]
                yield closed(question, events[:end])
        for question in now.values():
            if question.id in told and _is_other(question, told[question.id]):
                yield changed(question)
            elif question.id not in before and question.id not in told:
                yield asked(question)
            else:
                continue
            told[question.id] = question
        if running and runs != running:
            yield StoreChange(kind="turn_ended", conversation=conversation)
        before, running = now, runs
    # The user may have edited the log of an open turn.
    yield from (asked(question) for question in before.values() if question.id not in told)
    yield from (
        closed(question, events)
        for id, question in known.items()  # noqa: A001
        if id in told and id not in before
    )


def happened_and_recorded(
    conversation: str, events: Sequence[Event], seen: int, known: Mapping[str, OpenQuestion]
) -> Iterator[StoreChange]:
    """Yield the events of each batch after the first `seen`, and then the changes of the batch
    (see `happened`).
    """
    told = dict(known)
    for end in _ends(events, seen):
        for position in range(seen, end):
            yield StoreChange(
                kind="recorded",
                conversation=conversation,
                event=events[position],
                position=position + 1,
            )
        start = _start(events, seen)
        for change in happened(conversation, events[start:end], seen - start, told):
            if change.question:
                told[change.id] = change.question
            else:
                told.pop(change.id, None)
            yield change
        seen = end


Read: TypeAlias = Callable[
    [str, Sequence[Event], int, Mapping[str, OpenQuestion]], Iterator[StoreChange]
]


def open_after(conversation: str, events: Sequence[Event], seen: int) -> dict[str, OpenQuestion]:
    """Return the questions that were open after the first `seen` events of a conversation."""
    seen = min(seen, len(events))
    return _waiting(conversation, events[_start(events, seen) : seen])


def asked(question: OpenQuestion) -> StoreChange:
    """Return the change for a new open question."""
    return StoreChange(
        kind="asked", conversation=question.conversation, id=question.id, question=question
    )


def changed(question: OpenQuestion) -> StoreChange:
    """Return the change for a question that has changed and is still open."""
    return StoreChange(
        kind="changed", conversation=question.conversation, id=question.id, question=question
    )


def closed(question: OpenQuestion, events: Sequence[Event]) -> StoreChange:
    """Return the change for a closed question: `answered` or `withdrawn`. Pass an empty sequence as
    `events` if it is unknown how the question was closed.
    """
    answer = TurnView.last(events).answer(question.request.event_id)
    if answer is None:
        return StoreChange(kind="withdrawn", conversation=question.conversation, id=question.id)
    return StoreChange(
        kind="answered",
        conversation=question.conversation,
        id=question.id,
        answered_by=answer.answered_by,
    )


def _is_other(question: OpenQuestion, before: OpenQuestion) -> bool:
    """Return whether a question has changed for the people who answer it. Changes to the asking
    agent are ignored, because its process may have ended.
    """
    return msgspec.structs.replace(question, asker=None) != msgspec.structs.replace(
        before, asker=None
    )


def _waiting(conversation: str, events: Sequence[Event]) -> dict[str, OpenQuestion]:
    return {question.id: question for question in pending(events, conversation)}


def _running(events: Sequence[Event]) -> str:
    """Return the ID of the event that starts the open turn. Empty if no turn is open."""
    window = open_turn(events)
    return window.events[0].event_id if window else ""


def _start(events: Sequence[Event], end: int) -> int:
    return next((place for place in range(end - 1, -1, -1) if starts_turn(events[place])), 0)


def _ends(events: Sequence[Event], seen: int) -> Iterator[int]:
    """Yield the end positions of the batches after the first `seen` events. Changes are computed
    for whole batches, because a batch is recorded atomically.
    """
    return (place + 1 for place in range(seen, len(events)) if not events[place].more)


_SHARE = 4  # pause between two checks, as a multiple of the duration of a check, to limit the load


class Watch:
    """Polls a store, and returns the changes since the last call."""

    def __init__(
        self,
        store: Store,
        growing: ChangeFeed,
        conversation: str | None = None,
        read: Read = happened,
        *,
        after: int | None = None,
    ) -> None:
        """Watch the questions of one conversation, or of all conversations. `read` computes the
        changes from recorded events.

        For one conversation, `after` is the number of events that the caller has seen. The first
        changes are then the changes after these events, instead of the open questions.
        """
        self._store = store
        self.growing = growing
        """The change feed of the conversations."""
        self._read = read
        self._conversation = conversation
        self._after = after
        self._known: dict[str, dict[str, OpenQuestion]] = {}
        self._turns: set[str] = set()
        self._grown: ChangeCursor | None = None
        self._lengths: dict[str, int] = {}
        self._events: dict[str, int] = {}
        self._read_last: set[str] = set()

    async def begin(self) -> list[StoreChange]:
        """Return the first changes: the open questions, or the changes after the first `after`
        events.

        Raises:
            NoConversation: `after` was passed, and the conversation does not exist.
        """
        await self.look()
        self._turns |= await self._store.open_turns(self._conversation)
        if self._conversation is None or self._after is None:
            return self._noted([*map(asked, await self._store.pending(self._conversation))])
        self._events[self._conversation] = min(
            self._after, len((await self._store.read(self._conversation)).events)
        )
        return self._noted(
            await self._since(self._conversation, self._lengths.get(self._conversation, 0))
        )

    async def look(self) -> list[StoreChange]:
        """Return the changes since the last call. The first call returns no changes, and reads no
        conversation.
        """
        is_first = self._grown is None
        grown = await self.growing.lengths(self._grown)
        self._grown = ChangeCursor({}, grown.token)
        lengths = {
            each: length
            for each, length in grown.lengths.items()
            if self._conversation in {None, each}
        }
        if is_first:
            self._lengths = lengths
            return []
        changes: list[StoreChange] = []
        read: set[str] = set()
        for id in (  # noqa: A001  the common name of IDs
            *sorted(await self._removed(grown)),
            *lengths,
        ):
            if self._lengths.get(id) != lengths.get(id):
                read.add(id)
                changes += self._noted(await self._since(id, lengths.get(id, 0)))
        self._forget_but(read)
        return changes

    def _forget_but(self, read: set[str]) -> None:
        """Drop the state of conversations without open questions.

        The state of a conversation that was just read is kept until the conversation stops
        growing. More events may have been read than `lengths` had counted. Without the state,
        these events would be reported again.
        """
        for id in self._read_last - read:  # noqa: A001  as above
            if not self._known.get(id):
                self._known.pop(id, None)
                self._events.pop(id, None)
        self._read_last = read

    async def _removed(self, grown: ChangeCursor) -> Iterable[str]:
        """Return the removed conversations that had an open turn."""
        if grown.is_whole:
            return [
                id
                for id in self._lengths.keys() - grown.lengths.keys()  # noqa: A001  as above
                if self._known.get(id) or id in self._turns
            ]
        if grown.gone is not None:
            return [id for id in grown.gone if id in self._lengths]  # noqa: A001  as above
        running = await self._store.open_turns(self._conversation)
        gone = self._turns - running - grown.lengths.keys()
        self._turns |= running
        return gone

    def _noted(self, changes: Iterable[StoreChange]) -> list[StoreChange]:
        """Update the known questions and turns with the changes, and return the changes."""
        changes = list(changes)
        for change in changes:
            if change.kind == "turn_ended":
                self._turns.discard(change.conversation)
            elif change.question:
                self._known.setdefault(change.conversation, {})[change.id] = change.question
            else:
                self._known.get(change.conversation, {}).pop(change.id, None)
        return changes

    async def _since(self, id: str, length: int) -> list[StoreChange]:
        """Return the changes to a conversation since the last call."""
        try:
            before = self._events.get(id)
            if before is None:
                before = (
                    await self.growing.events_within(id, self._lengths[id])
                    if id in self._lengths
                    else 0
                )
            events = (await self._store.read(id)).events
        except StoreError:  # the conversation was removed
            self._lengths.pop(id, None)
            self._events.pop(id, None)
            ended = (
                [StoreChange(kind="turn_ended", conversation=id)]
                if not length or id in self._turns
                else []
            )
            return [
                *(closed(question, ()) for question in self._known.pop(id, {}).values()),
                *ended,
            ]
        self._lengths[id], self._events[id] = length, len(events)
        if id not in self._known:
            self._known[id] = open_after(id, events, before)
        return list(self._read(id, events, before, self._known[id]))


async def times_to_look(growing: ChangeFeed) -> AsyncGenerator[None]:
    """Yield each time a store has to be checked: immediately, and then after each possible change.

    To limit the load, wait after each later check for four times its duration. No pause follows the
    first check, although it may read the whole store.
    """
    since = await growing.wait_for_change(0)
    yield
    while True:
        since, begun = await growing.wait_for_change(since), time.monotonic()
        yield
        await pause((time.monotonic() - begun) * _SHARE)


async def changes(watch: Watch) -> AsyncGenerator[StoreChange]:
    """Yield the first changes of `watch`, and then the later changes."""
    is_begun = False
    async with aclosing(times_to_look(watch.growing)) as times:
        async for _ in times:
            found = await (watch.look() if is_begun else watch.begin())
            is_begun = True
            for change in found:
                yield change


# --------------------------------------------------------------------------------------------------
# Calling a program's own job runner when a turn can continue


OnWake: TypeAlias = Callable[[str], Awaitable[None] | None]
"""Called with the ID of a conversation whose turn can continue; sync or async."""

_LOG = logging.getLogger("midturn.store")


async def wake(on_wake: OnWake, conversation: str) -> None:
    """Call the program's callback. If the callback fails, the answer is still recorded, and
    `store.ready()` lists the turn.
    """
    try:
        told = on_wake(conversation)
        if inspect.isawaitable(told):
            await told
    except Exception:  # noqa: BLE001  the program's callback has failed, but the answer is recorded
        _LOG.exception("on_wake failed; the turn of conversation %s is still ready", conversation)
