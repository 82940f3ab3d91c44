"""The open questions of all conversations as they stand now."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict

from midturn.clock import SYSTEM
from midturn.core.address import parse_address
from midturn.core.moments import stamp
from midturn.core.stream import OpenQuestion
from midturn.errors import MidturnError
from midturn.store.store_change import StoreChange
from midturn.store.watching import Watch
from midturn.web.feed import Feed
from midturn.web.port import Port

_LOG = logging.getLogger(__name__)
_AFTER_TROUBLE = 0.5  # seconds until the next look
_SHARE = 4  # of the time that a look takes, so that looking is a part of the work and not all of it
_REMEMBERED = 5_000


class Board:
    """Looks at the store whenever something may have happened there; what it finds changed, it tells its `feed`."""

    def __init__(self, port: Port) -> None:
        self.port = port
        self.feed = Feed()
        self._watch = Watch(port)
        self._titles: OrderedDict[str, str] = OrderedDict()
        self._looked_at = 0.0
        self._took = 0.0
        self._looking = asyncio.Lock()
        self._watching: asyncio.Task[None] | None = None

    @property
    def open(self) -> list[OpenQuestion]:
        """What is open, the oldest first."""
        now = stamp(SYSTEM)
        waiting = [question for question in self._watch.questions.values() if not (question.asker and question.asker.has_ended(now))]
        return sorted(waiting, key=lambda question: question.asked_at)

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

    async def title(self, conversation: str) -> str:
        """Return what a conversation is called."""
        if conversation not in self._titles:
            try:
                self._titles[conversation] = (await self.port.read(conversation)).title
            except MidturnError:  # it is gone, or cannot be read: its number is a name, too
                self._titles[conversation] = ""
            if len(self._titles) > _REMEMBERED:
                self._titles.popitem(last=False)
        return self._titles[conversation]

    async def fresh(self) -> None:
        """Be up to date: look, unless that was done less long ago than it takes."""
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._look_on())
        if not self._looked_at or time.monotonic() - self._looked_at > self._took:
            await self.look()

    async def look(self) -> None:
        """Find out what is open now, and tell what has changed."""
        async with self._looking:
            begun, is_first = time.monotonic(), not self._looked_at
            changes = await self._watch.look()
            self._looked_at = time.monotonic()
            self._took = self._looked_at - begun
            for change in () if is_first else changes:
                self._tell(change)

    async def look_again(self) -> None:
        """Look because something was recorded: what was done is done, even where the store cannot be read right then."""
        try:
            await self.look()
        except MidturnError as error:
            _LOG.warning("the open questions cannot be read: %r", str(error))

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
                since = await self.port.stirred(since)
                await self.look()
            except MidturnError as error:
                _LOG.warning("the open questions cannot be read: %r", str(error))
                await asyncio.sleep(_AFTER_TROUBLE)
            await asyncio.sleep(self._took * _SHARE)

    def _tell(self, change: StoreChange) -> None:
        match change:
            case StoreChange(kind="asked", question=OpenQuestion() as question):
                self.feed.publish("asked", question.to_json())
            case StoreChange(kind="turn_ended"):
                self.feed.publish("turn_ended", {"conversation": change.conversation})
            case _:
                told = change.to_json()
                del told["kind"]
                self.feed.publish(change.kind, told)
