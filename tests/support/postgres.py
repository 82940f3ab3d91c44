"""A private PostgreSQL cluster in a temporary directory, reachable only through its socket."""

from __future__ import annotations

import atexit
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path


class Cluster:
    """A PostgreSQL server that can be started, stopped and crashed."""

    def __init__(self, *settings: str) -> None:
        self._settings = settings
        self.path = Path(tempfile.mkdtemp(prefix="midturn-pg-", dir="/tmp"))
        self.owner = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
        if os.geteuid() == 0:
            shutil.chown(self.path, self.owner)
        self._run(
            "initdb",
            "-D",
            str(self.path / "data"),
            "-A",
            "trust",
            "-U",
            "midturn",
            "--no-sync",
            "-E",
            "UTF8",
            "--locale=C.UTF-8",
        )
        self.start()

    @property
    def url(self) -> str:
        return f"postgresql://midturn@/postgres?host={self.path}"

    def start(self) -> None:
        """Start the server, and wait until it accepts connections."""
        listening = ["-c", "listen_addresses=", "-c", f"unix_socket_directories={self.path}"]
        settings = [word for setting in self._settings for word in ("-c", setting)]
        self._run(
            "pg_ctl",
            "-D",
            str(self.path / "data"),
            "-l",
            str(self.path / "log"),
            "-w",
            "-o",
            " ".join([*listening, *settings]),
            "start",
        )

    def stop(self, mode: str = "fast") -> None:
        """Stop the server; the mode `immediate` is a crash."""
        self._run("pg_ctl", "-D", str(self.path / "data"), "-w", "-m", mode, "stop")

    def crash(self) -> None:
        """Crash the server and start it again."""
        self.stop("immediate")
        self.start()

    def freeze(self) -> int:
        """Pause the postmaster with SIGSTOP; return its process ID for `os.kill(…, SIGCONT)`."""
        postmaster = int((self.path / "data" / "postmaster.pid").read_text().splitlines()[0])
        os.kill(postmaster, signal.SIGSTOP)
        return postmaster

    def remove(self) -> None:
        """Stop the server and delete its data."""
        self.stop("immediate")
        shutil.rmtree(self.path)

    def _run(self, program: str, *arguments: str) -> None:
        command = [shutil.which(program) or program, *arguments]
        deadline = time.monotonic() + 120
        while True:
            done = subprocess.run(
                command,
                user=self.owner if os.geteuid() == 0 else None,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
            )
            if done.returncode == 0:
                return
            if time.monotonic() > deadline or program == "initdb":
                raise AssertionError(f"{program}: {done.stderr}")
            time.sleep(0.2)


def unused_schema() -> str:
    """Return the address of an unused schema, on the server that this process keeps until its
    end.
    """
    return f"{shared_cluster().url}&midturn_schema=s{next(_NUMBERS)}"


def no_postgres() -> str:
    """Return the reason why PostgreSQL is unavailable, or an empty string."""
    return "" if shutil.which("pg_ctl") else "there is no PostgreSQL: apt-get install postgresql"


_NUMBERS = itertools.count(1)


@cache
def shared_cluster() -> Cluster:
    """Return the server that all tests of this process share."""
    server = Cluster("fsync=off", "max_connections=200")
    atexit.register(server.remove)
    return server
