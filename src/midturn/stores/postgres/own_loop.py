"""An event loop in its own thread for the connections to a database, independent of the program's
loops.

A program's loop may be short-lived (`asyncio.run` for each request, one in each thread),
cancelled during a statement, or missing. The connections outlive it. If a caller is cancelled,
its statement still runs to completion, so that its result is not lost.
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
_CLOSE_TIMEOUT = 0.9
"""Seconds that an ending process waits until its sessions are closed. After that, the server closes
them.
"""
_CANCEL_INTERVAL = 0.05
"""Seconds between two cancellations of the same task."""
_RUNNING: dict[threading.Thread, tuple[asyncio.AbstractEventLoop, asyncio.Event]] = {}


class OwnLoop:
    """A loop that starts with its first use, and ends when its owner is garbage-collected or the
    process ends.
    """

    def __init__(self, name: str, close: Close) -> None:
        """Create a loop that starts with its first use.

        Args:
            name: The thread's name.
            close: Called when the loop ends, to close the connections. It must not refer to this
                object, which would then never be garbage-collected.
        """
        self._name = name
        self._close = close
        self._starting = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def run(
        self,
        work: Coroutine[Any, Any, T],
        *,
        unclaimed: Callable[[T], Coroutine[Any, Any, None]] | None = None,
    ) -> T:
        """Run `work` in the loop, and return its result.

        Args:
            work: The coroutine. It runs to completion even if the caller is cancelled.
            unclaimed: Called with the result if the caller was cancelled.
        """
        running = asyncio.run_coroutine_threadsafe(work, self._running())
        try:
            return await asyncio.shield(asyncio.wrap_future(running))
        except asyncio.CancelledError:
            running.add_done_callback(lambda done: self._leave(done, unclaimed))
            raise

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Start `work` in the loop, without waiting for it."""
        asyncio.run_coroutine_threadsafe(work, self._running())

    def _leave(
        self, done: Future[T], unclaimed: Callable[[T], Coroutine[Any, Any, None]] | None
    ) -> None:
        if done.cancelled() or done.exception() is not None or unclaimed is None:
            return
        self.begin(unclaimed(done.result()))

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None:
                self._loop, ending = asyncio.new_event_loop(), asyncio.Event()
                thread = threading.Thread(
                    target=_run,
                    args=[self._loop, ending, self._close],
                    name=self._name,
                    daemon=True,
                )
                _RUNNING[thread] = self._loop, ending
                thread.start()
                weakref.finalize(self, _end, self._loop, ending).atexit = False
            return self._loop


def in_own_loop() -> bool:
    """Return whether this thread runs one of these loops."""
    return threading.current_thread() in _RUNNING


async def end_tasks(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel tasks until they have ended. Once is not enough, because a driver may swallow a
    cancellation.
    """
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        done, left = await asyncio.wait(left, timeout=_CANCEL_INTERVAL)
        for task in done:
            _ = task.cancelled() or task.exception()  # no caller waits for its result


def _run(loop: asyncio.AbstractEventLoop, ending: asyncio.Event, close: Close) -> None:
    """Run the loop until `ending` is set; then call `close`, and end the remaining tasks."""
    asyncio.set_event_loop(loop)
    try:
        loop.run_until_complete(ending.wait())
        loop.run_until_complete(close())
        loop.run_until_complete(end_tasks(asyncio.all_tasks(loop)))
        loop.close()
    finally:
        _RUNNING.pop(threading.current_thread(), None)


def _end(loop: asyncio.AbstractEventLoop, ending: asyncio.Event) -> None:
    with suppress(RuntimeError):  # the loop has ended
        loop.call_soon_threadsafe(ending.set)


@atexit.register
def _end_all() -> None:
    """End all loops at the same time, and wait for their threads."""
    running = dict(_RUNNING)
    for loop, ending in running.values():
        _end(loop, ending)
    deadline = time.monotonic() + _CLOSE_TIMEOUT
    for thread in running:
        thread.join(max(0.0, deadline - time.monotonic()))


# --------------------------------------------------------------------------------------------------
# Waiting for notifications from the database, by name


_MAX_WAIT = 1.0
"""Maximum duration in seconds of a wait for a notification, which may be lost with its connection.
"""


class NotificationWaiters:
    """Wakes waiters by name: `notify` wakes the waiters for one name, `notify_all` wakes all."""

    def __init__(self, *counted: str) -> None:
        """Notifications of the names in `counted` are counted. Other names are not counted, because
        any user of the database can send any name, and the counts would use more and more memory.
        """
        self._waiting: dict[str, set[asyncio.Event]] = defaultdict(set)
        self.counts = dict.fromkeys(counted, 0)
        """Number of notifications by name."""

    async def wait(self, name: str, most: float = _MAX_WAIT) -> None:
        """Wait until `notify` is called for the name, at most `most` seconds."""
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

    def notify(self, name: str) -> None:
        """Wake the waiters for a name."""
        if name in self.counts:
            self.counts[name] += 1
        for bell in self._waiting.get(name, ()):
            bell.set()

    def notify_all(self) -> None:
        """Wake all waiters, because notifications may have been lost."""
        for name in {*self._waiting, *self.counts}:
            self.notify(name)


# --------------------------------------------------------------------------------------------------
# Address of a store in PostgreSQL: the database and its schema


_PARAMETER = "midturn_schema"
_DIRECT = "midturn_direct"
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,39}")
"""Allowed names of a schema. They are short, because the names of notification channels contain
them and have at most 63 characters.
"""


class DatabaseAddress(Struct, frozen=True):
    """`url` is for the driver, `direct` is an address without a pooler, and `shown` is for messages
    and contains no password.
    """

    url: str
    direct: str
    shown: str
    schema: str = "midturn"


def parse_database_address(url: str) -> DatabaseAddress:
    """Read `postgresql://…?midturn_schema=NAME&midturn_direct=URL`.

    The default schema is `midturn`. Without `midturn_direct`, there must be no pooler in
    transaction mode between this process and the server.

    Raises:
        ConfigError: `url` is not a valid address, or the name of the schema is not allowed.
    """
    try:
        parts = urlsplit(url)
    except (
        ValueError
    ) as error:  # the error's text contains no part of the address, which may include a password
        raise ConfigError(
            f"The store's address cannot be read: {error}. It must have the form"
            " `postgresql://[USER[:PASSWORD]@]HOST[:PORT]/DATABASE`."
        ) from None
    query = parts.query.split("&") if parts.query else []
    own = {
        key: unquote(value)
        for key, _, value in (one.partition("=") for one in query)
        if key in {_PARAMETER, _DIRECT}
    }
    schema = own.get(_PARAMETER, "midturn")
    if not _SCHEMA.fullmatch(schema):
        allowed = "1 to 40 of `a-z 0-9 _`, and does not start with a digit"
        raise ConfigError(
            f"`{_PARAMETER}={schema}` in the store's address is not a valid schema name. A name has"
            f" {allowed}."
        )
    rest = "&".join(
        one for one in query if one.partition("=")[0] not in own
    )  # unchanged, because the driver does not read `+` as a space
    plain = url.partition("?")[0] + (f"?{rest}" if rest else "")
    host = parts.netloc.rsplit("@", 1)[-1]
    return DatabaseAddress(
        plain, own.get(_DIRECT, plain), f"{parts.scheme}://{host}{parts.path}", schema
    )
