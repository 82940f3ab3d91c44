"""What is known of every conversation, for lists, searches and sums. Reading is what costs, so what was read is kept for a while."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from midturn.errors import MidturnError
from midturn.events.open_question import asked_text
from midturn.events.transcript import ApprovalEntry, RequestEntry, told
from midturn.events.types import InquiryRequest, InquiryResponse, user_requests
from midturn.inbox.store_access import Port
from midturn.stores.conversation import Conversation
from midturn.stores.response_times import NAMELESS, Waited, waited_for
from midturn.turn.view import calls
from midturn.web.timeline import waited

# ----------------------------------------------------------------------------------------------------------------------
# What was asked in a conversation, who answered, and how long it took: what sums are made of


class FormFact(Struct, frozen=True, kw_only=True):
    """One question, or one approval that people were asked for. `by` is who answered (empty: no one, or no one yet), `person` their name.

    `closed_at` is empty while it waits. `is_refused` says, of an approval, whether it was; None of a question.
    `overturns` says, of a person's answer after a model's no, whether it was another one; None everywhere else.
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


def asked(conversation: Conversation) -> Iterator[FormFact]:
    """Return every question of a conversation, and every approval that waited, oldest first."""
    names = {call.event_id: call.name for call, _ in calls(conversation.events)}
    for entry in told(conversation.events):
        match entry:
            case RequestEntry():
                yield _question(entry, names, conversation.id)
            case ApprovalEntry() if entry.waits:
                yield _approval(entry, conversation.id)
            case _:
                pass


def _question(entry: RequestEntry, names: Mapping[str, str], conversation: str) -> FormFact:
    request, response = entry.event, entry.response
    who = response.answered_by if response and response.outcome != "cancelled" else None
    return FormFact(
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


def _approval(entry: ApprovalEntry, conversation: str) -> FormFact:
    event, decision = entry.event, entry.decision
    tool, who = entry.call.event.name if entry.call else "", decision.answered_by if decision else None
    return FormFact(
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
    if request.escalates is None or response is None or response.outcome != "answered" or _by(response) != "user":
        return None
    return response.answer is True


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
    asked: tuple[FormFact, ...]
    waited: tuple[Waited, ...] = ()


class Library:
    """Reads conversations, the newest first."""

    def __init__(self, port: Port) -> None:
        self._port = port
        self._kept: dict[str, tuple[float, Summary]] = {}

    async def newest(self, limit: int = NEWEST) -> list[Summary]:
        """Return the newest conversations; one that cannot be read is left out."""
        ids = await self._port.newest(limit)
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

    async def newest_before(self, before: str, limit: int) -> list[Summary]:
        """Return a page of conversations, the newest first; no other one is read."""
        return [summary for id in await self._port.newest(limit, before) if (summary := await self._summary(id))]  # noqa: A001  as above

    async def count(self) -> int:
        """Return how many conversations there are; none of them is read."""
        return len(await self._port.ids())

    def forget(self, id: str) -> None:
        """Read a conversation again when it is asked for: something happened in it."""
        self._kept.pop(id, None)


def fitting(summaries: Sequence[Summary], words: str, label: str) -> list[Summary]:
    """Return those in whose title, labels and requests all the words stand, and that have the label."""
    wanted = words.casefold().split()
    return [one for one in summaries if (not label or label in one.labels) and all(word in one.words for word in wanted)]


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
        words="\n".join((conversation.id, conversation.title, *conversation.metadata.labels, *requests)).casefold(),
        asked=tuple(asked(conversation)),
        waited=tuple(waited_for(conversation.events)),
    )
