"""Agents that run `midturn hook` as their hook: each run is a process of its own, as it is in life."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from support.cli import CommandLine, Process
from support.no_lie import heard
from support.warm_commands import Command, Running, can_be_warm

_PATIENCE = 90.0
_UNDER_AGENT = Path(__file__).with_name("under_agent.py")
_SELDOM = 0.3
"""How often the inbox is looked at while nothing is recorded: what is open may lie elsewhere, or end by itself."""
_UNDER = 'exec -a "$0" /bin/bash -c "\\"\\${@:2}\\"; exit \\$?" _ "$@"'
"""Runs a command below a process that is called like an agent, and was started with an argument."""


class HookProcess:
    """One run of a hook, which waits for a person."""

    def __init__(self, process: Process) -> None:
        self.process = process

    def decision(self) -> Any:
        """Wait for its end; return what it printed, None where that is nothing."""
        printed, errors = self.process.communicate(timeout=_PATIENCE)
        assert self.process.returncode == 0, errors
        heard(lambda: [printed])
        return json.loads(printed) if printed else None

    def kill(self) -> None:
        """Kill it, as an agent or a system does."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate(timeout=_PATIENCE)


class Session:
    """One session of an agent; `environment` is what the agent gives its hooks."""

    def __init__(self, midturn: CommandLine, agent: str, session: str = "s1", *, given: str = "", **environment: str) -> None:
        """Begin one; `given` is an argument that the agent itself was started with."""
        self.given = given
        self.midturn = midturn
        self.agent = agent
        self.session = session
        self.environment = environment

    def document(self, event: str, **fields: Any) -> dict[str, Any]:
        """Return what the agent writes to a hook."""
        return {"session_id": self.session, "cwd": str(self.midturn.root), "hook_event_name": event, **fields}

    def start(self, event: str, *options: str, **fields: Any) -> HookProcess:
        """Run a hook, and let it wait."""
        return self.start_with(json.dumps(self.document(event, **fields)), *options)

    def start_with(self, stdin: str, *options: str) -> HookProcess:
        """Run a hook with anything on its stdin."""
        renames_itself = sys.platform == "linux"  # what is forked can be called like an agent
        if can_be_warm(self.environment) and (renames_itself or not self.given):
            command = self.midturn.command("hook", self.agent, *options, **self.environment)
            return HookProcess(Running(self._below_the_agent(command) if self.given else command, stdin))
        command = [sys.executable, "-m", "midturn", "hook", self.agent, *options]
        process = subprocess.Popen(
            ["/bin/bash", "-c", _UNDER, self.agent, self.given, *command] if self.given else command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.midturn.root,
            env={**self.midturn.environment, **self.environment},
            start_new_session=True,
        )
        assert process.stdin
        process.stdin.write(stdin)
        process.stdin.close()
        process.stdin = None
        return HookProcess(process)

    def _below_the_agent(self, hook: Command) -> Command:
        return hook._replace(program=_UNDER_AGENT, arguments=[self.agent, self.given, *hook.arguments])

    def run(self, event: str, *options: str, **fields: Any) -> Any:
        """Run a hook to its end; return what it printed."""
        return self.start(event, *options, **fields).decision()


def wait_for(midturn: CommandLine, count: int = 1) -> list[dict[str, Any]]:
    """Wait until so many questions are open; return them."""

    def look() -> Any:
        before = _recorded(midturn)
        questions = midturn.ok("inbox", "--json").json
        end = time.monotonic() + _SELDOM
        while len(questions) != count and _recorded(midturn) == before and time.monotonic() < end:
            time.sleep(0.02)
        return questions

    return until(look, lambda questions: len(questions) == count)


def _recorded(midturn: CommandLine) -> set[tuple[str, int]]:
    """Return what is recorded at home, by its length: a look at that costs next to nothing, the inbox is a command."""
    found: set[tuple[str, int]] = set()
    for folder, _, files in os.walk(midturn.home / "data"):
        if "events.jsonl" in files:
            with suppress(FileNotFoundError):  # it has just been moved
                found.add((folder, (Path(folder) / "events.jsonl").stat().st_size))
    return found


def until(look: Callable[[], Any], fits: Callable[[Any], bool]) -> Any:
    """Look until what is seen fits; return it."""
    end = time.monotonic() + _PATIENCE
    while not fits(seen := look()):
        assert time.monotonic() < end, seen
        time.sleep(0.02)
    return seen


def stored(midturn: CommandLine) -> list[list[dict[str, Any]]]:
    """Return the events of every conversation of other agents, oldest first."""
    made = (file for file in (midturn.home / "data").rglob("events.jsonl") if not file.parent.name.startswith("."))
    files = sorted(made, key=_age)
    return [[json.loads(line) for line in file.read_text().splitlines()] for file in files]


def answers(events: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return what was decided in a conversation."""
    return [event for event in events if event["type"] == "inquiry_response" or event.get("state", "waiting") != "waiting"]


def _age(file: Path) -> int:
    return int(file.parent.name.split("-")[0])
