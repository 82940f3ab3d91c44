"""The one register of what is open: every decision that waits, who has it, and in which order they came."""

from __future__ import annotations

from typing import Literal, TypeAlias

from midturn.core.turn.decision import Decision

Place: TypeAlias = Literal["line", "screen", "inbox", "model", "back"]
"""In line for a screen, on one, left for a person who comes by later, with a model; or back from whoever was asked."""

_WITH_A_PERSON = ("screen", "back")


class Ticket:
    """A decision on the desk.

    `form` names the form of several questions that it belongs to. `seen` is how much had been written when its route was found, and
    `misfits` counts replies that did not fit.
    """

    __slots__ = ("call", "decision", "form", "misfits", "place", "seen")

    def __init__(self, decision: Decision, call: str, form: str | None, place: Place, seen: int) -> None:
        self.decision = decision
        self.call = call
        self.form = form
        self.place = place
        self.seen = seen
        self.misfits = 0

    @property
    def id(self) -> str:
        """The name of the decision."""
        return self.decision.id


class Desk:
    """Tickets, first come, first served; `at_once` is how many prompts may be open.

    A form that has begun on a screen keeps it, also while something else than a person answers in between: until it is done, or waits
    for a person who comes by later. So first come, first served is by form.
    """

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._tickets: dict[str, Ticket] = {}
        self._begun: set[str] = set()

    def put(self, ticket: Ticket) -> None:
        """Put a decision on the desk, or put it somewhere else."""
        self._tickets[ticket.id] = ticket

    def find(self, id: str) -> Ticket | None:
        """Return the ticket of a decision, wherever it lies."""
        return self._tickets.get(id)

    def waiting_for(self, event_id: str) -> Ticket | None:
        """Return the ticket of what a recorded request or approval waits for."""
        return self.find(event_id) or next((ticket for ticket in self._tickets.values() if ticket.decision.event == event_id), None)

    def remove(self, id: str) -> Ticket | None:
        """Take a decision off the desk."""
        return self._tickets.pop(id, None)

    def next_in_line(self) -> Ticket | None:
        """Return the decision whose turn it is to be shown, where there is room for it."""
        if not self._tickets:
            return None
        shown, first = len(self._begun), None
        for ticket in self._tickets.values():
            if ticket.place == "line" and ticket.form in self._begun:
                return ticket
            if ticket.place in _WITH_A_PERSON and ticket.form not in self._begun:
                shown += 1
            elif first is None and ticket.place == "line":
                first = ticket
        return first if shown < self._at_once else None

    def show(self, ticket: Ticket) -> None:
        """Put a decision in front of a person."""
        ticket.place = "screen"
        if ticket.form is not None:
            self._begun.add(ticket.form)

    def leave(self, form: str | None) -> None:
        """Let go of the screen of a form."""
        if form is not None:
            self._begun.discard(form)

    def is_in_inbox(self, id: str) -> bool:
        """Whether a decision waits for a person who comes by later."""
        ticket = self._tickets.get(id)
        return ticket is not None and ticket.place == "inbox"
