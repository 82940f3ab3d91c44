"""The command line as a user has it: a process of its own, in a workspace and a home that nobody else uses."""

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
"""A local command that asks what its arguments say, and returns the answers."""

USER = "ana"
"""Who answers at commands: the login differs from machine to machine."""
Process: TypeAlias = Running | subprocess.Popen[str]
"""A command that goes on, forked or started."""
_OURS = ("MIDTURN_", "CI", "ANTHROPIC_", "OPENAI_", "GOOGLE_", "GEMINI_", "XDG_")
_SPEAKING = ("mcp", "acp", "anthropic", "openai", "google", "gemini", "serve")
_IN_DIRECTORY = 'cd "$1" && shift && exec "$@"'


class Finished:
    """A command that has ended."""

    def __init__(self, completed: subprocess.CompletedProcess[bytes]) -> None:
        self.status = completed.returncode
        self.stdout = completed.stdout.decode()
        self.stderr = completed.stderr.decode()

    @property
    def json(self) -> Any:
        """What was printed, as JSON."""
        return json.loads(self.stdout)

    @property
    def lines(self) -> list[Any]:
        """What was printed, as JSON lines."""
        return [json.loads(line) for line in self.stdout.splitlines()]

    def __repr__(self) -> str:
        return f"exit status {self.status}\n--- stdout\n{self.stdout}--- stderr\n{self.stderr}"


class CommandLine:
    """Runs `midturn` in `root`, a workspace unless `workspace` says otherwise. No terminal is attached, except by `on_a_terminal`."""

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
        """The environment: ours, without what would change what a command does."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
        homes = {name: str(self.home / name.removeprefix("XDG_").removesuffix("_HOME").lower()) for name in _HOMES}
        own = {"HOME": str(self.home), "LC_ALL": "C.UTF-8", "PYTHONWARNINGS": "error", "MIDTURN_CFG_USER__NAME": USER}
        return {**kept, **homes, **own}

    def run(self, *arguments: str, stdin: str | bytes = b"", **environment: str) -> Finished:
        """Run a command to its end, without any terminal."""
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
            timeout=60,
            check=False,
        )
        return Finished(completed)

    def command(self, *arguments: str, **environment: str) -> Command:
        """Return a command as it runs here; whether it speaks with others is seen from its words, and from what is configured."""
        configured = self.config.read_text() if self.config.exists() else ""
        speaks = any(word in text for text in (configured, *arguments) for word in _SPEAKING)
        return Command(arguments, self.root, {**self.environment, **environment}, speaks)

    def ok(self, *arguments: str, stdin: str | bytes = b"", **environment: str) -> Finished:
        """Run a command that must succeed."""
        finished = self.run(*arguments, stdin=stdin, **environment)
        assert finished.status == 0, finished
        return finished

    def start(self, *arguments: str, **environment: str) -> Process:
        """Start a command without any terminal, and let it run."""
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

    def on_a_terminal(self, *arguments: str, size: tuple[int, int] = (80, 40), plain: bool = True, **environment: str) -> PtySession:
        """Run a command on a terminal of its own."""
        mode = {"TERM": "dumb" if plain else "xterm-256color"}
        if self.program is CommandLine.program and can_be_warm(environment):
            return PtySession(self.command(*arguments, **{**self._of_a_terminal, **mode, **environment}), size=size)
        return self.on_a_terminal_run(*self.program, *arguments, size=size, **{**mode, **environment})

    def on_a_terminal_run(self, *command: str, size: tuple[int, int] = (80, 40), **environment: str) -> PtySession:
        """Run any command there; `python` is the one of the tests."""
        alone = {**self.environment, **self._of_a_terminal, **environment}
        env = ["/usr/bin/env", "-i", *(f"{name}={value}" for name, value in alone.items())]
        return PtySession([*env, "/bin/sh", "-c", _IN_DIRECTORY, "sh", str(self.root), *command], size=size)

    @property
    def _of_a_terminal(self) -> dict[str, str]:
        return {"TERM": "dumb", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

    # What stands in the files ---------------------------------------------------------------------------------------------

    def script(self, *replies: Mapping[str, Any], inquiries: Sequence[Mapping[str, Any]] = ()) -> str:
        """Write a script; return the model's name. Its last reply, after those given, is "Done."."""
        file = self.root / "play.json"
        file.write_text(json.dumps({"replies": [*replies, {"text": "Done."}], "inquiries": list(inquiries)}))
        return f"scripted:{file}"

    def configure(self, text: str) -> None:
        """Write the user's own configuration."""
        self.config.write_text(text)

    def workspace_file(self, text: str) -> Path:
        """Write the workspace's configuration."""
        file = self.root / ".midturn" / "config.toml"
        file.write_text(text)
        return file

    def hasty(self) -> None:
        """Have prompts take keys at once."""
        with self.config.open("a") as file:
            file.write("[prompt]\nsettle_ms = 0\n")

    def asker(self, name: str = "deploy", **keys: Any) -> None:
        """Have a local command `name` that asks what its arguments say, unattended; `keys` are more of its configuration."""
        table = {"command": [sys.executable, "-I", "-S", str(ASKER)], "protocol": "outcome", "run": "unattended", **keys}
        lines = [f"[conversation.tools.{name}]", *(f"{key} = {_toml(value)}" for key, value in table.items())]
        lines += [f"parameters.{parameter} = {{}}" for parameter in ("ask", "say", "fail", "sleep", "note", "json", "changed")]
        with self.config.open("a") as file:
            file.write("\n".join(lines) + "\n")

    @property
    def store(self) -> Path:
        """Where the conversations of `root` are: in a folder of the user's, named after the real path of the workspace."""
        data = self.home / "data"
        return workspace_store(self.root, data) if (self.root / ".midturn").is_dir() else data / "midturn" / "conversations"

    def conversations(self) -> list[Path]:
        """Return the directories of the conversations, oldest first."""
        return sorted(self.store.glob("[0-9]*-*"))

    def events(self, conversation: Path | None = None) -> list[dict[str, Any]]:
        """Return the events of a conversation, by default the newest."""
        file = (conversation or self.conversations()[-1]) / "events.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()]


def calls(name: str, **arguments: Any) -> dict[str, Any]:
    """Return a reply of a script that calls one tool."""
    return {"calls": [{"name": name, "arguments": arguments}]}


def asks(id: str = "confirm", text: str = "Deploy to staging?", **fields: Any) -> dict[str, Any]:
    """Return a yes/no question for `asker`."""
    return {"id": id, "text": text, "answer_type": {"type": "boolean"}, **fields}


_HOMES = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME")


def _toml(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_toml(one)}" for key, one in cast("Mapping[str, Any]", value).items()) + " }"
    return json.dumps(value)
