"""The one register of what is open: every decision that waits, who has it, and in which order they came."""

from __future__ import annotations

from typing import Literal, TypeAlias

from midturn.core.turn.decision import Decision

Place: TypeAlias = Literal["line", "screen", "inbox", "model", "back"]
"""In line for a screen, on one, left for a person who comes by later, with a model; or back from whoever was asked."""

_WITH_A_PERSON = ("screen", "back")


class Ticket:
    """A decision on the desk. `seen` is how much had been written when its route was found; `misfits` counts replies that did not fit."""

    __slots__ = ("call", "decision", "misfits", "place", "seen")

    def __init__(self, decision: Decision, call: str, place: Place, seen: int) -> None:
        self.decision = decision
        self.call = call
        self.place = place
        self.seen = seen
        self.misfits = 0


class Desk:
    """Tickets, first come, first served; `at_once` is how many prompts may be open."""

    def __init__(self, at_once: int) -> None:
        self._at_once = at_once
        self._tickets: dict[str, Ticket] = {}

    def put(self, ticket: Ticket) -> None:
        """Put a decision on the desk, or put it somewhere else."""
        self._tickets[ticket.decision.id] = ticket

    def find(self, id: str) -> Ticket | None:
        """Return the ticket of a decision, wherever it lies."""
        return self._tickets.get(id)

    def remove(self, id: str) -> Ticket | None:
        """Take a decision off the desk."""
        return self._tickets.pop(id, None)

    def next_in_line(self) -> Ticket | None:
        """Return the decision whose turn it is to be shown, where there is room for it."""
        shown, first = 0, None
        for ticket in self._tickets.values():
            if ticket.place in _WITH_A_PERSON:
                shown += 1
            elif first is None and ticket.place == "line":
                first = ticket
        return first if shown < self._at_once else None

    def is_in_inbox(self, id: str) -> bool:
        """Whether a decision waits for a person who comes by later."""
        ticket = self._tickets.get(id)
        return ticket is not None and ticket.place == "inbox"
