"""The `StorePort` for PostgreSQL, and the public store class that is based on it."""

from __future__ import annotations

import itertools
import time
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from hashlib import sha256
from typing import Any, cast

import msgspec
from msgspec import Struct

from midturn.clock import now
from midturn.errors import Busy
from midturn.events.codec import decode_lines
from midturn.events.open_question import OpenQuestion, parse_address, parse_beginning
from midturn.events.window import last_turn
from midturn.question.json_value import DEFAULT_LIMITS, Limits
from midturn.stores.claims import patiently
from midturn.stores.conversation import Conversation
from midturn.stores.decisions import is_due
from midturn.stores.log_tail import TURN, Mark, Part
from midturn.stores.metadata import Metadata, decode_metadata, title
from midturn.stores.port import (
    ChangeCursor,
    CommittedBatch,
    Decide,
    LastTurn,
    LockedBy,
    MayGo,
    Which,
    following,
)
from midturn.stores.postgres import statements
from midturn.stores.postgres.database import Database, Rows
from midturn.stores.postgres.interrupted import ready_or_interrupted
from midturn.stores.postgres.journal import PostgresJournal, TurnRow
from midturn.stores.postgres.own_loop import DatabaseAddress, OwnLoop, parse_database_address
from midturn.stores.postgres.transactions import TRIES, ConversationRows, Holding, Settling
from midturn.stores.queued_answer import QueuedAnswer
from midturn.stores.store import ConversationStore
from midturn.turn.pending import pending
from midturn.turn.view import TurnView

_PAGE = 500
# number of events per turn that are searched first for the start of the turn; usually enough
_WIDTH = 64
_ALL = 1 << 62


class _Place(Struct, frozen=True):
    """State of one reader of the feed after a call of `lengths`.

    Args:
        now: Number of the oldest transaction that was running.
        session: Number of the session that listened for removals; 0 if some may be missing.
        removed: Number of removals that this session was notified of.
    """

    now: str
    session: int
    removed: int


class PostgresKeyValueStore:
    """Small named values, in the table `kept`."""

    def __init__(self, database: Database, loop: OwnLoop) -> None:
        self._database = database
        self._loop = loop

    async def kept(self, beginning: str) -> Mapping[str, bytes]:
        """Return the values whose names start with `beginning`."""
        return await self._loop.run(self._found(beginning))

    async def keep(self, name: str, content: bytes | None) -> None:
        """Store a value under a name; None removes it."""
        await self._loop.run(self._keep(name, content))

    async def _found(self, beginning: str) -> Mapping[str, bytes]:
        if not (await self._database.rows(statements.HAS_KEPT))[0]["there"]:
            return {}
        rows = await self._database.rows(statements.KEPT, {"beginning": beginning})
        return {row["name"]: row["content"] for row in rows}

    async def _keep(self, name: str, content: bytes | None) -> None:
        if not (await self._database.rows(statements.HAS_KEPT))[0]["there"]:
            await self._database.rows(statements.MAKE_KEPT)
        given = {"name": name} if content is None else {"name": name, "content": content}
        await self._database.rows(statements.FORGET if content is None else statements.KEEP, given)


class PostgresChangeFeed:
    """The change feed of conversations in a database. A length is a number of events."""

    def __init__(self, database: Database, loop: OwnLoop) -> None:
        self._database = database
        self._loop = loop

    async def wait_for_change(self, since: int) -> int:
        """Wait until a question was asked or closed, or a turn began or ended, at most five
        seconds.
        """
        return await self._loop.run(self._database.wait_for_change(since))

    async def lengths(self, since: ChangeCursor | None = None) -> ChangeCursor:
        """Return the number of events of each conversation that was written after `since`, or of
        each conversation without `since`.
        """
        return await self._loop.run(
            self._grown(since.token if since and isinstance(since.token, _Place) else None)
        )

    async def _grown(self, before: _Place | None) -> ChangeCursor:
        session, removed = self._database.removals.session, len(self._database.removals.ids)
        rows = await self._database.rows(
            statements.GROWN, {"since": before.now if before else None}
        )
        lengths = {row["id"]: row["head"] for row in rows if row["id"] is not None}
        heard = before is not None and session > 0 and session == before.session
        gone = self._database.removals.ids[before.removed : removed] if before and heard else None
        return ChangeCursor(lengths, _Place(rows[0]["now"], session, removed), gone)

    async def events_within(self, id: str, length: int) -> int:
        """Return the length: it is counted in events."""
        del id
        return length


class PostgresConversations:
    """One schema of one database. The tables are created on first use, and the connections
    belong to a separate thread.
    """

    needs_loop = True
    is_for_people = False
    is_own = False

    def __init__(self, address: DatabaseAddress, limits: Limits = DEFAULT_LIMITS) -> None:
        self.address = address
        self.database = Database(address)
        self.loop = OwnLoop(f"midturn: {address.shown}", self.database.close)
        self._rows = ConversationRows(self.database, limits)
        self._holding = Holding(self._rows, self.loop)
        self._settling = Settling(self._rows)
        self._heard = 0
        self.beside = PostgresKeyValueStore(self.database, self.loop)
        """Small named values stored with the conversations."""
        self.growing = PostgresChangeFeed(self.database, self.loop)
        """The change feed of the conversations."""

    @property
    def place(self) -> str:
        """Name of this schema."""
        return f"{self.address.shown}#{self.address.schema}"

    @property
    def limits(self) -> Limits:
        """Limits of a batch of events."""
        return self._rows.limits

    # Locking
    # ----------------------------------------------------------------------------------------------

    async def create(self, first_words: str) -> PostgresJournal:
        """Create and lock a conversation."""
        metadata = Metadata(title=title(first_words), created_at=now())
        return await self.loop.run(
            self._holding.create(metadata), unclaimed=self._holding.give_back
        )

    async def open(self, id: str) -> PostgresJournal:
        """Lock a conversation."""
        return await self.loop.run(self._holding.open(id), unclaimed=self._holding.give_back)

    async def claim(
        self, limit: int = 1, without: Collection[str] = ()
    ) -> Sequence[PostgresJournal]:
        """Lock conversations that are due and free."""
        return await self.loop.run(
            self._holding.claim(limit, list(without)), unclaimed=self._holding.give_all_back
        )

    @asynccontextmanager
    async def alone(self, name: str) -> AsyncGenerator[None]:
        """Run the block while no other block runs for the same name, in any process."""
        taken = await patiently(
            lambda: self.loop.run(self.database.taken(name), unclaimed=self.database.left)
        )
        try:
            yield
        finally:
            await self.loop.run(self.database.left(taken))

    # Workers
    # ----------------------------------------------------------------------------------------------

    async def wait_for_work(self) -> None:
        """Wait until a conversation may have become due since the last call, at most a second."""
        self._heard = await self.loop.run(
            self.database.due(self._heard)
        )  # notifications during a claim are counted as well

    # Answers
    # ----------------------------------------------------------------------------------------------

    async def settle(self, id: str, decide: Decide) -> CommittedBatch | LockedBy:
        """Append the events that `decide` returns, in one statement. If another process wrote
        first, call `decide` again.
        """
        return await self.loop.run(self._settling.settle(id, decide))

    async def look(self, id: str) -> CommittedBatch | LockedBy:
        """Return the last turn, and the process that locked the conversation, if any."""
        return await self.settle(id, lambda _: ())

    async def queue_answer(self, held: LockedBy, answer: QueuedAnswer) -> bool:
        """Queue an answer for the process that locked the conversation."""
        return await self.loop.run(self._settling.queue_answer(held, answer))

    async def questions(
        self, prefix: str = "", *, after: str | None = None, limit: int | None = None
    ) -> list[OpenQuestion]:
        """Return open questions whose address begins with `prefix`, by conversation, the oldest
        first.
        """
        return await self.loop.run(self._questions(prefix, after, _ALL if limit is None else limit))

    async def _questions(self, prefix: str, after: str | None, limit: int) -> list[OpenQuestion]:
        conversation, is_whole = parse_beginning(prefix)
        last = parse_address(after) if after else None
        first = max(conversation, last.conversation if last else "")
        found: list[OpenQuestion] = []
        while len(found) < limit:
            page = min(_PAGE, limit + 1)
            given = {"first": first, "only": conversation if is_whole else None, "limit": page}
            rows = await self.database.rows(statements.ASKING, given)
            for row in rows:
                asked = pending(self._rows.events(row["id"], row["lines"]), row["id"])
                found += following(
                    [question for question in asked if question.id.startswith(prefix)], after
                )
            if len(rows) < page or (conversation and not rows[-1]["id"].startswith(conversation)):
                break
            first = rows[-1]["id"] + "0"  # the next id as text
        return found[:limit]

    # Reading, keys, deadlines and metadata
    # ----------------------------------------------------------------------------------------------

    async def ids(
        self, *, after: str | None = None, limit: int | None = None, which: Which = "all"
    ) -> list[str]:
        """Return ids of conversations, oldest first."""
        most = _ALL if limit is None else limit
        if which == "ready_or_interrupted":
            return (
                await self.loop.run(ready_or_interrupted(self.database, self._rows, after or ""))
            )[:most]
        return [
            row["id"]
            for row in await self.loop.run(
                self.database.rows(statements.IDS[which], {"after": after or "", "limit": most})
            )
        ]

    async def find_key(self, key: str) -> str | None:
        """Return the conversation that has this key."""
        return await self.loop.run(self._find_key(_digest(key)))

    async def assign_key(self, key: str, id: str) -> str:
        """Give a key to a conversation, unless an existing conversation has it."""
        return await self.loop.run(self._assign_key(_digest(key), id))

    async def _find_key(self, digest: bytes) -> str | None:
        if not (await self.database.rows(statements.HAS_KEYS))[0]["there"]:
            return None
        rows = await self.database.rows(statements.FIND_KEY, {"key": digest})
        return rows[0]["conversation"] if rows else None

    async def _assign_key(self, digest: bytes, id: str) -> str:
        if not (await self.database.rows(statements.HAS_KEYS))[0]["there"]:
            await self.database.change_tables(statements.MAKE_KEYS)
        while True:
            await self.database.rows(statements.ASSIGN_KEY, {"key": digest, "id": id})
            rows = await self.database.rows(statements.FIND_KEY, {"key": digest})
            if rows:  # otherwise the conversation with the key was removed in between
                return rows[0]["conversation"]

    async def overdue(self, now: str) -> list[str]:
        """Return conversations that may have a question whose deadline has passed, according to
        the database's clock.
        """
        del now
        return [row["id"] for row in await self.loop.run(self.database.rows(statements.OVERDUE))]

    async def newest(self, limit: int, before: str = "") -> list[str]:
        """Return the newest conversations that contain events, the newest first."""
        given = {"limit": limit, "first": before or "~"}
        return [
            row["id"] for row in await self.loop.run(self.database.rows(statements.NEWEST, given))
        ]

    async def described(
        self, *, after: str = "", limit: int = _PAGE, only: Collection[str] | None = None
    ) -> list[tuple[str, Metadata]]:
        """Return the metadata of a page of the conversations, oldest first."""
        given = {"after": after, "limit": limit, "only": None if only is None else list(only)}
        rows = await self.loop.run(self.database.rows(statements.LISTED, given))
        return [(row["id"], self._rows.metadata(row["id"], row["metadata"])[0]) for row in rows]

    async def read(self, id: str) -> Conversation:
        """Read a conversation."""
        row = await self.loop.run(self._rows.whole(id))
        metadata, problem = self._rows.metadata(id, row["metadata"])
        events = self._rows.events(id, cast("list[bytes]", row["lines"]))
        return Conversation(id, events, metadata=metadata, problems=[problem] if problem else [])

    async def part(self, id: str, mark: Mark) -> Part:
        """Return some megabytes of events."""
        row = await self.loop.run(self._rows.part(id, mark.offset))
        metadata, problem = self._rows.metadata(id, row["metadata"])
        lines = cast("list[bytes]", row["lines"])
        after = mark.offset + len(lines)
        more = after < cast("int", row["head"])
        return Part(
            lines=lines,
            metadata=metadata,
            decode=lambda: self._rows.events(id, lines, mark.number),
            following=Mark(after, mark.number + len(lines)) if more else None,
            problems=[problem] if problem and not more else [],
        )

    async def last_turns(self, id: str, count: int, before: int | None = None) -> Mark:
        """Return the start of the last turns. Without `before`, only the end of the conversation is
        searched; with `before`, all turns are counted.
        """
        begins = TURN.removeprefix(b"\n")
        given = {"id": id, "begins": begins, "length": len(begins), "count": count}
        if before is None:
            return await self.loop.run(self._from_the_end(given, count))
        found = await self.loop.run(
            self.database.rows(statements.TURNS_BEFORE, {**given, "before": before})
        )
        return (
            Mark(found[0]["position"], found[0]["position"] + 1, found[0]["number"] - 1)
            if found
            else Mark()
        )

    async def _from_the_end(self, given: Mapping[str, object], count: int) -> Mark:
        width = _WIDTH * count
        while rows := await self.database.rows(statements.LAST_TURNS, {**given, "width": width}):
            if len(rows[0]["turns"]) == count:
                return Mark(rows[0]["turns"][-1], rows[0]["turns"][-1] + 1)
            if width >= rows[0]["head"]:
                break
            width *= 8
        return Mark()

    async def lines(self, id: str) -> list[bytes]:
        """Return the lines of a conversation byte for byte."""
        return list(cast("list[bytes]", (await self.loop.run(self._rows.whole(id)))["lines"]))

    async def add(self, lines: Iterable[bytes], metadata: Metadata, id: str | None = None) -> str:
        """Create a conversation from existing lines."""
        return await self.loop.run(self._add(list(lines), metadata, id))

    async def _add(self, lines: list[bytes], metadata: Metadata, wanted: str | None) -> str:
        events = self._rows.events("new", lines)
        given = {
            "metadata": msgspec.json.encode(metadata.to_json()),
            "due": is_due(LastTurn(last.events)) if (last := last_turn(events)) else False,
            "deadline": TurnView(last).first_deadline or None,
            **TurnRow(events).given(0, events),
        }
        now_number = time.time_ns() // 1_000
        for id in itertools.chain(  # noqa: A001  the common name of IDs
            [wanted] if wanted else [], map(str, itertools.count(now_number))
        ):
            if await self.database.once(
                statements.ADD,
                {**given, "id": id, "lines": lines},
                partial(_added, self.database, id, lines),
            ):
                self.database.notify(self.database.due_channel, id)
                self.database.notify(self.database.change_channel)
                return id
        raise AssertionError("numbers do not end")

    async def describe(self, id: str, **changes: str | tuple[str, ...]) -> Metadata:
        """Change single fields of the metadata.

        All other fields are kept, including keys that other versions wrote.
        """
        return await self.loop.run(self._describe(id, changes))

    async def _describe(self, id: str, changes: dict[str, str | tuple[str, ...]]) -> Metadata:
        for _ in range(TRIES):
            rows = await self.database.rows(statements.METADATA, {"id": id})
            if not rows:
                raise self._rows.unknown(id)
            before = cast("bytes", rows[0]["metadata"])
            changed = msgspec.structs.replace(decode_metadata(before), **changes)
            given = {"id": id, "before": before, "metadata": msgspec.json.encode(changed.to_json())}
            if await self.database.rows(statements.DESCRIBE, given):
                return changed
        raise Busy(
            f"Other processes keep changing the metadata of conversation {id}. Try again in a"
            " moment."
        )

    async def remove(self, id: str, may_go: MayGo | None = None) -> bool:
        """Remove a conversation permanently."""
        return await self.loop.run(
            self._remove(id) if may_go is None else self._settling.remove(id, may_go)
        )

    async def _remove(self, id: str) -> bool:
        if not await self.database.rows(
            statements.REMOVE,
            {"id": id, "fence": None, "head": None, "stirred": self.database.change_channel},
        ):
            raise await self._rows.refusal(id)
        return True


def _digest(key: str) -> bytes:
    return sha256(key.encode()).digest()


async def _added(database: Database, id: str, lines: list[bytes]) -> Rows | None:
    """Return the row if a statement whose acknowledgement was lost created the conversation."""
    rows = await database.rows(statements.READ, {"id": id})
    return rows if rows and list(rows[0]["lines"]) == lines else None


# --------------------------------------------------------------------------------------------------
# Maintenance of the tables: comparing them with the events, and computing them again


_MOVED = 100


class Difference(Struct, frozen=True):
    """A conversation whose row differs from its events; `found` and `expected` by column."""

    conversation: str
    found: dict[str, Any]
    expected: dict[str, Any]

    def __str__(self) -> str:
        wrong = [
            f"{column} is {self.found[column]}, not {value}"
            for column, value in self.expected.items()
            if self.found[column] != value
        ]
        return f"{self.conversation}: {', '.join(wrong)}"


async def differences(database: Database) -> AsyncGenerator[tuple[Difference, int]]:
    """Yield each conversation whose row is wrong, with the fence of the row when it was read."""
    after = ""
    while rows := await database.rows(statements.WHOLE, {"after": after, "limit": _MOVED}):
        for row in rows:
            expected = _expected(row["id"], row["lines"])
            found = {column: row[column] for column in expected}
            if found != expected:
                yield Difference(row["id"], found, expected), row["fence"]
        after = rows[-1]["id"]


async def reindex(database: Database) -> int:
    """Correct the wrong rows; return their number. A row that another process writes at the same
    time is skipped.
    """
    mended = 0
    async for difference, fence in differences(database):
        given = {"id": difference.conversation, "fence": fence, **difference.expected}
        mended += len(await database.rows(statements.MEND, given))
    return mended


def _expected(conversation: str, lines: list[bytes]) -> dict[str, Any]:
    events = decode_lines(lines, conversation)
    row = TurnRow(events)
    asking = bool(row.waiting)
    return {
        "head": len(lines),
        "turn_at": row.turn_at,
        "unfinished": row.unfinished,
        "asking": asking,
        "answered": row.answered,
    }


class PostgresStore(ConversationStore):
    """Conversations in one schema of a database, for any number of processes on any number of
    machines.
    """

    def __init__(self, url: str, limits: Limits = DEFAULT_LIMITS) -> None:
        """Create a store at `postgresql://…?midturn_schema=NAME&midturn_direct=URL`. It connects on
        first use.

        Args:
            url: Address for `libpq`. `midturn_schema` names the schema (default: `midturn`).
                `midturn_direct` is an address that bypasses a pooler in transaction mode; each
                process keeps one session there. It is required if `url` uses such a pooler.
            limits: Limits of a batch.

        Raises:
            ConfigError: The name of the schema is not allowed.
        """
        self.database = PostgresConversations(parse_database_address(url), limits)
        """The conversations in the database."""
        super().__init__(self.database)

    async def upgrade(self) -> tuple[int, int]:
        """Create or upgrade the tables; return their version before and after. Concurrent calls
        wait for each other.

        Raises:
            StoreError: The role may not create tables in the database.
        """
        return await self.database.loop.run(self.database.database.upgrade())

    async def check(self) -> list[str]:
        """Compare the tables with the events, which are authoritative; return a line for each
        conversation that differs.
        """
        return await self.database.loop.run(self._check())

    async def _check(self) -> list[str]:
        return [str(difference) async for difference, _ in differences(self.database.database)]

    async def reindex(self) -> int:
        """Correct the rows that differ from the events; return their number."""
        return await self.database.loop.run(reindex(self.database.database))

    def upgrade_sync(self) -> tuple[int, int]:
        """Create or upgrade the tables, see `upgrade`."""
        return self.run_sync("upgrade", self.upgrade())

    def check_sync(self) -> list[str]:
        """Compare the tables with the events, see `check`."""
        return self.run_sync("check", self.check())

    def reindex_sync(self) -> int:
        """Compute the tables from the events, see `reindex`."""
        return self.run_sync("reindex", self.reindex())
