"""Summaries of conversations for lists, searches and statistics.

The summaries are cached, because reading logs is slow.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from midturn.errors import MidturnError
from midturn.events.open_question import asked_text
from midturn.events.transcript import ApprovalEntry, RequestEntry, transcript_entries
from midturn.events.types import InquiryRequest, InquiryResponse, user_requests
from midturn.inbox.store_access import Port
from midturn.stores.conversation import Conversation
from midturn.stores.response_times import NAMELESS, ResponseTime, waited_for
from midturn.turn.view import calls
from midturn.web.timeline import waited

# --------------------------------------------------------------------------------------------------
# Facts for statistics: the question, the responder, and the response time


class QuestionFact(Struct, frozen=True, kw_only=True):
    """One question, or one approval that people were asked for.

    Args:
        tool: Name of the tool.
        text: Text of the question.
        at: Time of the question in RFC 3339.
        closed_at: Time of the answer. Empty while the question is open.
        by: Kind of the responder, such as `user`. Empty if there is none.
        waited: Response time in seconds.
        overturns: Whether a person overruled a model's denial. None unless a person answered after
            a model.
        person: Name of the person who answered.
        is_refused: Whether an approval was denied. None for a question.
        address: Relative URL of the question in its conversation.
    """

    tool: str
    text: str
    at: str
    closed_at: str
    by: str
    waited: float | None
    overturns: bool | None = None
    person: str = ""
    is_refused: bool | None = None
    address: str = ""


def question_facts(conversation: Conversation) -> Iterator[QuestionFact]:
    """Yield all questions and approvals in a conversation, oldest first."""
    names = {call.event_id: call.name for call, _ in calls(conversation.events)}
    for entry in transcript_entries(conversation.events):
        match entry:
            case RequestEntry():
                yield _question(entry, names, conversation.id)
            case ApprovalEntry() if entry.waits:
                yield _approval(entry, conversation.id)
            case _:
                pass


def _question(entry: RequestEntry, names: Mapping[str, str], conversation: str) -> QuestionFact:
    request, response = entry.event, entry.response
    who = response.answered_by if response and response.outcome != "cancelled" else None
    return QuestionFact(
        tool=names.get(request.call) or request.source.name or request.source.header,
        text=request.question.text,
        at=request.timestamp,
        closed_at=response.timestamp if response else "",
        by=_by(response),
        waited=waited(request, response),
        overturns=_overturns(request, response),
        person=(who.user or NAMELESS) if who and who.by == "user" else "",
        address=f"{conversation}#e-{request.event_id}",
    )


def _approval(entry: ApprovalEntry, conversation: str) -> QuestionFact:
    event, decision = entry.event, entry.decision
    tool, who = (
        entry.call.event.name if entry.call else "",
        decision.answered_by if decision else None,
    )
    return QuestionFact(
        tool=tool,
        text=asked_text(event, tool),
        at=event.timestamp,
        closed_at=decision.timestamp if decision else "",
        by=who.by if who else "user" if decision else "",
        waited=waited(event, decision) if decision else None,
        person=(who.user or NAMELESS) if who and who.by == "user" else "",
        is_refused=decision.state == "skipped" if decision else None,
        address=f"{conversation}#e-{event.event_id}",
    )


def _by(response: InquiryResponse | None) -> str:
    if response is None or response.outcome == "cancelled":
        return ""
    return "user" if response.answered_by is None else response.answered_by.by


def _overturns(request: InquiryRequest, response: InquiryResponse | None) -> bool | None:
    if (
        request.escalates is None
        or response is None
        or response.outcome != "answered"
        or _by(response) != "user"
    ):
        return None
    return response.answer is True


# searches and statistics cover at most this number of conversations, the newest ones
NEWEST = 1_000
OPEN_TTL = 30.0  # seconds that an open conversation stays in the cache
FINISHED_TTL = 600.0  # seconds that a finished conversation stays in the cache


class Summary(Struct, frozen=True, kw_only=True):
    """A conversation in a list, with its questions."""

    id: str
    title: str
    labels: tuple[str, ...]
    turns: int
    is_open: bool
    at: str
    words: str
    asked: tuple[QuestionFact, ...]
    waited: tuple[ResponseTime, ...] = ()


class ConversationCache:
    """Reads and caches conversations."""

    def __init__(self, port: Port) -> None:
        self._port = port
        self._cached: dict[str, tuple[float, Summary]] = {}

    async def newest(self, limit: int = NEWEST) -> list[Summary]:
        """Return the newest conversations. Unreadable conversations are left out."""
        ids = await self._port.newest(limit)
        found = [summary for id in ids if (summary := await self._summary(id))]  # noqa: A001  as in the API
        self._cached = {id: self._cached[id] for id in ids if id in self._cached}  # noqa: A001  as above
        return found

    async def _summary(self, id: str) -> Summary | None:
        read_at, kept = self._cached.get(id, (0.0, None))
        age = time.monotonic() - read_at
        if kept and age < (OPEN_TTL if kept.is_open else FINISHED_TTL):
            return kept
        try:
            summary = _summarized(await self._port.read(id))
        except MidturnError:
            return None
        self._cached[id] = (time.monotonic(), summary)
        return summary

    async def newest_before(self, before: str, limit: int) -> list[Summary]:
        """Return a page of conversations, newest first. Only these conversations are read."""
        return [
            summary
            for id in await self._port.newest(limit, before)  # noqa: A001  as above
            if (summary := await self._summary(id))
        ]

    async def count(self) -> int:
        """Return the number of conversations without reading them."""
        return len(await self._port.ids())

    def forget(self, id: str) -> None:
        """Drop a conversation from the cache after a change."""
        self._cached.pop(id, None)


def matching(summaries: Sequence[Summary], words: str, label: str) -> list[Summary]:
    """Return the conversations that have the label `label`, if it is not empty, and contain all
    words in their title, labels or requests.
    """
    wanted = words.casefold().split()
    return [
        one
        for one in summaries
        if (not label or label in one.labels) and all(word in one.words for word in wanted)
    ]


def _summarized(conversation: Conversation) -> Summary:
    requests = [request.content for request in user_requests(conversation.events)]
    turns = conversation.turns
    return Summary(
        id=conversation.id,
        title=conversation.title,
        labels=tuple(conversation.metadata.labels),
        turns=len(turns),
        is_open=bool(turns) and turns[-1].open,
        at=conversation.events[-1].timestamp if conversation.events else "",
        words="\n".join(
            (conversation.id, conversation.title, *conversation.metadata.labels, *requests)
        ).casefold(),
        asked=tuple(question_facts(conversation)),
        waited=tuple(waited_for(conversation.events)),
    )
