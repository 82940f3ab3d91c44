"""What happens to the questions of a store, as it happens.

Changes are read from what was recorded since the last look, batch by batch: what begins and ends between two looks is told of, too.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from typing import Protocol

from msgspec import Struct

from midturn.clock import pause
from midturn.core.stream import OpenQuestion
from midturn.errors import StoreError
from midturn.store.conversation import Conversation
from midturn.store.happened import asked, closed, happened
from midturn.store.port import Growth
from midturn.store.store_change import StoreChange

_SHARE = 4  # of the time that a look takes, so that looking is a part of the work and not all of it


class Watched(Protocol):
    """What is looked at."""

    async def pending(self, conversation: str | None = None) -> list[OpenQuestion]:
        """Return the open questions of one conversation, or of all."""
        ...

    async def open_turns(self, conversation: str | None = None) -> set[str]:
        """Return which conversations have an open turn, of all or of one."""
        ...

    async def read(self, id: str) -> Conversation:
        """Read a conversation."""
        ...

    async def grown(self, since: Growth | None = None) -> Growth:
        """Return how long conversations are; see `StorePort.grown`."""
        ...

    async def events_within(self, id: str, length: int) -> int:
        """Return how many events a conversation of this length has; see `StorePort.events_within`."""
        ...


class _Seen(Struct):
    """What was seen of a conversation: its length, and where it was read, how many events it had."""

    length: int
    events: int | None = None


class Watch:
    """Looks at a store again and again, and says what has changed since the last time. The first look finds what is open already."""

    def __init__(self, watched: Watched, conversation: str | None = None) -> None:
        self._watched = watched
        self._conversation = conversation
        self._questions: dict[str, OpenQuestion] = {}
        self._turns: set[str] = set()
        self._grown: Growth | None = None
        self._seen: dict[str, _Seen] = {}

    @property
    def questions(self) -> Mapping[str, OpenQuestion]:
        """What was open at the last look, by id."""
        return self._questions

    async def look(self) -> list[StoreChange]:
        """Look, and return what has changed."""
        is_first = self._grown is None
        self._grown = await self._watched.grown(self._grown)
        lengths = {each: length for each, length in self._grown.lengths.items() if self._conversation in {None, each}}
        changes = self._begin(lengths, await self._watched.pending(self._conversation)) if is_first else []
        running = await self._watched.open_turns(self._conversation)
        gone = () if is_first else sorted(self._turns - running - lengths.keys())
        self._turns |= running
        for id in (*gone, *lengths):  # noqa: A001  what the wire calls it
            if id not in self._seen or self._seen[id].length != lengths.get(id):
                changes += self._noted(await self._since(id, lengths.get(id, 0)))
        if not is_first:
            self._renew(await self._watched.pending(self._conversation))
        return changes

    def _begin(self, lengths: Mapping[str, int], questions: Iterable[OpenQuestion]) -> list[StoreChange]:
        self._seen = {each: _Seen(length) for each, length in lengths.items()}
        return self._noted(map(asked, questions))

    def _noted(self, changes: Iterable[StoreChange]) -> list[StoreChange]:
        """Keep in mind what is open after each change."""
        changes = list(changes)
        for change in changes:
            if change.kind == "turn_ended":
                self._turns.discard(change.conversation)
            elif change.question:
                self._questions[change.id] = change.question
            else:
                self._questions.pop(change.id, None)
        return changes

    def _renew(self, questions: Iterable[OpenQuestion]) -> None:
        """Note of the open questions what is so just now: whether those who ask still wait."""
        self._questions.update((question.id, question) for question in questions if question.id in self._questions)

    async def _since(self, id: str, length: int) -> list[StoreChange]:
        """Return what happened in a conversation since it was seen."""
        seen = self._seen.get(id) or _Seen(0, 0)
        known = {question.id: question for question in self._questions.values() if question.conversation == id}
        try:
            before = await self._watched.events_within(id, seen.length) if seen.events is None else seen.events
            events = (await self._watched.read(id)).events
        except StoreError:  # it was removed
            self._seen.pop(id, None)
            ended = [StoreChange(kind="turn_ended", conversation=id)] if id in self._turns else []
            return [*(closed(question, ()) for question in known.values()), *ended]
        self._seen[id] = _Seen(length, len(events))
        return list(happened(id, events, before, known))


class Stirring(Protocol):
    """What says when something may have happened."""

    async def stirred(self, since: int) -> int:
        """Return when something may have happened; see `StorePort.stirred`."""
        ...


class WatchedStirring(Watched, Stirring, Protocol):
    """What is looked at, and says when."""


async def times_to_look(stirring: Stirring) -> AsyncGenerator[None]:
    """Yield at once, and then whenever something may have happened. Who is slow with a look is given more time before the next."""
    since = 0
    while True:
        since, begun = await stirring.stirred(since), time.monotonic()
        yield
        await pause((time.monotonic() - begun) * _SHARE)


async def changes(watched: WatchedStirring, conversation: str | None) -> AsyncGenerator[StoreChange]:
    """Yield what happens from now on; what is open already comes first."""
    watch = Watch(watched, conversation)
    async with aclosing(times_to_look(watched)) as times:
        async for _ in times:
            for change in await watch.look():
                yield change
