"""The connections of one process to its database.

Statements run through a connection pool. One more session receives notifications and holds the
process's advisory lock.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
import zlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any, LiteralString, TypeAlias, TypeVar, cast

import psycopg
from psycopg import sql
from psycopg.rows import DictRow, dict_row
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from midturn.clock import Outage
from midturn.errors import StoreAway, StoreError
from midturn.stores.postgres import statements
from midturn.stores.postgres.own_loop import (
    DatabaseAddress,
    NotificationWaiters,
    end_tasks,
    in_own_loop,
)

T = TypeVar("T")
StatementParameters: TypeAlias = Mapping[str, object]
Rows: TypeAlias = list[DictRow]

OUTAGE = 60.0
"""Seconds that a call waits for an unavailable database before it fails."""
_PAUSES = (0.05, 0.1, 0.2, 0.5, 1.0)
ORPHANED = 5.0
"""Seconds between two searches for conversations that the table assigns to this process, but
that it does not have in memory.
"""
PING = 20.0
"""Seconds between two pings of the session that otherwise only receives notifications."""
SPARE = 10.0
"""Seconds without use after which a connection of the pool is closed, because the server allows few
connections.
"""
HUNG = "60s"
"""Seconds without traffic after which the server ends a session, so that other processes can take
over its work.
"""
_NAMES = 4
"""Maximum number of named locks of a process.

Each lock occupies a connection of the pool, and its holder needs another one.
"""
_LOG = logging.getLogger("midturn.store")
_AWAY = logging.getLogger("midturn.store.away")
_SESSION_WARNING_DELAY = 20.0
"""Seconds without the listening session before a warning is logged. While the whole database is
unavailable, only the outage is logged.
"""
_LOG_AFTER_FAILURES = 1
"""Number of failed attempts before an outage is logged. A short restart is not logged."""
_GONE = (psycopg.OperationalError, psycopg.InterfaceError, PoolTimeout)

_PREPARE_AFTER = 2
"""Number of times that a connection runs a statement before it prepares it."""
_NOTIFY_INTERVAL = 0.005
"""Seconds between two notifications that a process sends."""
_LAST_NOTIFICATION = 0.3
"""Seconds that an ending process waits for its last notification to be sent."""

DUE = "due"
"""Name of the notification for conversations that may be due."""
CHANGED = "stirred"
"""Name of the notification for questions that were asked or closed, and for turns that began or
ended.
"""
_MAX_CHANGE_WAIT = 5.0
"""Maximum duration in seconds of a wait for the notification `CHANGED`, which may be lost."""
_ID = re.compile("[0-9]{1,20}")
_REMOVALS = 10_000  # maximum number of stored IDs of removed conversations


class _PoolMessages(logging.Filter):
    """Logs messages of the connection pools at debug level, because midturn's own errors and
    warnings report the same failures.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the message is from a pool of the program, not of midturn."""
        if not in_own_loop():
            return True
        _LOG.debug("%s: %s", record.name, record.getMessage())
        return False


_POOL_MESSAGES = _PoolMessages()


class Removals:
    """IDs of removed conversations that this process was notified of since its session began.

    `session` is the number of the session; 0 if notifications may be missing.
    """

    def __init__(self) -> None:
        self.session = 0
        self.ids: list[str] = []
        self._sessions = 0

    def begin(self) -> None:
        """Start a new list, because the session is notified of each removal from now on."""
        self._sessions += 1
        self.session = self._sessions
        self.ids = []

    def lose(self) -> None:
        """Record that notifications may be missing."""
        self.session = 0

    def note(self, id: str) -> None:
        """Record a removal. If there are too many IDs to store, notifications are treated as
        missing.
        """
        if len(self.ids) >= _REMOVALS:
            self.begin()
        self.ids.append(id)


class Database:
    """One schema of a database. All methods run in the loop of `OwnLoop`."""

    def __init__(self, address: DatabaseAddress, outage: float = OUTAGE) -> None:
        self.address = address
        self.notifications = NotificationWaiters(DUE, CHANGED)
        self.held: dict[str, int] = {}
        """Conversations that this process locked, with their fences (see `statements.py`)."""
        self.outage = outage
        """Seconds that a call waits for an unavailable database before it fails."""
        self._class = _signed(zlib.crc32(address.schema.encode()))
        self._texts: dict[str, bytes] = {}
        self._pool: AsyncConnectionPool[psycopg.AsyncConnection[DictRow]] | None = None
        self._starting = asyncio.Lock()
        self._names = asyncio.Semaphore(_NAMES)
        self._is_ready = False
        self._holder: int | None = None
        self._session: asyncio.Task[None] | None = None
        self._listening = asyncio.Event()
        self._away = Outage(_AWAY, f"{address.shown} is back")
        self._session_outage = Outage(_LOG, f"the session with {address.shown} is back")
        self._notifications: dict[tuple[str, str], None] = {}
        self._notifying: asyncio.Task[None] | None = None
        self._wants_stirs = False
        self._is_subscribed_to_changes = False
        self.removals = Removals()
        """The conversations that were removed while this process listens."""

    @property
    def due_channel(self) -> str:
        """Channel for notifications that a conversation may be due."""
        return f"midturn.{self.address.schema}.due"

    @property
    def change_channel(self) -> str:
        """Channel for notifications that a question was asked or closed, or that a turn began or
        ended.
        """
        return f"midturn.{self.address.schema}.stirred"

    def channel(self, holder: int) -> str:
        """Return the channel for notifications that an answer was queued for a holder."""
        return f"midturn.{self.address.schema}.{holder}"

    async def holder(self) -> int:
        """Return the number of this process. Its advisory lock shows that the process is alive."""
        await self._started()
        async with self._starting:
            if self._session is None:
                row = (
                    await self._retry(
                        lambda: self.run_one("select nextval('{s}.holder') as number", {})
                    )
                )[0]
                self._holder = int(row["number"])
                self._session = asyncio.create_task(self._live(self._holder))
        try:
            await asyncio.wait_for(self._listening.wait(), self.outage)
        except TimeoutError:
            raise StoreAway(f"{self.address.shown} cannot be reached.") from None
        return cast("int", self._holder)

    async def due(self, since: int) -> int:
        """Wait until the number of notifications about ready turns differs from `since`, for at
        most one second; return the number.
        """
        await self.holder()  # without a session there are no notifications
        if self.notifications.counts[DUE] == since:
            await self.notifications.wait(DUE)
        return self.notifications.counts[DUE]

    async def wait_for_change(self, since: int) -> int:
        """Wait until the number of notifications about changes differs from `since`, for at most
        five seconds; return the number.
        """
        self._wants_stirs = True
        holder = await self.holder()
        if (
            not self._is_subscribed_to_changes
        ):  # make the open session subscribe to this channel as well
            self.notify(self.channel(holder))
            await self.notifications.wait(CHANGED, _MAX_CHANGE_WAIT)
        if self.notifications.counts[CHANGED] + 1 == since:
            await self.notifications.wait(CHANGED, _MAX_CHANGE_WAIT)
        return self.notifications.counts[CHANGED] + 1

    async def rows(self, statement: str, parameters: StatementParameters | None = None) -> Rows:
        """Run one statement and return its rows. If the database is unavailable, wait for it.

        The statement may run twice if its acknowledgement was lost. If that would be harmful, use
        `once`.

        Raises:
            StoreError: The database rejects the statement, or cannot be reached for a minute.
        """
        await self._started()
        return await self._retry(lambda: self.run_one(statement, parameters or {}))

    async def taken(self, name: str) -> contextlib.AsyncExitStack | None:
        """Take a named lock. Return None if another session has the lock. `left` releases the lock;
        the server also releases it when the connection ends.

        The lock belongs to a transaction, so it also works through a pooler in transaction mode.
        """
        await self._started()
        number = int.from_bytes(
            sha256(f"{self.address.schema} {name}".encode("utf-8", "surrogatepass")).digest()[:8],
            signed=True,
        )
        return await self._retry(lambda: self._taken(number))

    async def _taken(self, number: int) -> contextlib.AsyncExitStack | None:
        async with contextlib.AsyncExitStack() as taking:
            await taking.enter_async_context(self._names)
            connection = await taking.enter_async_context(self._connection())
            await taking.enter_async_context(connection.transaction())
            row = await (
                await connection.execute(self._text(statements.TAKE), {"number": number})
            ).fetchone()
            return taking.pop_all() if row and row["taken"] else None

    async def left(self, taken: contextlib.AsyncExitStack | None) -> None:
        """Release a named lock."""
        try:
            if taken is not None:
                await taken.aclose()
        except psycopg.Error as error:
            # the connection is lost, and its lock with it; the next statement reports the outage
            _LOG.debug("a connection with %s ended: %s", self.address.shown, _words(error))

    async def once(
        self,
        statement: str,
        parameters: StatementParameters,
        written: Callable[[], Awaitable[Rows | None]],
    ) -> Rows:
        """Run a statement that must not run twice.

        Args:
            statement: The statement.
            parameters: Parameters of the statement.
            written: Called after an acknowledgement was lost. Returns the rows if the statement was
                run, and None otherwise.
        """
        await self._started()
        tries = 0

        async def attempt() -> Rows:
            nonlocal tries
            tries += 1
            if tries > 1 and (rows := await written()) is not None:
                return rows
            return await self.run_one(statement, parameters)

        return await self._retry(attempt)

    async def together(self, statements: Sequence[str], parameters: StatementParameters) -> bool:
        """Run several statements as one transaction. If the first statement finds no row, return
        False and change nothing.
        """
        await self._started()

        async def attempt() -> bool:
            async with self._connection() as connection, connection.transaction():
                for number, statement in enumerate(statements):
                    cursor = await connection.execute(self._text(statement), parameters)
                    if number == 0 and not cursor.rowcount:
                        return False
            return True

        return await self._retry(attempt)

    async def change_tables(self, statement: str) -> None:
        """Run a statement that creates a table of this schema."""
        await self.script(self._text(statement))

    async def script(self, script: sql.Composed | bytes) -> None:
        """Run several statements as one transaction, under the lock for changes of the schema."""
        await self._started()

        async def attempt() -> None:
            async with self._connection() as connection, connection.transaction():
                await connection.execute("select pg_advisory_xact_lock(%s, 0)", [self._class])
                await connection.execute(script)

        await self._retry(attempt)

    async def version(self) -> int:
        """Return the version of the tables, or 0 if there are none."""
        await self._opened()
        rows = await self._retry(
            lambda: self.run_one(statements.EXISTS, {"table": f"{self.address.schema}.midturn"})
        )
        if not next(iter(rows[0].values())):
            return 0
        found = await self._retry(lambda: self.run_one(statements.CURRENT, {}))
        return int(found[0]["version"]) if found else 0

    async def upgrade(self) -> tuple[int, int]:
        """Create or upgrade the tables; return the version before and after.

        If they are up to date, no permission to change tables is needed.

        Raises:
            StoreError: The role may not change tables.
        """
        await self._opened()
        before = await self.version()
        try:
            await self._change_tables(before)
        except psycopg.errors.InsufficientPrivilege as error:
            raise StoreError(
                f"{self.address.shown}: the role may not change tables ({_words(error)}). Run"
                " `midturn store upgrade` with the role that owns them."
            ) from error
        return before, statements.VERSION

    async def _change_tables(self, before: int) -> None:
        async with self._connection() as connection, connection.transaction():
            await connection.execute("select pg_advisory_xact_lock(%s, 0)", [self._class])
            if before < statements.VERSION:
                await connection.execute(self._text(statements.CREATE))
                row = await (await connection.execute(self._text(statements.CURRENT))).fetchone()
                for number in range(int(row["version"] if row else 0) + 1, statements.VERSION + 1):
                    await connection.execute(self._text(statements.MIGRATIONS[number]))
                    await connection.execute(
                        self._text(statements.SET_VERSION.replace("{version}", str(number)))
                    )
            found = await connection.execute(self._text(statements.TABLES))
            present = {row["tablename"] for row in await found.fetchall()}
            for name, statement in statements.WITHOUT_VERSION.items():
                if name not in present:
                    await connection.execute(self._text(statement))

    # Notifications
    # ----------------------------------------------------------------------------------------------

    def notify(self, channel: str, payload: str = "") -> None:
        """Notify other processes soon, without waiting. Notifications that are queued while one is
        being sent are sent together.

        A notification may be lost if this process dies. Waiters therefore also poll.
        """
        self._notifications[channel, payload] = (
            None  # an ordered set: each notification is sent once
        )
        if self._notifying is None:
            self._notifying = asyncio.create_task(self._send_notifications())

    async def _send_notifications(self) -> None:
        try:
            while self._notifications:
                channels, payloads = zip(*self._notifications, strict=True)
                self._notifications.clear()
                await self.run_one(
                    statements.NOTIFY, {"channels": list(channels), "payloads": list(payloads)}
                )
                await asyncio.sleep(_NOTIFY_INTERVAL)
        except (
            psycopg.Error,
            PoolTimeout,
            StoreError,
        ) as error:  # the next statement reports the outage
            _LOG.debug("a notification of %s was not sent: %s", self.address.shown, _words(error))
        finally:
            self._notifying = None

    async def _finish_notifying(self) -> None:
        """Send the remaining notifications, but wait only briefly for the server."""
        while (notifying := self._notifying) is not None:
            if (await asyncio.wait([notifying], timeout=_LAST_NOTIFICATION))[1]:
                await end_tasks([notifying])

    async def close(self) -> None:
        """Close all sessions. Later calls fail because the store is closed."""
        if self._pool is not None:
            await self._finish_notifying()
        session, self._session = self._session, None
        pool, self._pool = self._pool, None
        if session is not None:
            await end_tasks([session])
        if pool is not None:
            await pool.close()

    # ----------------------------------------------------------------------------------------------

    async def _opened(self) -> None:
        if self._pool is None:
            logging.getLogger("psycopg.pool").addFilter(_POOL_MESSAGES)
            prepared = (
                _PREPARE_AFTER if self.address.direct == self.address.url else None
            )  # a pooler may use another connection for each statement, so prepared ones would be missing
            connection = {
                "autocommit": True,
                "prepare_threshold": prepared,
                "row_factory": dict_row,
                **_KEEPALIVE,
            }
            self._pool = AsyncConnectionPool(
                self.address.url,
                min_size=0,
                max_size=8,
                max_idle=SPARE,
                open=False,
                timeout=5,
                kwargs=connection,
            )
            await self._pool.open()

    async def _started(self) -> None:
        if self._is_ready:
            return
        async with self._starting:
            if not self._is_ready:
                await self._check_version()
                self._is_ready = True

    async def _check_version(self) -> None:
        version = await self.version()
        if version == 0:
            await self._retry(self.upgrade)
        elif version != statements.VERSION:
            where = f"The schema `{self.address.schema}` at {self.address.shown}"
            remedy = (
                "Upgrade the store first."
                if version < statements.VERSION
                else "A newer midturn wrote it: use that one."
            )
            raise StoreError(
                f"{where} has version {version}; this midturn needs version {statements.VERSION}."
                f" {remedy}"
            )

    def _connection(
        self,
    ) -> contextlib.AbstractAsyncContextManager[psycopg.AsyncConnection[DictRow]]:
        if self._pool is None:
            raise StoreError("The store is closed.")
        return self._pool.connection()

    async def run_one(self, statement: str, parameters: StatementParameters) -> Rows:
        """Run one statement once, on any connection of the pool."""
        async with self._connection() as connection:
            cursor = await connection.execute(self._text(statement), parameters)
            return await cursor.fetchall() if cursor.description else []

    def _text(self, statement: str) -> bytes:
        """Return a statement for this schema.

        The result is cached, because the driver would compose the statement for every use.
        """
        text = self._texts.get(statement)
        if text is None:
            raw = sql.SQL(cast("LiteralString", statement))
            named = raw.format(
                s=sql.Identifier(self.address.schema),
                c=sql.Literal(self._class),
                n=sql.Literal(self.address.schema),
            )
            text = self._texts[statement] = named.as_bytes(None)
        return text

    async def _retry(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Retry while the database is unavailable, because it may be restarting."""
        began = time.monotonic()
        tries = 0
        while True:
            try:
                done = await attempt()
            except _GONE as gone:
                error = (
                    await _reason(self.address.url, gone) if isinstance(gone, PoolTimeout) else gone
                )
                if _is_refusal(error):
                    raise StoreError(
                        f"{self.address.shown} cannot be reached: {_words(error)}"
                    ) from error
                if tries >= _LOG_AFTER_FAILURES or isinstance(
                    gone, PoolTimeout
                ):  # a pool timeout means several seconds without a connection
                    self._away.noticed(
                        "%s is away (%s); waiting for it, for up to %.0f s",
                        self.address.shown,
                        _words(error),
                        self.outage,
                    )
                if time.monotonic() - began > self.outage:
                    raise StoreAway(
                        f"{self.address.shown} cannot be reached: {_words(error)}"
                    ) from error
                await asyncio.sleep(_PAUSES[min(tries, len(_PAUSES) - 1)])
                tries += 1
            except (
                psycopg.Error,
                UnicodeEncodeError,
            ) as error:  # UnicodeEncodeError: a lone surrogate, which the database cannot store
                raise StoreError(f"{self.address.shown} refused: {_words(error)}") from error
            else:
                self._away.over()
                return done

    # The permanent session of the process
    # ----------------------------------------------------------------------------------------------

    async def _live(self, holder: int) -> None:
        """Hold this process's advisory lock and listen, in successive sessions, until the
        process ends.
        """
        tries, ended = 0, 0.0
        while True:
            try:
                connection = await psycopg.AsyncConnection.connect(
                    self.address.direct, autocommit=True, **_KEEPALIVE
                )
                async with connection:
                    await self._announce(connection, holder)
                    tries = 0
                    self._session_outage.over()
                    self._listening.set()
                    self.notifications.notify_all()
                    await self._listen(connection)
            except (psycopg.Error, PoolTimeout, StoreError) as error:
                _LOG.debug(
                    "the session with %s ended and is started again: %s",
                    self.address.shown,
                    _words(error),
                )
                ended = time.monotonic() if tries == 0 else ended
                if (
                    time.monotonic() - ended > _SESSION_WARNING_DELAY and not self._away.is_on
                ):  # an outage of the whole database is reported elsewhere
                    self._session_outage.noticed(
                        "the session with %s cannot be started: %s",
                        self.address.shown,
                        _words(error),
                    )
                await asyncio.sleep(_PAUSES[min(tries, len(_PAUSES) - 1)])
                tries += 1

    async def _announce(self, connection: psycopg.AsyncConnection, holder: int) -> None:
        await connection.execute(f"set idle_session_timeout = '{HUNG}'")
        await connection.execute("select pg_advisory_lock(%s, %s)", [self._class, holder])
        self._is_subscribed_to_changes = False
        self.removals.lose()
        for channel in (self.due_channel, self.channel(holder)):
            await connection.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))
        await self._subscribe_to_changes(connection)

    async def _subscribe_to_changes(self, connection: psycopg.AsyncConnection) -> None:
        """Subscribe to changes of questions if a program watches them. Workers do not need this."""
        if self._wants_stirs and not self._is_subscribed_to_changes:
            await connection.execute(
                sql.SQL("listen {}").format(sql.Identifier(self.change_channel))
            )
            self._is_subscribed_to_changes = True
            self.removals.begin()
            self.notifications.notify(CHANGED)

    async def _listen(self, connection: psycopg.AsyncConnection) -> None:
        pinged = looked = time.monotonic()
        named = {self.due_channel: DUE, self.change_channel: CHANGED}
        while True:
            async for notification in connection.notifies(timeout=ORPHANED, stop_after=1):
                # other users of the database can also send notifications
                if notification.channel == self.change_channel and _ID.fullmatch(
                    notification.payload
                ):
                    self.removals.note(notification.payload)
                self.notifications.notify(named.get(notification.channel, notification.payload))
            await self._subscribe_to_changes(connection)
            now = time.monotonic()
            if now - pinged >= PING:
                await connection.execute("select 1")
                pinged = now
            if now - looked >= ORPHANED:
                await self.give_back_orphans()
                looked = now

    async def give_back_orphans(self) -> None:
        """Release conversations that are locked by this process in the table but not in memory,
        because the result of a claim was lost.
        """
        before = dict(self.held)
        for row in await self.run_one(statements.MINE, {"holder": self._holder}):
            if row["id"] not in before and row["id"] not in self.held:
                await self.release(row["id"], row["fence"], handed_seq=-1, again="now")

    async def release(
        self, id: str, fence: int, *, handed_seq: int, again: str | None, deadline: str = ""
    ) -> None:
        """Release a conversation.

        `again` is the time at which a worker must examine it: `now`, `later` (after a pause that
        doubles), or None (at the deadline, if any).
        """
        self.held.pop(id, None)
        given = {
            "id": id,
            "fence": fence,
            "handed_seq": handed_seq,
            "again": again,
            "deadline": deadline or None,
        }
        if await self.rows(statements.RELEASE, given):
            self.notify(self.due_channel)


async def _reason(url: str, waited: PoolTimeout) -> Exception:
    """Return why the pool has no connection. The pool does not report the reason."""
    try:
        connection = await psycopg.AsyncConnection.connect(url, **_KEEPALIVE)
    except psycopg.Error as error:
        return error
    await connection.close()
    return waited


_KEEPALIVE: dict[str, Any] = {
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "connect_timeout": 5,
}


def handed_payloads(row: DictRow) -> Sequence[bytes]:
    """Return the queued answers of a row."""
    return cast("Sequence[bytes]", row["handed"])


def _signed(number: int) -> int:
    return number - (1 << 32) if number >= 1 << 31 else number


_REFUSALS = (
    "authentication failed",
    "does not exist",
    "unrecognized configuration parameter",
    "invalid command-line argument",
    "requires a value",
    "invalid value for parameter",
    "invalid connection option",
    "invalid URI",
)
"""Parts of error messages from the server and from libpq. A failed connection has no error code."""


def _is_refusal(error: Exception) -> bool:
    """Return whether waiting would not help: a wrong password, an unknown database, an unknown
    option.
    """
    state = getattr(error, "sqlstate", None) or ""
    text = str(error)
    return state.startswith(("28", "3D")) or any(words in text for words in _REFUSALS)


def _words(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
