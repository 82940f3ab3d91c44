"""A store in PostgreSQL, as programs use it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from msgspec import Struct

from midturn.record.codec import decode_lines
from midturn.store.postgres import statements
from midturn.store.postgres.conversations import PostgresConversations
from midturn.store.postgres.database import Database
from midturn.store.postgres.journal import TurnRow
from midturn.store.postgres.own_loop import parse_database_address
from midturn.store.store import ConversationStore
from midturn.values.limits import DEFAULT_LIMITS, Limits

# ----------------------------------------------------------------------------------------------------------------------
# Looking after the tables: are they what the events say, and if not, computing them again


_PAGE = 100


class Difference(Struct, frozen=True):
    """A conversation whose row does not say what its events say; `found` and `expected` by column."""

    conversation: str
    found: dict[str, Any]
    expected: dict[str, Any]

    def __str__(self) -> str:
        wrong = [f"{column} is {self.found[column]}, not {value}" for column, value in self.expected.items() if self.found[column] != value]
        return f"{self.conversation}: {', '.join(wrong)}"


async def differences(database: Database) -> AsyncGenerator[tuple[Difference, int]]:
    """Yield each conversation whose row is wrong, with its fence; those that change meanwhile are looked at as they were."""
    after = ""
    while rows := await database.rows(statements.WHOLE, {"after": after, "limit": _PAGE}):
        for row in rows:
            expected = _expected(row["id"], row["lines"])
            found = {column: row[column] for column in expected}
            if found != expected:
                yield Difference(row["id"], found, expected), row["fence"]
        after = rows[-1]["id"]


async def reindex(database: Database) -> int:
    """Compute what is wrong again; return how many conversations were mended. What others write meanwhile is left to them."""
    mended = 0
    async for difference, fence in differences(database):
        given = {"id": difference.conversation, "fence": fence, **difference.expected}
        mended += len(await database.rows(statements.MEND, given))
    return mended


def _expected(conversation: str, lines: list[bytes]) -> dict[str, Any]:
    events = decode_lines(lines, conversation)
    row = TurnRow(events)
    asking = bool(row.waiting)
    return {"head": len(lines), "turn_at": row.turn_at, "unfinished": row.unfinished, "asking": asking, "answered": row.answered}


class PostgresStore(ConversationStore):
    """Conversations in one schema of a database, for any number of processes on any number of machines."""

    def __init__(self, url: str, limits: Limits = DEFAULT_LIMITS) -> None:
        """Stand on `postgresql://…?midturn_schema=NAME&midturn_direct=URL`; nothing is connected before the first use.

        Args:
            url: As `libpq` reads it. `midturn_schema` names the schema (`midturn` without it); `midturn_direct` is an address that leads
                around a pooler in transaction mode, for the one session that each process keeps.
            limits: What a batch may hold.

        Raises:
            ConfigError: The name of the schema is not allowed.
        """
        self.database = PostgresConversations(parse_database_address(url), limits)
        """The database itself."""
        super().__init__(self.database)

    async def upgrade(self) -> tuple[int, int]:
        """Make the tables, or bring them up to date; return their version before and after. Several at once wait for each other.

        Raises:
            StoreError: The database refuses: the role may not create tables in it.
        """
        return await self.database.loop.run(self.database.database.upgrade())

    async def check(self) -> list[str]:
        """Compare the tables with the events, which are the truth; return a line for each conversation that differs."""
        return await self.database.loop.run(self._check())

    async def _check(self) -> list[str]:
        return [str(difference) async for difference, _ in differences(self.database.database)]

    async def reindex(self) -> int:
        """Compute the tables from the events where they differ; return how many conversations that were."""
        return await self.database.loop.run(reindex(self.database.database))

    def upgrade_sync(self) -> tuple[int, int]:
        """Make the tables, or bring them up to date, see `upgrade`."""
        return self.run_sync("upgrade", self.upgrade())

    def check_sync(self) -> list[str]:
        """Compare the tables with the events, see `check`."""
        return self.run_sync("check", self.check())

    def reindex_sync(self) -> int:
        """Compute the tables from the events, see `reindex`."""
        return self.run_sync("reindex", self.reindex())
