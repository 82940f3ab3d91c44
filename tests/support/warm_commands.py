"""Commands in processes of their own that need no start: one process has loaded everything, and forks for each command.

What speaks with servers or providers goes through a second one, which loads besides what its commands had to load themselves: their
libraries take a second each.

A command forked so differs from one that was started in nothing but what its start costs, and that it waits for no disk: it has a session,
a directory, an environment, streams and an end of its own. Tests whose subject is the start itself, a terminal or a signal start a program
as users do.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import pkgutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple, NoReturn

_LOADED = ("midturn.cli", "midturn.compose", "midturn.config", "midturn.prompts", "midturn.store", "midturn.terminal", "midturn.tools")
_SCRIPTS = ("midturn.cli.demo.publish",)  # tools of the demo, which run when they are imported
_DECIDED_AT_START = ("PYTHON", "LC_", "LANG")
_STATUS = struct.Struct("i")


def can_be_warm(environment: Mapping[str, str]) -> bool:
    """Tell whether a command may be forked: not where its environment changes what an interpreter decides when it starts."""
    return not any(name.startswith(_DECIDED_AT_START) for name in environment)


class Command(NamedTuple):
    """What is run, where, and under which environment; `speaks` with servers or providers, or not."""

    arguments: Sequence[str]
    directory: Path
    environment: Mapping[str, str]
    speaks: bool = False


class Pipes(NamedTuple):
    """Our ends of what leads to a command: what it reads, prints and reports, and where its exit status can be read."""

    feed: int
    out: int
    err: int
    ended: int


def start_warm(command: Command) -> Pipes:
    """Start a command in a session of its own, without a terminal."""
    (stdin, feed), (out, stdout), (err, stderr), (ended, status) = [os.pipe() for _ in range(4)]
    request = json.dumps([[*command.arguments], str(command.directory), {**command.environment}]).encode()
    try:
        socket.send_fds(_zygote(command.speaks), [struct.pack("I", len(request)) + request], [stdin, stdout, stderr, status])
    finally:
        for theirs in (stdin, stdout, stderr, status):
            os.close(theirs)
    return Pipes(feed, out, err, ended)


def run_warm(command: Command, given: bytes) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end in a session of its own, without a terminal."""
    pipes = start_warm(command)
    with ThreadPoolExecutor(3) as streams:
        printed, told = streams.submit(read_whole, pipes.out), streams.submit(read_whole, pipes.err)
        streams.submit(_write, pipes.feed, given)
        code = exit_status(pipes)
    return subprocess.CompletedProcess([*command.arguments], code, printed.result(), told.result())


def exit_status(pipes: Pipes) -> int:
    """Wait for a command's end; return its exit status, or minus the signal that ended it."""
    (code,) = _STATUS.unpack(read_whole(pipes.ended))
    return code


def read_whole(end: int) -> bytes:
    """Read a pipe to its end, and close it."""
    with open(end, "rb") as stream:
        return stream.read()


def _write(end: int, data: bytes) -> None:
    with suppress(BrokenPipeError), open(end, "wb", buffering=0) as stream:
        stream.write(data)


@cache
def _zygote(speaks: bool) -> socket.socket:  # noqa: FBT001  there are two
    """Start the process that has loaded everything; it ends with the tests, or when they are gone."""
    ours, theirs = socket.socketpair()
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "PYTHONWARNINGS": "error"}
    command = [sys.executable, str(Path(__file__)), str(theirs.fileno()), *(["learning"] if speaks else [])]
    process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=environment)
    theirs.close()

    def end() -> None:
        ours.close()
        process.communicate()

    atexit.register(end)
    return ours


# In the process that has loaded everything ----------------------------------------------------------------------------------


def _serve(requests: socket.socket, lessons: Lessons | None) -> None:
    for package in _LOADED:
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if module.name not in _SCRIPTS:
                importlib.import_module(module.name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while request := _received(requests):
        (arguments, directory, environment), streams = request
        if lessons:
            lessons.learn()
        if os.fork() == 0:
            requests.close()
            _watch(arguments, directory, environment, streams, lessons)
        for stream in streams:
            os.close(stream)


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


def _received(requests: socket.socket) -> tuple[tuple[list[str], str, dict[str, str]], list[int]] | None:
    head, streams, _, _ = socket.recv_fds(requests, 4, 4)
    if not head:
        return None
    (length,) = struct.unpack("I", head)
    data = b""
    while len(data) < length:
        data += requests.recv(length - len(data))
    return json.loads(data), list(streams)


def _watch(arguments: list[str], directory: str, environment: dict[str, str], streams: list[int], lessons: Lessons | None) -> NoReturn:
    """Fork once more, and tell how the command ended: whoever loaded everything goes on at once."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    *standard, status = streams
    command = os.fork()
    if command == 0:
        os.close(status)
        _become(arguments, directory, environment, standard, lessons)
    for stream in standard:
        os.close(stream)
    _, ended = os.waitpid(command, 0)
    os.write(status, _STATUS.pack(os.waitstatus_to_exitcode(ended)))
    os._exit(0)


def _become(arguments: list[str], directory: str, environment: dict[str, str], standard: list[int], lessons: Lessons | None) -> NoReturn:
    os.setsid()
    for number, stream in enumerate(standard):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    os.chdir(directory)
    os.fsync = os.fdatasync = os.fstat  # no test brings a loss of power about
    leave = os._exit

    def told(status: int) -> NoReturn:
        if lessons and os.getpid() == own:
            lessons.tell()
        leave(status)

    own, os._exit = os.getpid(), told  # so ends a command, too
    told(_main(arguments))


def _main(arguments: list[str]) -> int:
    from midturn import __main__ as program

    sys.argv = [str(program.__file__), *arguments]
    try:
        program.main()
    except SystemExit as left:
        return left.code if isinstance(left.code, int) else 1
    except BaseException as error:  # noqa: BLE001  as an interpreter ends that nothing has caught
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    return 0


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])), Lessons() if sys.argv[2:] else None)
