"""Looking after the tables: are they what the events say, and if not, computing them again."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from msgspec import Struct

from midturn.core.codec import decode_lines
from midturn.core.stream.window import open_turn
from midturn.core.turn.pending import pending
from midturn.store.postgres import statements
from midturn.store.postgres.database import Database
from midturn.store.postgres.turn_state import TurnState

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
    state = TurnState.of(events)
    window = open_turn(events)
    asking = bool(window and pending(window.events, conversation))
    return {"head": len(lines), "turn_at": state.turn_at, "unfinished": state.unfinished, "asking": asking, "answered": state.answered}
