"""The database as one process uses it: statements through a pool, and one session that listens and says that the process lives."""

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
from midturn.stores.postgres.own_loop import Bells, DatabaseAddress, end_tasks, in_own_loop

T = TypeVar("T")
StatementParameters: TypeAlias = Mapping[str, object]
Rows: TypeAlias = list[DictRow]

OUTAGE = 60.0
"""Seconds for which a database may be away before a call fails."""
_PAUSES = (0.05, 0.1, 0.2, 0.5, 1.0)
ORPHANED = 5.0
"""Seconds between two looks for what the table says is ours, and memory says is not."""
PING = 20.0
"""Seconds between two words of a session that otherwise only listens."""
SPARE = 10.0
"""Seconds after which one connection is closed that was not needed in all that time: a server has few of them to give."""
HUNG = "60s"
"""A session that says nothing for so long is ended by the server: its process hangs, and others may take over."""
_NAMES = 4
"""Names that one process has at a time: each keeps a connection of the pool, and a process that has one needs another."""
_LOG = logging.getLogger("midturn.store")
_AWAY = logging.getLogger("midturn.store.away")
_DEAF_AFTER = 20.0
"""Seconds without the session that listens before it is said, where statements get through, or none is made."""
_SAID_AFTER = 1
"""Tries that fail before it is said: a short restart is not worth a word."""
_GONE = (psycopg.OperationalError, psycopg.InterfaceError, PoolTimeout)

DUE = "due"
"""The bell for conversations that may have become due."""
STIRRED = "stirred"
"""The bell for questions that were asked or closed, and for turns that began or ended."""
_LOOK_ANYWAY = 5.0
_ID = re.compile("[0-9]{1,20}")
_REMOVALS = 10_000  # ids that are kept
"""Seconds after which a wait for `STIRRED` looks, whatever was heard."""


class _PoolMessages(logging.Filter):
    """Logs messages of the connection pools at debug level: midturn's own errors and warnings say the same in a sentence."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let the messages of other pools of the program pass."""
        if not in_own_loop():
            return True
        _LOG.debug("%s: %s", record.name, record.getMessage())
        return False


_POOL_MESSAGES = _PoolMessages()


class Removals:
    """The ids of conversations that were removed, as far as this process has heard of it since a session began; it has none at 0."""

    def __init__(self) -> None:
        self.session = 0
        self.ids: list[str] = []
        self._sessions = 0

    def begin(self) -> None:
        """Note that from now on all is heard."""
        self._sessions += 1
        self.session = self._sessions
        self.ids = []

    def lose(self) -> None:
        """Note that something may be missed."""
        self.session = 0

    def note(self, id: str) -> None:
        """Note that one was removed; those of very many are not kept, which is as if they were missed."""
        if len(self.ids) >= _REMOVALS:
            self.begin()
        self.ids.append(id)


class Database:
    """One schema of one database. Everything here runs in the loop that `OwnLoop` keeps."""

    def __init__(self, address: DatabaseAddress, outage: float = OUTAGE) -> None:
        self.address = address
        self.bells = Bells(DUE, STIRRED)
        self.held: dict[str, int] = {}
        """Conversations that this process holds, with their fences."""
        self.outage = outage
        """Seconds for which the database may be away before a call fails."""
        self._class = _signed(zlib.crc32(address.schema.encode()))
        self._texts: dict[str, sql.Composed] = {}
        self._pool: AsyncConnectionPool[psycopg.AsyncConnection[DictRow]] | None = None
        self._starting = asyncio.Lock()
        self._names = asyncio.Semaphore(_NAMES)
        self._is_ready = False
        self._holder: int | None = None
        self._session: asyncio.Task[None] | None = None
        self._listening = asyncio.Event()
        self._away = Outage(_AWAY, f"{address.shown} is back")
        self._deaf = Outage(_LOG, f"the session with {address.shown} is back")
        self._wants_stirs = False
        self._hears_stirs = False
        self.removals = Removals()
        """The conversations that were removed while this process listens."""

    @property
    def due_channel(self) -> str:
        """Channel that is notified when a conversation may be due."""
        return f"midturn.{self.address.schema}.due"

    @property
    def stirred_channel(self) -> str:
        """Channel that is notified when a question was asked or closed, or a turn began or ended."""
        return f"midturn.{self.address.schema}.stirred"

    def channel(self, holder: int) -> str:
        """Return what is notified when something was handed over to a holder."""
        return f"midturn.{self.address.schema}.{holder}"

    async def holder(self) -> int:
        """Return the number of this process, whose advisory lock says that it lives."""
        await self._started()
        async with self._starting:
            if self._session is None:
                row = (await self._patiently(lambda: self.run_one("select nextval('{s}.holder') as number", {})))[0]
                self._holder = int(row["number"])
                self._session = asyncio.create_task(self._live(self._holder))
        try:
            await asyncio.wait_for(self._listening.wait(), self.outage)
        except TimeoutError:
            raise StoreAway(f"{self.address.shown} cannot be reached.") from None
        return cast("int", self._holder)

    async def due(self, since: int) -> int:
        """Return when the bell has rung more often than `since` says, at the latest after a second; how often it has by then."""
        await self.holder()  # nothing is heard without a session
        if self.bells.rung[DUE] == since:
            await self.bells.wait(DUE)
        return self.bells.rung[DUE]

    async def stirred(self, since: int) -> int:
        """Return when the bell has rung more often than `since` says, at the latest after some seconds; how often it has by then."""
        self._wants_stirs = True
        holder = await self.holder()
        if not self._hears_stirs:  # the session listens to something already: a word to ourselves has it look up
            await self.rows(statements.NOTIFY, {"channel": self.channel(holder)})
            await self.bells.wait(STIRRED, _LOOK_ANYWAY)
        if self.bells.rung[STIRRED] + 1 == since:
            await self.bells.wait(STIRRED, _LOOK_ANYWAY)
        return self.bells.rung[STIRRED] + 1

    async def rows(self, statement: str, parameters: StatementParameters | None = None) -> Rows:
        """Run one statement, and return its rows; where the database is away for a while, wait for it.

        It may run twice where its acknowledgement was lost: a caller that cannot have that finds out what became of it (`once`).

        Raises:
            StoreError: The database refuses, or cannot be reached for a minute.
        """
        await self._started()
        return await self._patiently(lambda: self.run_one(statement, parameters or {}))

    async def taken(self, name: str) -> contextlib.AsyncExitStack | None:
        """Take a name until `left`; None where another session has it. The server gives it back when our connection ends.

        The lock is one of a transaction, which a pooler between us and the server leaves on its connection.
        """
        await self._started()
        number = int.from_bytes(sha256(f"{self.address.schema} {name}".encode("utf-8", "surrogatepass")).digest()[:8], signed=True)
        return await self._patiently(lambda: self._taken(number))

    async def _taken(self, number: int) -> contextlib.AsyncExitStack | None:
        async with contextlib.AsyncExitStack() as taking:
            await taking.enter_async_context(self._names)
            connection = await taking.enter_async_context(self._connection())
            await taking.enter_async_context(connection.transaction())
            row = await (await connection.execute(self._text(statements.TAKE), {"number": number})).fetchone()
            return taking.pop_all() if row and row["taken"] else None

    async def left(self, taken: contextlib.AsyncExitStack | None) -> None:
        """Give a name back."""
        try:
            if taken is not None:
                await taken.aclose()
        except psycopg.Error as error:  # the connection is gone, and the name with it: the next statement reports the outage
            _LOG.debug("a connection with %s ended: %s", self.address.shown, _words(error))

    async def once(self, statement: str, parameters: StatementParameters, written: Callable[[], Awaitable[Rows | None]]) -> Rows:
        """Run a statement that must not run twice.

        Args:
            statement: What to run.
            parameters: Its parameters.
            written: Finds out, after an acknowledgement was lost, whether it was run: its rows if so, else None.
        """
        await self._started()
        tries = 0

        async def attempt() -> Rows:
            nonlocal tries
            tries += 1
            if tries > 1 and (rows := await written()) is not None:
                return rows
            return await self.run_one(statement, parameters)

        return await self._patiently(attempt)

    async def together(self, statements: Sequence[str], parameters: StatementParameters) -> bool:
        """Run several statements as one transaction; False, and nothing of it, where the first one finds no row."""
        await self._started()

        async def attempt() -> bool:
            async with self._connection() as connection, connection.transaction():
                for number, statement in enumerate(statements):
                    cursor = await connection.execute(self._text(statement), parameters)
                    if number == 0 and not cursor.rowcount:
                        return False
            return True

        return await self._patiently(attempt)

    async def script(self, script: sql.Composed) -> None:
        """Run several statements as one transaction, under the lock of the schema's keeper."""
        await self._started()

        async def attempt() -> None:
            async with self._connection() as connection, connection.transaction():
                await connection.execute("select pg_advisory_xact_lock(%s, 0)", [self._class])
                await connection.execute(script)

        await self._patiently(attempt)

    async def version(self) -> int:
        """Return the version of the tables; 0 where there are none."""
        await self._opened()
        rows = await self._patiently(lambda: self.run_one(statements.EXISTS, {"table": f"{self.address.schema}.midturn"}))
        if not next(iter(rows[0].values())):
            return 0
        found = await self._patiently(lambda: self.run_one(statements.CURRENT, {}))
        return int(found[0]["version"]) if found else 0

    async def upgrade(self) -> tuple[int, int]:
        """Make the tables, or bring them up to date; return the version before and after."""
        await self._opened()
        before = await self.version()
        async with self._connection() as connection, connection.transaction():
            await connection.execute("select pg_advisory_xact_lock(%s, 0)", [self._class])
            await connection.execute(self._text(statements.CREATE))
            row = await (await connection.execute(self._text(statements.CURRENT))).fetchone()
            for number in range(int(row["version"] if row else 0) + 1, statements.VERSION + 1):
                await connection.execute(self._text(statements.MIGRATIONS[number]))
                await connection.execute(self._text(statements.SET_VERSION.replace("{version}", str(number))))
        return before, statements.VERSION

    async def close(self) -> None:
        """End all sessions. Later calls are told that the store is closed."""
        session, self._session = self._session, None
        pool, self._pool = self._pool, None
        if session is not None:
            await end_tasks([session])
        if pool is not None:
            await pool.close()

    # ----------------------------------------------------------------------------------------------------------------------

    async def _opened(self) -> None:
        if self._pool is None:
            logging.getLogger("psycopg.pool").addFilter(_POOL_MESSAGES)
            connection = {"autocommit": True, "prepare_threshold": None, "row_factory": dict_row, **_KEEPALIVE}
            self._pool = AsyncConnectionPool(
                self.address.url, min_size=0, max_size=8, max_idle=SPARE, open=False, timeout=5, kwargs=connection
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
            await self._patiently(self.upgrade)
        elif version != statements.VERSION:
            where = f"The schema `{self.address.schema}` at {self.address.shown}"
            remedy = "Upgrade the store first." if version < statements.VERSION else "A newer midturn wrote it: use that one."
            raise StoreError(f"{where} has version {version}; this midturn needs version {statements.VERSION}. {remedy}")

    def _connection(self) -> contextlib.AbstractAsyncContextManager[psycopg.AsyncConnection[DictRow]]:
        if self._pool is None:
            raise StoreError("The store is closed.")
        return self._pool.connection()

    async def run_one(self, statement: str, parameters: StatementParameters) -> Rows:
        """Run one statement once, on any connection of the pool."""
        async with self._connection() as connection:
            cursor = await connection.execute(self._text(statement), parameters)
            return await cursor.fetchall() if cursor.description else []

    def _text(self, statement: str) -> sql.Composed:
        text = self._texts.get(statement)
        if text is None:
            raw = sql.SQL(cast("LiteralString", statement))
            text = raw.format(s=sql.Identifier(self.address.schema), c=sql.Literal(self._class), n=sql.Literal(self.address.schema))
            self._texts[statement] = text
        return text

    async def _patiently(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Try again while the database is away: it may be restarting."""
        began = time.monotonic()
        tries = 0
        while True:
            try:
                done = await attempt()
            except _GONE as gone:
                error = await _reason(self.address.url, gone) if isinstance(gone, PoolTimeout) else gone
                if _is_refusal(error):
                    raise StoreError(f"{self.address.shown} cannot be reached: {_words(error)}") from error
                if tries >= _SAID_AFTER or isinstance(gone, PoolTimeout):  # for seconds, there was no connection
                    self._away.noticed("%s is away (%s); waiting for it, for up to %.0f s", self.address.shown, _words(error), self.outage)
                if time.monotonic() - began > self.outage:
                    raise StoreAway(f"{self.address.shown} cannot be reached: {_words(error)}") from error
                await asyncio.sleep(_PAUSES[min(tries, len(_PAUSES) - 1)])
                tries += 1
            except (psycopg.Error, UnicodeEncodeError) as error:  # the latter: half a character, of which no text in a database is made
                raise StoreError(f"{self.address.shown} refused: {_words(error)}") from error
            else:
                self._away.over()
                return done

    # The session that lives as long as the process ---------------------------------------------------------------------------

    async def _live(self, holder: int) -> None:
        """Hold this process's advisory lock and listen, in one session after the other, for as long as the process lives."""
        tries, ended = 0, 0.0
        while True:
            try:
                connection = await psycopg.AsyncConnection.connect(self.address.direct, autocommit=True, **_KEEPALIVE)
                async with connection:
                    await self._announce(connection, holder)
                    tries = 0
                    self._deaf.over()
                    self._listening.set()
                    self.bells.ring_all()
                    await self._listen(connection)
            except (psycopg.Error, PoolTimeout, StoreError) as error:
                _LOG.debug("the session with %s ended, and is begun anew: %s", self.address.shown, _words(error))
                ended = time.monotonic() if tries == 0 else ended
                if time.monotonic() - ended > _DEAF_AFTER and not self._away.is_on:  # what is away as a whole is said once
                    self._deaf.noticed("the session with %s cannot be begun: %s", self.address.shown, _words(error))
                await asyncio.sleep(_PAUSES[min(tries, len(_PAUSES) - 1)])
                tries += 1

    async def _announce(self, connection: psycopg.AsyncConnection, holder: int) -> None:
        await connection.execute(f"set idle_session_timeout = '{HUNG}'")
        await connection.execute("select pg_advisory_lock(%s, %s)", [self._class, holder])
        self._hears_stirs = False
        self.removals.lose()
        for channel in (self.due_channel, self.channel(holder)):
            await connection.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))
        await self._hear_stirs(connection)

    async def _hear_stirs(self, connection: psycopg.AsyncConnection) -> None:
        """Listen to what happens to questions once a program watches: workers are not woken by it."""
        if self._wants_stirs and not self._hears_stirs:
            await connection.execute(sql.SQL("listen {}").format(sql.Identifier(self.stirred_channel)))
            self._hears_stirs = True
            self.removals.begin()
            self.bells.ring(STIRRED)

    async def _listen(self, connection: psycopg.AsyncConnection) -> None:
        pinged = looked = time.monotonic()
        named = {self.due_channel: DUE, self.stirred_channel: STIRRED}
        while True:
            async for notification in connection.notifies(timeout=ORPHANED, stop_after=1):
                if notification.channel == self.stirred_channel and _ID.fullmatch(notification.payload):  # any user may notify
                    self.removals.note(notification.payload)
                self.bells.ring(named.get(notification.channel, notification.payload))
            await self._hear_stirs(connection)
            now = time.monotonic()
            if now - pinged >= PING:
                await connection.execute("select 1")
                pinged = now
            if now - looked >= ORPHANED:
                await self.give_back_orphans()
                looked = now

    async def give_back_orphans(self) -> None:
        """Give back what the table says is ours and memory says is not: a claim's acknowledgement was lost, or the claim was given up."""
        before = dict(self.held)
        for row in await self.run_one(statements.MINE, {"holder": self._holder}):
            if row["id"] not in before and row["id"] not in self.held:
                await self.release(row["id"], row["fence"], handed_seq=-1, again="now")

    async def release(self, id: str, fence: int, *, handed_seq: int, again: str | None, deadline: str = "") -> None:
        """Let go of a conversation.

        `again` says when a worker must look: `now`, `later` (after a pause that doubles), or, where it is None, after the deadline, if any.
        """
        self.held.pop(id, None)
        given = {"id": id, "fence": fence, "handed_seq": handed_seq, "again": again, "channel": self.due_channel}
        given["deadline"] = deadline or None
        await self.rows(statements.RELEASE, given)


async def _reason(url: str, waited: PoolTimeout) -> Exception:
    """Return why the pool has no connection for us: it keeps that to itself."""
    try:
        connection = await psycopg.AsyncConnection.connect(url, **_KEEPALIVE)
    except psycopg.Error as error:
        return error
    await connection.close()
    return waited


_KEEPALIVE: dict[str, Any] = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3, "connect_timeout": 5}


def handed_payloads(row: DictRow) -> Sequence[bytes]:
    """Return what was handed over, as it stands in a row."""
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
"""Words of the server and of its library, which give no other reason for a connection that does not come about."""


def _is_refusal(error: Exception) -> bool:
    """Say whether waiting is of no use: a wrong password, an unknown database, an option that there is none of."""
    state = getattr(error, "sqlstate", None) or ""
    text = str(error)
    return state.startswith(("28", "3D")) or any(words in text for words in _REFUSALS)


def _words(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
