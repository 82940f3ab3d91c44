"""The `StorePort` in PostgreSQL."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Sequence
from functools import partial
from operator import itemgetter
from typing import cast

import msgspec

from midturn.clock import now
from midturn.core.address import parse_address, parse_beginning
from midturn.core.codec import decode_lines
from midturn.core.events import Event
from midturn.core.limits import DEFAULT_LIMITS, Limits
from midturn.core.stream import OpenQuestion, last_turn, open_turn
from midturn.core.turn.pending import pending
from midturn.errors import Busy, StoreError, StoreLocked
from midturn.files.seal_key import seal_key
from midturn.store.adoption import adopted
from midturn.store.batch import encode_batch, numbered
from midturn.store.conversation import Conversation
from midturn.store.ids import title
from midturn.store.metadata import Metadata, decode_metadata
from midturn.store.port import Decide, Growth, HeldBy, LastTurn, Settled, Which
from midturn.store.postgres import statements
from midturn.store.postgres.address import DatabaseAddress
from midturn.store.postgres.database import DUE, Database, Rows, handed_payloads
from midturn.store.postgres.journal import HeldRow, PostgresJournal, decode_handed
from midturn.store.postgres.own_loop import OwnLoop
from midturn.store.postgres.turn_row import TurnRow
from midturn.store.readiness import is_due
from midturn.store.seal import SealChain, Seals, SealVerdict, sealed_anew, turns_of
from midturn.store.submission import HandedOver

_TRIES = 100
_PAGE = 500
_ALL = 1 << 62


class PostgresConversations:
    """One schema of one database. It is made by its first use, and speaks to the database in a thread of its own."""

    needs_loop = True

    def __init__(self, address: DatabaseAddress, limits: Limits = DEFAULT_LIMITS, *, sealed: bool = False) -> None:
        self.address = address
        self.database = Database(address)
        self.loop = OwnLoop(f"midturn: {address.shown}", self.database.close)
        self._limits = limits
        self._seals = Seals(seal_key(), f"{address.shown}#{address.schema}") if sealed else None

    # Holding --------------------------------------------------------------------------------------------------------------

    async def create(self, first_words: str) -> PostgresJournal:
        """Begin a conversation, and hold it."""
        metadata = Metadata(title=title(first_words), created_at=now())
        return await self.loop.run(self._create(metadata), unclaimed=self._give_back)

    async def _create(self, metadata: Metadata) -> PostgresJournal:
        holder = await self.database.holder()
        id = await self._insert(metadata, holder)  # noqa: A001  what the wire calls it
        self.database.held[id] = 1
        return self._journal(HeldRow(id, 1, 0, 0), [])

    async def _insert(self, metadata: Metadata, holder: int | None) -> str:
        number = time.time_ns() // 1_000
        content = msgspec.json.encode(metadata.to_json())
        while not await self.database.rows(statements.INSERT, {"id": str(number), "metadata": content, "holder": holder}):
            number += 1
        return str(number)

    async def open(self, id: str) -> PostgresJournal:
        """Hold a conversation."""
        return await self.loop.run(self._open(id), unclaimed=self._give_back)

    async def _open(self, id: str) -> PostgresJournal:
        holder = await self.database.holder()
        rows = await self.database.rows(statements.HOLD, {"id": id, "holder": holder})
        if not rows and await self._is_orphan(id, holder):  # a statement was acknowledged to nobody, and ran again
            await self.database.give_back_orphans()
            rows = await self.database.rows(statements.HOLD, {"id": id, "holder": holder})
        if not rows:
            await self._raise_held(id)
        return await self._loaded(rows[0])

    async def _is_orphan(self, id: str, holder: int) -> bool:
        rows = await self.database.rows(statements.WHO_HOLDS, {"id": id})
        return bool(rows) and rows[0]["holder"] == holder and id not in self.database.held

    async def claim(self, limit: int = 1) -> Sequence[PostgresJournal]:
        """Hold conversations that are due and free."""
        return await self.loop.run(self._claim(limit), unclaimed=self._give_all_back)

    async def _claim(self, limit: int) -> list[PostgresJournal]:
        holder = await self.database.holder()
        rows = sorted(await self.database.rows(statements.CLAIM, {"holder": holder, "limit": limit}), key=itemgetter("id"))
        for row in rows:
            self.database.held[row["id"]] = row["fence"]
        return [journal for row in rows if not await self._left_alone(journal := await self._loaded(row))]

    async def _left_alone(self, journal: PostgresJournal) -> bool:
        """Let go of a turn of which nothing may run: it has to be adopted."""
        if journal.needs_adoption:
            await journal.leave_alone()
        return journal.needs_adoption

    async def woken(self) -> None:
        """Return when a conversation may have become due, at the latest after a second."""
        await self.loop.run(self._woken())

    async def _woken(self) -> None:
        await self.database.holder()  # nobody hears anything without a session
        await self.database.bells.wait(DUE)

    async def stirred(self, since: int) -> int:
        """Return when a question was asked or closed, or a turn began or ended, at the latest after some seconds."""
        return await self.loop.run(self.database.stirred(since))

    async def grown(self, since: Growth | None = None) -> Growth:
        """Return how many events the conversations have whose rows were written since; at first, all."""
        rows = await self.loop.run(self.database.rows(statements.GROWN, {"since": since.token if since else None}))
        return Growth({row["id"]: row["head"] for row in rows if row["id"] is not None}, rows[0]["now"])

    async def events_within(self, id: str, length: int) -> int:
        """Return the length: it is counted in events."""
        del id
        return length

    async def _loaded(self, row: dict[str, object]) -> PostgresJournal:
        held = HeldRow(cast("str", row["id"]), cast("int", row["fence"]), cast("int", row["head"]), cast("int", row["handed_seq"]))
        self.database.held[held.id] = held.fence
        lines = [cast("bytes", found["line"]) for found in await self.database.rows(statements.LINES, {"id": held.id})]
        return self._journal(held, lines)

    def _journal(self, held: HeldRow, lines: Sequence[bytes]) -> PostgresJournal:
        events = self._events(held.id, lines)
        held.chain = self._chain(held.id)
        if held.chain:
            held.chain.follow(lines[TurnRow(events).turn_at :])
        return PostgresJournal(self.database, self.loop, held, events, self._limits)

    def _chain(self, id: str) -> SealChain | None:
        return self._seals.chain(id) if self._seals else None

    async def _give_back(self, journal: PostgresJournal) -> None:
        await self.database.release(journal.conversation, self.database.held.get(journal.conversation, 0), handed_seq=-1, again="now")

    async def _give_all_back(self, journals: list[PostgresJournal]) -> None:
        for journal in journals:
            await self._give_back(journal)

    async def _raise_held(self, id: str) -> None:
        rows = await self.database.rows(statements.WHO_HOLDS, {"id": id})
        if not rows:
            raise self._unknown(id)
        since = rows[0]["held_since"]
        holder = self._holder_in_words(rows[0]["holder"])
        when = f" since {since:%Y-%m-%d %H:%M:%S}" if since else ""
        message = f"The conversation {id} is being written by {holder}{when}. Wait until it is done, or end it."
        raise StoreLocked(message, holder, str(since or ""))

    # Answers --------------------------------------------------------------------------------------------------------------

    async def settle(self, id: str, decide: Decide) -> Settled | HeldBy:
        """Append what is decided, in one statement; decide again where somebody was faster."""
        return await self.loop.run(self._settle(id, decide))

    async def _settle(self, id: str, decide: Decide) -> Settled | HeldBy:
        for _ in range(_TRIES):
            row = await self._last_turn(id)
            lines = cast("list[bytes]", row["lines"])
            chain = self._chain(id)
            turn = self._turn(id, lines, decode_handed(handed_payloads(row), chain), chain)
            if row["alive"]:
                token = (row["holder"], row["fence"])
                return HeldBy(
                    conversation=id, turn=turn, holder=self._holder_in_words(row["holder"]), since=str(row["held_since"]), token=token
                )
            batch = numbered(decide(turn))
            if not batch:
                return Settled(turn)
            after = TurnRow(turn.events)
            after.follow(turn.events, batch)
            state = after.given(cast("int", row["head"]), batch)
            if await self._record(id, row, state, self._encoded(batch, chain)):
                return Settled(turn)
        raise Busy(f"Others write conversation {id} again and again. Try again in a moment.")

    def _turn(self, id: str, lines: Sequence[bytes], handed: tuple[HandedOver, ...], chain: SealChain | None) -> LastTurn:
        """Return a last turn as it stands in its row; `chain` follows it."""
        events = self._events(id, lines)
        foreign = chain is not None and chain.follow(lines) != "sealed" and open_turn(events) is not None
        return LastTurn(events, handed, foreign, chain is not None)

    def _encoded(self, batch: Sequence[Event], chain: SealChain | None) -> list[bytes]:
        lines = encode_batch(batch, self._limits)
        written = chain.sealed(lines)[0] if chain else lines
        return [line.removesuffix(b"\n") for line in written]

    async def _record(self, id: str, row: dict[str, object], state: dict[str, object], lines: list[bytes]) -> bool:
        head, fence = cast("int", row["head"]), cast("int", row["fence"])

        async def written() -> Rows | None:
            last = await self.database.rows(statements.LINES, {"id": id})
            return last if [found["line"] for found in last[head:]][: len(lines)] == lines else None

        given = {
            "id": id,
            "fence": fence,
            "head": head,
            "holder": row["holder"],
            "lines": lines,
            "channel": self.database.due_channel,
            "stirred": self.database.stirred_channel,
            **state,
            "turn_at": None,
        }
        return bool(await self.database.once(statements.SETTLE, given, written))

    async def look(self, id: str) -> Settled | HeldBy:
        """Return the last turn as it is now, and who holds the conversation."""
        return await self.settle(id, lambda _: ())

    async def hand_over(self, held: HeldBy, answer: HandedOver) -> bool:
        """Give an answer to whoever holds the conversation."""
        holder, fence = cast("tuple[int, int]", held.token)
        chain, submission = self._chain(held.conversation), msgspec.json.encode(answer)
        given = {
            "id": held.conversation,
            "holder": holder,
            "fence": fence,
            "event_id": answer.event_id,
            "submission": chain.vouch(submission) if chain else submission,
            "channel": self.database.channel(holder),
        }

        async def written() -> Rows | None:
            row = await self._last_turn(held.conversation)
            return [row] if any(handed == answer for handed in decode_handed(handed_payloads(row), chain)) else None

        return bool(await self.loop.run(self.database.once(statements.HAND_OVER, given, written)))

    async def questions(self, prefix: str = "", *, after: str | None = None, limit: int | None = None) -> list[OpenQuestion]:
        """Return open questions whose address begins with `prefix`, by conversation, the oldest first."""
        return await self.loop.run(self._questions(prefix, after, _ALL if limit is None else limit))

    async def _questions(self, prefix: str, after: str | None, limit: int) -> list[OpenQuestion]:
        conversation, is_whole = parse_beginning(prefix)
        last = parse_address(after) if after else None
        first = max(conversation, last.conversation if last else "")
        found: list[OpenQuestion] = []
        passed = last is None
        while len(found) < limit:
            page = min(_PAGE, limit + 1)
            given = {"first": first, "only": conversation if is_whole else None, "limit": page}
            rows = await self.database.rows(statements.ASKING, given)
            for row in rows:
                for question in pending(self._events(row["id"], row["lines"]), row["id"]):
                    if passed and question.id.startswith(prefix) and (last is None or question.id != after):
                        found.append(question)
                    passed = passed or question.id == after or bool(last and row["id"] > last.conversation)
            if len(rows) < page or (conversation and not rows[-1]["id"].startswith(conversation)):
                break
            first = rows[-1]["id"] + "0"  # the next id as text
        return found[:limit]

    # Reading and the rest -------------------------------------------------------------------------------------------------

    async def ids(self, *, after: str | None = None, limit: int | None = None, which: Which = "all") -> list[str]:
        """Return ids of conversations, oldest first."""
        given = {"after": after or "", "limit": _ALL if limit is None else limit}
        found = [row["id"] for row in await self.loop.run(self.database.rows(statements.IDS[which], given))]
        if self._seals is None or which != "ready":
            return found
        return [id for id in found if not (await self.look(id)).turn.needs_adoption]  # noqa: A001  what the wire calls it

    async def latest(self) -> str | None:
        """Return the id of the newest conversation."""
        rows = await self.loop.run(self.database.rows(statements.LATEST))
        return rows[0]["id"] if rows else None

    async def described(self, *, after: str = "", limit: int = _PAGE) -> list[tuple[str, Metadata]]:
        """Return a page of what conversations are called, oldest first."""
        rows = await self.loop.run(self.database.rows(statements.LISTED, {"after": after, "limit": limit}))
        return [(row["id"], self._metadata(row["id"], row["metadata"])[0]) for row in rows]

    @property
    def lacks_key(self) -> bool:
        """Whether what is written should be sealed, and cannot be."""
        return self._seals is not None and self._seals.key is None

    def where(self, id: str) -> str:
        """Return what names a conversation in this schema."""
        return f"{self.address.shown}#{self.address.schema}/{id}"

    async def adopt(self, id: str) -> None:
        """Take over an open turn that came from elsewhere; its lines as they were stay in the table `adopted`."""
        await self.loop.run(self._adopt(id))

    async def _adopt(self, id: str) -> None:
        for _ in range(_TRIES):
            row = await self._last_turn(id)
            chain, turn = self._chain(id), cast("list[bytes]", row["lines"])
            if chain is None or chain.follow(turn) == "sealed":
                return
            if row["alive"]:
                await self._raise_held(id)
            lines = [line.removesuffix(b"\n") for line in adopted(chain, turn)]
            state = TurnRow(self._events(id, lines)).given(0, ())
            given = {**state, "id": id, "head": row["head"], "fence": row["fence"], "turn_at": row["turn_at"], "lines": lines}
            if await self.database.together(statements.ADOPT, given):
                return
        raise Busy(f"Others write conversation {id} again and again. Try again in a moment.")

    async def verdicts(self, id: str, lines: Sequence[bytes] | None = None) -> list[SealVerdict] | None:
        """Say for each turn whether its seals hold; None where the store is not sealed."""
        chain = self._chain(id)
        return None if chain is None else [chain.follow(turn) for turn in turns_of(await self.lines(id) if lines is None else lines)]

    async def read(self, id: str) -> Conversation:
        """Read a conversation."""
        row = await self._whole(id)
        metadata, problem = self._metadata(id, cast("bytes", row["metadata"]))
        events = self._events(id, cast("list[bytes]", row["lines"]))
        return Conversation(id, events, metadata=metadata, problems=[problem] if problem else [])

    def _metadata(self, id: str, content: bytes) -> tuple[Metadata, str]:
        try:
            return decode_metadata(content), ""
        except ValueError as error:
            return Metadata(), f"The metadata of {id} at {self.address.shown}: {error}. The conversation is read without it."

    async def lines(self, id: str) -> list[bytes]:
        """Return the lines of a conversation byte for byte."""
        return list(cast("list[bytes]", (await self._whole(id))["lines"]))

    async def add(self, lines: Iterable[bytes], metadata: Metadata, id: str | None = None, held: Sequence[SealVerdict] = ()) -> str:
        """Make a conversation of lines that were written elsewhere."""
        return await self.loop.run(self._add(list(lines), metadata, id, held))

    async def _add(self, lines: list[bytes], metadata: Metadata, wanted: str | None, held: Sequence[SealVerdict]) -> str:
        events = self._events("new", lines)
        given = {
            "metadata": msgspec.json.encode(metadata.to_json()),
            "due": is_due(LastTurn(last.events)) if (last := last_turn(events)) else False,
            "channel": self.database.due_channel,
            "stirred": self.database.stirred_channel,
            **TurnRow(events).given(0, events),
        }
        now_number = time.time_ns() // 1_000
        for id in itertools.chain([wanted] if wanted else [], map(str, itertools.count(now_number))):  # noqa: A001  what the wire calls it
            written = sealed_anew(chain, lines, held) if (chain := self._chain(id)) else lines
            if await self.database.once(statements.ADD, {**given, "id": id, "lines": written}, partial(self._added, id, written)):
                return id
        raise AssertionError("numbers do not end")

    async def _added(self, id: str, lines: list[bytes]) -> Rows | None:
        """Say whether a conversation was made of these lines by a statement whose acknowledgement was lost."""
        rows = await self.database.rows(statements.READ, {"id": id})
        return rows if rows and list(rows[0]["lines"]) == lines else None

    async def describe(self, id: str, **changes: str | tuple[str, ...]) -> Metadata:
        """Change single fields of the metadata; the rest stays, keys of other versions included."""
        return await self.loop.run(self._describe(id, changes))

    async def _describe(self, id: str, changes: dict[str, str | tuple[str, ...]]) -> Metadata:
        for _ in range(_TRIES):
            rows = await self.database.rows(statements.METADATA, {"id": id})
            if not rows:
                raise self._unknown(id)
            before = cast("bytes", rows[0]["metadata"])
            changed = msgspec.structs.replace(decode_metadata(before), **changes)
            given = {"id": id, "before": before, "metadata": msgspec.json.encode(changed.to_json())}
            if await self.database.rows(statements.DESCRIBE, given):
                return changed
        raise Busy(f"Others describe conversation {id} again and again. Try again in a moment.")

    async def remove(self, id: str) -> None:
        """Remove a conversation for good."""
        await self.loop.run(self._remove(id))

    async def _remove(self, id: str) -> None:
        if not await self.database.rows(statements.REMOVE, {"id": id}):
            await self._raise_held(id)

    async def _whole(self, id: str) -> dict[str, object]:
        rows = await self.loop.run(self.database.rows(statements.READ, {"id": id}))
        if not rows:
            raise self._unknown(id)
        return rows[0]

    async def _last_turn(self, id: str) -> dict[str, object]:
        rows = await self.database.rows(statements.LAST_TURN, {"id": id})
        if not rows:
            raise self._unknown(id)
        return rows[0]

    def _events(self, id: str, lines: Sequence[bytes]) -> list[Event]:
        return decode_lines(lines, f"{self.address.shown}/{id}", limits=self._limits)

    def _unknown(self, id: str) -> StoreError:
        return StoreError(f"There is no conversation {id!r} in the schema `{self.address.schema}` at {self.address.shown}.")

    def _holder_in_words(self, holder: object) -> str:
        return f"process {holder} of {self.address.schema}"
