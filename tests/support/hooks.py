"""Runs `midturn hook` like an agent does: each run is a process."""

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
from support.invented_decisions import check_statements
from support.warm_commands import Command, Running, can_be_warm

_PATIENCE = 120.0
_UNDER_AGENT = Path(__file__).with_name("under_agent.py")
_POLL_SECONDS = 0.3
"""Seconds between polls of the inbox while no log grows: a question may be elsewhere, or end by
itself.
"""
_UNDER = 'exec -a "$0" /bin/bash -c "\\"\\${@:2}\\"; exit \\$?" _ "$@"'
"""Shell code that runs a command below a process with an agent's name and argument."""


class HookProcess:
    """A running hook that waits for a person."""

    def __init__(self, process: Process) -> None:
        self.process = process

    def decision(self) -> Any:
        """Wait for its end; return its JSON output, or None."""
        printed, errors = self.process.communicate(timeout=_PATIENCE)
        assert self.process.returncode == 0, errors
        check_statements(lambda: [printed])
        return json.loads(printed) if printed else None

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate(timeout=_PATIENCE)


class Session:
    """A session of an agent. `environment` is what the agent gives its hooks."""

    def __init__(
        self,
        midturn: CommandLine,
        agent: str,
        session: str = "s1",
        *,
        given: str = "",
        **environment: str,
    ) -> None:
        """Create a session. `given` is a command-line argument of the agent itself."""
        self.given = given
        self.midturn = midturn
        self.agent = agent
        self.session = session
        self.environment = environment

    def document(self, event: str, **fields: Any) -> dict[str, Any]:
        """Return the input document of a hook."""
        return {
            "session_id": self.session,
            "cwd": str(self.midturn.root),
            "hook_event_name": event,
            **fields,
        }

    def start(self, event: str, *options: str, **fields: Any) -> HookProcess:
        """Start a hook; do not wait for it."""
        return self.start_with(json.dumps(self.document(event, **fields)), *options)

    def start_with(self, stdin: str, *options: str) -> HookProcess:
        """Start a hook with any text on stdin."""
        renames_itself = sys.platform == "linux"  # a forked process can change its command line
        if can_be_warm(self.environment) and (renames_itself or not self.given):
            command = self.midturn.command("hook", self.agent, *options, **self.environment)
            return HookProcess(
                Running(self._below_the_agent(command) if self.given else command, stdin)
            )
        command = [sys.executable, "-m", "midturn", "hook", self.agent, *options]
        process = subprocess.Popen(
            ["/bin/bash", "-c", _UNDER, self.agent, self.given, *command]
            if self.given
            else command,
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
        return hook._replace(
            program=_UNDER_AGENT, arguments=[self.agent, self.given, *hook.arguments]
        )

    def run(self, event: str, *options: str, **fields: Any) -> Any:
        """Run a hook to its end; return its output."""
        return self.start(event, *options, **fields).decision()


def wait_for(midturn: CommandLine, count: int = 1) -> list[dict[str, Any]]:
    """Wait until `count` questions are open; return them."""

    def look() -> Any:
        before = _recorded(midturn)
        questions = midturn.ok("inbox", "--json").json
        end = time.monotonic() + _POLL_SECONDS
        while len(questions) != count and _recorded(midturn) == before and time.monotonic() < end:
            time.sleep(0.02)
        return questions

    return until(look, lambda questions: len(questions) == count)


def _recorded(midturn: CommandLine) -> set[tuple[str, int]]:
    """Return the directories and sizes of all logs. This is much cheaper than the command that
    lists the inbox.
    """
    found: set[tuple[str, int]] = set()
    for folder, _, files in os.walk(midturn.home / "data"):
        if "events.jsonl" in files:
            with suppress(FileNotFoundError):  # it has just been moved
                found.add((folder, (Path(folder) / "events.jsonl").stat().st_size))
    return found


def until(look: Callable[[], Any], fits: Callable[[Any], bool]) -> Any:
    """Call `look` until its result fits; return the result."""
    end = time.monotonic() + _PATIENCE
    while not fits(seen := look()):
        assert time.monotonic() < end, seen
        time.sleep(0.02)
    return seen


def stored(midturn: CommandLine) -> list[list[dict[str, Any]]]:
    """Return the events of every conversation of other agents, oldest first."""
    made = (
        file
        for file in (midturn.home / "data").rglob("events.jsonl")
        if not file.parent.name.startswith(".")
    )
    files = sorted(made, key=_age)
    return [[json.loads(line) for line in file.read_text().splitlines()] for file in files]


def answers(events: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the answers and decisions in a conversation."""
    return [
        event
        for event in events
        if event["type"] == "inquiry_response" or event.get("state", "waiting") != "waiting"
    ]


def _age(file: Path) -> int:
    return int(file.parent.name.split("-")[0])
