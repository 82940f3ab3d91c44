"""Writing a conversation that nobody holds, each time in one statement, and handing over answers where somebody does."""

from __future__ import annotations

from typing import cast

import msgspec

from midturn.store.adoption import adopted
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
            row, chain = await self._rows.last_turn(id), self._rows.chain(id)
            turn = self._rows.turn(id, row, chain)
            if row["alive"]:
                return self._rows.held_by(id, row, turn)
            batch = numbered(decide(turn))
            if not batch:
                return Settled(turn)
            after = TurnRow(turn.events)
            after.follow(turn.events, batch)
            state = after.given(cast("int", row["head"]), batch)
            if await self._record(id, row, state, self._rows.encoded(batch, chain)):
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
        chain, submission = self._rows.chain(held.conversation), msgspec.json.encode(answer)
        given = {
            "id": held.conversation,
            "holder": holder,
            "fence": fence,
            "event_id": answer.event_id,
            "submission": chain.vouch(submission) if chain else submission,
            "channel": self._database.channel(holder),
        }

        async def written() -> Rows | None:
            row = await self._rows.last_turn(held.conversation)
            return [row] if any(handed == answer for handed in decode_handed(handed_payloads(row), chain)) else None

        return bool(await self._database.once(statements.HAND_OVER, given, written))

    async def adopt(self, id: str) -> None:
        """Take over an open turn that came from elsewhere; its lines as they were stay in the table `adopted`."""
        for _ in range(TRIES):
            row = await self._rows.last_turn(id)
            chain, turn = self._rows.chain(id), cast("list[bytes]", row["lines"])
            if chain is None or chain.follow(turn) == "sealed":
                return
            if row["alive"]:
                raise await self._rows.refusal(id)
            lines = [line.removesuffix(b"\n") for line in adopted(chain, turn)]
            state = TurnRow(self._rows.events(id, lines)).given(0, ())
            given = {**state, "id": id, "head": row["head"], "fence": row["fence"], "turn_at": row["turn_at"], "lines": lines}
            if await self._database.together(statements.ADOPT, given):
                return
        raise self._rows.busy(id)
