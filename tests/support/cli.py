"""Runs the command line as a subprocess, in a workspace and a home directory of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, cast

from support.places import workspace_store
from support.pty_session import PtySession
from support.warm_commands import Command, Running, can_be_warm, run_warm

ASKER = Path(__file__).with_name("asker.py")
"""A local command that asks the questions in its arguments and returns the answers."""

USER = "ana"
"""The user name in commands. The login name would differ between machines."""
Process: TypeAlias = Running | subprocess.Popen[str]
"""A running command, forked or started."""
_OURS = ("MIDTURN_", "CI", "ANTHROPIC_", "OPENAI_", "GOOGLE_", "GEMINI_", "XDG_")
_NETWORK_WORDS = ("mcp", "acp", "anthropic", "openai", "google", "gemini", "serve")
_IN_DIRECTORY = 'cd "$1" && shift && exec "$@"'


class Finished:
    def __init__(self, completed: subprocess.CompletedProcess[bytes]) -> None:
        self.status = completed.returncode
        self.stdout = completed.stdout.decode()
        self.stderr = completed.stderr.decode()

    @property
    def json(self) -> Any:
        """The standard output, parsed as JSON."""
        return json.loads(self.stdout)

    @property
    def lines(self) -> list[Any]:
        """The standard output, parsed as JSON lines."""
        return [json.loads(line) for line in self.stdout.splitlines()]

    def __repr__(self) -> str:
        return f"exit status {self.status}\n--- stdout\n{self.stdout}--- stderr\n{self.stderr}"


class CommandLine:
    """Runs `midturn` in `root`, which is a workspace unless `workspace` is false. Only
    `on_a_terminal` attaches a terminal.
    """

    program: Sequence[str] = (sys.executable, "-m", "midturn")

    def __init__(self, directory: Path, *, workspace: bool = True) -> None:
        self.root = directory / "work"
        self.home = directory / "home"
        self.config = self.home / "config" / "midturn" / "config.toml"
        self.state = self.home / "state" / "midturn"
        self.root.mkdir(parents=True)
        self.config.parent.mkdir(parents=True)
        if workspace:
            (self.root / ".midturn").mkdir(mode=0o700)

    @property
    def environment(self) -> dict[str, str]:
        """The environment of commands, without variables that would change their behaviour."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
        homes = {
            name: str(self.home / name.removeprefix("XDG_").removesuffix("_HOME").lower())
            for name in _HOMES
        }
        own = {
            "HOME": str(self.home),
            "LC_ALL": "C.UTF-8",
            "PYTHONWARNINGS": "error",
            "MIDTURN_CFG_USER__NAME": USER,
        }
        return {**kept, **homes, **own}

    def run(self, *arguments: str, stdin: str | bytes = b"", **environment: str) -> Finished:
        """Run a command to its end, without a terminal."""
        given = stdin.encode() if isinstance(stdin, str) else stdin
        if self.program is CommandLine.program and can_be_warm(environment):
            return Finished(run_warm(self.command(*arguments, **environment), given))
        completed = subprocess.run(
            [*self.program, *arguments],
            input=given,
            capture_output=True,
            cwd=self.root,
            env={**self.environment, **environment},
            start_new_session=True,
            timeout=120,
            check=False,
        )
        return Finished(completed)

    def command(self, *arguments: str, **environment: str) -> Command:
        """Return a command to run here. Its arguments and the configuration tell whether it uses
        the network.
        """
        configured = self.config.read_text() if self.config.exists() else ""
        uses_network = any(
            word in text for text in (configured, *arguments) for word in _NETWORK_WORDS
        )
        return Command(arguments, self.root, {**self.environment, **environment}, uses_network)

    def ok(self, *arguments: str, stdin: str | bytes = b"", **environment: str) -> Finished:
        """Run a command that must succeed."""
        finished = self.run(*arguments, stdin=stdin, **environment)
        assert finished.status == 0, finished
        return finished

    def start(self, *arguments: str, **environment: str) -> Process:
        """Start a command without a terminal, and do not wait for it."""
        if self.program is CommandLine.program and can_be_warm(environment):
            return Running(self.command(*arguments, **environment))
        return subprocess.Popen(
            [*self.program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.root,
            env={**self.environment, **environment},
            start_new_session=True,
        )

    def on_a_terminal(
        self,
        *arguments: str,
        size: tuple[int, int] = (80, 40),
        plain: bool = True,
        **environment: str,
    ) -> PtySession:
        """Run a command on its own terminal."""
        mode = {"TERM": "dumb" if plain else "xterm-256color"}
        if self.program is CommandLine.program and can_be_warm(environment):
            return PtySession(
                self.command(*arguments, **{**self._of_a_terminal, **mode, **environment}),
                size=size,
            )
        return self.on_a_terminal_run(
            *self.program, *arguments, size=size, **{**mode, **environment}
        )

    def on_a_terminal_run(
        self, *command: str, size: tuple[int, int] = (80, 40), **environment: str
    ) -> PtySession:
        """Run any command on its own terminal; `python` is the interpreter of the tests."""
        alone = {**self.environment, **self._of_a_terminal, **environment}
        env = ["/usr/bin/env", "-i", *(f"{name}={value}" for name, value in alone.items())]
        return PtySession(
            [*env, "/bin/sh", "-c", _IN_DIRECTORY, "sh", str(self.root), *command], size=size
        )

    @property
    def _of_a_terminal(self) -> dict[str, str]:
        return {"TERM": "dumb", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

    # Files
    # ----------------------------------------------------------------------------------------------

    def script(
        self, *replies: Mapping[str, Any], inquiries: Sequence[Mapping[str, Any]] = ()
    ) -> str:
        """Write a script; return its model name. The last reply, after those given, is "Done."."""
        file = self.root / "play.json"
        file.write_text(
            json.dumps({"replies": [*replies, {"text": "Done."}], "inquiries": list(inquiries)})
        )
        return f"scripted:{file}"

    def configure(self, text: str) -> None:
        """Write the user's own configuration."""
        self.config.write_text(text)

    def workspace_file(self, text: str) -> Path:
        """Write the workspace's configuration."""
        file = self.root / ".midturn" / "config.toml"
        file.write_text(text)
        return file

    def accept_keys_at_once(self) -> None:
        """Let prompts accept keys immediately."""
        with self.config.open("a") as file:
            file.write("[prompt]\nsettle_ms = 0\n")

    def asker(self, name: str = "deploy", **keys: Any) -> None:
        """Configure a local command `name` that asks the questions in its arguments, unattended.
        `keys` are further settings.
        """
        table = {
            "command": [sys.executable, "-I", "-S", str(ASKER)],
            "protocol": "outcome",
            "run": "unattended",
            **keys,
        }
        lines = [
            f"[conversation.tools.{name}]",
            *(f"{key} = {_toml(value)}" for key, value in table.items()),
        ]
        lines += [
            f"parameters.{parameter} = {{}}"
            for parameter in ("ask", "say", "fail", "sleep", "note", "json", "changed")
        ]
        with self.config.open("a") as file:
            file.write("\n".join(lines) + "\n")

    @property
    def store(self) -> Path:
        """The directory of the conversations of `root`."""
        data = self.home / "data"
        return (
            workspace_store(self.root, data)
            if (self.root / ".midturn").is_dir()
            else data / "midturn" / "conversations"
        )

    def conversations(self) -> list[Path]:
        """Return the directories of the conversations, oldest first."""
        return sorted(self.store.glob("[0-9]*-*"))

    def events(self, conversation: Path | None = None) -> list[dict[str, Any]]:
        """Return the events of a conversation, by default the newest."""
        file = (conversation or self.conversations()[-1]) / "events.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()]


def calls(name: str, **arguments: Any) -> dict[str, Any]:
    """Return a script reply that calls one tool."""
    return {"calls": [{"name": name, "arguments": arguments}]}


def asks(id: str = "confirm", text: str = "Deploy to staging?", **fields: Any) -> dict[str, Any]:
    """Return a yes/no question for `asker`."""
    return {"id": id, "text": text, "answer_type": {"type": "boolean"}, **fields}


_HOMES = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME")


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return (
            "{ "
            + ", ".join(
                f"{key} = {_toml(one)}" for key, one in cast("Mapping[str, Any]", value).items()
            )
            + " }"
        )
    return json.dumps(value)
