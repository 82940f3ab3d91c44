"""Taking conversations of a database, to be their one writer, and giving them back."""

from __future__ import annotations

import time
from collections.abc import Sequence
from operator import itemgetter
from typing import cast

import msgspec

from midturn.store.metadata import Metadata
from midturn.store.postgres import statements
from midturn.store.postgres.conversation_rows import ConversationRows
from midturn.store.postgres.journal import HeldRow, PostgresJournal
from midturn.store.postgres.own_loop import OwnLoop


class Holding:
    """Makes journals. Everything here runs in the database's loop; the journals do their work there, too."""

    def __init__(self, rows: ConversationRows, loop: OwnLoop) -> None:
        self._rows = rows
        self._database = rows.database
        self._loop = loop

    async def create(self, metadata: Metadata) -> PostgresJournal:
        """Begin a conversation, and hold it."""
        holder = await self._database.holder()
        id = await self._insert(metadata, holder)  # noqa: A001  what the wire calls it
        self._database.held[id] = 1
        return self._journal(HeldRow(id, 1, 0, 0), [])

    async def open(self, id: str) -> PostgresJournal:
        """Hold a conversation.

        Raises:
            StoreLocked: Somebody else does.
            StoreError: There is none.
        """
        holder = await self._database.holder()
        rows = await self._database.rows(statements.HOLD, {"id": id, "holder": holder})
        if not rows and await self._is_orphan(id, holder):  # a statement was acknowledged to nobody, and ran again
            await self._database.give_back_orphans()
            rows = await self._database.rows(statements.HOLD, {"id": id, "holder": holder})
        if not rows:
            raise await self._rows.refusal(id)
        return await self._loaded(rows[0])

    async def claim(self, limit: int) -> list[PostgresJournal]:
        """Hold conversations that are due and free."""
        holder = await self._database.holder()
        rows = sorted(await self._database.rows(statements.CLAIM, {"holder": holder, "limit": limit}), key=itemgetter("id"))
        for row in rows:
            self._database.held[row["id"]] = row["fence"]
        return [await self._loaded(row) for row in rows]

    async def give_back(self, journal: PostgresJournal) -> None:
        """Let go of a conversation that nobody waits for any more."""
        fence = self._database.held.get(journal.conversation, 0)
        await self._database.release(journal.conversation, fence, handed_seq=-1, again="now")

    async def give_all_back(self, journals: Sequence[PostgresJournal]) -> None:
        """Let go of several."""
        for journal in journals:
            await self.give_back(journal)

    async def _insert(self, metadata: Metadata, holder: int | None) -> str:
        number = time.time_ns() // 1_000
        content = msgspec.json.encode(metadata.to_json())
        while not await self._database.rows(statements.INSERT, {"id": str(number), "metadata": content, "holder": holder}):
            number += 1
        return str(number)

    async def _is_orphan(self, id: str, holder: int) -> bool:
        rows = await self._database.rows(statements.WHO_HOLDS, {"id": id})
        return bool(rows) and rows[0]["holder"] == holder and id not in self._database.held

    async def _loaded(self, row: dict[str, object]) -> PostgresJournal:
        held = HeldRow(cast("str", row["id"]), cast("int", row["fence"]), cast("int", row["head"]), cast("int", row["handed_seq"]))
        self._database.held[held.id] = held.fence
        lines = [cast("bytes", found["line"]) for found in await self._database.rows(statements.LINES, {"id": held.id})]
        return self._journal(held, lines)

    def _journal(self, held: HeldRow, lines: Sequence[bytes]) -> PostgresJournal:
        events = self._rows.events(held.id, lines)
        return PostgresJournal(self._database, self._loop, held, events, self._rows.limits)
