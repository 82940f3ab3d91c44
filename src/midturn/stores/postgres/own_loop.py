"""An event loop in a thread of its own, in which one process speaks to a database, whatever loops its program runs.

A program's loop may come and go (`asyncio.run` for each request, one a thread), be cancelled in the middle of a statement, or not be there
at all. Connections outlive all that. A cancelled caller leaves its statement to end by itself: what the database then says is not lost
between the driver and us.
"""

from __future__ import annotations

import asyncio
import atexit
import re
import threading
import time
import weakref
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeAlias, TypeVar
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from midturn.errors import ConfigError

T = TypeVar("T")
Close: TypeAlias = Callable[[], Coroutine[Any, Any, None]]
_PATIENCE = 0.9
"""Seconds that a process waits for all its sessions when it ends; the server ends them otherwise."""
_AGAIN = 0.05
"""Seconds between two cancellations of the same task."""
_RUNNING: dict[threading.Thread, tuple[asyncio.AbstractEventLoop, asyncio.Event]] = {}


class OwnLoop:
    """Begins with its first use, and ends when it cannot be used any more, at the latest with the process."""

    def __init__(self, name: str, close: Close) -> None:
        """Name its thread.

        Args:
            name: The thread's name.
            close: Ends what was begun over there, as the last thing that is done. It must not lead back to this object.
        """
        self._name = name
        self._close = close
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def run(self, work: Coroutine[Any, Any, T], *, unclaimed: Callable[[T], Coroutine[Any, Any, None]] | None = None) -> T:
        """Run `work` over there, and return its result here.

        Args:
            work: What is to be done. It goes on to its end even if the caller is cancelled.
            unclaimed: Takes its result where the wait for it was given up.
        """
        running = asyncio.run_coroutine_threadsafe(work, self._running())
        try:
            return await asyncio.shield(asyncio.wrap_future(running))
        except asyncio.CancelledError:
            running.add_done_callback(lambda done: self._leave(done, unclaimed))
            raise

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin `work` over there, without waiting for it."""
        asyncio.run_coroutine_threadsafe(work, self._running())

    def _leave(self, done: Future[T], unclaimed: Callable[[T], Coroutine[Any, Any, None]] | None) -> None:
        if done.cancelled() or done.exception() is not None or unclaimed is None:
            return
        self.begin(unclaimed(done.result()))

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None:
                self._loop, ending = asyncio.new_event_loop(), asyncio.Event()
                thread = threading.Thread(target=_run, args=[self._loop, ending, self._close], name=self._name, daemon=True)
                _RUNNING[thread] = self._loop, ending
                thread.start()
                weakref.finalize(self, _end, self._loop, ending).atexit = False
            return self._loop


def in_own_loop() -> bool:
    """Return whether this thread runs a loop of ours."""
    return threading.current_thread() in _RUNNING


async def end_tasks(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks until they have ended. Once is not enough: a wait for a driver may swallow a cancellation."""
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        done, left = await asyncio.wait(left, timeout=_AGAIN)
        for task in done:
            _ = task.cancelled() or task.exception()  # its waiter is gone


def _run(loop: asyncio.AbstractEventLoop, ending: asyncio.Event, close: Close) -> None:
    """Run the loop until it is to end, however often that is said; then end what still runs in it, in order."""
    asyncio.set_event_loop(loop)
    try:
        loop.run_until_complete(ending.wait())
        loop.run_until_complete(close())
        loop.run_until_complete(end_tasks(asyncio.all_tasks(loop)))
        loop.close()
    finally:
        _RUNNING.pop(threading.current_thread(), None)


def _end(loop: asyncio.AbstractEventLoop, ending: asyncio.Event) -> None:
    with suppress(RuntimeError):  # it has ended
        loop.call_soon_threadsafe(ending.set)


@atexit.register
def _end_all() -> None:
    """Let all of them end in order, at the same time."""
    running = dict(_RUNNING)
    for loop, ending in running.values():
        _end(loop, ending)
    deadline = time.monotonic() + _PATIENCE
    for thread in running:
        thread.join(max(0.0, deadline - time.monotonic()))


# ----------------------------------------------------------------------------------------------------------------------
# Waiting for a notification of the database, by what it is about


_LOOK = 1.0
"""Seconds after which one looks anyway: a notification may have been lost with its connection."""


class Bells:
    """Waiters, woken by `ring` of the same name, and by `ring_all`."""

    def __init__(self, *counted: str) -> None:
        """`counted` are those whose strokes are counted. Of others nothing is kept: any user of the database makes them up."""
        self._waiting: dict[str, set[asyncio.Event]] = defaultdict(set)
        self.rung = dict.fromkeys(counted, 0)
        """Counts of rings."""

    async def wait(self, name: str, most: float = _LOOK) -> None:
        """Return when the bell rings, at the latest after a second, or after `most`."""
        bell = asyncio.Event()
        self._waiting[name].add(bell)
        try:
            async with asyncio.timeout(most):
                await bell.wait()
        except TimeoutError:
            pass
        finally:
            self._waiting[name].discard(bell)
            if not self._waiting[name]:
                del self._waiting[name]

    def ring(self, name: str) -> None:
        """Wake those who wait for this."""
        if name in self.rung:
            self.rung[name] += 1
        for bell in self._waiting.get(name, ()):
            bell.set()

    def ring_all(self) -> None:
        """Wake everyone: what was missed is unknown."""
        for name in {*self._waiting, *self.rung}:
            self.ring(name)


# ----------------------------------------------------------------------------------------------------------------------
# Address of a store in PostgreSQL: the database and its schema


_PARAMETER = "midturn_schema"
_DIRECT = "midturn_direct"
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,39}")
"""Names of channels are made of it, and those have at most 63 characters."""


class DatabaseAddress(Struct, frozen=True):
    """`url` is what the driver takes, `direct` what leads around a pooler; `shown` is for messages: it has no password."""

    url: str
    direct: str
    shown: str
    schema: str = "midturn"


def parse_database_address(url: str) -> DatabaseAddress:
    """Read `postgresql://…?midturn_schema=NAME&midturn_direct=URL`.

    Without the first, the schema is `midturn`; without the second, nothing stands between us and the server: no pooler in transaction mode.

    Raises:
        ConfigError: It is no address, or the name of the schema is not allowed.
    """
    try:
        parts = urlsplit(url)
    except ValueError as error:  # it says what, and nothing of the address, which may hold a password
        raise ConfigError(
            f"The store's address cannot be read: {error}. It is `postgresql://[USER[:PASSWORD]@]HOST[:PORT]/DATABASE`."
        ) from None
    query = parts.query.split("&") if parts.query else []
    own = {key: unquote(value) for key, _, value in (one.partition("=") for one in query) if key in {_PARAMETER, _DIRECT}}
    schema = own.get(_PARAMETER, "midturn")
    if not _SCHEMA.fullmatch(schema):
        allowed = "1 to 40 of `a-z 0-9 _`, and not a digit first"
        raise ConfigError(f"`{_PARAMETER}={schema}` in the store's address names no schema: a name is {allowed}.")
    rest = "&".join(one for one in query if one.partition("=")[0] not in own)  # as it is: a `+` is no space to the driver
    plain = url.partition("?")[0] + (f"?{rest}" if rest else "")
    host = parts.netloc.rsplit("@", 1)[-1]
    return DatabaseAddress(plain, own.get(_DIRECT, plain), f"{parts.scheme}://{host}{parts.path}", schema)
