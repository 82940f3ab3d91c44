"""Shared state of a turn's parts: settings, record, effects of the present step, the desk, and the stages of a call.

The desk is the one register of open decisions. A ticket moves `line → screen → back` at an attached prompter, lies in the `inbox` for an
absent person, or is with a `model`. It leaves the desk when its decision closes, whichever of them was first; a reply that comes
afterwards finds no ticket, and is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from itertools import count
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypeVar

from msgspec.structs import replace

from midturn.events.types import AnsweredBy, Event, InquiryCancelled, InquiryRequest
from midturn.question.json_value import Json, Limits
from midturn.turn.ending import Ending
from midturn.turn.people import ending_barred
from midturn.turn.record import CallRecord, TurnRecord
from midturn.turn.step import ClosePrompt, Effect, Record, StopAssistant, TurnSettings, Warn

if TYPE_CHECKING:  # what is decided belongs to calls: who only talks has no decisions
    from midturn.routing.messages import LimitName
    from midturn.turn.decision import Decision


DeskPlace: TypeAlias = Literal["line", "screen", "inbox", "model", "back"]
"""In line for a screen, on one, left for a person who comes by later, with a model; or back from the person who was asked."""

_WITH_A_PERSON = ("screen", "back")


class Ticket:
    """A decision on the desk.

    `form` names the form of several questions that it belongs to. `seen` is how much had been written when its route was found, and
    `misfits` counts replies that did not fit.
    """

    __slots__ = ("call", "decision", "form", "id", "misfits", "place", "seen", "shown")

    def __init__(self, decision: Decision, call: str, form: str | None, place: DeskPlace, seen: int) -> None:
        self.decision = decision
        self.id = decision.id
        """The name of the decision."""
        self.call = call
        self.form = form
        self.place = place
        self.seen = seen
        self.misfits = 0
        self.shown = ""
        """Digest of what its prompt shows."""


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

    def leave(self, form: str) -> None:
        """Let go of the screen of a form."""
        self._begun.discard(form)

    @property
    def has_an_inbox(self) -> bool:
        """Whether any decision waits for a person who comes by later."""
        return any(ticket.place == "inbox" for ticket in self._tickets.values())

    def is_in_inbox(self, id: str) -> bool:
        """Whether a decision waits for a person who comes by later."""
        ticket = self._tickets.get(id)
        return ticket is not None and ticket.place == "inbox"


E = TypeVar("E", bound=Event)


class TurnState:
    """`write` is the only way to an event, `want` the only way to any other effect.

    `written` counts the events of this process; `drafts` is what people entered before they replied; `foretelling` has the ids of the
    approvals of calls whose tools say first what they would ask: they are not free, although nothing of them is on record yet. `now` is the
    time as far as it was told, `over` the one until which deadlines have passed.
    """

    def __init__(self, settings: TurnSettings, ids: Iterator[str]) -> None:
        self.settings = settings
        self.record = TurnRecord(settings.limits)
        self.record.memory.recall(settings.standing)
        self.desk = Desk(settings.prompts_at_once)
        self.drafts: dict[str, dict[str, Json]] = {}
        self.foretelling: set[str] = set()
        self.written = 0
        self.now = ""
        self.over = ""
        self._ids = ids
        self._warned: set[tuple[str, str | None]] = set()
        self._records: list[Event] = []
        self._others: list[Effect] = []

    def write(self, event: E) -> E:
        """Give the event its id, take it into the record, and have it made durable."""
        identified = replace(event, event_id=next(self._ids))
        self.record.apply(identified)  # before it is durable: later lines of this step depend on it, and a crash loses both
        self._records.append(identified)
        self.written += 1
        return identified

    def end(self, ending: Ending) -> None:
        """Write the last batch."""
        for event in ending.events(self.record):
            self.write(event)

    def barred_from_ending(self, who: AnsweredBy) -> str:
        """Say why someone may not end this turn, with those inside of its tools and around it; empty where they may."""
        family = [turn for turn in self.settings.family.values() if turn is not self.record]
        return ending_barred((self.record, *family), who, self.settings.known_people)

    def supersede(self, request: InquiryRequest) -> None:
        """Close a question whose answer is not needed any more."""
        self.write(InquiryCancelled(id=request.id, reason="superseded"))

    def supersede_questions(self, call: CallRecord) -> None:
        """Close every question of a call that is still open."""
        for chain in call.open_chains:
            self.supersede(chain.last.request)

    def take_down(self, id: str) -> None:
        """Take a decision off the desk; its prompt or its request to a model is stopped."""
        ticket = self.desk.remove(id)
        if ticket and ticket.place == "screen":
            self.want(ClosePrompt(id))
        elif ticket and ticket.place == "model":
            self.want(StopAssistant(id))

    def want(self, effect: Effect) -> None:
        """Have something done, after everything that this step records."""
        self._others.append(effect)

    def warn(self, about: str, what: str, event: str | None = None) -> None:
        """Tell the user something, once in a process; `event` is the recorded event that it is about."""
        if (about, event) not in self._warned:
            self._warned.add((about, event))
            self.want(Warn(f"{about}: {what}", event))

    def approval_id(self, tool_call_id: str, kind: str) -> str:
        """Return the first id that is free: calls may share a `tool_call_id`, and not every approval is on record before it is decided."""
        stem = f"{tool_call_id}.__{kind}__"
        ids = (f"{stem}.{number}" for number in count(1))
        return next(free for free in ids if not (free in self.foretelling or self.record.is_taken(free) or self.desk.find(free)))

    def drain(self) -> tuple[Effect, ...]:
        """Return the effects of this step. What it records comes first: one batch, durable before what it leads to begins."""
        if not self._records and not self._others:
            return ()
        effects = (*map(Record, self._records), *self._others)
        self._records, self._others = [], []
        return effects


# Stages of a call, and every way from one to another. `Call` looks its moves up here; there is no other way -----------


class Stage(StrEnum):  # strings, because they are keys of a table that is read at every move
    """Where a call is."""

    PERMIT = "PERMIT"
    RUN = "RUN"
    RETURN = "RETURN"
    DELIVER = "DELIVER"
    DONE = "DONE"


class Move(StrEnum):
    """What takes a call from one stage to another, or keeps it where it is."""

    RUN = "RUN"
    ASK = "ASK"
    RETURN = "RETURN"
    FINISH = "FINISH"
    END = "END"


QUESTIONS: Final[Mapping[Stage, str]] = {
    Stage.PERMIT: "may it run?",
    Stage.RUN: "its tool runs, and a coroutine may ask",
    Stage.RETURN: "it has returned what it asks, and runs again with the answers",
    Stage.DELIVER: "may the model read its result?",
    Stage.DONE: "it has its response, or was left",
}

STAGES: Final[Mapping[Stage, Mapping[Move, Stage]]] = {
    Stage.PERMIT: {
        Move.RUN: Stage.RUN,
        Move.RETURN: Stage.RETURN,  # a visitor of an open turn takes its form up without running anything
        Move.FINISH: Stage.DELIVER,  # a turn that is resumed has the result on record
        Move.END: Stage.DONE,
    },
    Stage.RUN: {
        Move.ASK: Stage.RUN,
        Move.RETURN: Stage.RETURN,
        Move.FINISH: Stage.DELIVER,
        Move.END: Stage.DONE,
    },
    Stage.RETURN: {
        Move.RUN: Stage.RUN,
        Move.END: Stage.DONE,
    },
    Stage.DELIVER: {
        Move.END: Stage.DONE,
    },
    Stage.DONE: {},
}


# Limits: repeats, prompts shown, rejections in a row, cycles ----------------------------------------------------------


def is_repeated_too_often(emissions: int, limits: Limits) -> bool:
    """Whether a tool has asked the same thing, whole, more often in one call than it may."""
    return emissions > limits.repeats


def is_one_too_many(request: InquiryRequest, turn: TurnRecord, settings: TurnSettings) -> bool:
    """Whether enough questions of this turn were put to people while no one is attached. An attached person can end the turn instead.

    A question that was shown before may be shown again.
    """
    shown = len(turn.shown)
    if settings.family:
        shown += sum(len(other.shown) for other in _others(turn, settings))
    if shown < settings.limits.shown:
        return False
    return (request.call, request.question_id, request.question.key) not in turn.shown


def allowed(limit: LimitName, limits: Limits) -> int:
    """Return how many a limit allows, to be told."""
    match limit:
        case "repeats":
            return limits.repeats
        case "shown":
            return limits.shown
        case "rejected_cycles":
            return limits.rejected_cycles


def why_the_model_is_not_asked(turn: TurnRecord, settings: TurnSettings) -> tuple[str, str] | None:
    """Return the limit that ends a turn in place of another answer of the model, and what the user is told of it."""
    limits = settings.limits
    if turn.stopped_by_breaker:
        return "rejected_cycles", f"stopped after {limits.rejected_cycles} rejections in a row: nobody was there to review them"
    if turn.cycles + sum(other.cycles for other in _others(turn, settings)) >= limits.cycles:
        return "cycles", f"stopped after {limits.cycles} model calls; raise limits.cycles to allow more"
    return None


def _others(turn: TurnRecord, settings: TurnSettings) -> list[TurnRecord]:
    """Return the turns that share the limits: those inside of tools, and those around them."""
    return [other for other in settings.family.values() if other is not turn]
