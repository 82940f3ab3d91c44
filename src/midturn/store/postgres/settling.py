"""Writing a conversation that nobody holds, each time in one statement, and handing over answers where somebody does."""

from __future__ import annotations

from typing import cast

import msgspec

from midturn.store.batch import numbered
from midturn.store.port import Decide, HeldBy, Settled
from midturn.store.postgres import statements
from midturn.store.postgres.conversation_rows import TRIES, ConversationRows
from midturn.store.postgres.database import Rows, handed_payloads
from midturn.store.postgres.journal import decode_handed
from midturn.store.postgres.turn_row import TurnRow
from midturn.store.submission import HandedOver


class Settling:
    """Decides again where somebody was faster. Everything here runs in the database's loop."""

    def __init__(self, rows: ConversationRows) -> None:
        self._rows = rows
        self._database = rows.database

    async def settle(self, id: str, decide: Decide) -> Settled | HeldBy:
        """Append what is decided; see `StorePort.settle`."""
        for _ in range(TRIES):
            row = await self._rows.last_turn(id)
            turn = self._rows.turn(id, row)
            if row["alive"]:
                return self._rows.held_by(id, row, turn)
            batch = numbered(decide(turn))
            if not batch:
                return Settled(turn)
            after = TurnRow(turn.events)
            after.follow(turn.events, batch)
            state = after.given(cast("int", row["head"]), batch)
            if await self._record(id, row, state, self._rows.encoded(batch)):
                return Settled(turn)
        raise self._rows.busy(id)

    async def _record(self, id: str, row: dict[str, object], state: dict[str, object], lines: list[bytes]) -> bool:
        head, fence = cast("int", row["head"]), cast("int", row["fence"])

        async def written() -> Rows | None:
            last = await self._database.rows(statements.LINES, {"id": id})
            return last if [found["line"] for found in last[head:]][: len(lines)] == lines else None

        given = {
            "id": id,
            "fence": fence,
            "head": head,
            "holder": row["holder"],
            "lines": lines,
            "channel": self._database.due_channel,
            "stirred": self._database.stirred_channel,
            **state,
            "turn_at": None,
        }
        return bool(await self._database.once(statements.SETTLE, given, written))

    async def hand_over(self, held: HeldBy, answer: HandedOver) -> bool:
        """Give an answer to whoever holds the conversation."""
        holder, fence = cast("tuple[int, int]", held.token)
        given = {
            "id": held.conversation,
            "holder": holder,
            "fence": fence,
            "event_id": answer.event_id,
            "submission": msgspec.json.encode(answer),
            "channel": self._database.channel(holder),
        }

        async def written() -> Rows | None:
            row = await self._rows.last_turn(held.conversation)
            return [row] if any(handed == answer for handed in decode_handed(handed_payloads(row))) else None

        return bool(await self._database.once(statements.HAND_OVER, given, written))
