"""Looking after the tables: are they what the events say, and if not, computing them again."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from msgspec import Struct

from midturn.core.codec import decode_lines
from midturn.store.postgres import statements
from midturn.store.postgres.database import Database
from midturn.store.postgres.turn_row import TurnRow

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
