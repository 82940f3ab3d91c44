"""One child process: a group of its own, output read up to a cap, and an end that leaves nothing behind."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping
from contextlib import suppress
from typing import Literal, TypeAlias, cast
from weakref import WeakKeyDictionary

from msgspec import Struct

from midturn.sandbox import marks
from midturn.tools.process_group import ProcessGroup

Ending: TypeAlias = Literal["exited", "timeout", "overflow"]
AT_ONCE = 8  # children of ours that run at the same time; the others wait their turn, and their time has not begun
OUTPUT_CAP = 16 * 1024 * 1024  # bytes of a stream that are held in memory; who writes more is stopped
_SHELL = "/bin/sh"
_LIMITED = f'{marks.SHELL}; exec "$@"'
_GRACE = 2.0  # seconds between TERM and KILL
_DRAIN = 0.5  # seconds for the last output of a process that has exited


class Command(Struct, frozen=True, kw_only=True):
    """What to start. `argv[0]` is an absolute path; `cap` counts bytes of each output stream, `timeout` seconds."""

    argv: tuple[str, ...]
    cwd: str
    environment: Mapping[str, str]
    stdin: bytes = b""
    timeout: float | None = None
    cap: int = OUTPUT_CAP


class Finished(Struct, frozen=True):
    """How it ended. `status` is the exit status, negative for a signal; None where it had to be stopped."""

    ending: Ending
    status: int | None
    stdout: bytes
    stderr: bytes


async def run_process(command: Command) -> Finished:
    """Run a command to its end and end its whole process group; also on cancellation, and when it writes too much.

    The child leads a new session, so it has no controlling terminal, and writes no core dump. A grandchild that outlives it is ended
    too: what is meant to stay must start a session of its own.

    Raises:
        OSError: It cannot be started.
        ValueError: An argument holds a NUL character.
    """
    async with _place():
        return await _run(command)


async def _run(command: Command) -> Finished:
    child = await _start(command)
    ending: Ending = "timeout"
    try:
        async with asyncio.timeout(command.timeout):
            await child.finished.wait()
        ending = "overflow" if child.overflowed else "exited"
        await child.drained()
    except TimeoutError:
        pass  # `ending` says so
    finally:
        await child.end()
    return Finished(ending, child.status if ending == "exited" else None, bytes(child.output[1]), bytes(child.output[2]))


_places: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


def _place() -> asyncio.Semaphore:
    """Return what lets so many run at once, in this loop."""
    return _places.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(AT_ONCE))


async def _start(command: Command) -> _Child:
    child = _Child(command.cap)
    argv = (_SHELL, "-c", _LIMITED, _SHELL, *command.argv)  # not `preexec_fn`: it can deadlock where other threads run
    transport, _ = await asyncio.get_running_loop().subprocess_exec(
        lambda: child, *argv, cwd=command.cwd, env=dict(command.environment), start_new_session=True
    )
    stdin = cast("asyncio.WriteTransport", transport.get_pipe_transport(0))
    stdin.write(command.stdin)  # kept in memory and written as the child reads; a child that never does holds up nobody
    stdin.close()
    return child


class _Child(asyncio.SubprocessProtocol):
    """Collects what the child writes. `finished` is set when it has exited, or has written more than `cap` bytes to a stream."""

    def __init__(self, cap: int) -> None:
        self.output = {1: bytearray(), 2: bytearray()}
        self.finished = asyncio.Event()
        self.overflowed = False
        self._cap = cap
        self._open = {1, 2}
        self._drained = asyncio.Event()
        self._exited = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)
        self._group = ProcessGroup(self._transport.get_pid())

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        kept = self.output[fd]
        kept += data[: self._cap - len(kept)]
        if len(kept) >= self._cap and not self.overflowed:
            self.overflowed = True
            self.finished.set()
            self._group.signal(signal.SIGKILL)  # it is past reason, and fills memory faster than a grace period ends

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002 (the protocol of asyncio)
        self._open.discard(fd)
        if not self._open:
            self._drained.set()

    def process_exited(self) -> None:
        self._exited.set()
        self.finished.set()

    @property
    def status(self) -> int | None:
        return self._transport.get_returncode()

    async def drained(self) -> None:
        """Wait until both streams have ended, but not for long: a process that left the group may hold them for ever."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN):
                await self._drained.wait()

    async def end(self) -> None:
        """End every process of the group, politely first, reap the child and close its streams."""
        try:
            if self._group.signal(signal.SIGTERM):
                await self._group.gone(_GRACE)
        finally:  # also when cancelled while being polite
            self._group.signal(signal.SIGKILL)
            try:
                await self._reaped()
            finally:  # also when cancelled once more
                self._abort_input()
                self._transport.close()

    def _abort_input(self) -> None:
        """Give up what the child never read: closing alone would wait until it had."""
        stdin = cast("asyncio.WriteTransport | None", self._transport.get_pipe_transport(0))
        if stdin is not None and stdin.get_write_buffer_size():  # one that is closed already cannot be aborted
            stdin.abort()

    async def _reaped(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_GRACE):
                await self._exited.wait()
        await self.drained()
