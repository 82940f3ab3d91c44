"""Represents a program for its parent process, while the real program is forked by the process
that has loaded everything.

Streams, signals and exit status are those of the program; see `warm_commands.started_by_others`.
It runs without `site` and imports almost only built-in modules, so that it starts fast.
"""

from __future__ import annotations

import marshal
import posix
import sys
from _socket import AF_UNIX, SCM_RIGHTS, SOCK_STREAM, SOL_SOCKET, socket

NUMBER = 4  # bytes
SIGNALS = __import__("_signal")  # `signal` takes as long to load as everything else here
PASSED_ON = (SIGNALS.SIGHUP, SIGNALS.SIGINT, SIGNALS.SIGTERM)


def main(address: str, program: str, *arguments: str) -> None:
    """Send the request, forward signals, and end as the program does."""
    way = socket(AF_UNIX, SOCK_STREAM)
    way.connect(address)
    heard, told = posix.pipe()
    environment = {
        name.decode(errors="surrogateescape"): value.decode(errors="surrogateescape")
        for name, value in posix.environ.items()
    }
    data = marshal.dumps((list(arguments), posix.getcwd(), environment, program))
    message = len(data).to_bytes(NUMBER, sys.byteorder) + data
    streams = b"".join(stream.to_bytes(NUMBER, sys.byteorder) for stream in (0, 1, 2, told))
    sent = way.sendmsg([message], [(SOL_SOCKET, SCM_RIGHTS, streams)])
    way.sendall(message[sent:])
    for stream in (0, 1, told):
        posix.close(stream)

    pid = number(heard)

    def pass_on(received: int, _: object) -> None:
        posix.kill(pid, received)

    for one in PASSED_ON:
        SIGNALS.signal(one, pass_on)
    end_as(number(heard))


def number(pipe: int) -> int:
    """Read one number."""
    return int.from_bytes(posix.read(pipe, NUMBER), sys.byteorder, signed=True)


def end_as(status: int) -> None:
    """End with an exit status, or with the signal of a negative status."""
    if status < 0:
        if -status in PASSED_ON:
            SIGNALS.signal(-status, SIGNALS.SIG_DFL)
        posix.kill(posix.getpid(), -status)
    posix._exit(status)


main(*sys.argv[1:])
