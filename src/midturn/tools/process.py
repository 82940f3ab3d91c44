"""One child process: a group of its own, output read up to a cap, and an end that leaves nothing behind."""

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

# ----------------------------------------------------------------------------------------------------------------------
# A group of processes, as one thing to signal and to wait for


_POLL = 0.02
_PROC = Path("/proc")


class ProcessGroup:
    """All processes of the group that `leader` founded. Once all are gone and reaped, its number may belong to others."""

    def __init__(self, leader: int) -> None:
        self._id = leader

    def signal(self, number: int) -> bool:
        """Send a signal to all; False when no process of ours is left."""
        try:
            os.killpg(self._id, number)
        except (ProcessLookupError, PermissionError):  # what is left and runs as another user is not ours to end
            return False
        return True

    async def gone(self, seconds: float) -> None:
        """Wait until no process lives in the group, at most so long."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self.signal(0) and self._lives():  # noqa: ASYNC110 (nothing tells when a group is empty)
                    await asyncio.sleep(_POLL)

    def _lives(self) -> bool:
        """Look past the zombies, which stay for ever where the first process of a container reaps none."""
        if not (_PROC / "self/stat").exists():
            return True
        return any(self._is_living_member(folder) for folder in _PROC.iterdir() if folder.name.isdigit())

    def _is_living_member(self, folder: Path) -> bool:
        try:
            after_name = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:  # it is gone
            return False
        state, _, group = after_name[:3]
        return int(group) == self._id and state not in "ZX"


T = TypeVar("T")
HowEnded: TypeAlias = Literal["exited", "timeout", "overflow"]
AT_ONCE = 8  # children of ours that run at the same time; the others wait their turn, and their time has not begun
OUTPUT_CAP = 16 * 1024 * 1024  # bytes of a stream that are held in memory; who writes more is stopped
_GRACE = 2.0  # seconds between TERM and KILL
_DRAIN = 0.5  # seconds for the last output of a process that has exited


class Program(Struct, frozen=True, kw_only=True):
    """A program to start. `argv[0]` is an absolute path; `cap` counts bytes of each output stream, `timeout` seconds.

    `enter` is called in the thread that starts it, which does nothing else then: what confines that thread confines the child.
    """

    argv: tuple[str, ...]
    cwd: str
    environment: Mapping[str, str]
    stdin: bytes = b""
    timeout: float | None = None
    enter: Callable[[], None] | None = None
    cap: int = OUTPUT_CAP


class ProcessEnd(Struct, frozen=True):
    """The end of a process. `status` is the exit status, negative for a signal; None where it had to be stopped."""

    ending: HowEnded
    status: int | None
    stdout: bytes
    stderr: bytes


async def run_process(command: Program) -> ProcessEnd:
    """Run a command to its end and end its whole process group; also on cancellation, and when it writes too much.

    The child leads a new session, so it has no controlling terminal, and writes no core dump. A grandchild that outlives it is ended
    too: what is meant to stay must start a session of its own.

    Raises:
        OSError: It cannot be started.
        ValueError: An argument holds a NUL character.
    """
    async with _place():
        return await _run(command)


async def _run(command: Program) -> ProcessEnd:
    child = await _start(command)
    ending: HowEnded = "timeout"
    try:
        async with asyncio.timeout(command.timeout):
            await child.finished.wait()
        ending = "overflow" if child.overflowed else "exited"
        await child.drained()
    except TimeoutError:
        pass  # `ending` says so
    finally:
        await child.end()
    return ProcessEnd(ending, child.status if ending == "exited" else None, bytes(child.output[1]), bytes(child.output[2]))


_places: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


def _place() -> asyncio.Semaphore:
    """Return what lets so many run at once, in this loop."""
    return _places.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(AT_ONCE))


async def _start(command: Program) -> _Child:
    """Start the child in a thread of its own, which also waits for its end: only a thread may confine itself, and never out again."""
    child = _Child(command.cap)
    argv = process_ancestry.marked(command.argv)
    threading.Thread(target=child.live, args=(command, argv), name="midturn-child", daemon=True).start()
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
    """End a process for which no one waits, with its group."""
    ProcessGroup(process.pid).signal(signal.SIGKILL)
    for stream in _streams(process):
        stream.close()


def _streams(child: subprocess.Popen[bytes]) -> list[IO[bytes]]:
    """Return what it writes to, and what it reads."""
    return [stream for stream in (child.stdout, child.stderr, child.stdin) if stream]


class _Child:
    """Collects what the child writes. `finished` is set when it has exited, or has written more than `cap` bytes to a stream."""

    def __init__(self, cap: int) -> None:
        self.output = {1: bytearray(), 2: bytearray()}
        self.finished = asyncio.Event()
        self.overflowed = False
        self.status: int | None = None
        self._loop = asyncio.get_running_loop()
        self.begun: asyncio.Future[subprocess.Popen[bytes]] = self._loop.create_future()
        self._lock = threading.Lock()  # of the two below: the thread sets one, the loop the other, and the second to come ends it
        self._process: subprocess.Popen[bytes] | None = None
        self._given_up = False
        self._cap = cap
        self._open = {1, 2}
        self._drained = asyncio.Event()
        self._exited = asyncio.Event()
        self._unconnected: list[IO[bytes]] = []
        self._readers: list[asyncio.BaseTransport] = []
        self._writer: asyncio.WriteTransport | None = None

    def live(self, command: Program, argv: tuple[str, ...]) -> None:
        """Start it, and wait for its end; runs in the thread."""
        pipe = subprocess.PIPE
        try:
            if command.enter:
                command.enter()
            child = subprocess.Popen(  # noqa: S603 (what was configured, and approved)
                argv,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                cwd=command.cwd,
                env=dict(command.environment),
                start_new_session=True,
                bufsize=0,
            )
        except Exception as error:  # noqa: BLE001 (raised where the child is awaited)
            self._tell(self._failed, error)
            return
        with self._lock:
            self._process = child
            given_up = self._given_up
        if given_up:
            _end_at_once(child)
        else:
            self._tell(self._began, child)
        status = child.wait()
        self._tell(self._ended, status)

    def give_up(self) -> None:
        """End it, now or when it begins: the loop may be closed before it hears of a process that runs already."""
        with self._lock:
            self._given_up = True
            process = self._process
        if process:
            _end_at_once(process)

    def _tell(self, what: Callable[[T], None], value: T) -> None:
        with suppress(RuntimeError):  # the loop is closed, and with it every waiter
            self._loop.call_soon_threadsafe(what, value)

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

    async def connect(self, given: bytes) -> None:
        """Read what it writes, and give it its input."""
        self._unconnected = _streams(self.begun.result())
        for number in (1, 2):
            reader, _ = await self._loop.connect_read_pipe(functools.partial(_Reader, self, number), self._unconnected.pop(0))
            self._readers.append(reader)
        writer, _ = await self._loop.connect_write_pipe(_Writer, self._unconnected.pop(0))
        self._writer = writer
        self._writer.write(given)  # kept in memory and written as the child reads; a child that never does holds up nothing
        self._writer.close()

    def received(self, number: int, data: bytes) -> None:
        """Keep what it wrote, up to the cap."""
        kept = self.output[number]
        kept += data[: self._cap - len(kept)]
        if len(kept) >= self._cap and not self.overflowed:
            self.overflowed = True
            self.finished.set()
            self._group.signal(signal.SIGKILL)  # it is past reason, and fills memory faster than a grace period ends

    def closed(self, number: int) -> None:
        """Note that it writes no more there."""
        self._open.discard(number)
        if not self._open:
            self._drained.set()

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
                self._close()

    def _close(self) -> None:
        """Close the streams, and give up what the child never read: closing alone would wait until it had."""
        for reader in self._readers:
            reader.close()
        for stream in self._unconnected:  # the caller went away before
            stream.close()
        if self._writer is not None and self._writer.get_write_buffer_size():
            self._writer.abort()

    async def _reaped(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_GRACE):
                await self._exited.wait()
        await self.drained()


class _Reader(asyncio.Protocol):
    """Hands on what comes out of one stream."""

    def __init__(self, child: _Child, number: int) -> None:
        self._child = child
        self._number = number

    def data_received(self, data: bytes) -> None:
        self._child.received(self._number, data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 (the protocol of asyncio)
        self._child.closed(self._number)


class _Writer(asyncio.BaseProtocol):
    """Gives the child its input: its end is not waited for."""

    def connection_lost(self, exc: Exception | None) -> None:
        """The child reads no more: that is its business."""
