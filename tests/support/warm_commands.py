"""Commands in processes of their own that need no start: one process has loaded everything, and forks for each command.

A command forked so differs from one that was started in nothing but what its start costs: it has a session, a directory, an environment,
streams and an end of its own. Tests whose subject is the start itself, a terminal or a signal start a program as users do.
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
from typing import NoReturn

_LOADED = ("midturn.cli", "midturn.compose", "midturn.config", "midturn.prompts", "midturn.store", "midturn.terminal", "midturn.tools")
_SCRIPTS = ("midturn.cli.demo.publish",)  # tools of the demo, which run when they are imported
_DECIDED_AT_START = ("PYTHON", "LC_", "LANG")
_STATUS = struct.Struct("i")


def can_be_warm(environment: Mapping[str, str]) -> bool:
    """Tell whether a command may be forked: not where its environment changes what an interpreter decides when it starts."""
    return not any(name.startswith(_DECIDED_AT_START) for name in environment)


def run_warm(arguments: Sequence[str], given: bytes, directory: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end in a session of its own, without a terminal."""
    ends = [os.pipe() for _ in range(4)]
    (stdin, feed), (out, stdout), (err, stderr), (ended, status) = ends
    request = json.dumps([[*arguments], str(directory), {**environment}]).encode()
    try:
        socket.send_fds(_zygote(), [struct.pack("I", len(request)) + request], [stdin, stdout, stderr, status])
    finally:
        for theirs in (stdin, stdout, stderr, status):
            os.close(theirs)
    with ThreadPoolExecutor(3) as streams:
        printed, told = streams.submit(_read, out), streams.submit(_read, err)
        streams.submit(_write, feed, given)
        (code,) = _STATUS.unpack(_read(ended))
    return subprocess.CompletedProcess([*arguments], code, printed.result(), told.result())


def _read(end: int) -> bytes:
    with open(end, "rb") as stream:
        return stream.read()


def _write(end: int, data: bytes) -> None:
    with suppress(BrokenPipeError), open(end, "wb", buffering=0) as stream:
        stream.write(data)


@cache
def _zygote() -> socket.socket:
    """Start the process that has loaded everything; it ends with the tests, or when they are gone."""
    ours, theirs = socket.socketpair()
    environment = {**os.environ, "LC_ALL": "C.UTF-8", "PYTHONWARNINGS": "error"}
    command = [sys.executable, str(Path(__file__)), str(theirs.fileno())]
    process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=environment)
    theirs.close()

    def end() -> None:
        ours.close()
        process.communicate()

    atexit.register(end)
    return ours


# In the process that has loaded everything ----------------------------------------------------------------------------------


def _serve(requests: socket.socket) -> None:
    for package in _LOADED:
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
            if module.name not in _SCRIPTS:
                importlib.import_module(module.name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while request := _received(requests):
        (arguments, directory, environment), streams = request
        if os.fork() == 0:
            requests.close()
            _watch(arguments, directory, environment, streams)
        for stream in streams:
            os.close(stream)


def _received(requests: socket.socket) -> tuple[tuple[list[str], str, dict[str, str]], list[int]] | None:
    head, streams, _, _ = socket.recv_fds(requests, 4, 4)
    if not head:
        return None
    (length,) = struct.unpack("I", head)
    data = b""
    while len(data) < length:
        data += requests.recv(length - len(data))
    return json.loads(data), list(streams)


def _watch(arguments: list[str], directory: str, environment: dict[str, str], streams: list[int]) -> NoReturn:
    """Fork once more, and tell how the command ended: whoever loaded everything goes on at once."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    *standard, status = streams
    command = os.fork()
    if command == 0:
        os.close(status)
        _become(arguments, directory, environment, standard)
    for stream in standard:
        os.close(stream)
    _, ended = os.waitpid(command, 0)
    os.write(status, _STATUS.pack(os.waitstatus_to_exitcode(ended)))
    os._exit(0)


def _become(arguments: list[str], directory: str, environment: dict[str, str], standard: list[int]) -> NoReturn:
    os.setsid()
    for number, stream in enumerate(standard):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    os.chdir(directory)
    from midturn import __main__ as program

    sys.argv = [str(program.__file__), *arguments]
    try:
        program.main()
    except SystemExit as left:
        os._exit(left.code if isinstance(left.code, int) else 1)
    except BaseException as error:  # noqa: BLE001  as an interpreter ends that nothing has caught
        sys.excepthook(type(error), error, error.__traceback__)
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
