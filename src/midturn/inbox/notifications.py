"""Notifications about open questions. They are sent to `notify.urls`, to the browsers in which a
page is open, and to the people assigned to a question.

A notification is claimed in the store, sent, and then recorded with its outcome (see
`midturn.inbox.deliveries`). Several servers can share a store: one of them sends each notification.
A failed notification is retried later. This module never answers a question.
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
from midturn.inbox.deliveries import (
    SEND_TIMEOUT,
    Deliveries,
    NoticeDelivery,
    Sending,
    fingerprint,
    run_all,
    run_to_completion,
)
from midturn.inbox.open_questions import OpenQuestionList
from midturn.question.answer_type import SecretType
from midturn.question.people import Directory, time_left
from midturn.question.text import exact
from midturn.stores.store import record_notice
from midturn.stores.watching import StoreChange
from midturn.turn.notices import RETRY_DELAYS, DueNotice, escalation_due, notice_due
from midturn.turn.view import TurnView
from midturn.turn.votes import Poll, open_poll

_POLL_INTERVAL = 0.5  # seconds between checks for notifications that are due
_PAGE_SIZE = 500  # number of questions read per request at start-up
# seconds until a notification that another server has claimed is checked again
_CLAIMED_RETRY_DELAY = 5.0
_FIRST_RETRY_DELAY = RETRY_DELAYS[0]


class Notifier(Protocol):
    """Sends a question to the addresses of people."""

    async def tell(
        self, question: OpenQuestion, address: str, accepted: Collection[str] = ()
    ) -> Sending:
        """Send the question with a link to the page, whose address is `address`.

        Addresses in `accepted` are skipped, because they have already received it.
        """
        ...


class NotifyServices:
    """Services that receive questions through Apprise.

    Addresses may contain passwords, so messages contain only the scheme of an address.
    """

    def __init__(self, urls: Sequence[str]) -> None:
        """Create a client for each address.

        Raises:
            ConfigError: Apprise is not installed, or does not support an address.
        """
        try:
            import apprise  # imported here, because it is needed only to send notifications
        except ModuleNotFoundError as error:
            raise ConfigError(
                f"Notifications need the extra `notify`: {install_command('notify')}"
            ) from error
        self._all: list[tuple[str, str, Any]] = []
        for place, url in enumerate(urls, 1):
            service: Any = apprise.Apprise()
            if not service.add(url):
                raise ConfigError(
                    f"`notify.urls`: Apprise does not support address {place} ({_kind(url)}). Use a"
                    " URL scheme that Apprise lists, such as `ntfy://`."
                )
            self._all.append((fingerprint(url), _kind(url), service))

    async def tell(
        self, question: OpenQuestion, address: str, accepted: Collection[str] = ()
    ) -> Sending:
        """Send a question to all addresses except those in `accepted`."""
        return await self.send(*sent_as(question, address), accepted)

    async def send(self, title: str, body: str, accepted: Collection[str] = ()) -> Sending:
        """Send a message to all addresses except those in `accepted`."""
        missing = [each for each in self._all if each[0] not in accepted]
        sent = await asyncio.gather(
            *(_is_accepted(service, title, body) for _, _, service in missing)
        )
        outcome = [*zip(missing, sent, strict=True)]
        return Sending(
            tuple(id for (id, _, _), was in outcome if was),  # noqa: A001  as elsewhere
            tuple(kind for (_, kind, _), was in outcome if not was),
        )


async def _is_accepted(service: Any, title: str, body: str) -> bool:
    try:
        async with asyncio.timeout(SEND_TIMEOUT):
            return bool(await service.async_notify(title=title, body=body))
    except Exception:  # noqa: BLE001  third-party code may raise anything; the failure is recorded and the notification retried
        return False


class NotifyWhen(Struct, frozen=True, kw_only=True):
    """Settings for sending notifications. `address` is the address of the page.

    `service` identifies the recipient: if several servers use the same store and name, only one of
    them sends each notification. `remembered` is the file in which an earlier version listed the
    questions that it sent. It may not exist.
    """

    after: float
    address: str
    service: str = "urls"
    remembered: Path | None = None
    warn: Callable[[str], None]


class Notifying:
    """Watches open questions and sends a notification for each when it is due."""

    def __init__(
        self,
        board: OpenQuestionList,
        teller: Notifier,
        notice: NotifyWhen,
        clock: Callable[[], str] = now,
    ) -> None:
        self._questions = board
        self._teller = teller
        self._notice = notice
        self._now = clock
        self._deliveries = Deliveries(board.port, notice.service, clock)
        self._notified_since: str | None = None
        self._open: dict[str, OpenQuestion] = {}
        self._next_check: dict[str, float] = {}
        self._closed: set[str] = set()

    async def run(self) -> None:
        """Send notifications until cancelled."""
        self._questions.listeners.append(self._on_change)
        try:
            await self._questions.fresh()
            await self.begin()
            while True:
                await self.look()
                await asyncio.sleep(_POLL_INTERVAL)
        finally:
            self._questions.listeners.remove(self._on_change)

    async def begin(self) -> None:
        """Load the open questions.

        When a service is used for the first time, only questions asked from now on are sent to it.
        """
        self._notified_since = await self._deliveries.notified_since(
            self._sent_by_earlier_version()
        )
        known, is_open, last = await self._deliveries.names(), set[str](), None
        while page := await self._questions.port.pending(after=last, limit=_PAGE_SIZE):
            last = page[-1].id
            is_open.update(question.id for question in page)
            for question in page:
                if question.id not in known or not known[question.id].is_over:
                    self._add(question)
        await self._deliveries.remove_except(known, is_open)

    def _on_change(self, change: StoreChange) -> None:
        if change.question:
            self._add(change.question)
        elif change.id:
            self._open.pop(change.id, None)
            self._next_check.pop(change.id, None)
            self._closed.add(change.id)

    def _add(self, question: OpenQuestion) -> None:
        if self._notified_since is None or question.asked_at >= self._notified_since:
            self._open[question.id] = question

    async def look(self) -> None:
        """Send the notifications that are due now."""
        for id in [*self._closed]:  # noqa: A001  as elsewhere
            with suppress(MidturnError):  # the next server that starts removes the delivery instead
                await self._deliveries.remove(id)
            self._closed.discard(id)
        due = [question for question in self._open.values() if self._is_due(question)]
        await run_all(run_to_completion(self._send(question)) for question in due)

    async def _send(self, question: OpenQuestion) -> None:
        self._next_check[question.id] = time.monotonic() + _CLAIMED_RETRY_DELAY
        with suppress(MidturnError):  # the store is unavailable; the notification stays due
            if question.asked_at < (self._notified_since or "") or not await self._questions.find(
                question.id
            ):
                self._open.pop(question.id, None)
                return
            delivery, may_send = await self._deliveries.claim(question.id)
            if may_send and not delivery.is_over:
                sending = await self._teller.tell(question, self._notice.address, delivery.accepted)
                delivery = delivery.after(sending, self._now())
                await self._deliveries.settle(question.id, delivery)
                self._warn(delivery, sending)
            if delivery.is_over:
                self._open.pop(question.id, None)
            elif delivery.retry_at:
                self._next_check[question.id] = time.monotonic() + seconds_between(
                    self._now(), delivery.retry_at
                )

    def _warn(self, delivery: NoticeDelivery, sending: Sending) -> None:
        for kind in sending.failed:
            self._notice.warn(warning(kind, delivery))

    def _is_due(self, question: OpenQuestion) -> bool:
        return self._next_check.get(question.id, 0.0) <= time.monotonic() and moment_passed(
            question, self._notice.after, self._now()
        )

    def _sent_by_earlier_version(self) -> list[str] | None:
        """Return the IDs of the questions that an earlier version sent.

        Return None if it sent no question.
        """
        try:
            read = (
                cast("object", json.loads(self._notice.remembered.read_text()))
                if self._notice.remembered
                else None
            )
        except (OSError, ValueError):
            return None
        return [str(id) for id in cast("list[object]", read)] if isinstance(read, list) else None  # noqa: A001  the wire's word


def warning(kind: str, delivery: NoticeDelivery) -> str:
    """Return the warning about a service that did not accept a notification."""
    next_step = (
        "it will not be retried"
        if delivery.is_over
        else f"the next attempt is at {delivery.retry_at}"
    )
    return f"Could not send a question to {kind}: the service did not accept it; {next_step}."


def sent_as(question: OpenQuestion, address: str, why: str = "") -> tuple[str, str]:
    """Return a notification as a title and a body. The body contains the question's text and a link
    to the page.
    """
    rows = (f"{wording(question)}{time_left_of(question)}", why, f"{address}/q/{question.id}")
    return f"{exact(question.source.header)} asks", "\n".join(row for row in rows if row)


def moment_passed(question: OpenQuestion, seconds: float, now: str) -> bool:
    """Return whether a question has been open for at least `seconds`."""
    asked, current = parse_time(question.asked_at), parse_time(now)
    return asked is None or current is None or (current - asked).total_seconds() >= seconds


def seconds_between(then: str, later: str) -> float:
    """Return the seconds from `then` to `later` (RFC 3339)."""
    return (datetime.fromisoformat(later) - datetime.fromisoformat(then)).total_seconds()


def time_left_of(question: OpenQuestion) -> str:
    """Return a line with the time left to answer, or an empty string if the question has no
    deadline.
    """
    return (
        f"\nTime to answer: {time_left(now(), question.asked_at, question.deadline)}."
        if question.deadline
        else ""
    )


def wording(question: OpenQuestion) -> str:
    """Return the text of a question for a notification.

    The context and all details of a secret are left out.
    """
    if isinstance(question.question.answer_type, SecretType):
        return "It asks for a secret."
    more = f" (the first of {question.form.total} questions)" if question.form else ""
    return f"{exact(question.question.text)}{more}"


def _kind(url: str) -> str:
    return f"{exact(url.partition('://')[0])[:20]}://…" if "://" in url else "without a ://"


# --------------------------------------------------------------------------------------------------
# Reminders to the people a question is assigned to


_MAX_POLL_INTERVAL = 30.0  # maximum seconds between checks of one question
_MAX_CONCURRENT = 8  # maximum number of questions for which notifications are sent at the same time
_NO_ADDRESS = "no address"


class Reminding:
    """Reminds the people that open questions are assigned to, and escalates questions to others."""

    def __init__(
        self,
        board: OpenQuestionList,
        directory: Directory,
        notice: NotifyWhen,
        clock: Callable[[], str] = now,
    ) -> None:
        self._questions = board
        self._directory = directory
        self._notice = notice
        self._now = clock
        self._deliveries = Deliveries(board.port, "people", clock)
        self._open: dict[str, OpenQuestion] = {}
        self._next_check: dict[str, float] = {}
        self._services: dict[tuple[str, ...], NotifyServices] = {}
        self._at_once = asyncio.Semaphore(_MAX_CONCURRENT)

    async def run(self) -> None:
        """Send notifications until cancelled."""
        self._questions.listeners.append(self._on_change)
        try:
            await self._questions.fresh()
            await self.begin()
            while True:
                await self.look()
                await asyncio.sleep(_POLL_INTERVAL)
        finally:
            self._questions.listeners.remove(self._on_change)

    async def look(self) -> None:
        """Send the notifications that are due now."""
        due = [
            each
            for id, each in self._open.items()  # noqa: A001  the wire's word
            if self._next_check.get(id, 0.0) <= time.monotonic()
        ]
        await run_all(map(self._check, due))

    async def begin(self) -> None:
        """Load the open questions that are assigned to people."""
        known, is_open, last = await self._deliveries.names(), set[str](), None
        while page := await self._questions.port.pending(after=last, limit=_PAGE_SIZE):
            last = page[-1].id
            is_open.update(question.id for question in page)
            self._open.update((question.id, question) for question in page if question.whose)
        await self._deliveries.remove_except(known, is_open)

    def _on_change(self, change: StoreChange) -> None:
        if change.question and change.question.whose:
            self._open[change.id] = change.question
        elif change.id and not change.question:
            self._open.pop(change.id, None)
            self._next_check.pop(change.id, None)

    async def _check(self, question: OpenQuestion) -> None:
        async with self._at_once:
            with suppress(MidturnError):  # answered in the meantime, or the store is unavailable
                await self._notify(question)

    async def _notify(self, question: OpenQuestion) -> None:
        if (poll := await self._poll(question)) is None:
            self._open.pop(question.id, None)
            return
        self._next_check[question.id] = time.monotonic() + _poll_interval(poll)
        if (escalation := escalation_due(poll, question.asked_at, self._now())) is not None:
            with suppress(NotAllowed):  # another server recorded the notification first
                await record_notice(self._questions.port.store, question.id, escalation)
            poll = await self._poll(question) or poll
        if self._due(question, poll) is not None:
            await run_to_completion(self._send(question))

    async def _send(self, question: OpenQuestion) -> None:
        """Send the notification that is due, unless another server sends it."""
        poll = await self._poll(question)
        if poll is None or (notice := self._due(question, poll)) is None:
            return
        name = f"{question.id}/{notice.about}-{notice.number}"
        delivery, may_send = await self._deliveries.claim(name)
        if not may_send:
            self._next_check[question.id] = time.monotonic() + _CLAIMED_RETRY_DELAY
            return
        poll = await self._poll(question)
        if (
            poll is None or self._due(question, poll) != notice
        ):  # another server sent the notification before this claim
            await self._deliveries.remove(name)
            return
        if not delivery.is_over:
            delivery = await self._attempt(question, poll, notice, delivery)
            await self._deliveries.settle(name, delivery)
        await self._record(question, notice, delivery)
        if delivery.is_over:
            await self._deliveries.remove(name)
        else:
            self._next_check[question.id] = time.monotonic() + min(
                _poll_interval(poll), _FIRST_RETRY_DELAY
            )

    async def _attempt(
        self, question: OpenQuestion, poll: Poll, notice: DueNotice, delivery: NoticeDelivery
    ) -> NoticeDelivery:
        addresses = tuple(self._directory.addresses(poll.people, notice.to))
        if not addresses:
            return replace(delivery, error=_NO_ADDRESS, is_over=True)
        sending = await self._services_of(addresses).send(
            *sent_as(question, self._notice.address, _reason(notice)), delivery.accepted
        )
        delivery = delivery.after(sending, self._now())
        for kind in sending.failed:
            self._notice.warn(warning(kind, delivery))
        return delivery

    async def _record(
        self, question: OpenQuestion, notice: DueNotice, delivery: NoticeDelivery
    ) -> None:
        """Record the outcome of an attempt.

        A successful reminder is also recorded as an event.
        """
        store, error, retry_at = self._questions.port.store, delivery.error, delivery.retry_at
        if notice.about == "reminded" and error is None:
            with suppress(NotAllowed):  # recorded already, before a crash
                await record_notice(
                    store, question.id, Reminded(id="", number=notice.number, to=notice.to)
                )
        outcome = Notified(
            id="",
            about=notice.about,
            to=notice.to,
            error=error,
            number=notice.number,
            retry_at=retry_at,
        )
        with suppress(NotAllowed):
            await record_notice(store, question.id, outcome)

    async def _poll(self, question: OpenQuestion) -> Poll | None:
        """Return the votes, reassignments and reminders of a question, including the queued ones.
        Return None if the question is not open.
        """
        last = (await self._questions.port.look(question.conversation)).turn
        turn = TurnView.last(last.events)
        poll = open_poll(question.request, turn.record.notes)
        if poll is None or question.request.event_id not in turn.open_ids:
            return None
        queued = [
            each.note
            for each in last.handed
            if each.note is not None and each.event_id == question.request.event_id
        ]
        return replace(poll, notes=(*poll.notes, *queued))

    def _due(self, question: OpenQuestion, poll: Poll) -> DueNotice | None:
        at = self._now()
        return notice_due(
            poll, question.asked_at, at, has_waited=moment_passed(question, self._notice.after, at)
        )

    def _services_of(self, addresses: tuple[str, ...]) -> NotifyServices:
        if addresses not in self._services:
            self._services[addresses] = NotifyServices(addresses)
        return self._services[addresses]


def _poll_interval(poll: Poll) -> float:
    """Return the seconds until a question is checked again.

    The interval is a twentieth of the shortest delay configured for the question, within limits.
    """
    waits: Sequence[float] = [
        poll.people.remind_after or _MAX_POLL_INTERVAL,
        *(each.after for each in poll.people.escalate),
    ]
    return min(_MAX_POLL_INTERVAL, max(_POLL_INTERVAL, min(waits) / 20))


def _reason(notice: DueNotice) -> str:
    match notice.about:
        case "reminded":
            return f"It is still open (reminder {notice.number})."
        case "escalated":
            return (
                f"No one has answered it yet, so {exact(', '.join(notice.to))} can answer it now,"
                " too."
            )
        case _:
            return f"It is assigned to {exact(', '.join(notice.to))}."
