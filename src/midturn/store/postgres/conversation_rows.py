"""What the rows of one schema say about a conversation, and what is said where they say nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from midturn.core.codec import decode_lines
from midturn.core.events import Event
from midturn.core.limits import Limits
from midturn.errors import Busy, StoreError, StoreLocked
from midturn.store.batch import encode_batch
from midturn.store.metadata import Metadata, decode_metadata
from midturn.store.port import HeldBy, LastTurn
from midturn.store.postgres import statements
from midturn.store.postgres.database import Database, handed_payloads
from midturn.store.postgres.journal import decode_handed

TRIES = 100
"""How often something is decided again where others were faster."""


class ConversationRows:
    """Reads rows and writes lines as they stand in them. It runs in the database's loop."""

    def __init__(self, database: Database, limits: Limits) -> None:
        self.database = database
        self.limits = limits
        self._address = database.address

    # Reading --------------------------------------------------------------------------------------------------------------

    async def whole(self, id: str) -> dict[str, object]:
        """Return the row of a conversation with all of its lines.

        Raises:
            StoreError: There is none.
        """
        return await self._row(statements.READ, id)

    async def last_turn(self, id: str) -> dict[str, object]:
        """Return the row of a conversation with the lines of its last turn.

        Raises:
            StoreError: There is none.
        """
        return await self._row(statements.LAST_TURN, id)

    async def _row(self, statement: str, id: str) -> dict[str, object]:
        rows = await self.database.rows(statement, {"id": id})
        if not rows:
            raise self.unknown(id)
        return rows[0]

    def events(self, id: str, lines: Sequence[bytes]) -> list[Event]:
        """Return what lines say."""
        return decode_lines(lines, f"{self._address.shown}/{id}", limits=self.limits)

    def metadata(self, id: str, content: object) -> tuple[Metadata, str]:
        """Return what a conversation is called, and what is wrong with that, if anything."""
        try:
            return decode_metadata(cast("bytes", content)), ""
        except ValueError as error:
            return Metadata(), f"The metadata of {id} at {self._address.shown}: {error}. The conversation is read without it."

    def turn(self, id: str, row: dict[str, object]) -> LastTurn:
        """Return a last turn as it stands in its row."""
        return LastTurn(self.events(id, cast("list[bytes]", row["lines"])), decode_handed(handed_payloads(row)))

    def encoded(self, batch: Sequence[Event]) -> list[bytes]:
        """Return the lines of a batch as they stand in rows: without newlines."""
        return [line.removesuffix(b"\n") for line in encode_batch(batch, self.limits)]

    # Who holds it ---------------------------------------------------------------------------------------------------------

    def held_by(self, id: str, row: dict[str, object], turn: LastTurn) -> HeldBy:
        """Return who holds a conversation, as its row says."""
        token = (row["holder"], row["fence"])
        return HeldBy(conversation=id, turn=turn, holder=self._in_words(row["holder"]), since=str(row["held_since"]), token=token)

    async def refusal(self, id: str) -> StoreError:
        """Return why a conversation cannot be held: somebody else holds it, or there is none."""
        rows = await self.database.rows(statements.WHO_HOLDS, {"id": id})
        if not rows:
            return self.unknown(id)
        since = rows[0]["held_since"]
        holder = self._in_words(rows[0]["holder"])
        when = f" since {since:%Y-%m-%d %H:%M:%S}" if since else ""
        message = f"The conversation {id} is being written by {holder}{when}. Wait until it is done, or end it."
        return StoreLocked(message, holder, str(since or ""))

    def unknown(self, id: str) -> StoreError:
        """Return what is said of a conversation that is not here."""
        return StoreError(f"There is no conversation {id!r} in the schema `{self._address.schema}` at {self._address.shown}.")

    def busy(self, id: str) -> Busy:
        """Return what is said where others were faster again and again."""
        return Busy(f"Others write conversation {id} again and again. Try again in a moment.")

    def _in_words(self, holder: object) -> str:
        return f"process {holder} of {self._address.schema}"
