"""The `StorePort` in PostgreSQL."""

from __future__ import annotations

import itertools
import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import cast

import msgspec
from msgspec import Struct

from midturn.clock import now
from midturn.errors import Busy
from midturn.record.asker import parse_address, parse_beginning
from midturn.record.open_question import OpenQuestion
from midturn.record.window import last_turn
from midturn.store.conversation import Conversation
from midturn.store.decisions import is_due
from midturn.store.held import patiently
from midturn.store.metadata import Metadata, decode_metadata, title
from midturn.store.port import Decide, Growth, HeldBy, LastTurn, MayGo, Settled, Which, following
from midturn.store.postgres import statements
from midturn.store.postgres.database import Database, Rows
from midturn.store.postgres.journal import PostgresJournal, TurnRow
from midturn.store.postgres.own_loop import DatabaseAddress, OwnLoop
from midturn.store.postgres.settling import TRIES, ConversationRows, Holding, Settling
from midturn.store.submission import HandedOver
from midturn.store.tail import Mark, Part
from midturn.turn.pending import pending
from midturn.turn.view import TurnView
from midturn.values.limits import DEFAULT_LIMITS, Limits

_PAGE = 500
_ALL = 1 << 62


class _Place(Struct, frozen=True):
    """Where a watcher is: the oldest transaction that ran at its last look, and how many removals it has heard of in which session."""

    now: str
    session: int
    removed: int


class PostgresConversations:
    """One schema of one database. It is made by its first use, and speaks to the database in a thread of its own."""

    needs_loop = True

    def __init__(self, address: DatabaseAddress, limits: Limits = DEFAULT_LIMITS) -> None:
        self.address = address
        self.database = Database(address)
        self.loop = OwnLoop(f"midturn: {address.shown}", self.database.close)
        self._rows = ConversationRows(self.database, limits)
        self._holding = Holding(self._rows, self.loop)
        self._settling = Settling(self._rows)

    @property
    def place(self) -> str:
        """What names this schema."""
        return f"{self.address.shown}#{self.address.schema}"

    @property
    def limits(self) -> Limits:
        """What may be recorded here at once."""
        return self._rows.limits

    # Holding --------------------------------------------------------------------------------------------------------------

    async def create(self, first_words: str) -> PostgresJournal:
        """Begin a conversation, and hold it."""
        metadata = Metadata(title=title(first_words), created_at=now())
        return await self.loop.run(self._holding.create(metadata), unclaimed=self._holding.give_back)

    async def open(self, id: str) -> PostgresJournal:
        """Hold a conversation."""
        return await self.loop.run(self._holding.open(id), unclaimed=self._holding.give_back)

    async def claim(self, limit: int = 1) -> Sequence[PostgresJournal]:
        """Hold conversations that are due and free."""
        return await self.loop.run(self._holding.claim(limit), unclaimed=self._holding.give_all_back)

    @asynccontextmanager
    async def alone(self, name: str) -> AsyncGenerator[None]:
        """Let no other block run for the same name meanwhile, in whichever process."""
        taken = await patiently(lambda: self.loop.run(self.database.taken(name), unclaimed=self.database.left))
        try:
            yield
        finally:
            await self.loop.run(self.database.left(taken))

    # Watching -------------------------------------------------------------------------------------------------------------

    async def woken(self) -> None:
        """Return when a conversation may have become due, at the latest after a second."""
        await self.loop.run(self.database.due())

    async def stirred(self, since: int) -> int:
        """Return when a question was asked or closed, or a turn began or ended, at the latest after some seconds."""
        return await self.loop.run(self.database.stirred(since))

    async def grown(self, since: Growth | None = None) -> Growth:
        """Return how many events the conversations have whose rows were written since; at first, all."""
        return await self.loop.run(self._grown(since.token if since and isinstance(since.token, _Place) else None))

    async def _grown(self, before: _Place | None) -> Growth:
        session, removed = self.database.removals.session, len(self.database.removals.ids)
        rows = await self.database.rows(statements.GROWN, {"since": before.now if before else None})
        lengths = {row["id"]: row["head"] for row in rows if row["id"] is not None}
        heard = before is not None and session > 0 and session == before.session
        gone = self.database.removals.ids[before.removed : removed] if before and heard else None
        return Growth(lengths, _Place(rows[0]["now"], session, removed), gone)

    async def events_within(self, id: str, length: int) -> int:
        """Return the length: it is counted in events."""
        del id
        return length

    # Answers --------------------------------------------------------------------------------------------------------------

    async def settle(self, id: str, decide: Decide) -> Settled | HeldBy:
        """Append what is decided, in one statement; decide again where another write was faster."""
        return await self.loop.run(self._settling.settle(id, decide))

    async def look(self, id: str) -> Settled | HeldBy:
        """Return the last turn as it is now, and who holds the conversation."""
        return await self.settle(id, lambda _: ())

    async def hand_over(self, held: HeldBy, answer: HandedOver) -> bool:
        """Give an answer to the holder of the conversation."""
        return await self.loop.run(self._settling.hand_over(held, answer))

    async def questions(self, prefix: str = "", *, after: str | None = None, limit: int | None = None) -> list[OpenQuestion]:
        """Return open questions whose address begins with `prefix`, by conversation, the oldest first."""
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
                found += following([question for question in asked if question.id.startswith(prefix)], after)
            if len(rows) < page or (conversation and not rows[-1]["id"].startswith(conversation)):
                break
            first = rows[-1]["id"] + "0"  # the next id as text
        return found[:limit]

    # Reading and the rest -------------------------------------------------------------------------------------------------

    async def ids(self, *, after: str | None = None, limit: int | None = None, which: Which = "all") -> list[str]:
        """Return ids of conversations, oldest first."""
        given = {"after": after or "", "limit": _ALL if limit is None else limit}
        return [row["id"] for row in await self.loop.run(self.database.rows(statements.IDS[which], given))]

    async def overdue(self, now: str) -> list[str]:
        """Return conversations that may have a question whose deadline has passed, by the clock of the database."""
        del now
        return [row["id"] for row in await self.loop.run(self.database.rows(statements.OVERDUE))]

    async def newest(self, limit: int, before: str = "") -> list[str]:
        """Return the newest conversations in which anything is recorded, the newest first."""
        given = {"limit": limit, "first": before or "~"}
        return [row["id"] for row in await self.loop.run(self.database.rows(statements.NEWEST, given))]

    async def latest(self) -> str | None:
        """Return the id of the newest conversation."""
        rows = await self.loop.run(self.database.rows(statements.LATEST))
        return rows[0]["id"] if rows else None

    async def described(self, *, after: str = "", limit: int = _PAGE) -> list[tuple[str, Metadata]]:
        """Return a page of what conversations are called, oldest first."""
        rows = await self.loop.run(self.database.rows(statements.LISTED, {"after": after, "limit": limit}))
        return [(row["id"], self._rows.metadata(row["id"], row["metadata"])[0]) for row in rows]

    async def read(self, id: str) -> Conversation:
        """Read a conversation."""
        row = await self.loop.run(self._rows.whole(id))
        metadata, problem = self._rows.metadata(id, row["metadata"])
        events = self._rows.events(id, cast("list[bytes]", row["lines"]))
        return Conversation(id, events, metadata=metadata, problems=[problem] if problem else [])

    async def part(self, id: str, mark: Mark) -> Part:
        """Return all of it: what is read here is read at once."""
        del mark
        whole = await self.read(id)
        return Part(lines=await self.lines(id), metadata=whole.metadata, decode=lambda: whole.events, problems=whole.problems)

    async def last_turns(self, id: str, count: int) -> Mark:
        """Return the beginning."""
        del id, count
        return Mark()

    async def lines(self, id: str) -> list[bytes]:
        """Return the lines of a conversation byte for byte."""
        return list(cast("list[bytes]", (await self.loop.run(self._rows.whole(id)))["lines"]))

    async def add(self, lines: Iterable[bytes], metadata: Metadata, id: str | None = None) -> str:
        """Make a conversation of lines that were written elsewhere."""
        return await self.loop.run(self._add(list(lines), metadata, id))

    async def _add(self, lines: list[bytes], metadata: Metadata, wanted: str | None) -> str:
        events = self._rows.events("new", lines)
        given = {
            "metadata": msgspec.json.encode(metadata.to_json()),
            "due": is_due(LastTurn(last.events)) if (last := last_turn(events)) else False,
            "deadline": (TurnView(last).first_deadline or None),
            "channel": self.database.due_channel,
            "stirred": self.database.stirred_channel,
            **TurnRow(events).given(0, events),
        }
        now_number = time.time_ns() // 1_000
        for id in itertools.chain([wanted] if wanted else [], map(str, itertools.count(now_number))):  # noqa: A001  what the wire calls it
            if await self.database.once(statements.ADD, {**given, "id": id, "lines": lines}, partial(_added, self.database, id, lines)):
                return id
        raise AssertionError("numbers do not end")

    async def describe(self, id: str, **changes: str | tuple[str, ...]) -> Metadata:
        """Change single fields of the metadata; the rest stays, keys of other versions included."""
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
        raise Busy(f"Others describe conversation {id} again and again. Try again in a moment.")

    async def remove(self, id: str, may_go: MayGo | None = None) -> bool:
        """Remove a conversation for good."""
        return await self.loop.run(self._remove(id) if may_go is None else self._settling.remove(id, may_go))

    async def _remove(self, id: str) -> bool:
        if not await self.database.rows(
            statements.REMOVE, {"id": id, "fence": None, "head": None, "stirred": self.database.stirred_channel}
        ):
            raise await self._rows.refusal(id)
        return True


async def _added(database: Database, id: str, lines: list[bytes]) -> Rows | None:
    """Say whether a conversation was made of these lines by a statement whose acknowledgement was lost."""
    rows = await database.rows(statements.READ, {"id": id})
    return rows if rows and list(rows[0]["lines"]) == lines else None
