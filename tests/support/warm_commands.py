"""Commands in processes of their own that need no start: one process has loaded everything, and forks for each command.

What speaks with servers or providers goes through a second one, which loads besides what its commands had to load themselves: their
libraries take a second each.

A command forked so differs from one that was started in nothing but what its start costs, and that it waits for no disk: it has a session,
a directory, an environment, streams and an end of its own, and where it is given a terminal, that is its session's. Tests whose subject is
the start itself, a shell or its jobs start a program as users do.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import FrameType
from typing import NamedTuple, NoReturn

_LOADED = ("midturn.cli", "midturn.compose", "midturn.config", "midturn.prompts", "midturn.store", "midturn.terminal", "midturn.tools")
_SCRIPTS = ("midturn.cli.demo.publish",)  # tools of the demo, which run when they are imported
_DECIDED_AT_START = ("PYTHON", "LC_", "LANG")
_NUMBER = struct.Struct("i")
_TESTS = Path(__file__).parents[1]
_OF_PROGRAMS = ("support.prompt_catalogue",)  # what programs of the tests import, and need not load each time
_TO_END: list[Callable[[], None]] = []  # what ends the processes that were started here
_SHARED: dict[bool, list[socket.socket]] = {}  # the ways to the process for commands that speak, and to the one for those that do not


def can_be_warm(environment: Mapping[str, str]) -> bool:
    """Tell whether a command may be forked: not where its environment changes what an interpreter decides when it starts."""
    return not any(name.startswith(_DECIDED_AT_START) for name in environment)


class Command(NamedTuple):
    """What is run, where, and under which environment; `speaks` with servers or providers, or not.

    `program` is a program of the tests; without it, it is `midturn`.
    """

    arguments: Sequence[str]
    directory: Path
    environment: Mapping[str, str]
    speaks: bool = False
    program: Path | None = None


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
        pipes = start_warm(command)
        self.pid = pipes.pid
        self.returncode: int | None = None
        self.stdout, self.stderr = (os.fdopen(end, encoding="utf-8") for end in (pipes.out, pipes.err))
        self._ended = pipes.ended
        self._read: dict[str, str] = {}
        self._readers = [threading.Thread(target=self._read_whole, args=(name,), daemon=True) for name in ("stdout", "stderr")]
        _write(pipes.feed, given.encode())

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


def start_on_terminal(command: Command, terminal: int) -> Started:
    """Start a command in a session of its own, whose terminal this is."""
    return _start(command, [terminal] * 3, on_terminal=True)


def _start(command: Command, streams: Sequence[int], *, on_terminal: bool) -> Started:
    ended, status = os.pipe()
    program = str(command.program or "")
    request = json.dumps([[*command.arguments], str(command.directory), {**command.environment}, program, on_terminal]).encode()
    try:
        socket.send_fds(_zygote(command.speaks), [struct.pack("I", len(request)) + request], [*streams, status])
    finally:
        os.close(status)
    (pid,) = _NUMBER.unpack(os.read(ended, _NUMBER.size))
    return Started(pid, ended)


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
    (code,) = _NUMBER.unpack(read_whole(ended))
    return code


def read_whole(end: int) -> bytes:
    """Read a pipe to its end, and close it."""
    with open(end, "rb") as stream:
        return stream.read()


def _write(end: int, data: bytes) -> None:
    with suppress(BrokenPipeError), open(end, "wb", buffering=0) as stream:
        stream.write(data)


def share(number: int) -> None:
    """Have so many processes that are forked from this one start their commands through the same two processes."""
    _SHARED.update({speaks: _launch(speaks, number) for speaks in (False, True)})


def use_shared(place: int) -> None:
    """In one of the processes that are forked, this one of them: use its own way to the two, and leave it to who forked it to end them."""
    for end in _TO_END:
        atexit.unregister(end)
    for speaks, ends in _SHARED.items():
        for other in {*ends} - {ends[place]}:
            other.close()
        _SHARED[speaks] = [ends[place]]


@cache
def _zygote(speaks: bool) -> socket.socket:  # noqa: FBT001  there are two
    """Return the way to the process that has loaded everything."""
    (way,) = _SHARED.get(speaks) or _launch(speaks, 1)
    return way


def _launch(speaks: bool, number: int) -> list[socket.socket]:  # noqa: FBT001  there are two
    """Start it, with so many ways to it; it loads when it is first used, and ends with the tests, or when they are gone."""
    ways = [socket.socketpair() for _ in range(number)]
    theirs = [passed_on.fileno() for _, passed_on in ways]
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "PYTHONWARNINGS": "error"}
    command = [sys.executable, "-P", str(Path(__file__)), "learning" if speaks else "loaded", *map(str, theirs)]
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


# In the process that has loaded everything ----------------------------------------------------------------------------------


def _serve(ways: list[socket.socket], lessons: Lessons | None) -> None:
    select.select(ways, [], [])
    for package in _LOADED:
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if module.name not in _SCRIPTS:
                importlib.import_module(module.name)
    if not lessons:
        _load_for_programs()
    gc.freeze()  # what commands never look through stays one in memory
    ends = Ends()
    while received := _received(ways, ends):
        request, streams = received
        if lessons:
            lessons.learn()
        *standard, status = streams
        command = os.fork()
        if command == 0:
            for way in ways:
                way.close()
            ends.forget()
            os.close(status)
            _become(request, standard, lessons)
        ends.expect(command, status)
        for stream in standard:
            os.close(stream)


class Ends:
    """Where it is told how each command ended. One process starts them all and waits for them: a second fork costs as much as the first."""

    def __init__(self) -> None:
        self._of: dict[int, int] = {}
        self.heard, self._told = os.pipe()
        for end in (self.heard, self._told):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(self._told, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _heard)  # the default would not wake us

    def expect(self, command: int, status: int) -> None:
        """Tell which process a command is, and, later, how it ended."""
        self._of[command] = status
        os.write(status, _NUMBER.pack(command))

    def tell(self) -> None:
        """Tell how those ended that have."""
        with suppress(BlockingIOError):
            os.read(self.heard, 65_536)
        with suppress(ChildProcessError):  # there is none
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                command, how = ended
                status = self._of.pop(command)
                with suppress(BrokenPipeError):  # its test does not care
                    os.write(status, _NUMBER.pack(os.waitstatus_to_exitcode(how)))
                os.close(status)

    def forget(self) -> None:
        """In a command: be none of those, and keep nothing of the others open."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for end in (self.heard, self._told, *self._of.values()):
            os.close(end)


def _heard(_number: int, _frame: FrameType | None) -> None:
    """Leave it to the pipe that is written when a signal comes."""


def _load_for_programs() -> None:
    """Load what programs of the tests import; commands find none of it."""
    sys.path.append(str(_TESTS))
    for name in _OF_PROGRAMS:
        importlib.import_module(name)
    sys.path.remove(str(_TESTS))


class Request(NamedTuple):
    """What is to be forked; see `Command`."""

    arguments: list[str]
    directory: str
    environment: dict[str, str]
    program: str
    on_terminal: bool


class Lessons:
    """What commands had to load themselves, and who comes after them need not: modules of installed packages, never of a workspace."""

    def __init__(self) -> None:
        self._heard, self._told = os.pipe()
        os.set_blocking(self._heard, False)
        os.set_blocking(self._told, False)
        self._known = {*sys.modules}

    def learn(self) -> None:
        """Load what commands have told of since."""
        told = b""
        with suppress(BlockingIOError):
            while more := os.read(self._heard, 65_536):
                told += more
        for name in told.decode().split("\n")[:-1]:
            if name not in sys.modules:
                with suppress(Exception):  # it may load with others only
                    importlib.import_module(name)
        self._known = {*sys.modules}

    def tell(self) -> None:
        """Tell what this process has loaded."""
        installed = (sys.prefix, sys.base_prefix, str(Path(__file__).parents[2] / "src"))
        loaded = {name: getattr(module, "__file__", None) for name, module in sys.modules.items() if name not in self._known}
        names = [name for name, file in loaded.items() if file and file.startswith(installed)]
        with suppress(BlockingIOError):
            for name in names:
                os.write(self._told, f"{name}\n".encode())


def _received(ways: list[socket.socket], ends: Ends) -> tuple[Request, list[int]] | None:
    """Wait for a request by any of these ways; return None when no one is left who could make one."""
    while ways:
        ready = select.select([*ways, ends.heard], [], [])[0]
        if ends.heard in ready:
            ends.tell()
        for way in ways:
            if way in ready:
                head, streams, _, _ = socket.recv_fds(way, 4, 4)
                if head:
                    return _read_request(way, head), list(streams)
                ways.remove(way)
                way.close()
                break
    return None


def _read_request(way: socket.socket, head: bytes) -> Request:
    (length,) = struct.unpack("I", head)
    data = b""
    while len(data) < length:
        data += way.recv(length - len(data))
    return Request(*json.loads(data))


def _become(request: Request, standard: list[int], lessons: Lessons | None) -> NoReturn:
    os.setsid()
    for number, stream in enumerate(standard):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(request.environment)
    time.tzset()
    os.chdir(request.directory)
    os.fsync = os.fdatasync = os.fstat  # no test brings a loss of power about
    if request.on_terminal:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        _open_streams()
    leave = os._exit

    def told(status: int) -> NoReturn:
        if lessons and os.getpid() == own:
            lessons.tell()
        leave(status)

    own, os._exit = os.getpid(), told  # so ends a command, too
    status = _run(request.program, request.arguments)
    with suppress(OSError):  # as an interpreter does that ends
        sys.stdout.flush()
    told(status)


def _open_streams() -> None:
    """Open the streams anew, as an interpreter does that starts on a terminal: what is printed is there after each line."""
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115  it stays open
    sys.stdout = sys.__stdout__ = open(1, "w", encoding="utf-8", errors="surrogateescape", buffering=1, closefd=False)  # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115


def _run(program: str, arguments: list[str]) -> int:
    try:
        if program:
            sys.path[:0] = [str(_TESTS)]
            sys.argv = [program, *arguments]
            runpy.run_path(program, run_name="__main__")
        else:
            from midturn import __main__ as midturn

            sys.argv = [str(midturn.__file__), *arguments]
            midturn.main()
    except SystemExit as left:
        return left.code if isinstance(left.code, int) else 1
    except BaseException as error:  # noqa: BLE001  as an interpreter ends that nothing has caught
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    return 0


if __name__ == "__main__":
    _serve([socket.socket(fileno=int(way)) for way in sys.argv[2:]], Lessons() if sys.argv[1] == "learning" else None)
