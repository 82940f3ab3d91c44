"""How much other agents may ask before somebody answers: one that asks without end buries no inbox and fills no disk."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from midturn.errors import MidturnError
from midturn.ports import Clock
from midturn.record.asker import Asker
from midturn.record.open_question import OpenQuestion
from midturn.store.store import ConversationStore
from midturn.values.json_value import JsonObject, canonical, json_problem
from midturn.values.limits import DEFAULT_LIMITS

MOST: Final = 50
"""Questions of one session that wait at the same time."""
MOST_OF_ALL: Final = 500
"""Questions of all other agents, whatever they call themselves."""
LARGEST: Final = 1024 * 1024
"""Bytes of what one question is about."""
IN_AN_HOUR: Final = 600
"""Questions of all other agents in an hour, also where each is withdrawn before the next: what is withdrawn stays recorded."""
SESSION: Final = "session:"
"""How the label begins that each conversation of another agent has: what follows is its own name for its session."""
_HOUR = 3_600_000_000  # microseconds, as ids of conversations count them
_LOOKED_AT = 4 * IN_AN_HOUR  # of the newest conversations of that hour, so that whoever asks waits no longer where turns of ours are many
_ID = 16  # digits
_AGAIN = 1.0  # seconds for which an agent that was refused is refused again without another look


class NoRoom(MidturnError):  # noqa: N818  it says what is the case
    """A question is not taken; `oldest` is the one of this agent that waits longest."""

    def __init__(self, message: str, oldest: str = "") -> None:
        super().__init__(message)
        self.oldest = oldest


class Room:
    """Whatever asks in one process shares one of these, so that questions at the same time are counted one after the other.

    What is counted is what the store holds, for each run of a hook is a process of its own. Processes that ask at the same moment may each
    find the last place free.
    """

    def __init__(self) -> None:
        self._one_at_a_time = asyncio.Lock()
        self._refused: dict[tuple[str, str], tuple[float, NoRoom]] = {}

    @asynccontextmanager
    async def taken(self, store: ConversationStore, asker: Asker, call: JsonObject, clock: Clock) -> AsyncGenerator[None]:
        """Let the block ask about one more call; `call` is all that the agent says about it.

        Raises:
            NoRoom: It is too large, or could not be shown as it is, or too many wait.
        """
        problem = json_problem(call, DEFAULT_LIMITS.json_depth)
        if problem is not None:
            raise NoRoom(f"What {asker.name} asks about could not be shown as it is: {problem.message} It was not asked.")
        size = len(canonical(call)) + len(canonical(asker.metadata()))
        if size > LARGEST:
            raise NoRoom(f"What {asker.name} asks about has {size:,} bytes; no question may have more than {LARGEST:,}. It was not asked.")
        async with self._one_at_a_time:
            who = (asker.name, asker.session)
            before, refused = self._refused.get(who, (0.0, None))
            if refused and clock.monotonic() - before < _AGAIN:
                raise refused
            try:
                await _check_pace(store, asker, clock)
                await _check(store, asker)
            except NoRoom as full:
                self._refused[who] = (clock.monotonic(), full)
                raise
            yield


async def _check_pace(store: ConversationStore, asker: Asker, clock: Clock) -> None:
    """Count what was begun in the last hour by its ids, which are times; only where that is much, look whose it is."""
    now = int(clock.now().timestamp() * 1_000_000)
    since, until = f"{now - _HOUR:0{_ID}}", f"{now:0{_ID}}"
    ids = await store.port.ids(after=since)
    begun = [since, *(id for id in ids if id <= until)]  # noqa: A001  what a clock that was set back has left in the future is not recent
    if len(begun) <= IN_AN_HOUR:
        return
    named = await store.port.described(after=begun[-_LOOKED_AT - 1 :][0], limit=_LOOKED_AT)
    count = sum(any(label.startswith(SESSION) for label in metadata.labels) for _, metadata in named)
    if count >= IN_AN_HOUR:
        oldest = next((question.conversation for question in await _waiting(store) if _who(question)[0] == asker.name), "")
        raise NoRoom(f"Other agents have asked {count} times in the last hour, and no more is taken for now. This was not asked.", oldest)


async def _check(store: ConversationStore, asker: Asker) -> None:
    if len(await store.port.ids(which="open")) < MOST:
        return
    foreign = await _waiting(store)
    own = [question for question in foreign if _who(question) == (asker.name, asker.session)]
    advice = "no more are taken until some of them are answered. This one was not asked."
    if len(own) >= MOST:
        raise NoRoom(f"{len(own)} questions of this session of {asker.name} wait for the user already, and {advice}", own[0].conversation)
    if len(foreign) >= MOST_OF_ALL:
        oldest = next((question for question in foreign if _who(question)[0] == asker.name), foreign[0])
        raise NoRoom(f"{len(foreign)} questions of other agents wait for the user already, and {advice}", oldest.conversation)


async def _waiting(store: ConversationStore) -> list[OpenQuestion]:
    """Return the open questions of other agents, the oldest first."""
    return [question for question in await store.pending() if question.asker]


def _who(question: OpenQuestion) -> tuple[str, str]:
    return (question.asker.name, question.asker.session) if question.asker else ("", "")
