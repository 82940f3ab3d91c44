"""The agent that runs our hook: how it speaks, which session and which process it is, and how it was started.

A hook of ours runs with every call of an agent, and nearly always has nothing to ask: what reads the agent's document, and this with it,
loads neither what asks nor what waits.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Protocol

from midturn.foreign.occasion import Occasion, Permit, PutForm, Said, Unaskable
from midturn.foreign.words import Decided
from midturn.record.asker import Asker
from midturn.store.lock import lives, mark, parent
from midturn.values.json_value import JsonObject, text


class HookAgent(Protocol):
    """How one agent's hooks speak."""

    @property
    def key(self) -> str:
        """How `midturn hook` calls it."""
        ...

    @property
    def name(self) -> str:
        """What people call it."""
        ...

    @property
    def wait(self) -> float:
        """How many seconds a hook of it may wait: less than the agent does."""
        ...

    @property
    def unreadable(self) -> Said:
        """What it is told where nobody can read what it says."""
        ...

    def session(self, document: JsonObject, environment: Mapping[str, str]) -> str:
        """Return the agent's name for its session."""
        ...

    def process(self, environment: Mapping[str, str]) -> int:
        """Return the agent's own process, where it says so; else 0."""
        ...

    def subagent(self, document: JsonObject) -> str:
        """Return the agent's name for the one of its own agents that asks; empty where that is the main one."""
        ...

    def read(self, document: JsonObject, environment: Mapping[str, str]) -> Occasion:
        """Say what the document is about."""
        ...

    def permitted(self, document: JsonObject, occasion: Permit, outcome: Decided) -> Said:
        """Tell what was decided about a call."""
        ...

    def answered(self, document: JsonObject, occasion: PutForm, outcome: Decided) -> Said:
        """Tell what was answered."""
        ...

    def denied(self, document: JsonObject, message: str) -> Said:
        """Keep a call from running, for a reason that is not a person's."""
        ...

    def left_open(self, document: JsonObject) -> Said:
        """Keep a call from running that nobody has decided about in time; the question stays open."""
        ...

    def goes_on(self, document: JsonObject, message: str) -> Said:
        """Keep the agent from ending its turn, with news."""
        ...


def without_answer(agent: HookAgent, document: JsonObject, occasion: Occasion, message: str) -> Said:
    """Return what an agent is told where nobody could be asked: a gate stays closed, and everything else is left to the agent."""
    gates = isinstance(occasion, Permit | PutForm | Unaskable) and occasion.gates
    return agent.denied(document, message) if gates else Said()


def agent_lives(asker: Asker) -> Callable[[], bool]:
    """Return what says whether the agent still runs for which we ask: its process, and the one that started us."""
    began = os.getppid()
    return lambda: os.getppid() == began and lives(asker.serves)


def asker_of(agent: HookAgent, document: JsonObject, environment: Mapping[str, str]) -> Asker:
    """Return who asks in a run of an agent's hook: this process waits, and the agent's own is above it, where that can be told."""
    named = agent.process(environment)
    own = named if is_above(named) else process_of(agent.key)
    return Asker(
        name=agent.name,
        agent=agent.key,
        session=agent.session(document, environment),
        via="hook",
        cwd=text(document.get("cwd")),
        process=mark(os.getpid()),
        serves=mark(own or parent(os.getppid())),
        itself=mark(own) if own else None,
        subagent=agent.subagent(document),
    )


# ----------------------------------------------------------------------------------------------------------------------
# Its session, its process, and how it was started


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
        import subprocess  # a system without `/proc` is the exception

        printed = subprocess.run(["/bin/ps", "-o", "args=", "-p", str(pid)], capture_output=True, check=False)  # noqa: S603
        return os.fsdecode(printed.stdout).split()
