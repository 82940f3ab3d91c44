"""The current open questions of all conversations, and a feed of their changes."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from contextlib import aclosing, suppress
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

from midturn.clock import Outage
from midturn.errors import MidturnError
from midturn.events.open_question import OpenQuestion, parse_address
from midturn.inbox.store_access import Port
from midturn.question.json_value import Json
from midturn.stores.watching import StoreChange, Watch, times_to_look

# --------------------------------------------------------------------------------------------------
# The feed: changes in order, sent to all subscribers and stored for a while for subscribers that
# reconnect


ChangeKind: TypeAlias = Literal["asked", "changed", "answered", "withdrawn", "turn_ended"]
_MAX_FEED_EVENTS = 1_000


class FeedEvent(Struct, frozen=True):
    """One change of the open questions. `wire` is the change as a server-sent event."""

    number: int
    kind: ChangeKind
    wire: bytes


class Feed:
    """Numbers the changes and stores the latest changes.

    Each ID contains a random number of the server process, and is valid only in that process.
    """

    def __init__(self) -> None:
        self._run = secrets.token_hex(4)
        self._kept: deque[FeedEvent] = deque(maxlen=_MAX_FEED_EVENTS)
        self._last = 0
        self._changed = asyncio.Event()
        self.closed = False

    def publish(self, kind: ChangeKind, data: dict[str, Json]) -> None:
        """Send a change to all subscribers."""
        self._last += 1
        self._kept.append(FeedEvent(self._last, kind, self.wire(kind, data)))
        self._wake()

    def wire(self, kind: ChangeKind, data: dict[str, Json]) -> bytes:
        """Return a server-sent event with the number of the last change."""
        return b"id: %s-%d\nevent: %s\ndata: %s\n\n" % (
            self._run.encode(),
            self._last,
            kind.encode(),
            msgspec.json.encode(data),
        )

    def place(self, last_event_id: str | None) -> int | None:
        """Return the number of the change with the ID `last_event_id`, after which a subscriber
        continues.

        Return None if some of the later changes are no longer stored, or if the ID is from another
        server process.
        """
        run, _, number = (last_event_id or "").partition("-")
        if run != self._run or not (number.isascii() and number.isdecimal()):
            return None
        seen = int(number)
        first = self._kept[0].number if self._kept else self._last + 1
        return seen if first - 1 <= seen <= self._last else None

    @property
    def last(self) -> int:
        """Number of the last change."""
        return self._last

    @property
    def id(self) -> str:
        """ID of the last change, in the form that browsers send back."""
        return f"{self._run}-{self._last}"

    async def follow(self, after: int) -> AsyncGenerator[FeedEvent | None]:
        """Yield each change after number `after` until `close`. Yield None regularly while
        nothing changes.
        """
        news = self._changed
        while not self.closed:
            missed = [change for change in self._kept if change.number > after]
            for change in missed:
                yield change
                after = change.number
            if missed:
                continue
            with suppress(TimeoutError):
                await asyncio.wait_for(news.wait(), _IDLE_CHECK_INTERVAL)
            # assigned before the yield, so that a change published during the yield is not missed
            news = self._changed
            if after == self._last:
                yield None

    def close(self) -> None:
        """End all subscriptions."""
        self.closed = True
        self._wake()

    def look(self) -> None:
        """Wake all subscribers, so that they check again whether they may receive changes."""
        self._wake()

    def woken(self) -> Coroutine[Any, Any, Literal[True]]:
        """Return a coroutine that waits for the next change, `look` or `close` after this call."""
        return self._changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


# seconds between checks whether an idle subscriber may still receive changes; `Feed.look` causes an
# immediate check
_IDLE_CHECK_INTERVAL = 5.0


_LOG = logging.getLogger(__name__)
_RETRY_DELAY = 0.5  # seconds between a failed scan and the next scan
# pause between scans, as a multiple of the duration of a scan, so that scanning takes at most a
# fifth of the time
_IDLE_FACTOR = 4
_MAX_TITLES = 500  # maximum number of cached titles: enough for several pages of the inbox


MOST: Final = 500
"""Maximum number of open questions that are counted and sorted by age.

If there are more, only the questions of the oldest conversations are listed.
"""


class Waiting(Struct, frozen=True):
    """Open questions, the oldest first. `has_more` is true if the list is incomplete."""

    questions: list[OpenQuestion]
    has_more: bool = False

    @property
    def count(self) -> str:
        """The number of open questions as text, such as `12` or `500+`. Empty if there are none."""
        return f"{len(self.questions)}{'+' if self.has_more else ''}" if self.questions else ""


class OpenQuestionList:
    """Lists the open questions of a store.

    The store is scanned after each change, and the differences are published in `feed`.
    """

    def __init__(self, port: Port) -> None:
        self.port = port
        self.feed = Feed()
        self.listeners: list[Callable[[StoreChange], None]] = []
        """Callbacks that receive each change in this process."""
        self._watch = Watch(port, port)
        self._titles: OrderedDict[str, str] = OrderedDict()
        self._last_scan = 0.0
        self._scan_seconds = 0.0
        self._outage = Outage(_LOG, "the open questions can be read again")
        self._scan_lock = asyncio.Lock()
        self._watch_task: asyncio.Task[None] | None = None

    @property
    def seen(self) -> str:
        """Feed ID of the last change that a page rendered now includes.

        Empty before the first scan, because no changes are stored yet.
        """
        return self.feed.id if self._last_scan else ""

    async def waiting(self, most: int = MOST) -> Waiting:
        """Return at most `most` open questions, the oldest first.

        If there are more, the result contains the questions of the oldest conversations.
        """
        found = await self.port.pending(limit=most + 1)
        if len(found) > most:
            return Waiting(found[:most], has_more=True)
        return Waiting(sorted(found, key=lambda question: question.asked_at))

    async def waiting_in(self, conversation: str) -> list[OpenQuestion]:
        """Return the open questions of a conversation, without questions of its nested
        conversations.
        """
        return [
            question
            for question in await self.port.pending(conversation)
            if question.conversation == conversation
        ]

    async def find(self, id: str) -> OpenQuestion | None:
        """Return an open question in its current state, or None if it is not open.

        Only the conversation of the question is read.
        """
        at = parse_address(id)
        if at is None:
            return None
        return next(
            (
                question
                for question in await self.port.pending(at.conversation)
                if question.id == id
            ),
            None,
        )

    async def asked_again(self, question: OpenQuestion) -> OpenQuestion | None:
        """Return another open question of the same tool call, or None if there is none."""
        waiting = await self.port.pending(question.conversation)
        return next(
            (
                one
                for one in waiting
                if one.request.call == question.request.call and one.id != question.id
            ),
            None,
        )

    async def titles(self, conversations: Iterable[str]) -> dict[str, str]:
        """Return the titles of conversations by id. The title is empty if a conversation is
        deleted or cannot be read.
        """
        wanted = set(conversations)
        if missing := wanted.difference(self._titles):
            try:
                found = await self.port.titles(missing)
            except MidturnError:
                found = {}
            self._titles |= {conversation: found.get(conversation, "") for conversation in missing}
        named = {conversation: self._titles[conversation] for conversation in wanted}
        while len(self._titles) > _MAX_TITLES:
            self._titles.popitem(last=False)
        return named

    async def fresh(self) -> None:
        """Start watching the store if needed, and scan the store.

        Skip the scan if less time has passed since the last scan than a scan takes.
        """
        if self._watch_task is None or self._watch_task.done():
            self._watch_task = asyncio.create_task(self._watch_store())
        if not self._last_scan or time.monotonic() - self._last_scan > self._scan_seconds:
            await self.look()

    async def look(self) -> None:
        """Scan the store for open questions and publish the changes."""
        async with self._scan_lock:
            if not self._last_scan:
                await self.port.wait_for_change(
                    0
                )  # start the change watcher before the first scan, so that no change is missed
            begun = time.monotonic()
            changes = await self._watch.look()
            self._outage.over()
            self._last_scan = time.monotonic()
            self._scan_seconds = self._last_scan - begun
            for change in changes:
                self._publish(change)

    async def look_again(self) -> None:
        """Scan after an event was recorded.

        Errors are only logged, because recording the event succeeded.
        """
        if not self._last_scan:  # no scan has been made yet, so there are no subscribers
            return
        try:
            await self.look()
        except MidturnError as error:
            self._outage.noticed("the open questions cannot be read: %r", error)

    async def wake_ups(self) -> AsyncGenerator[bool]:
        """Yield True after each change of the store.

        Yield False regularly while nothing changes. End after `stop`.
        """
        async with aclosing(times_to_look(self.port)) as times:
            changed = asyncio.ensure_future(anext(times))
            woken = asyncio.ensure_future(self.feed.woken())
            try:
                while not self.feed.closed:
                    await asyncio.wait(
                        {changed, woken},
                        timeout=_IDLE_CHECK_INTERVAL,
                        return_when=asyncio.FIRST_COMPLETED,
                    )
                    if woken.done():  # before the yield, so that no wake-up is missed
                        woken = asyncio.ensure_future(self.feed.woken())
                    if not changed.done():
                        yield False
                        continue
                    await changed
                    yield True
                    changed = asyncio.ensure_future(anext(times))
            finally:
                changed.cancel()
                woken.cancel()
                await asyncio.gather(changed, woken, return_exceptions=True)

    async def stop(self) -> None:
        """Stop watching the store and end all subscriptions."""
        self.feed.close()
        if self._watch_task:
            self._watch_task.cancel()
            await asyncio.gather(self._watch_task, return_exceptions=True)

    async def _watch_store(self) -> None:
        since = 0
        while not self.feed.closed:
            try:
                is_first, since = not self._last_scan, await self.port.wait_for_change(since)
                await self.look()
            except MidturnError as error:
                self._outage.noticed("the open questions cannot be read: %r", error)
                await asyncio.sleep(_RETRY_DELAY)
            else:
                await asyncio.sleep(0.0 if is_first else self._scan_seconds * _IDLE_FACTOR)

    def _publish(self, change: StoreChange) -> None:
        for listener in self.listeners:
            listener(change)
        match change:
            case StoreChange(kind="asked" | "changed" as kind, question=OpenQuestion() as question):
                self.feed.publish(kind, question.to_json())
            case StoreChange(kind="turn_ended"):
                self.feed.publish("turn_ended", {"conversation": change.conversation})
            case StoreChange(kind="answered" | "withdrawn" as kind):
                data = change.to_json()
                del data["kind"]
                self.feed.publish(kind, data)
            case _:  # other events do not affect the page
                pass
