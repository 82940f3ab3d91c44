"""Tells people who are not looking: a question that stays unanswered for a while is sent to where they are, once.

The people whose question it is are told when it has waited for a while, again later, and then others. A server notes what it is going to
tell on the question before it does, as an answer is recorded: of several servers one does, and a server that dies in between leaves a note
without a `notified` behind it. Nothing here answers for anyone.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol, cast

from msgspec import Struct
from msgspec.structs import replace

from midturn.clock import now
from midturn.errors import ConfigError, MidturnError
from midturn.files import write_private
from midturn.question.answer_type import SecretType
from midturn.question.people import Directory, time_left
from midturn.record.events import Escalated, Notified, Reassigned, Reminded
from midturn.record.open_question import OpenQuestion
from midturn.store.watching import StoreChange
from midturn.turn.people import Poll, open_poll
from midturn.turn.view import TurnView
from midturn.values.text import exact
from midturn.web.board import Board
from midturn.web.templating import moment

_EVERY = 0.5  # seconds between two looks at what waits
_PAGE = 500  # questions that are read at once at the start


class Teller(Protocol):
    """Sends a question to where people are."""

    async def tell(self, question: OpenQuestion, address: str) -> list[str]:
        """Send it, with the address of the page; return the names of those that did not take it."""
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
            raise ConfigError("Notifications need the extra `notify`: pip install 'midturn[notify]'.") from error
        self._all: list[tuple[str, Any]] = []
        for place, url in enumerate(urls, 1):
            service: Any = apprise.Apprise()
            if not service.add(url):
                raise ConfigError(f"`notify.urls`: the address {place} ({_kind(url)}) is not one that Apprise knows.")
            self._all.append((_kind(url), service))

    async def tell(self, question: OpenQuestion, address: str) -> list[str]:
        """Send a question to all; return the kinds of those that failed."""
        return await self.send(*sent_as(question, address))

    async def send(self, title: str, body: str) -> list[str]:
        """Send to all; return the kinds of those that failed."""
        sent = await asyncio.gather(*(self._sent(service, title, body) for _, service in self._all))
        return [kind for (kind, _), was_sent in zip(self._all, sent, strict=True) if not was_sent]

    async def _sent(self, service: Any, title: str, body: str) -> bool:
        try:
            return bool(await service.async_notify(title=title, body=body))
        except Exception:  # noqa: BLE001  a service is anybody's code, and the question waits all the same
            return False


class NotifyWhen(Struct, frozen=True, kw_only=True):
    """When and how something is sent. `address` is that of the page; `remembered` is a file of what was sent before, if there is one."""

    after: float
    address: str
    remembered: Path | None = None
    warn: Callable[[str], None]


class Notifying:
    """Watches what is open, and sends it when it is due."""

    def __init__(self, board: Board, teller: Teller, notice: NotifyWhen) -> None:
        self._board = board
        self._teller = teller
        self._notice = notice
        self._told: set[str] = set()
        self._waiting: dict[str, OpenQuestion] = {}

    async def run(self) -> None:
        """Send until cancelled."""
        self._board.listeners.append(self._hear)
        try:
            await self._board.fresh()
            await self._begin()
            while True:
                await self._send_due()
                await asyncio.sleep(_EVERY)
        finally:
            self._board.listeners.remove(self._hear)

    async def _begin(self) -> None:
        """Find out what is to be sent of what is open: a server that begins tells of what comes, not of everything that lies there."""
        remembered, lying, last = self._remembered(), set[str](), None
        while page := await self._board.port.pending(after=last, limit=_PAGE):
            last = page[-1].id
            lying.update(question.id for question in page)
            if remembered is not None:
                self._waiting.update((question.id, question) for question in page if question.id not in remembered)
        self._told = (lying if remembered is None else lying & remembered) - self._waiting.keys()

    def _hear(self, change: StoreChange) -> None:
        if change.question and change.id not in self._told:
            self._waiting[change.id] = change.question
        elif change.id and not change.question:
            self._waiting.pop(change.id, None)
            self._told.discard(change.id)

    async def _send_due(self) -> None:
        due = [question for question in self._waiting.values() if self._is_due(question)]
        for question in due:
            self._told.add(question.id)
            del self._waiting[question.id]
        if due:
            self._remember(self._told)
            await asyncio.gather(*map(self._tell, due))

    async def _tell(self, question: OpenQuestion) -> None:
        if not await self._board.find(question.id):
            return
        failed = await self._teller.tell(question, self._notice.address)
        for kind in failed:
            self._notice.warn(f"A question could not be sent to {kind}: the service did not take it.")

    def _is_due(self, question: OpenQuestion) -> bool:
        return moment_passed(question, self._notice.after, now())

    def _remembered(self) -> set[str] | None:
        """Return what was sent before; None where nothing says so."""
        try:
            read = cast("object", json.loads(self._notice.remembered.read_text())) if self._notice.remembered else None
        except (OSError, ValueError):
            return None
        return {str(id) for id in cast("list[object]", read)} if isinstance(read, list) else None  # noqa: A001  the wire's word

    def _remember(self, told: set[str]) -> None:
        """Keep what was sent of what is still open, so that a server that is started again does not send it twice."""
        if self._notice.remembered:
            write_private(self._notice.remembered, json.dumps(sorted(told)).encode())


def sent_as(question: OpenQuestion, address: str, why: str = "") -> tuple[str, str]:
    """Return what is sent of a question: a title, and below it the text with a link to the page."""
    rows = (f"{wording(question)}{time_left_of(question)}", why, f"{address}/q/{question.id}")
    return f"{exact(question.source.header)} asks", "\n".join(row for row in rows if row)


def moment_passed(question: OpenQuestion, seconds: float, now: str) -> bool:
    """Whether a question has waited for so long."""
    asked, here = moment(question.asked_at), moment(now)
    return asked is None or here is None or (here - asked).total_seconds() >= seconds


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
_NO_ADDRESS = "no address"


class Reminding:
    """Watches open questions that belong to people."""

    def __init__(self, board: Board, directory: Directory, notice: NotifyWhen, clock: Callable[[], str] = now) -> None:
        self._board = board
        self._directory = directory
        self._notice = notice
        self._now = clock
        self._waiting: dict[str, OpenQuestion] = {}
        self._next: dict[str, float] = {}
        self._services: dict[tuple[str, ...], NotifyServices] = {}

    async def run(self) -> None:
        """Tell until cancelled."""
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
        """Tell what is due now."""
        for question in [each for id, each in self._waiting.items() if self._next.get(id, 0.0) <= time.monotonic()]:  # noqa: A001  the wire's word
            with suppress(MidturnError):  # it was answered meanwhile, or another server tells of it
                await self._look_at(question)

    async def begin(self) -> None:
        """Find what is open."""
        last = None
        while page := await self._board.port.pending(after=last, limit=_PAGE):
            last = page[-1].id
            self._waiting.update((question.id, question) for question in page if question.whose)

    def _hear(self, change: StoreChange) -> None:
        if change.question and change.question.whose:
            self._waiting[change.id] = change.question
        elif change.id and not change.question:
            self._waiting.pop(change.id, None)
            self._next.pop(change.id, None)

    async def _look_at(self, question: OpenQuestion) -> None:
        turn = TurnView.last(await self._board.port.last_turn(question.conversation))
        poll = open_poll(question.request, turn.record.notes)
        if poll is None or question.request.event_id not in turn.open_ids:
            self._waiting.pop(question.id, None)
            return
        self._next[question.id] = time.monotonic() + _pause(poll)
        due = poll.due(question.asked_at, self._now())
        if due is None and not moment_passed(question, self._notice.after, self._now()):
            return
        due = due or _first_telling(poll)
        if due is not None:
            addresses = tuple(self._directory.addresses(poll.people, due.to))
            if isinstance(due, Notified) and not addresses:
                due = replace(due, error=_NO_ADDRESS)
            await self._board.port.store.note(question.id, due)
            await self._tell(question, due, addresses)

    async def _tell(self, question: OpenQuestion, due: Reminded | Escalated | Notified, addresses: tuple[str, ...]) -> None:
        failed = await self._services_of(addresses).send(*sent_as(question, self._notice.address, _why(due))) if addresses else []
        for kind in failed:
            self._notice.warn(f"A question could not be sent to {kind}: the service did not take it.")
        if not isinstance(due, Notified):
            error = f"not taken by {', '.join(failed)}" if failed else None if addresses else _NO_ADDRESS
            await self._board.port.store.note(question.id, Notified(id="", about=due.type, to=due.to, error=error))

    def _services_of(self, addresses: tuple[str, ...]) -> NotifyServices:
        if addresses not in self._services:
            self._services[addresses] = NotifyServices(addresses)
        return self._services[addresses]


def _first_telling(poll: Poll) -> Notified | None:
    """Return the note about the first time that people are told: that it is put to them, or was passed on to them."""
    passed_on = any(isinstance(note, Reassigned) for note in poll.notes)
    about = "reassigned" if passed_on else "asked"
    told = [note for note in poll.notes if isinstance(note, Notified) and note.about == about]
    return Notified(id="", about=about, to=poll.asked) if poll.asked and not told else None


def _pause(poll: Poll) -> float:
    """Return how long a question need not be looked at: a small part of its shortest wait."""
    waits: Sequence[float] = [poll.people.remind_after or _RARELY, *(each.after for each in poll.people.escalate)]
    return min(_RARELY, max(_EVERY, min(waits) / 20))


def _why(due: Reminded | Escalated | Notified) -> str:
    match due:
        case Reminded(number=number):
            return f"It still waits (reminder {number})."
        case Escalated():
            return f"It has waited for a while, so it is put to {exact(', '.join(due.to))}, too."
        case _:
            return f"It is put to {exact(', '.join(due.to))}."
