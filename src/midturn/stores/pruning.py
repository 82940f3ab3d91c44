"""Removes old conversations: finished conversations without recent events, and conversations
without any events.

Conversations of nested agents are removed together with the outermost conversation. Only the
outermost conversation is checked, and it is removed first. `StorePort.remove` checks the
conversation again while no other process can write it. If a turn was started in the meantime, the
conversation is kept. Without the outer turn, no nested turn can begin.
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
from midturn.stores.port import LastTurn, LockedBy, StorePort, titles
from midturn.stores.question_entries import remove_entries

_LOG = logging.getLogger("midturn.store")
EMPTY: Final = timedelta(hours=1)
"""Minimum age at which a conversation without events is removed.

The process of a younger conversation may be about to record the first message.
"""
_MICROSECOND_DIGITS: Final = 16
_PAGE: Final = 500
_DAY: Final = 86_400.0


class Prunable(Struct, frozen=True):
    """A conversation that can be removed. `family` lists all conversations that are removed
    together, starting with this conversation. `title` is the title in lists.
    """

    id: str
    why: Literal["finished", "empty"]
    last: datetime
    """Time of the last event. If there are no events, the time of the creation."""
    title: str
    family: tuple[str, ...]


class Pruned(Struct, frozen=True):
    """The removed conversations. `left` maps the IDs of conversations that were kept, because they
    are unreadable or locked, to the reasons. `removable` contains the kept conversations that
    `midturn conversation rm` can remove.
    """

    finished: tuple[str, ...] = ()
    empty: tuple[str, ...] = ()
    left: dict[str, str] = {}
    removable: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the summary."""
        return self.summary()

    def summary(self, option: str = "") -> str:
        """Return the number of removed conversations, and the reasons why other conversations are
        kept. See `reasons` for `option`.
        """
        gone = len(self.finished) + len(self.empty)
        never = f", {len(self.empty)} of them without turns" if self.empty else ""
        left = f"; kept: {'; '.join(self.reasons(option))}" if self.left else ""
        return f"{gone} conversation{'' if gone == 1 else 's'} deleted{never}{left}"

    def reasons(self, option: str = "") -> list[str]:
        """Return the reasons why conversations are kept, with the command that removes the
        removable conversations.

        Args:
            option: The command's option for the store, such as ` --store there`.
        """
        by_hand = " To delete it anyway: `midturn conversation rm {}{}`"
        return [
            f"{why}{by_hand.format(id, option) if id in self.removable else ''}"
            for id, why in self.left.items()  # noqa: A001
        ]


async def keep_for(
    older: timedelta, prune: Callable[[timedelta], Awaitable[Pruned]], option: str = ""
) -> None:
    """Prune now and once a day, until cancelled. Errors are logged, and the next run tries again.

    See `Pruned.reasons` for `option`.
    """
    while True:
        try:
            pruned = await prune(older)
        except StoreError as error:
            _LOG.warning("finished conversations cannot be removed now: %s", error)
        else:
            _LOG.log(logging.WARNING if pruned.left else logging.INFO, "%s", pruned.summary(option))
        await pause(_DAY)


class Pruning:
    """Finds and removes the finished conversations of one store."""

    def __init__(self, port: StorePort, now: datetime, older: timedelta) -> None:
        """Find conversations that have not changed for `older`, as of `now`."""
        self._port = port
        self._now = now
        self._older = older
        self.left: dict[str, str] = {}
        """Conversations that cannot be checked or removed, by id, with the reason."""
        self._removable: list[str] = []

    async def found(self) -> AsyncGenerator[Prunable]:
        """Yield the prunable conversations, oldest first, without conversations created in the
        meantime.
        """
        after: str | None = None
        while page := await self._port.ids(after=after, limit=_PAGE):
            for id in page:  # noqa: A001  the common name of IDs
                await pause(0)  # reading files blocks, so let other tasks run in between
                try:
                    prunable = await self._looked_at(id)
                except (
                    NoConversation
                ):  # the conversation was removed with its family, or by another process
                    continue
                except (StoreError, ValueError) as error:
                    self.left[id] = str(error)
                    continue
                if prunable:
                    yield prunable
            after = page[-1]

    async def removed(self) -> Pruned:
        """Remove all prunable conversations; return the removed and the kept conversations."""
        gone: dict[str, list[str]] = {"finished": [], "empty": []}
        async for prunable in self.found():
            try:
                if await self.remove(prunable):
                    gone[prunable.why] += prunable.family
            except StoreError as error:
                self.left[prunable.id] = str(error)
        await remove_entries(self._port, [*gone["finished"], *gone["empty"]])
        return Pruned(
            tuple(gone["finished"]), tuple(gone["empty"]), self.left, tuple(self._removable)
        )

    async def remove(self, prunable: Prunable) -> bool:
        """Remove a conversation with its family, unless a turn was started in it.

        Raises:
            StoreError: The conversation is locked, or cannot be removed.
        """
        try:
            if not await self._port.remove(
                prunable.id, lambda turn: self._is_over(prunable.id, turn)
            ):
                return False
        except NoConversation:  # another process removed it
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
        if isinstance(looked, LockedBy) or await self._is_nested(turn):
            return None
        if _is_damaged(turn):
            self._leave(
                id,
                f"Some lines of the last turn of conversation {id} cannot be read, so the turn"
                " may be open.",
            )
        if not self._is_over(id, turn):
            return None
        if not turn.events:
            return Prunable(id, "empty", made(id), "", (id,)) if await self._is_empty(id) else None
        family = list(reversed(await whole_family(self._port, id)))
        for inside in family[1:]:
            if open_turn((await self._port.look(inside)).turn.events):
                return None
        return Prunable(
            id,
            "finished",
            turn.events[-1].at,
            (await titles(self._port, [id])).get(id, ""),
            tuple(family),
        )

    def _is_over(self, id: str, turn: LastTurn) -> bool:
        """Return whether the last event is old enough and no turn is open."""
        if turn.handed or open_turn(turn.events) or _is_damaged(turn):
            return False
        return (
            turn.events[-1].at < self._now - self._older
            if turn.events
            else made(id) < self._now - EMPTY
        )

    async def _is_nested(self, turn: LastTurn) -> bool:
        """Return whether a conversation is nested in another conversation that still exists."""
        parent = parent_of(turn.events)
        if parent is None:
            return False
        try:
            await self._port.look(parent.root)
        except NoConversation:
            return False
        return True

    async def _is_empty(self, id: str) -> bool:
        """Return whether a conversation without a turn has no lines at all. A damaged
        conversation also has no turn, but it has lines.
        """
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
    """Return the time of creation. An ID counts microseconds, or tenths of a second in IDs of
    `jp`.
    """
    unit = timedelta(microseconds=1) if len(id) >= _MICROSECOND_DIGITS else timedelta(seconds=0.1)
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + int(id) * unit
    except OverflowError:  # the number is out of the range of dates
        return datetime.max.replace(tzinfo=UTC)
