"""Commands in processes of their own that need no start: one process has loaded everything, and forks for each command.

What speaks with servers or providers goes through a second one, which loads besides what its commands had to load themselves: their
libraries take a second each.

A command forked so differs from one that was started in nothing but what its start costs, and that it waits for no disk: it has a session,
a directory, an environment, streams and an end of its own, and where it is given a terminal, that is its session's. Tests whose subject is
the start itself, a shell or its jobs start a program as users do.
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
_TO_END: list[Callable[[], None]] = []  # what ends the processes that were started here
_SHARED: dict[bool, list[socket.socket]] = {}  # the ways to the process for commands that speak, and to the one for those that do not
_STARTING = threading.Lock()
_START = Path(__file__).with_name("warm_start.py")
_ADDRESSES: dict[bool, str] = {}  # where they are asked by what others start
_TOLD: dict[str, str] = {}  # the file in which they tell what each command has cost, if anybody wants to know


def can_be_warm(environment: Mapping[str, str]) -> bool:
    """Tell whether a command may be forked: not where its environment changes what an interpreter decides when it starts."""
    return not any(name.startswith(_DECIDED_AT_START) for name in environment)


class Command(NamedTuple):
    """What is run, where, and under which environment; `speaks` with servers or providers, or not.

    `program` is a Python program; without it, it is `midturn`. `served` is a module that the program serves, and is told of first.
    What either imports need not be loaded again for the next one, where it speaks. A warning is an error.
    """

    arguments: Sequence[str]
    directory: Path
    environment: Mapping[str, str]
    speaks: bool = False
    program: Path | None = None
    served: Path | None = None


class Pipes(NamedTuple):
    """Our ends of what leads to a command: what it reads, prints and reports, where its exit status can be read, and its process."""

    feed: int
    out: int
    err: int
    ended: int
    pid: int


class Started(NamedTuple):
    """A command on a terminal: its process, and where its exit status can be read."""

    pid: int
    ended: int


def start_warm(command: Command) -> Pipes:
    """Start a command in a session of its own, without a terminal."""
    (stdin, feed), (out, stdout), (err, stderr) = [os.pipe() for _ in range(3)]
    try:
        started = _start(command, [stdin, stdout, stderr], on_terminal=False)
    finally:
        for theirs in (stdin, stdout, stderr):
            os.close(theirs)
    return Pipes(feed, out, err, started.ended, started.pid)


class Running:
    """A command that goes on without a terminal; it is used as `subprocess.Popen` is."""

    stdin = None

    def __init__(self, command: Command, given: str = "") -> None:
        """Start it; `given` is all that it reads."""
        _write(self._start(command), given.encode())

    def _start(self, command: Command) -> int:
        """Start it; return our end of what it reads."""
        pipes = start_warm(command)
        self.pid = pipes.pid
        self.returncode: int | None = None
        self.stdout, self.stderr = (os.fdopen(end, encoding="utf-8") for end in (pipes.out, pipes.err))
        self._ended = pipes.ended
        self._read: dict[str, str] = {}
        self._readers = [threading.Thread(target=self._read_whole, args=(name,), daemon=True) for name in ("stdout", "stderr")]
        return pipes.feed

    def poll(self) -> int | None:
        """Return how it ended, None while it runs."""
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, for so many seconds at most; return how it ended."""
        status = self._look(timeout)
        if status is None:
            raise self._expired(timeout)
        return status

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for its end, and return what it printed and nobody has read."""
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
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has ended, which we have not been told yet
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it."""
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
def killed(running: R) -> Generator[R]:
    """Have a command run meanwhile; it is killed with the block."""
    with running.stdout, running.stderr:
        try:
            yield running
        finally:
            running.kill()
            running.wait()


def start_on_terminal(command: Command, terminal: int) -> Started:
    """Start a command in a session of its own, whose terminal this is."""
    return _start(command, [terminal] * 3, on_terminal=True)


def _start(command: Command, streams: Sequence[int], *, on_terminal: bool) -> Started:
    ended, status = os.pipe()
    program, served = str(command.program or ""), str(command.served or "")
    request = Request([*command.arguments], str(command.directory), {**command.environment}, program, served, on_terminal)
    try:
        socket.send_fds(_warm(command.speaks), [packed(request)], [*streams, status])
    finally:
        os.close(status)
    (pid,) = NUMBER.unpack(os.read(ended, NUMBER.size))
    return Started(pid, ended)


def started_by_others(program: Path | None = None) -> list[str]:
    """Return the command of a program, or of `midturn`, that another process starts: it is forked, too, and what it loads is shared."""
    _wait_until_loaded(os.getpid())
    return [sys.executable, "-I", "-S", str(_START), _ADDRESSES[True], str(program or "")]


@cache
def _wait_until_loaded(_process: int) -> None:
    """Let the process for commands that speak load everything: it takes so long where many work that a program's time limit is over."""
    run_warm(Command(["--version"], Path.cwd(), {"PATH": os.environ["PATH"]}, speaks=True), b"")


def run_warm(command: Command, given: bytes) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end in a session of its own, without a terminal."""
    pipes = start_warm(command)
    with ThreadPoolExecutor(3) as streams:
        printed, told = streams.submit(read_whole, pipes.out), streams.submit(read_whole, pipes.err)
        streams.submit(_write, pipes.feed, given)
        code = exit_status(pipes.ended)
    return subprocess.CompletedProcess([*command.arguments], code, printed.result(), told.result())


def exit_status(ended: int) -> int:
    """Wait for a command's end; return its exit status, or minus the signal that ended it."""
    (code,) = NUMBER.unpack(read_whole(ended))
    return code


def read_whole(end: int) -> bytes:
    """Read a pipe to its end, and close it."""
    with open(end, "rb") as stream:
        return stream.read()


def _write(end: int, data: bytes) -> None:
    with suppress(BrokenPipeError), open(end, "wb", buffering=0) as stream:
        stream.write(data)


def tell_costs(file: Path) -> None:
    """Have it told in a file what each command that is forked from now on has cost, and for which test."""
    _TOLD[COSTS] = str(file)


def share(number: int) -> None:
    """Have so many processes that are forked from this one start their commands through the same two processes."""
    if not _SHARED:
        _SHARED.update({speaks: _launch(speaks, number) for speaks in (False, True)})


def load() -> None:
    """Have the two load now, before they are first used."""
    for address in _ADDRESSES.values():
        with socket.socket(socket.AF_UNIX) as nothing_asked:
            nothing_asked.connect(address)


def use_shared(place: int) -> None:
    """In one of the processes that are forked, this one of them: use its own way to the two, and leave it to who forked it to end them."""
    for end in _TO_END:
        atexit.unregister(end)
    for speaks, ends in _SHARED.items():
        for other in {*ends} - {ends[place]}:
            other.close()
        _SHARED[speaks] = [ends[place]]


def _warm(speaks: bool) -> socket.socket:  # noqa: FBT001  there are two
    """Return the way to the process that has loaded everything."""
    with _STARTING:
        if speaks not in _SHARED:
            _SHARED[speaks] = _launch(speaks, 1)
    (way,) = _SHARED[speaks]
    return way


def _launch(speaks: bool, number: int) -> list[socket.socket]:  # noqa: FBT001  there are two
    """Start it, with so many ways to it; it loads when it is first used, and ends with the tests, or when they are gone."""
    _ADDRESSES[speaks] = f"{tempfile.mkdtemp(prefix='midturn-warm-')}/asked"
    ways = [socket.socketpair() for _ in range(number)]
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(_ADDRESSES[speaks])
        listening.listen()
        theirs = [listening.fileno(), *(passed_on.fileno() for _, passed_on in ways)]
        environment = {**os.environ, "LC_ALL": "C.UTF-8", "PYTHONWARNINGS": "error", **_TOLD}
        command = [sys.executable, "-P", str(warm_process.__file__), "learning" if speaks else "loaded", *map(str, theirs)]
        process = subprocess.Popen(command, pass_fds=theirs, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=environment)
    for _, passed_on in ways:
        passed_on.close()

    def end() -> None:
        for ours, _ in ways:
            ours.close()
        process.communicate()

    _TO_END.append(end)
    atexit.register(end)
    return [ours for ours, _ in ways]
