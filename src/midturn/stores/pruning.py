"""Conversations that are over, and how they are removed: those in which nothing was said for long, and those that were never begun.

What is removed is a family: a conversation with those of agents that ran inside of its tools. The one at the top decides, and goes first,
by a removal that looks once more while no one else can write it (`StorePort.remove`): a turn that was begun meanwhile keeps its
conversation, and where there is no turn around any more, none inside can begin.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from msgspec import Struct

from midturn.clock import pause
from midturn.errors import NoConversation, StoreError
from midturn.events.types import problem_in
from midturn.events.window import open_turn, parent_of
from midturn.stores.nested_conversations import whole_family
from midturn.stores.port import HeldBy, LastTurn, StorePort, titles
from midturn.stores.question_entries import remove_entries

_LOG = logging.getLogger("midturn.store")
EMPTY: Final = timedelta(hours=1)
"""Age up to which the first message of a conversation without events may be under way; past it, its process was killed."""
_MICROSECOND_DIGITS: Final = 16
_PAGE: Final = 500
_DAY: Final = 86_400.0


class Prunable(Struct, frozen=True):
    """A conversation that is over. `family`: what goes with it, itself first; `title` is what lists show."""

    id: str
    why: Literal["finished", "empty"]
    last: datetime
    """Time of the last record, or else of its making."""
    title: str
    family: tuple[str, ...]


class Pruned(Struct, frozen=True):
    """The removed conversations, and those `left` although they may be over, by id: unreadable, or held.

    `removable` are those of them that `midturn conversation rm` removes all the same.
    """

    finished: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()
    left: dict[str, str] = {}
    removable: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the summary."""
        return self.summary()

    def summary(self, option: str = "") -> str:
        """Return the number of removed conversations, and the reasons why others are left. `option` is as in `reasons`."""
        gone = len(self.finished) + len(self.empty)
        never = f", {len(self.empty)} of which never began" if self.empty else ""
        left = f"; left: {'; '.join(self.reasons(option))}" if self.left else ""
        return f"{gone} conversation{'' if gone == 1 else 's'} removed{never}{left}"

    def reasons(self, option: str = "") -> list[str]:
        """Return why conversations are left, with the command that removes those that it can.

        Args:
            option: The option with which that command finds the store, such as ` --store there`.
        """
        by_hand = " `midturn conversation rm {}{}` removes it all the same."
        return [f"{why}{by_hand.format(id, option) if id in self.removable else ''}" for id, why in self.left.items()]  # noqa: A001


async def keep_for(older: timedelta, prune: Callable[[timedelta], Awaitable[Pruned]], option: str = "") -> None:
    """Remove what is over now, and once a day from now on, until cancelled. What goes wrong is logged, and tried again the next day.

    `option` is as in `Pruned.reasons`.
    """
    while True:
        try:
            pruned = await prune(older)
        except StoreError as error:
            _LOG.warning("conversations that are over cannot be removed for now: %s", error)
        else:
            _LOG.log(logging.WARNING if pruned.left else logging.INFO, "%s", pruned.summary(option))
        await pause(_DAY)


class Pruning:
    """The finished conversations of one store, at one time."""

    def __init__(self, port: StorePort, now: datetime, older: timedelta) -> None:
        """Find what has not changed for `older`, as of `now`."""
        self._port = port
        self._now = now
        self._older = older
        self.left: dict[str, str] = {}
        """Conversations that cannot be judged, by id, with the reason."""
        self._removable: list[str] = []

    async def found(self) -> AsyncGenerator[Prunable]:
        """Yield what is over, the oldest first. Conversations that are made meanwhile are none of it."""
        after: str | None = None
        while page := await self._port.ids(after=after, limit=_PAGE):
            for id in page:  # noqa: A001  the wire's word
                await pause(0)  # files are read here and now: whatever else this process does goes on in between
                try:
                    prunable = await self._looked_at(id)
                except NoConversation:  # it went with its family, or another process removed it
                    continue
                except (StoreError, ValueError) as error:
                    self.left[id] = str(error)
                    continue
                if prunable:
                    yield prunable
            after = page[-1]

    async def removed(self) -> Pruned:
        """Remove everything that is over; return what went, and what is left."""
        gone: dict[str, list[str]] = {"finished": [], "empty": []}
        async for prunable in self.found():
            try:
                if await self.remove(prunable):
                    gone[prunable.why] += prunable.family
            except StoreError as error:
                self.left[prunable.id] = str(error)
        await remove_entries(self._port, [*gone["finished"], *gone["empty"]])
        return Pruned(tuple(gone["finished"]), tuple(gone["empty"]), self.left, tuple(self._removable))

    async def remove(self, prunable: Prunable) -> bool:
        """Remove a conversation with its family, unless a turn was begun in it.

        Raises:
            StoreError: It is held, or cannot be removed.
        """
        try:
            if not await self._port.remove(prunable.id, lambda turn: self._is_over(prunable.id, turn)):
                return False
        except NoConversation:  # another process was faster
            return False
        for id in prunable.family[1:]:  # noqa: A001  as above
            try:
                await self._port.remove(id)
            except NoConversation:
                continue
        return True

    async def _looked_at(self, id: str) -> Prunable | None:
        if made(id) > self._now - min(self._older, EMPTY):
            return None
        looked = await self._port.look(id)
        turn = looked.turn
        if isinstance(looked, HeldBy) or await self._goes_with_another(turn):
            return None
        if _is_damaged(turn):
            self._leave(id, f"Not every line of the last turn of conversation {id} can be read, so it may be open.")
        if not self._is_over(id, turn):
            return None
        if not turn.events:
            return Prunable(id, "empty", made(id), "", (id,)) if await self._is_empty(id) else None
        family = list(reversed(await whole_family(self._port, id)))
        for inside in family[1:]:
            if open_turn((await self._port.look(inside)).turn.events):
                return None
        return Prunable(id, "finished", turn.events[-1].at, (await titles(self._port, [id])).get(id, ""), tuple(family))

    def _is_over(self, id: str, turn: LastTurn) -> bool:
        """Say whether nothing was recorded for as long as was said, and no turn is open. What was recorded last is what counts."""
        if turn.handed or open_turn(turn.events) or _is_damaged(turn):
            return False
        return turn.events[-1].at < self._now - self._older if turn.events else made(id) < self._now - EMPTY

    async def _goes_with_another(self, turn: LastTurn) -> bool:
        """Say whether a conversation is inside of another one that is still there."""
        parent = parent_of(turn.events)
        if parent is None:
            return False
        try:
            await self._port.look(parent.root)
        except NoConversation:
            return False
        return True

    async def _is_empty(self, id: str) -> bool:
        """Say whether a conversation without a turn has no line either: one that is damaged looks alike."""
        if not await self._port.lines(id):
            return True
        self._leave(id, f"No turn of conversation {id} can be read.")
        return False

    def _leave(self, id: str, why: str) -> None:
        self.left[id] = why
        self._removable.append(id)


def _is_damaged(turn: LastTurn) -> bool:
    return any(map(problem_in, turn.events))


def made(id: str) -> datetime:
    """Return when a conversation was made: its id is a count of microseconds, or of tenths of a second, as `jp` has it."""
    unit = timedelta(microseconds=1) if len(id) >= _MICROSECOND_DIGITS else timedelta(seconds=0.1)
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + int(id) * unit
    except OverflowError:  # an id of another time
        return datetime.max.replace(tzinfo=UTC)
