"""Notices about open questions: `notify.urls`, the browsers of a page, and the people of a question.

A notice is claimed in the store, sent, and only then recorded with its outcome (`midturn.inbox.deliveries`), so that one of several servers
sends it. A notice that a service did not accept is sent again later. Nothing here answers a question.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol, cast

from msgspec import Struct
from msgspec.structs import replace

from midturn.clock import now, parse_time
from midturn.errors import ConfigError, MidturnError, NotAllowed
from midturn.events.open_question import OpenQuestion
from midturn.events.types import Notified, Reminded
from midturn.extras import install_command
from midturn.inbox.deliveries import SEND_TIMEOUT, Deliveries, NoticeDelivery, Sending, fingerprint, recorded, run_all
from midturn.inbox.open_questions import Board
from midturn.question.answer_type import SecretType
from midturn.question.people import Directory, time_left
from midturn.question.text import exact
from midturn.stores.store import record_notice
from midturn.stores.watching import StoreChange
from midturn.turn.notices import RETRY_DELAYS, DueNotice, escalation_due, notice_due
from midturn.turn.people import Poll, open_poll
from midturn.turn.view import TurnView

_EVERY = 0.5  # seconds between two looks at what waits
_PAGE = 500  # questions that are read at once at the start
_CLAIMED_ELSEWHERE = 5.0  # seconds until the next look at a notice that another server sends, or that is tried again later
_FIRST_RETRY = RETRY_DELAYS[0]


class Teller(Protocol):
    """Sends a question to where people are."""

    async def tell(self, question: OpenQuestion, address: str, accepted: Collection[str] = ()) -> Sending:
        """Send it, with the address of the page, to all but those who have `accepted` it before."""
        ...


class NotifyServices:
    """The services to which questions are sent, by way of Apprise. An address may hold a password: it is named by its kind only."""

    def __init__(self, urls: Sequence[str]) -> None:
        """Find them.

        Raises:
            ConfigError: Apprise is not installed, or knows no service at an address.
        """
        try:
            import apprise  # only where something is to be sent
        except ModuleNotFoundError as error:
            raise ConfigError(f"Notifications need the extra `notify`: {install_command('notify')}") from error
        self._all: list[tuple[str, str, Any]] = []
        for place, url in enumerate(urls, 1):
            service: Any = apprise.Apprise()
            if not service.add(url):
                raise ConfigError(f"`notify.urls`: the address {place} ({_kind(url)}) is not one that Apprise knows.")
            self._all.append((fingerprint(url), _kind(url), service))

    async def tell(self, question: OpenQuestion, address: str, accepted: Collection[str] = ()) -> Sending:
        """Send a question to all but those who have accepted it."""
        return await self.send(*sent_as(question, address), accepted)

    async def send(self, title: str, body: str, accepted: Collection[str] = ()) -> Sending:
        """Send a text to all but those who have accepted it."""
        missing = [each for each in self._all if each[0] not in accepted]
        sent = await asyncio.gather(*(_is_accepted(service, title, body) for _, _, service in missing))
        outcome = [*zip(missing, sent, strict=True)]
        return Sending(tuple(id for (id, _, _), was in outcome if was), tuple(kind for (_, kind, _), was in outcome if not was))  # noqa: A001  as elsewhere


async def _is_accepted(service: Any, title: str, body: str) -> bool:
    try:
        async with asyncio.timeout(SEND_TIMEOUT):
            return bool(await service.async_notify(title=title, body=body))
    except Exception:  # noqa: BLE001  a service is anybody's code; that it failed is recorded, and it is tried again
        return False


class NotifyWhen(Struct, frozen=True, kw_only=True):
    """When and how notices are sent. `address` is that of the page.

    `service` names what is notified: the servers of a store that name it alike send each notice once. `remembered` is the file in which an
    earlier version has kept what it sent, if there is one.
    """

    after: float
    address: str
    service: str = "urls"
    remembered: Path | None = None
    warn: Callable[[str], None]


class Notifying:
    """Watches what is open, and sends it when it is due."""

    def __init__(self, board: Board, teller: Teller, notice: NotifyWhen, clock: Callable[[], str] = now) -> None:
        self._board = board
        self._teller = teller
        self._notice = notice
        self._now = clock
        self._deliveries = Deliveries(board.port, notice.service, clock)
        self._begun: str | None = None
        self._waiting: dict[str, OpenQuestion] = {}
        self._next: dict[str, float] = {}
        self._closed: set[str] = set()

    async def run(self) -> None:
        """Send until cancelled."""
        self._board.listeners.append(self._hear)
        try:
            await self._board.fresh()
            await self.begin()
            while True:
                await self.look()
                await asyncio.sleep(_EVERY)
        finally:
            self._board.listeners.remove(self._hear)

    async def begin(self) -> None:
        """Find what is to be sent: a server that is the first to notify a service sends what is asked from then on."""
        self._begun = await self._deliveries.begun(self._remembered())
        known, is_open, last = await self._deliveries.names(), set[str](), None
        while page := await self._board.port.pending(after=last, limit=_PAGE):
            last = page[-1].id
            is_open.update(question.id for question in page)
            for question in page:
                if question.id not in known or not known[question.id].is_over:
                    self._add(question)
        await self._deliveries.remove_except(known, is_open)

    def _hear(self, change: StoreChange) -> None:
        if change.question:
            self._add(change.question)
        elif change.id:
            self._waiting.pop(change.id, None)
            self._next.pop(change.id, None)
            self._closed.add(change.id)

    def _add(self, question: OpenQuestion) -> None:
        if self._begun is None or question.asked_at >= self._begun:
            self._waiting[question.id] = question

    async def look(self) -> None:
        """Send the messages that are due now."""
        for id in [*self._closed]:  # noqa: A001  as elsewhere
            with suppress(MidturnError):  # it is removed when the next server begins
                await self._deliveries.remove(id)
            self._closed.discard(id)
        due = [question for question in self._waiting.values() if self._is_due(question)]
        await run_all(recorded(self._send(question)) for question in due)

    async def _send(self, question: OpenQuestion) -> None:
        self._next[question.id] = time.monotonic() + _CLAIMED_ELSEWHERE
        with suppress(MidturnError):  # the store cannot be used now: it is sent later
            if question.asked_at < (self._begun or "") or not await self._board.find(question.id):
                self._waiting.pop(question.id, None)
                return
            delivery, is_ours = await self._deliveries.claim(question.id)
            if is_ours and not delivery.is_over:
                sending = await self._teller.tell(question, self._notice.address, delivery.accepted)
                delivery = delivery.after(sending, self._now())
                await self._deliveries.settle(question.id, delivery)
                self._warn(delivery, sending)
            if delivery.is_over:
                self._waiting.pop(question.id, None)
            elif delivery.retry_at:
                self._next[question.id] = time.monotonic() + seconds_between(self._now(), delivery.retry_at)

    def _warn(self, delivery: NoticeDelivery, sending: Sending) -> None:
        for kind in sending.failed:
            self._notice.warn(warning(kind, delivery))

    def _is_due(self, question: OpenQuestion) -> bool:
        return self._next.get(question.id, 0.0) <= time.monotonic() and moment_passed(question, self._notice.after, self._now())

    def _remembered(self) -> list[str] | None:
        """Return what an earlier version has sent; None if it has not sent anything."""
        try:
            read = cast("object", json.loads(self._notice.remembered.read_text())) if self._notice.remembered else None
        except (OSError, ValueError):
            return None
        return [str(id) for id in cast("list[object]", read)] if isinstance(read, list) else None  # noqa: A001  the wire's word


def warning(kind: str, delivery: NoticeDelivery) -> str:
    """Return what a server says of an address that has not accepted a notice."""
    later = "it is not tried again" if delivery.is_over else f"the next attempt is at {delivery.retry_at}"
    return f"A question could not be sent to {kind}: the service did not take it; {later}."


def sent_as(question: OpenQuestion, address: str, why: str = "") -> tuple[str, str]:
    """Return what is sent of a question: a title, and below it the text with a link to the page."""
    rows = (f"{wording(question)}{time_left_of(question)}", why, f"{address}/q/{question.id}")
    return f"{exact(question.source.header)} asks", "\n".join(row for row in rows if row)


def moment_passed(question: OpenQuestion, seconds: float, now: str) -> bool:
    """Whether a question has waited for so long."""
    asked, here = parse_time(question.asked_at), parse_time(now)
    return asked is None or here is None or (here - asked).total_seconds() >= seconds


def seconds_between(then: str, later: str) -> float:
    """Return the seconds between two times (RFC 3339)."""
    return (datetime.fromisoformat(later) - datetime.fromisoformat(then)).total_seconds()


def time_left_of(question: OpenQuestion) -> str:
    """Say how long there is left for an answer, where that has an end."""
    return f"\nTo be answered: {time_left(now(), question.asked_at, question.deadline)}." if question.deadline else ""


def wording(question: OpenQuestion) -> str:
    """Return what is sent of a question: its text, without its context, and nothing about a secret."""
    if isinstance(question.question.answer_type, SecretType):
        return "It asks for a secret."
    more = f" (the first of {question.form.total} questions)" if question.form else ""
    return f"{exact(question.question.text)}{more}"


def _kind(url: str) -> str:
    return f"{exact(url.partition('://')[0])[:20]}://…" if "://" in url else "without a ://"


# ----------------------------------------------------------------------------------------------------------------------
# The people whose question it is


_RARELY = 30.0  # seconds between two looks at one question, at most
_AT_ONCE = 8  # questions whose people are notified at the same time
_NO_ADDRESS = "no address"


class Reminding:
    """Watches open questions that belong to people."""

    def __init__(self, board: Board, directory: Directory, notice: NotifyWhen, clock: Callable[[], str] = now) -> None:
        self._board = board
        self._directory = directory
        self._notice = notice
        self._now = clock
        self._deliveries = Deliveries(board.port, "people", clock)
        self._waiting: dict[str, OpenQuestion] = {}
        self._next: dict[str, float] = {}
        self._services: dict[tuple[str, ...], NotifyServices] = {}
        self._at_once = asyncio.Semaphore(_AT_ONCE)

    async def run(self) -> None:
        """Notify until cancelled."""
        self._board.listeners.append(self._hear)
        try:
            await self._board.fresh()
            await self.begin()
            while True:
                await self.look()
                await asyncio.sleep(_EVERY)
        finally:
            self._board.listeners.remove(self._hear)

    async def look(self) -> None:
        """Send the messages that are due now."""
        due = [each for id, each in self._waiting.items() if self._next.get(id, 0.0) <= time.monotonic()]  # noqa: A001  the wire's word
        await run_all(map(self._look_at, due))

    async def begin(self) -> None:
        """Find what is open."""
        known, is_open, last = await self._deliveries.names(), set[str](), None
        while page := await self._board.port.pending(after=last, limit=_PAGE):
            last = page[-1].id
            is_open.update(question.id for question in page)
            self._waiting.update((question.id, question) for question in page if question.whose)
        await self._deliveries.remove_except(known, is_open)

    def _hear(self, change: StoreChange) -> None:
        if change.question and change.question.whose:
            self._waiting[change.id] = change.question
        elif change.id and not change.question:
            self._waiting.pop(change.id, None)
            self._next.pop(change.id, None)

    async def _look_at(self, question: OpenQuestion) -> None:
        async with self._at_once:
            with suppress(MidturnError):  # it was answered meanwhile, or the store cannot be used now
                await self._notify(question)

    async def _notify(self, question: OpenQuestion) -> None:
        if (poll := await self._poll(question)) is None:
            self._waiting.pop(question.id, None)
            return
        self._next[question.id] = time.monotonic() + _pause(poll)
        if (escalation := escalation_due(poll, question.asked_at, self._now())) is not None:
            with suppress(NotAllowed):  # another server was faster
                await record_notice(self._board.port.store, question.id, escalation)
            poll = await self._poll(question) or poll
        if self._due(question, poll) is not None:
            await recorded(self._send(question))

    async def _send(self, question: OpenQuestion) -> None:
        """Send the notice that is due, unless another server sends it."""
        poll = await self._poll(question)
        if poll is None or (notice := self._due(question, poll)) is None:
            return
        name = f"{question.id}/{notice.about}-{notice.number}"
        delivery, is_ours = await self._deliveries.claim(name)
        if not is_ours:
            self._next[question.id] = time.monotonic() + _CLAIMED_ELSEWHERE
            return
        poll = await self._poll(question)
        if poll is None or self._due(question, poll) != notice:  # it was sent before the claim
            await self._deliveries.remove(name)
            return
        if not delivery.is_over:
            delivery = await self._attempt(question, poll, notice, delivery)
            await self._deliveries.settle(name, delivery)
        await self._record(question, notice, delivery)
        if delivery.is_over:
            await self._deliveries.remove(name)
        else:
            self._next[question.id] = time.monotonic() + min(_pause(poll), _FIRST_RETRY)

    async def _attempt(self, question: OpenQuestion, poll: Poll, notice: DueNotice, delivery: NoticeDelivery) -> NoticeDelivery:
        addresses = tuple(self._directory.addresses(poll.people, notice.to))
        if not addresses:
            return replace(delivery, error=_NO_ADDRESS, is_over=True)
        sending = await self._services_of(addresses).send(*sent_as(question, self._notice.address, _why(notice)), delivery.accepted)
        delivery = delivery.after(sending, self._now())
        for kind in sending.failed:
            self._notice.warn(warning(kind, delivery))
        return delivery

    async def _record(self, question: OpenQuestion, notice: DueNotice, delivery: NoticeDelivery) -> None:
        """Record the outcome of an attempt, and that people were reminded."""
        store, error, retry_at = self._board.port.store, delivery.error, delivery.retry_at
        if notice.about == "reminded" and error is None:
            with suppress(NotAllowed):  # recorded before a crash
                await record_notice(store, question.id, Reminded(id="", number=notice.number, to=notice.to))
        outcome = Notified(id="", about=notice.about, to=notice.to, error=error, number=notice.number, retry_at=retry_at)
        with suppress(NotAllowed):
            await record_notice(store, question.id, outcome)

    async def _poll(self, question: OpenQuestion) -> Poll | None:
        """Return the poll with the notes that are recorded or queued for the holder of the conversation; None if it is closed."""
        last = (await self._board.port.look(question.conversation)).turn
        turn = TurnView.last(last.events)
        poll = open_poll(question.request, turn.record.notes)
        if poll is None or question.request.event_id not in turn.open_ids:
            return None
        queued = [each.note for each in last.handed if each.note is not None and each.event_id == question.request.event_id]
        return replace(poll, notes=(*poll.notes, *queued))

    def _due(self, question: OpenQuestion, poll: Poll) -> DueNotice | None:
        at = self._now()
        return notice_due(poll, question.asked_at, at, has_waited=moment_passed(question, self._notice.after, at))

    def _services_of(self, addresses: tuple[str, ...]) -> NotifyServices:
        if addresses not in self._services:
            self._services[addresses] = NotifyServices(addresses)
        return self._services[addresses]


def _pause(poll: Poll) -> float:
    """Return how long a question need not be looked at: a small part of its shortest wait."""
    waits: Sequence[float] = [poll.people.remind_after or _RARELY, *(each.after for each in poll.people.escalate)]
    return min(_RARELY, max(_EVERY, min(waits) / 20))


def _why(notice: DueNotice) -> str:
    match notice.about:
        case "reminded":
            return f"It still waits (reminder {notice.number})."
        case "escalated":
            return f"It has waited for a while, so it is put to {exact(', '.join(notice.to))}, too."
        case _:
            return f"It is put to {exact(', '.join(notice.to))}."
