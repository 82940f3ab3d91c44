"""Run one child process in its own process group. The output is limited, and all processes in the
group are terminated at the end.
"""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Literal, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from msgspec import Struct

from midturn.security import process_ancestry

# --------------------------------------------------------------------------------------------------
# Process groups


_POLL_INTERVAL = 0.02
_PROC = Path("/proc")


class ProcessGroup:
    """All processes in the group that `leader` created. When all of them are reaped, the system may
    reuse the group id.
    """

    def __init__(self, leader: int) -> None:
        self._id = leader

    def signal(self, number: int) -> bool:
        """Send a signal to all processes. Return False if no process of this user is left."""
        try:
            os.killpg(self._id, number)
        # remaining processes of another user cannot be signalled
        except (ProcessLookupError, PermissionError):
            return False
        return True

    async def gone(self, seconds: float) -> None:
        """Wait until no process of the group is running, for at most `seconds`."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.signal(0) and self._lives():  # noqa: ASYNC110 (nothing reports an empty group)
                    await asyncio.sleep(_POLL_INTERVAL)

    def _lives(self) -> bool:
        """Return whether a process other than a zombie is left. If the first process of a container
        does not reap its children, zombies stay forever.
        """
        if not (_PROC / "self/stat").exists():
            return True
        return any(
            self._is_living_member(folder) for folder in _PROC.iterdir() if folder.name.isdigit()
        )

    def _is_living_member(self, folder: Path) -> bool:
        try:
            after_name = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:  # the process has ended
            return False
        state, _, group = after_name[:3]
        return int(group) == self._id and state not in "ZX"


T = TypeVar("T")
HowEnded: TypeAlias = Literal["exited", "timeout", "overflow"]
# maximum number of child processes at the same time. The time limit of a process starts when it
# starts, not while it waits for its turn
MAX_PROCESSES = 8
# maximum size of an output stream, in bytes; a process that writes more is stopped
OUTPUT_CAP = 16 * 1024 * 1024
_GRACE_PERIOD = 2.0  # seconds between SIGTERM and SIGKILL
_DRAIN_TIMEOUT = 0.5  # maximum seconds to read the last output of a process that has exited


class ProcessSpec(Struct, frozen=True, kw_only=True):
    """A program to start. `argv[0]` is an absolute path. `cap` is the maximum size of each output
    stream, in bytes. `timeout` is in seconds.

    `enter` is called in the thread that starts the process, which does no other work. If `enter`
    confines the thread in a sandbox, the child is confined, too.
    """

    argv: tuple[str, ...]
    cwd: str
    environment: Mapping[str, str]
    stdin: bytes = b""
    timeout: float | None = None
    enter: Callable[[], None] | None = None
    cap: int = OUTPUT_CAP


class ProcessEnd(Struct, frozen=True):
    """How a process ended. `status` is the exit status, negative for a signal, or None if the
    process was stopped.
    """

    ending: HowEnded
    status: int | None
    stdout: bytes
    stderr: bytes


async def run_process(command: ProcessSpec) -> ProcessEnd:
    """Run a command until it exits, then terminate its whole process group.

    The group is also terminated if this coroutine is cancelled, or if the command writes too much.

    The child leads a new session, so it has no controlling terminal, and it does not write a core
    dump. Surviving descendants are also terminated, unless they started their own session.

    Raises:
        OSError: The program cannot be started.
        ValueError: An argument contains a NUL character.
    """
    async with _process_slot():
        return await _run(command)


async def _run(command: ProcessSpec) -> ProcessEnd:
    child = await _start(command)
    ending: HowEnded = "timeout"
    try:
        async with asyncio.timeout(command.timeout):
            await child.finished.wait()
        ending = "overflow" if child.overflowed else "exited"
        await child.drained()
    except TimeoutError:
        pass  # the timeout is reported in `ending`
    finally:
        await child.end()
    return ProcessEnd(
        ending,
        child.status if ending == "exited" else None,
        bytes(child.output[1]),
        bytes(child.output[2]),
    )


_process_slots: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = (
    WeakKeyDictionary()
)


def _process_slot() -> asyncio.Semaphore:
    """Return the semaphore that limits the number of processes of this event loop."""
    return _process_slots.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(MAX_PROCESSES))


async def _start(command: ProcessSpec) -> _Child:
    """Start the child in its own thread, which also waits for the child to exit. A sandbox confines
    the thread permanently.
    """
    child = _Child(command.cap)
    argv = process_ancestry.marked(command.argv)
    threading.Thread(
        target=child.live, args=(command, argv), name="midturn-child", daemon=True
    ).start()
    try:
        await asyncio.shield(child.begun)
    except asyncio.CancelledError:
        child.give_up()
        raise
    try:
        await child.connect(command.stdin)
    except BaseException:
        await child.end()
        raise
    return child


def _end_at_once(process: subprocess.Popen[bytes]) -> None:
    """Kill a process group whose result is no longer needed."""
    ProcessGroup(process.pid).signal(signal.SIGKILL)
    for stream in _streams(process):
        stream.close()


def _streams(child: subprocess.Popen[bytes]) -> list[IO[bytes]]:
    """Return the streams of a process: its outputs and its input."""
    return [stream for stream in (child.stdout, child.stderr, child.stdin) if stream]


class _Child:
    """A running child and its output. `finished` is set when the child exits, or when it writes
    more than `cap` bytes to a stream.
    """

    def __init__(self, cap: int) -> None:
        self.output = {1: bytearray(), 2: bytearray()}
        self.finished = asyncio.Event()
        self.overflowed = False
        self.status: int | None = None
        self._loop = asyncio.get_running_loop()
        self.begun: asyncio.Future[subprocess.Popen[bytes]] = self._loop.create_future()
        # guards `_process`, which the thread sets, and `_given_up`, which the event loop sets; the
        # process is killed by the one that sets its attribute last
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._given_up = False
        self._cap = cap
        self._open = {1, 2}
        self._drained = asyncio.Event()
        self._exited = asyncio.Event()
        self._unconnected: list[IO[bytes]] = []
        self._readers: list[asyncio.BaseTransport] = []
        self._writer: asyncio.WriteTransport | None = None

    def live(self, command: ProcessSpec, argv: tuple[str, ...]) -> None:
        """Start the process and wait until it exits. Runs in the thread."""
        pipe = subprocess.PIPE
        try:
            if command.enter:
                command.enter()
            child = subprocess.Popen(  # noqa: S603 (a configured and approved command)
                argv,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                cwd=command.cwd,
                env=dict(command.environment),
                start_new_session=True,
                bufsize=0,
            )
        except Exception as error:  # noqa: BLE001 (raised in the task that awaits the child)
            self._notify_loop(self._failed, error)
            return
        with self._lock:
            self._process = child
            given_up = self._given_up
        if given_up:
            _end_at_once(child)
        else:
            self._notify_loop(self._began, child)
        status = child.wait()
        self._notify_loop(self._ended, status)

    def give_up(self) -> None:
        """Kill the process now, or immediately after its start. This works even if the event loop
        is closed before it is notified of the start.
        """
        with self._lock:
            self._given_up = True
            process = self._process
        if process:
            _end_at_once(process)

    def _notify_loop(self, callback: Callable[[T], None], value: T) -> None:
        with suppress(RuntimeError):  # the loop is closed, so nothing waits for the result
            self._loop.call_soon_threadsafe(callback, value)

    def _began(self, child: subprocess.Popen[bytes]) -> None:
        self._group = ProcessGroup(child.pid)
        self.begun.set_result(child)

    def _failed(self, error: Exception) -> None:
        if not self._given_up:
            self.begun.set_exception(error)

    def _ended(self, status: int) -> None:
        self.status = status
        self._exited.set()
        self.finished.set()

    async def connect(self, stdin: bytes) -> None:
        """Connect the output streams, and write the input."""
        self._unconnected = _streams(self.begun.result())
        for number in (1, 2):
            reader, _ = await self._loop.connect_read_pipe(
                functools.partial(_Reader, self, number), self._unconnected.pop(0)
            )
            self._readers.append(reader)
        writer, _ = await self._loop.connect_write_pipe(_Writer, self._unconnected.pop(0))
        self._writer = writer
        # buffered in memory, so a child that never reads its input does not block this process
        self._writer.write(stdin)
        self._writer.close()

    def received(self, number: int, data: bytes) -> None:
        """Store output, up to the limit."""
        output = self.output[number]
        output += data[: self._cap - len(output)]
        if len(output) >= self._cap and not self.overflowed:
            self.overflowed = True
            self.finished.set()
            # no grace period, because the memory would fill up too fast
            self._group.signal(signal.SIGKILL)

    def closed(self, number: int) -> None:
        """Record that an output stream ended."""
        self._open.discard(number)
        if not self._open:
            self._drained.set()

    async def drained(self) -> None:
        """Wait until both streams have ended. The time is limited, because a process that left the
        group may keep the streams open.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_TIMEOUT):
                await self._drained.wait()

    async def end(self) -> None:
        """Terminate every process of the group with SIGTERM, then SIGKILL. Reap the child and
        close its streams.
        """
        try:
            if self._group.signal(signal.SIGTERM):
                await self._group.gone(_GRACE_PERIOD)
        finally:  # also runs if cancelled during the grace period
            self._group.signal(signal.SIGKILL)
            try:
                await self._reaped()
            finally:  # also runs if cancelled again
                self._close()

    def _close(self) -> None:
        """Close the streams. Unread input is discarded, because closing would otherwise wait until
        the child reads it.
        """
        for reader in self._readers:
            reader.close()
        # streams that were not connected before the caller was cancelled
        for stream in self._unconnected:
            stream.close()
        if self._writer is not None and self._writer.get_write_buffer_size():
            self._writer.abort()

    async def _reaped(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_GRACE_PERIOD):
                await self._exited.wait()
        await self.drained()


class _Reader(asyncio.Protocol):
    """Passes the data of one stream to the child object."""

    def __init__(self, child: _Child, number: int) -> None:
        self._child = child
        self._number = number

    def data_received(self, data: bytes) -> None:
        self._child.received(self._number, data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 (required by asyncio)
        self._child.closed(self._number)


class _Writer(asyncio.BaseProtocol):
    """Writes the child's input. A closed connection is ignored."""

    def connection_lost(self, exc: Exception | None) -> None:
        """Ignore a child that stops reading."""
