"""What is known of every conversation, for lists, searches and sums. Reading is what costs, so what was read is kept for a while."""

from __future__ import annotations

import time
from collections.abc import Sequence

from msgspec import Struct

from midturn.core.events import ChatRequest
from midturn.errors import MidturnError
from midturn.store.conversation import Conversation
from midturn.web.facts import AskedFact, asked
from midturn.web.port import Port

NEWEST = 1_000  # conversations that are looked at
_FRESH = 30.0  # seconds for which a conversation is not read again
_OLD = 600.0  # seconds for which a finished one is not


class Summary(Struct, frozen=True, kw_only=True):
    """One conversation in a list, and what was asked in it."""

    id: str
    title: str
    labels: tuple[str, ...]
    turns: int
    is_open: bool
    at: str
    words: str
    asked: tuple[AskedFact, ...]


class Library:
    """Reads conversations, the newest first."""

    def __init__(self, port: Port) -> None:
        self._port = port
        self._kept: dict[str, tuple[float, Summary]] = {}

    async def newest(self, limit: int = NEWEST) -> list[Summary]:
        """Return the newest conversations; one that cannot be read is left out."""
        ids = sorted(await self._port.ids("begun"), reverse=True)[:limit]
        found = [summary for id in ids if (summary := await self._summary(id))]  # noqa: A001  the wire's word
        self._kept = {id: self._kept[id] for id in ids if id in self._kept}  # noqa: A001  as above
        return found

    async def _summary(self, id: str) -> Summary | None:
        read_at, kept = self._kept.get(id, (0.0, None))
        age = time.monotonic() - read_at
        if kept and age < (_FRESH if kept.is_open else _OLD):
            return kept
        try:
            summary = _summarized(await self._port.read(id))
        except MidturnError:
            return None
        self._kept[id] = (time.monotonic(), summary)
        return summary

    def forget(self, id: str) -> None:
        """Read a conversation again when it is asked for: something happened in it."""
        self._kept.pop(id, None)


def fitting(summaries: Sequence[Summary], words: str, label: str) -> list[Summary]:
    """Return those in whose title, labels and requests all the words stand, and that have the label."""
    wanted = words.casefold().split()
    return [one for one in summaries if (not label or label in one.labels) and all(word in one.words for word in wanted)]


def _summarized(conversation: Conversation) -> Summary:
    requests = [event.content for event in conversation.events if isinstance(event, ChatRequest)]
    turns = conversation.turns
    return Summary(
        id=conversation.id,
        title=conversation.title,
        labels=tuple(conversation.metadata.labels),
        turns=len(turns),
        is_open=bool(turns) and turns[-1].open,
        at=conversation.events[-1].timestamp if conversation.events else "",
        words="\n".join((conversation.id, conversation.title, *conversation.metadata.labels, *requests)).casefold(),
        asked=tuple(asked(conversation)),
    )
