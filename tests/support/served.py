"""Runs `midturn serve` as a process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from support.cli import Process
from support.serving import free_port
from support.warm_commands import Command, Running, run_warm

MIDTURN = [sys.executable, "-m", "midturn"]


class Served:
    """A server process and its address."""

    def __init__(
        self,
        directory: Path,
        options: Sequence[str],
        port: int | None = None,
        *,
        prefix: Sequence[str] = (),
    ) -> None:
        self.directory = directory
        self.port = port or free_port()
        homes = {
            name: str(directory / name)
            for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")
        }
        self.environment = {"PATH": os.environ["PATH"], **homes}
        where = [
            "--store",
            str(directory / "conversations"),
            "--port",
            str(self.port),
            "--user",
            "ada",
        ]
        arguments = ["serve", *where, *options]
        self.process: Process = (
            self._under(prefix, arguments)
            if prefix
            else Running(Command(arguments, directory, self.environment))
        )

    def _under(self, prefix: Sequence[str], arguments: Sequence[str]) -> Process:
        """Start the server through another program, such as one that changes the user."""
        pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
        command = [*prefix, *MIDTURN, *arguments]
        return subprocess.Popen(
            command,
            env=self.environment,
            cwd=self.directory,
            stdin=nothing,
            stdout=pipe,
            stderr=pipe,
            text=True,
        )

    def address(self) -> str:
        """Wait for the address, which is the first line of output."""
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def another_address(self) -> str:
        """Get an address with a new sign-in code."""
        done = run_warm(
            Command(["serve", "code", "--port", str(self.port)], self.directory, self.environment),
            b"",
        )
        assert done.returncode == 0, done
        return done.stdout.decode().strip()

    def ended(self) -> tuple[int, str]:
        """Wait for its end; return its status and stderr."""
        _, errors = self.process.communicate(timeout=120)
        return self.process.wait(), " ".join(errors.split())

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()
