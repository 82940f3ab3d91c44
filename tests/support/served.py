"""`midturn serve` as a process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from support.serving import free_port

MIDTURN = [sys.executable, "-m", "midturn"]


class Served:
    """A server, and how it is reached."""

    def __init__(self, directory: Path, options: Sequence[str], port: int | None = None, *, prefix: Sequence[str] = ()) -> None:
        self.directory = directory
        self.port = port or free_port()
        homes = {name: str(directory / name) for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME")}
        self.environment = {"PATH": os.environ["PATH"], **homes}
        where = ["--store", str(directory / "conversations"), "--port", str(self.port), "--user", "ada"]
        pipe = subprocess.PIPE
        command = [*prefix, *MIDTURN, "serve", *where, *options]
        self.process = subprocess.Popen(
            command, env=self.environment, cwd=directory, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True
        )

    def address(self) -> str:
        """Wait for the address that it prints first."""
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def another_address(self) -> str:
        """Get an address with another code."""
        command = [*MIDTURN, "serve", "code", "--port", str(self.port)]
        done = subprocess.run(command, env=self.environment, cwd=self.directory, capture_output=True, text=True, timeout=60, check=True)
        return done.stdout.strip()

    def ended(self) -> tuple[int, str]:
        """Wait for its end; return its status, and what it said."""
        _, errors = self.process.communicate(timeout=60)
        return self.process.returncode, " ".join(errors.split())

    def end(self) -> None:
        """End it at once."""
        self.process.kill()
        self.process.communicate()
