"""How much other agents may ask before somebody answers: one that asks without end buries no inbox and fills no disk."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from midturn.core.asker import Asker
from midturn.core.json_value import JsonObject, canonical
from midturn.core.stream import OpenQuestion
from midturn.errors import MidturnError
from midturn.ports import Clock
from midturn.store.store import ConversationStore

MOST: Final = 50
"""Questions of one session that wait at the same time."""
MOST_OF_ALL: Final = 500
"""Questions of all other agents, whatever they call themselves."""
LARGEST: Final = 1024 * 1024
"""Bytes of what one question is about."""
IN_AN_HOUR: Final = 600
"""Questions that one process asks in an hour, also where each is withdrawn before the next: what is withdrawn stays recorded."""
_HOUR = 3_600.0
_AGAIN = 1.0  # seconds for which an agent that was refused is refused again without another look


class NoRoom(MidturnError):  # noqa: N818  it says what is the case
    """A question is not taken; `oldest` is the one of this agent that waits longest."""

    def __init__(self, message: str, oldest: str = "") -> None:
        super().__init__(message)
        self.oldest = oldest


class Room:
    """Whatever asks in one process shares one of these, so that questions at the same time are counted one after the other."""

    def __init__(self) -> None:
        self._one_at_a_time = asyncio.Lock()
        self._asked: deque[float] = deque()
        self._refused: dict[tuple[str, str], tuple[float, NoRoom]] = {}

    @asynccontextmanager
    async def taken(self, store: ConversationStore, asker: Asker, arguments: JsonObject, clock: Clock) -> AsyncGenerator[None]:
        """Let the block ask one more question.

        Raises:
            NoRoom: It is too large, or too many wait.
        """
        size = len(canonical(arguments))
        if size > LARGEST:
            raise NoRoom(f"What {asker.name} asks about has {size:,} bytes; no question may have more than {LARGEST:,}. It was not asked.")
        async with self._one_at_a_time:
            who = (asker.name, asker.session)
            before, refused = self._refused.get(who, (0.0, None))
            if refused and clock.monotonic() - before < _AGAIN:
                raise refused
            try:
                self._check_pace(asker, clock.monotonic())
                await _check(store, asker)
            except NoRoom as full:
                self._refused[who] = (clock.monotonic(), full)
                raise
            self._asked.append(clock.monotonic())
            yield

    def _check_pace(self, asker: Asker, now: float) -> None:
        while self._asked and now - self._asked[0] >= _HOUR:
            self._asked.popleft()
        if len(self._asked) >= IN_AN_HOUR:
            raise NoRoom(f"{asker.name} has asked {len(self._asked)} times in an hour, and no more is taken for now. This was not asked.")


async def _check(store: ConversationStore, asker: Asker) -> None:
    if len(await store.port.ids(which="open")) < MOST:
        return
    foreign = [question for question in await store.port.questions() if question.asker]
    own = [question for question in foreign if _who(question) == (asker.name, asker.session)]
    advice = "no more are taken until some of them are answered. This one was not asked."
    if len(own) >= MOST:
        raise NoRoom(f"{len(own)} questions of this session of {asker.name} wait for the user already, and {advice}", own[0].conversation)
    if len(foreign) >= MOST_OF_ALL:
        oldest = next((question for question in foreign if _who(question)[0] == asker.name), foreign[0])
        raise NoRoom(f"{len(foreign)} questions of other agents wait for the user already, and {advice}", oldest.conversation)


def _who(question: OpenQuestion) -> tuple[str, str]:
    return (question.asker.name, question.asker.session) if question.asker else ("", "")
