"""Writes to unlocked conversations, each with one statement, and to the answer queues of locked
conversations.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from operator import itemgetter
from typing import cast

import msgspec

from midturn.errors import Busy, NoConversation, StoreError, StoreLocked
from midturn.events.codec import decode_lines
from midturn.events.types import Event
from midturn.question.json_value import Limits
from midturn.stores.batch import decided, encode_batch
from midturn.stores.log_tail import LARGEST_BLOCK
from midturn.stores.metadata import Metadata, decode_metadata
from midturn.stores.port import CommittedBatch, Decide, LastTurn, LockedBy, MayGo
from midturn.stores.postgres import statements
from midturn.stores.postgres.database import Database, Rows, handed_payloads
from midturn.stores.postgres.journal import HeldRow, PostgresJournal, TurnRow, decode_handed
from midturn.stores.postgres.own_loop import OwnLoop
from midturn.stores.queued_answer import QueuedAnswer
from midturn.turn.view import TurnView

# --------------------------------------------------------------------------------------------------
# Rows of a conversation, and errors for missing ones


TRIES = 100
"""Maximum number of attempts to write a decision while other processes write the conversation."""
_MAX_LINES = 10_000  # maximum number of lines of a part of a conversation


class ConversationRows:
    """Reads and decodes rows. It runs in the database's loop."""

    def __init__(self, database: Database, limits: Limits) -> None:
        self.database = database
        self.limits = limits
        self._address = database.address

    # Reading
    # ----------------------------------------------------------------------------------------------

    async def whole(self, id: str) -> dict[str, object]:
        """Return the row of a conversation with all of its lines.

        Raises:
            StoreError: There is no such conversation.
        """
        return await self._row(statements.READ, id)

    async def part(self, id: str, position: int) -> dict[str, object]:
        """Return the row of a conversation with some megabytes of its lines, from a position on.

        Raises:
            StoreError: There is no such conversation.
        """
        return await self._row(
            statements.PART, id, position=position, most=_MAX_LINES, bytes=LARGEST_BLOCK
        )

    async def last_turn(self, id: str) -> dict[str, object]:
        """Return the row of a conversation with the lines of its last turn.

        Raises:
            StoreError: There is no such conversation.
        """
        return await self._row(statements.LAST_TURN, id)

    async def _row(self, statement: str, id: str, **more: int) -> dict[str, object]:
        rows = await self.database.rows(statement, {"id": id, **more})
        if not rows:
            raise self.unknown(id)
        return rows[0]

    def events(self, id: str, lines: Sequence[bytes], number: int = 1) -> list[Event]:
        """Decode lines; `number` is the line number of the first one."""
        return decode_lines(lines, f"{self._address.shown}/{id}", number, limits=self.limits)

    def metadata(self, id: str, content: object) -> tuple[Metadata, str]:
        """Return the metadata, and an error message if it cannot be decoded."""
        try:
            return decode_metadata(cast("bytes", content)), ""
        except ValueError as error:
            return (
                Metadata(),
                (
                    f"The metadata of {id} at {self._address.shown}: {error}. The conversation is"
                    " read without it."
                ),
            )

    def turn(self, id: str, row: dict[str, object]) -> LastTurn:
        """Return the last turn of a row."""
        return LastTurn(
            self.events(id, cast("list[bytes]", row["lines"])), decode_handed(handed_payloads(row))
        )

    def encoded(self, batch: Sequence[Event]) -> list[bytes]:
        """Return the encoded lines of a batch, without newlines."""
        return [line.removesuffix(b"\n") for line in encode_batch(batch, self.limits)]

    # The process with the lock
    # ----------------------------------------------------------------------------------------------

    def held_by(self, id: str, row: dict[str, object], turn: LastTurn) -> LockedBy:
        """Return the process that locked a conversation, according to its row."""
        token = (row["holder"], row["fence"])
        return LockedBy(
            conversation=id,
            turn=turn,
            holder=self._in_words(row["holder"]),
            since=str(row["held_since"]),
            token=token,
        )

    async def refusal(self, id: str) -> StoreError:
        """Return the reason why a conversation cannot be locked: another process locked it, or it
        does not exist.
        """
        rows = await self.database.rows(statements.WHO_HOLDS, {"id": id})
        if not rows:
            return self.unknown(id)
        since = rows[0]["held_since"]
        holder = self._in_words(rows[0]["holder"])
        when = f" since {since:%Y-%m-%d %H:%M:%S}" if since else ""
        message = (
            f"The conversation {id} is being written by {holder}{when}. Wait until it is done, or"
            " end it."
        )
        return StoreLocked(message, holder, str(since or ""))

    def unknown(self, id: str) -> StoreError:
        """Return the error for a missing conversation."""
        return NoConversation(
            f"There is no conversation {id!r} in the schema `{self._address.schema}` at"
            f" {self._address.shown}."
        )

    def busy(self, id: str) -> Busy:
        """Return the error for a conversation that other processes kept writing."""
        return Busy(f"Other processes keep writing conversation {id}. Try again in a moment.")

    def _in_words(self, holder: object) -> str:
        return f"process {holder} of {self._address.schema}"


class Settling:
    """Records the events that a `decide` function returns, and calls the function again if another
    process wrote first. All methods run in the database's loop.
    """

    def __init__(self, rows: ConversationRows) -> None:
        self._rows = rows
        self._database = rows.database

    async def settle(self, id: str, decide: Decide) -> CommittedBatch | LockedBy:
        """Append the events that `decide` returns; see `StorePort.settle`."""
        for _ in range(TRIES):
            row = await self._rows.last_turn(id)
            turn = self._rows.turn(id, row)
            if row["alive"]:
                return self._rows.held_by(id, row, turn)
            batch = decided(decide, turn, id)
            if not batch:
                return CommittedBatch(turn)
            after = TurnRow(turn.events)
            after.follow(turn.events, batch)
            until = TurnView.last((*turn.events, *batch)).first_deadline
            state = {**after.given(cast("int", row["head"]), batch), "deadline": until or None}
            if await self._record(id, row, state, self._rows.encoded(batch)):
                return CommittedBatch(turn)
        raise self._rows.busy(id)

    async def remove(self, id: str, may_go: MayGo) -> bool:
        """Remove a conversation unless it has changed; see `StorePort.remove`."""
        for _ in range(TRIES):
            row = await self._rows.last_turn(id)
            if row["alive"]:
                raise await self._rows.refusal(id)
            if not may_go(self._rows.turn(id, row)):
                return False
            if await self._database.rows(
                statements.REMOVE,
                {
                    "id": id,
                    "fence": row["fence"],
                    "head": row["head"],
                    "stirred": self._database.change_channel,
                },
            ):
                return True
        raise self._rows.busy(id)

    async def _record(
        self, id: str, row: dict[str, object], state: dict[str, object], lines: list[bytes]
    ) -> bool:
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
            **state,
            "turn_at": None,
        }
        is_written = bool(await self._database.once(statements.SETTLE, given, written))
        if is_written:
            self._database.notify(self._database.due_channel, id)
            self._database.notify(self._database.change_channel)
        return is_written

    async def queue_answer(self, held: LockedBy, answer: QueuedAnswer) -> bool:
        """Queue an answer for the process that locked the conversation."""
        holder, fence = cast("tuple[int, int]", held.token)
        given = {
            "id": held.conversation,
            "holder": holder,
            "fence": fence,
            "event_id": answer.key,
            "submission": msgspec.json.encode(answer),
        }

        async def written() -> Rows | None:
            row = await self._rows.last_turn(held.conversation)
            return (
                [row]
                if any(handed == answer for handed in decode_handed(handed_payloads(row)))
                else None
            )

        is_queued = bool(await self._database.once(statements.HAND_OVER, given, written))
        if is_queued:
            self._database.notify(self._database.channel(holder), held.conversation)
        return is_queued


# --------------------------------------------------------------------------------------------------
# Locking and releasing conversations of a database


class Holding:
    """Creates, locks and releases conversations.

    All methods run in the database's loop, including the methods of the journals.
    """

    def __init__(self, rows: ConversationRows, loop: OwnLoop) -> None:
        self._rows = rows
        self._database = rows.database
        self._loop = loop

    async def create(self, metadata: Metadata) -> PostgresJournal:
        """Create and lock a conversation."""
        holder = await self._database.holder()
        id = await self._insert(metadata, holder)  # noqa: A001  the common name of IDs
        self._database.held[id] = 1
        return self._journal(HeldRow(id, 1, 0, 0), [])

    async def open(self, id: str) -> PostgresJournal:
        """Lock a conversation.

        Raises:
            StoreLocked: It is locked already.
            StoreError: There is no such conversation.
        """
        holder = await self._database.holder()
        rows = await self._database.rows(statements.HOLD, {"id": id, "holder": holder})
        if not rows and await self._is_orphan(
            id, holder
        ):  # a statement's acknowledgement was lost, and it ran again
            await self._database.give_back_orphans()
            rows = await self._database.rows(statements.HOLD, {"id": id, "holder": holder})
        if not rows:
            raise await self._rows.refusal(id)
        return await self._loaded(rows[0])

    async def claim(self, limit: int, without: list[str]) -> list[PostgresJournal]:
        """Lock conversations that are due and free."""
        holder = await self._database.holder()
        given = {"holder": holder, "limit": limit, "without": without}
        rows = sorted(await self._database.rows(statements.CLAIM, given), key=itemgetter("id"))
        for row in rows:
            self._database.held[row["id"]] = row["fence"]
        return [await self._loaded(row) for row in rows]

    async def give_back(self, journal: PostgresJournal) -> None:
        """Release a conversation whose opening was cancelled."""
        fence = self._database.held.get(journal.conversation, 0)
        await self._database.release(journal.conversation, fence, handed_seq=-1, again="now")

    async def give_all_back(self, journals: Sequence[PostgresJournal]) -> None:
        """Release several conversations."""
        for journal in journals:
            await self.give_back(journal)

    async def _insert(self, metadata: Metadata, holder: int | None) -> str:
        number = time.time_ns() // 1_000
        content = msgspec.json.encode(metadata.to_json())
        while not await self._database.rows(
            statements.INSERT, {"id": str(number), "metadata": content, "holder": holder}
        ):
            number += 1
        return str(number)

    async def _is_orphan(self, id: str, holder: int) -> bool:
        rows = await self._database.rows(statements.WHO_HOLDS, {"id": id})
        return bool(rows) and rows[0]["holder"] == holder and id not in self._database.held

    async def _loaded(self, row: dict[str, object]) -> PostgresJournal:
        held = HeldRow(
            cast("str", row["id"]),
            cast("int", row["fence"]),
            cast("int", row["head"]),
            cast("int", row["handed_seq"]),
        )
        self._database.held[held.id] = held.fence
        lines = [
            cast("bytes", found["line"])
            for found in await self._database.rows(statements.LINES, {"id": held.id})
        ]
        return self._journal(held, lines)

    def _journal(self, held: HeldRow, lines: Sequence[bytes]) -> PostgresJournal:
        events = self._rows.events(held.id, lines)
        return PostgresJournal(self._database, self._loop, held, events, self._rows.limits)
