"""Tells the people whose question it is: when it has waited for a while, again later, and then others. Each moment is told once.

A server notes what it is going to tell on the question before it does, as an answer is recorded: of several servers one does, and a server
that dies in between leaves a note without a `notified` behind it. Nothing here answers for anyone.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from msgspec.structs import replace

from midturn.clock import now as time_now
from midturn.errors import MidturnError
from midturn.question.people import Directory
from midturn.record.events import Escalated, Notified, Reassigned, Reminded
from midturn.record.open_question import OpenQuestion
from midturn.store.watching import StoreChange
from midturn.turn.people import Poll, open_poll
from midturn.turn.view import TurnView
from midturn.values.text import exact
from midturn.web.board import Board
from midturn.web.notifying import NotifyServices, NotifyWhen, moment_passed, sent_as

_EVERY = 0.5  # seconds between two looks at what waits
_RARELY = 30.0  # seconds between two looks at one question, at most
_PAGE = 500
_NO_ADDRESS = "no address"


class Reminding:
    """Watches open questions that belong to people."""

    def __init__(self, board: Board, directory: Directory, notice: NotifyWhen, now: Callable[[], str] = time_now) -> None:
        self._board = board
        self._directory = directory
        self._notice = notice
        self._now = now
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
