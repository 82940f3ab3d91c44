"""The open questions of all conversations as they stand now, and how those were closed that were there a moment ago."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from midturn.core.events import AnsweredBy, Approval, InquiryAnswered, InquiryCancelled, InquiryRedacted
from midturn.core.json_value import Json
from midturn.core.stream import OpenQuestion
from midturn.errors import MidturnError
from midturn.store.settling import decision_about
from midturn.web.feed import Feed
from midturn.web.port import Port

_LOG = logging.getLogger(__name__)
_EVERY = 0.2  # seconds between two looks
_REMEMBERED = 2_000


class Closed(Struct, frozen=True):
    """How a question was closed: `answered_by` is None where nobody answered it."""

    question: OpenQuestion
    decision: InquiryAnswered | InquiryCancelled | InquiryRedacted | Approval | None

    @property
    def answered_by(self) -> AnsweredBy | None:
        """Who answered it."""
        return None if self.decision is None or isinstance(self.decision, InquiryCancelled) else self.decision.answered_by


class Board:
    """Looks at the store again and again; what it finds changed, it tells its `feed`."""

    def __init__(self, port: Port) -> None:
        self.port = port
        self.feed = Feed()
        self._open: dict[str, OpenQuestion] = {}
        self._closed: OrderedDict[str, Closed] = OrderedDict()
        self._titles: OrderedDict[str, str] = OrderedDict()
        self._looked_at = -1.0
        self._looking = asyncio.Lock()
        self._watching: asyncio.Task[None] | None = None

    @property
    def open(self) -> list[OpenQuestion]:
        """What is open, the oldest first."""
        return sorted(self._open.values(), key=lambda question: question.asked_at)

    async def find(self, id: str) -> OpenQuestion | None:
        """Return a question that is open."""
        await self.fresh()
        return self._open.get(id)

    def closed(self, id: str) -> Closed | None:
        """Return how a question was closed that was open a while ago."""
        return self._closed.get(id)

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
        """Be up to date: look, unless that was done just now."""
        self._watch()
        if self._looked_at < 0 or time.monotonic() - self._looked_at > _EVERY:
            await self.look()

    async def look(self) -> None:
        """Find out what is open now."""
        async with self._looking:
            is_first = self._looked_at < 0
            found = {question.id: question for question in await self.port.pending()}
            self._looked_at = time.monotonic()
            before, self._open = self._open, found
            for id in before.keys() - found.keys():  # noqa: A001  the wire's word
                await self._was_closed(before[id])
            if not is_first:
                for id in [id for id in found if id not in before]:  # noqa: A001  as above
                    self.feed.publish("asked", found[id].to_json())

    async def stop(self) -> None:
        """Stop looking, and let everybody go who listens."""
        self.feed.close()
        if self._watching:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)

    def _watch(self) -> None:
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._look_on())

    async def _look_on(self) -> None:
        while not self.feed.closed:
            try:
                await self.look()
            except MidturnError as error:
                _LOG.warning("the open questions cannot be read: %r", str(error))
            await asyncio.sleep(_EVERY)

    async def _was_closed(self, question: OpenQuestion) -> None:
        try:
            turn = await self.port.last_turn(question.conversation)
        except MidturnError:  # the conversation is gone
            turn = ()
        closed = Closed(question, decision_about(turn, question.request.event_id))
        self._closed[question.id] = closed
        if len(self._closed) > _REMEMBERED:
            self._closed.popitem(last=False)
        by = closed.answered_by
        about: Mapping[str, Json] = {"id": question.id, "conversation": question.conversation}
        if by is None:
            self.feed.publish("withdrawn", {**about})
        else:
            self.feed.publish("answered", {**about, "answered_by": msgspec.to_builtins(by)})
