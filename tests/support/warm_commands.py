"""Runs commands in forks of a process that has loaded everything, which saves the start-up time.

Commands that use servers or providers are forked from a second process. It also loads the modules
that its commands had to load, because the libraries take a second each.

A forked command differs from a started one only in its start-up time, and it does not wait for
the disk. It has its own session, directory, environment, streams and exit status. Given a
terminal, this becomes its controlling terminal. Tests of start-up, shells or job control start a
program as a subprocess.
"""

from __future__ import annotations

import atexit
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeVar

from support import warm_process
from support.warm_process import COSTS, NUMBER, Request, packed

_DECIDED_AT_START = ("PYTHON", "LC_", "LANG")
_TO_END: list[Callable[[], None]] = []  # functions that end the processes started here
_SHARED: dict[bool, list[socket.socket]] = {}  # sockets to the two processes, by `uses_network`
_STARTING = threading.Lock()
_START = Path(__file__).with_name("warm_start.py")
_ADDRESSES: dict[bool, str] = {}  # addresses of the two processes, for requests of other programs
_TOLD: dict[str, str] = {}  # the file in which they record the costs of commands, if requested


def can_be_warm(environment: Mapping[str, str]) -> bool:
    """Return whether a command may be forked: its environment must not contain variables that an
    interpreter reads at its start.
    """
    return not any(name.startswith(_DECIDED_AT_START) for name in environment)


class Command(NamedTuple):
    """A command: arguments, directory and environment. `uses_network`: with servers or providers.

    `program` is a Python program; by default `midturn` runs. `served` is the module that the
    program serves, passed as its first argument. With `uses_network`, their imports are loaded
    only once. Warnings are errors.
    """

    arguments: Sequence[str]
    directory: Path
    environment: Mapping[str, str]
    uses_network: bool = False
    program: Path | None = None
    served: Path | None = None


class Pipes(NamedTuple):
    """Our ends of a command's pipes: its stdin, stdout, stderr and exit status; and its process
    ID.
    """

    feed: int
    out: int
    err: int
    ended: int
    pid: int


class Started(NamedTuple):
    """A command on a terminal: its process ID, and the pipe with its exit status."""

    pid: int
    ended: int


def start_warm(command: Command) -> Pipes:
    """Start a command in its own session, without a terminal."""
    (stdin, feed), (out, stdout), (err, stderr) = [os.pipe() for _ in range(3)]
    try:
        started = _start(command, [stdin, stdout, stderr], on_terminal=False)
    finally:
        for theirs in (stdin, stdout, stderr):
            os.close(theirs)
    return Pipes(feed, out, err, started.ended, started.pid)


class Running:
    """A running command without a terminal. It is used like `subprocess.Popen`."""

    stdin = None

    def __init__(self, command: Command, given: str = "") -> None:
        """Start the command; `given` is its whole input."""
        _write(self._start(command), given.encode())

    def _start(self, command: Command) -> int:
        """Start the command; return our end of its stdin."""
        pipes = start_warm(command)
        self.pid = pipes.pid
        self.returncode: int | None = None
        self.stdout, self.stderr = (
            os.fdopen(end, encoding="utf-8") for end in (pipes.out, pipes.err)
        )
        self._ended = pipes.ended
        self._read: dict[str, str] = {}
        self._readers = [
            threading.Thread(target=self._read_whole, args=(name,), daemon=True)
            for name in ("stdout", "stderr")
        ]
        return pipes.feed

    def poll(self) -> int | None:
        """Return the exit status, or None while it runs."""
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, for at most `timeout` seconds; return the exit status."""
        status = self._look(timeout)
        if status is None:
            raise self._expired(timeout)
        return status

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for its end, and return its unread output."""
        end = None if timeout is None else time.monotonic() + timeout
        for reader in self._readers:
            if reader.ident is None:
                reader.start()
        for reader in self._readers:
            reader.join(None if end is None else max(end - time.monotonic(), 0))
        if any(reader.is_alive() for reader in self._readers):
            raise self._expired(timeout)
        self.wait(None if end is None else max(end - time.monotonic(), 0))
        return self._read["stdout"], self._read["stderr"]

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has ended, which has not been reported yet
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _look(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._ended], [], [], timeout)[0]:
            self.returncode = exit_status(self._ended)
        return self.returncode

    def _read_whole(self, name: str) -> None:
        with self.stdout if name == "stdout" else self.stderr as stream:
            self._read[name] = stream.read()

    def _expired(self, timeout: float | None) -> subprocess.TimeoutExpired:
        return subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)


R = TypeVar("R", bound=Running)


@contextmanager
def kill_at_exit(running: R) -> Generator[R]:
    """Run a command during the block; kill it at the end."""
    with running.stdout, running.stderr:
        try:
            yield running
        finally:
            running.kill()
            running.wait()


def start_on_terminal(command: Command, terminal: int) -> Started:
    """Start a command in its own session, with this controlling terminal."""
    return _start(command, [terminal] * 3, on_terminal=True)


def _start(command: Command, streams: Sequence[int], *, on_terminal: bool) -> Started:
    ended, status = os.pipe()
    program, served = str(command.program or ""), str(command.served or "")
    request = Request(
        [*command.arguments],
        str(command.directory),
        {**command.environment},
        program,
        served,
        on_terminal,
    )
    try:
        socket.send_fds(_warm(command.uses_network), [packed(request)], [*streams, status])
    finally:
        os.close(status)
    (pid,) = NUMBER.unpack(os.read(ended, NUMBER.size))
    return Started(pid, ended)


def started_by_others(program: Path | None = None) -> list[str]:
    """Return the command line with which another process runs a program, or `midturn`. The
    program is forked, too.
    """
    _wait_until_loaded(os.getpid())
    return [sys.executable, "-I", "-S", str(_START), _ADDRESSES[True], str(program or "")]


@cache
def _wait_until_loaded(_process: int) -> None:
    """Wait until the process for network commands has loaded everything. On a busy machine this
    can exceed a program's time limit.
    """
    run_warm(
        Command(["--version"], Path.cwd(), {"PATH": os.environ["PATH"]}, uses_network=True), b""
    )


def run_warm(command: Command, given: bytes) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end in its own session, without a terminal."""
    pipes = start_warm(command)
    with ThreadPoolExecutor(3) as streams:
        printed, told = streams.submit(read_whole, pipes.out), streams.submit(read_whole, pipes.err)
        streams.submit(_write, pipes.feed, given)
        code = exit_status(pipes.ended)
    return subprocess.CompletedProcess([*command.arguments], code, printed.result(), told.result())


def exit_status(ended: int) -> int:
    """Wait for a command's end; return its exit status, or minus the number of the signal that
    ended it.
    """
    (code,) = NUMBER.unpack(read_whole(ended))
    return code


def read_whole(end: int) -> bytes:
    """Read a pipe to its end, and close it."""
    with open(end, "rb") as stream:
        return stream.read()


def _write(end: int, data: bytes) -> None:
    with suppress(BrokenPipeError), open(end, "wb", buffering=0) as stream:
        stream.write(data)


def record_costs(file: Path) -> None:
    """Record the cost of each command that is forked from now on in a file, with its test."""
    _TOLD[COSTS] = str(file)


def share(number: int) -> None:
    """Start the two processes with sockets for `number` forks of this process."""
    if not _SHARED:
        _SHARED.update(
            {uses_network: _launch(uses_network, number) for uses_network in (False, True)}
        )


def load() -> None:
    """Let the two processes load now, before they are first used."""
    for address in _ADDRESSES.values():
        with socket.socket(socket.AF_UNIX) as nothing_asked:
            nothing_asked.connect(address)


def use_shared(place: int) -> None:
    """In a forked worker: use the sockets of this worker, and leave it to the parent to end the
    two processes.
    """
    for end in _TO_END:
        atexit.unregister(end)
    for uses_network, ends in _SHARED.items():
        for other in {*ends} - {ends[place]}:
            other.close()
        _SHARED[uses_network] = [ends[place]]


def _warm(uses_network: bool) -> socket.socket:  # noqa: FBT001  there are two processes
    """Return the socket to the process that forks commands."""
    with _STARTING:
        if uses_network not in _SHARED:
            _SHARED[uses_network] = _launch(uses_network, 1)
    (way,) = _SHARED[uses_network]
    return way


def _launch(uses_network: bool, number: int) -> list[socket.socket]:  # noqa: FBT001  there are two processes
    """Start the process with `number` sockets. It loads when it is first used, and ends with the
    tests.
    """
    _ADDRESSES[uses_network] = f"{tempfile.mkdtemp(prefix='midturn-warm-')}/asked"
    ways = [socket.socketpair() for _ in range(number)]
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(_ADDRESSES[uses_network])
        listening.listen()
        theirs = [listening.fileno(), *(passed_on.fileno() for _, passed_on in ways)]
        environment = {**os.environ, "LC_ALL": "C.UTF-8", "PYTHONWARNINGS": "error", **_TOLD}
        command = [
            sys.executable,
            "-P",
            str(warm_process.__file__),
            "learning" if uses_network else "loaded",
            *map(str, theirs),
        ]
        process = subprocess.Popen(
            command,
            pass_fds=theirs,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            env=environment,
        )
    for _, passed_on in ways:
        passed_on.close()

    def end() -> None:
        for ours, _ in ways:
            ours.close()
        process.communicate()

    _TO_END.append(end)
    atexit.register(end)
    return [ours for ours, _ in ways]
