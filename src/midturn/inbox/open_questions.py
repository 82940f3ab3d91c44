"""The open questions of all conversations as they stand now."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing, suppress
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

from midturn.clock import Outage
from midturn.errors import MidturnError
from midturn.events.open_question import OpenQuestion, parse_address
from midturn.inbox.store_access import Port
from midturn.question.json_value import Json
from midturn.stores.watching import StoreChange, Watch, times_to_look

# ----------------------------------------------------------------------------------------------------------------------
# What has changed, in order: told to everybody who listens, and for a while to those who come back


ChangeKind: TypeAlias = Literal["asked", "changed", "answered", "withdrawn", "turn_ended"]
_KEPT = 1_000


class FeedEvent(Struct, frozen=True):
    """One thing that happened; `wire` is it as a server-sent event."""

    number: int
    kind: ChangeKind
    wire: bytes


class Feed:
    """Numbers what happens, and keeps the last of it. A number is good for one run of the server only, and says which."""

    def __init__(self) -> None:
        self._run = secrets.token_hex(4)
        self._kept: deque[FeedEvent] = deque(maxlen=_KEPT)
        self._last = 0
        self._news = asyncio.Event()
        self.closed = False

    def publish(self, kind: ChangeKind, data: dict[str, Json]) -> None:
        """Tell everybody."""
        self._last += 1
        self._kept.append(FeedEvent(self._last, kind, self.wire(kind, data)))
        self._wake()

    def wire(self, kind: ChangeKind, data: dict[str, Json]) -> bytes:
        """Write a server-sent event under the last number."""
        return b"id: %s-%d\nevent: %s\ndata: %s\n\n" % (self._run.encode(), self._last, kind.encode(), msgspec.json.encode(data))

    def place(self, last_event_id: str | None) -> int | None:
        """Return where a watcher goes on that has seen `last_event_id`; None where what came since is not all kept."""
        run, _, number = (last_event_id or "").partition("-")
        if run != self._run or not (number.isascii() and number.isdecimal()):
            return None
        seen = int(number)
        first = self._kept[0].number if self._kept else self._last + 1
        return seen if first - 1 <= seen <= self._last else None

    @property
    def last(self) -> int:
        """The number of the last change."""
        return self._last

    @property
    def id(self) -> str:
        """The number of the last change, as browsers send it back."""
        return f"{self._run}-{self._last}"

    async def follow(self, after: int) -> AsyncGenerator[FeedEvent | None]:
        """Yield every change after a number, as it comes, until `close`; None now and then, where nothing happens."""
        while not self.closed:
            news = self._news
            missed = [change for change in self._kept if change.number > after]
            for change in missed:
                yield change
                after = change.number
            if missed:
                continue
            with suppress(TimeoutError):
                await asyncio.wait_for(news.wait(), _TICK)
            if after == self._last:
                yield None

    def close(self) -> None:
        """Let everybody go who listens."""
        self.closed = True
        self._wake()

    def look(self) -> None:
        """Let everybody who listens find out whether they still may."""
        self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


_TICK = 0.5  # seconds after which who listens looks whether they still may


_LOG = logging.getLogger(__name__)
_AFTER_TROUBLE = 0.5  # seconds until the next look
_SHARE = 4  # of the time that a look takes, so that looking is a part of the work and not all of it
_REMEMBERED = 500  # titles: several pages of the inbox


MOST: Final = 500
"""How many open questions are counted, and shown in the order of their age: of more, the oldest conversations come first."""


class Waiting(Struct, frozen=True):
    """Open questions, the oldest first; `has_more` where there are others."""

    questions: list[OpenQuestion]
    has_more: bool = False

    @property
    def count(self) -> str:
        """How many there are, for people; nothing where there are none."""
        return f"{len(self.questions)}{'+' if self.has_more else ''}" if self.questions else ""


class Board:
    """Looks at the store whenever something may have happened there; what it finds changed, it tells its `feed`."""

    def __init__(self, port: Port) -> None:
        self.port = port
        self.feed = Feed()
        self.listeners: list[Callable[[StoreChange], None]] = []
        """Those in this process who hear of each change."""
        self._watch = Watch(port, port)
        self._titles: OrderedDict[str, str] = OrderedDict()
        self._looked_at = 0.0
        self._took = 0.0
        self._unread = Outage(_LOG, "the open questions can be read again")
        self._looking = asyncio.Lock()
        self._watching: asyncio.Task[None] | None = None

    @property
    def seen(self) -> str:
        """What a page that is drawn now has seen, as an id of the feed; empty where no one listens yet, and so nothing is kept."""
        return self.feed.id if self._looked_at else ""

    async def waiting(self, most: int = MOST) -> Waiting:
        """Return what is open now, the oldest first; where there is more, so many questions of the oldest conversations."""
        found = await self.port.pending(limit=most + 1)
        if len(found) > most:
            return Waiting(found[:most], has_more=True)
        return Waiting(sorted(found, key=lambda question: question.asked_at))

    async def waiting_in(self, conversation: str) -> list[OpenQuestion]:
        """Return what one conversation asks; those inside of its tools are others."""
        return [question for question in await self.port.pending(conversation) if question.conversation == conversation]

    async def find(self, id: str) -> OpenQuestion | None:
        """Return a question that is open, as it is now: only its own conversation is looked at."""
        at = parse_address(id)
        if at is None:
            return None
        return next((question for question in await self.port.pending(at.conversation) if question.id == id), None)

    async def asked_again(self, question: OpenQuestion) -> OpenQuestion | None:
        """Return what the call of a question waits for now, where that is another one."""
        waiting = await self.port.pending(question.conversation)
        return next((one for one in waiting if one.request.call == question.request.call and one.id != question.id), None)

    async def titles(self, conversations: Iterable[str]) -> dict[str, str]:
        """Return what conversations are called; nothing of those that are gone, or cannot be read: the number is a name, too."""
        wanted = set(conversations)
        if missing := wanted.difference(self._titles):
            try:
                found = await self.port.titles(missing)
            except MidturnError:
                found = {}
            self._titles |= {conversation: found.get(conversation, "") for conversation in missing}
        named = {conversation: self._titles[conversation] for conversation in wanted}
        while len(self._titles) > _REMEMBERED:
            self._titles.popitem(last=False)
        return named

    async def fresh(self) -> None:
        """Look from now on, and have told what has changed by now, unless that was done less long ago than it takes."""
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._look_on())
        if not self._looked_at or time.monotonic() - self._looked_at > self._took:
            await self.look()

    async def look(self) -> None:
        """Find out what is open now, and tell what has changed."""
        async with self._looking:
            if not self._looked_at:
                await self.port.stirred(0)  # it listens from now on
            begun = time.monotonic()
            changes = await self._watch.look()
            self._unread.over()
            self._looked_at = time.monotonic()
            self._took = self._looked_at - begun
            for change in changes:
                self._tell(change)

    async def look_again(self) -> None:
        """Look because something was recorded: what was done is done, even where the store cannot be read right then."""
        if not self._looked_at:  # no one listens who could hear of it
            return
        try:
            await self.look()
        except MidturnError as error:
            self._unread.noticed("the open questions cannot be read: %r", error)

    async def stirrings(self) -> AsyncGenerator[bool]:
        """Yield True whenever something may have happened in the store, and False now and then where nothing does, until `stop`."""
        async with aclosing(times_to_look(self.port)) as times:
            stirred = asyncio.ensure_future(anext(times))
            try:
                while not self.feed.closed:
                    await asyncio.wait({stirred}, timeout=_TICK)
                    if not stirred.done():
                        yield False
                        continue
                    await stirred
                    yield True
                    stirred = asyncio.ensure_future(anext(times))
            finally:
                stirred.cancel()
                await asyncio.gather(stirred, return_exceptions=True)

    async def stop(self) -> None:
        """Stop looking, and let everybody go who listens."""
        self.feed.close()
        if self._watching:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)

    async def _look_on(self) -> None:
        since = 0
        while not self.feed.closed:
            try:
                is_first, since = not self._looked_at, await self.port.stirred(since)
                await self.look()
            except MidturnError as error:
                self._unread.noticed("the open questions cannot be read: %r", error)
                await asyncio.sleep(_AFTER_TROUBLE)
            else:
                await asyncio.sleep(0.0 if is_first else self._took * _SHARE)

    def _tell(self, change: StoreChange) -> None:
        for listener in self.listeners:
            listener(change)
        match change:
            case StoreChange(kind="asked" | "changed" as kind, question=OpenQuestion() as question):
                self.feed.publish(kind, question.to_json())
            case StoreChange(kind="turn_ended"):
                self.feed.publish("turn_ended", {"conversation": change.conversation})
            case StoreChange(kind="answered" | "withdrawn" as kind):
                told = change.to_json()
                del told["kind"]
                self.feed.publish(kind, told)
            case _:  # the page does not ask for every event
                pass
