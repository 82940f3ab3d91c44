"""How much other agents may ask before somebody answers: one that asks without end buries no inbox and fills no disk."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path, PurePath
from typing import Final

from midturn.errors import MidturnError
from midturn.ports import Clock
from midturn.record.asker import Asker
from midturn.record.open_question import OpenQuestion
from midturn.store.lock import parent
from midturn.store.store import ConversationStore
from midturn.values.json_value import JsonObject, canonical, json_problem, text
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


# ----------------------------------------------------------------------------------------------------------------------
# The agent that runs our hook: which session and which process it is, and how it was started


_FARTHEST = 6
_NAME, _SESSION_ID = 40, 8  # characters of what names a subagent
_PROGRAM = 4  # arguments in which a program's name stands: an interpreter and its own options come before it


class Runs:
    """What agents say in the same way: their session in the document or in a variable, their process in a variable or not at all."""

    session_variable = ""
    process_variable = ""

    def session(self, document: JsonObject, environment: Mapping[str, str]) -> str:
        """Return the session's id; empty where it does not say."""
        return text(document.get("session_id")) or environment.get(self.session_variable, "")

    def subagent(self, document: JsonObject) -> str:
        """Return what kind of subagent asks, and the beginning of its id; empty where the main agent does, which has no id."""
        id = text(document.get("agent_id"))  # noqa: A001  the wire's word
        return " ".join(filter(None, (text(document.get("agent_type"))[:_NAME], id[:_SESSION_ID]))) if id else ""

    def process(self, environment: Mapping[str, str]) -> int:
        """Return the agent's own process; 0 where it does not say."""
        given = environment.get(self.process_variable, "")
        return int(given) if given.isdecimal() else 0


def started_with(*names: str) -> Sequence[str]:
    """Return the arguments of the nearest process above us that is one of these programs; none where there is no such process."""
    return next((arguments[1:] for _, arguments in _above(names)), ())


def has_prompt(arguments: Sequence[str]) -> bool:
    """Say whether a program was started with a prompt (`-p`): it has one turn, and asks nobody at a terminal."""
    return not {"-p", "--prompt"}.isdisjoint(arguments)


def process_of(*names: str) -> int:
    """Return the nearest process above us that is one of these programs; 0 where there is none that can be told."""
    return next((pid for pid, _ in _above(names)), 0)


def is_above(pid: int) -> bool:
    """Say whether we descend from a process, as an agent's hook does from its agent. The first process of all is nobody's agent."""
    above, steps = os.getppid(), 0
    while above > 1 and above != pid and steps < _FARTHEST:
        above, steps = parent(above), steps + 1
    return above > 1 and above == pid


def _above(names: Collection[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the processes above us that are one of these programs, the nearest first, with their arguments."""
    pid = os.getppid()
    for _ in range(_FARTHEST):
        arguments = _arguments(pid)
        if any(not names_of(word).isdisjoint(names) for word in arguments[:_PROGRAM]):
            yield pid, arguments
        pid = parent(pid)
        if pid <= 1:
            break


def names_of(program: str) -> frozenset[str]:
    """Return what a program's path calls it: its file, and the package that the file is in."""
    path = PurePath(program)
    return frozenset((path.stem, path.parent.name, path.parent.parent.name)) if path.is_absolute() else frozenset((path.stem,))


def _arguments(pid: int) -> list[str]:
    try:
        return os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes()).rstrip("\0").split("\0")
    except OSError:
        if Path("/proc/self/cmdline").exists():
            return []
        printed = subprocess.run(["/bin/ps", "-o", "args=", "-p", str(pid)], capture_output=True, check=False)  # noqa: S603
        return os.fsdecode(printed.stdout).split()
