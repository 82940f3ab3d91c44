"""The world of a scripted turn: what was recorded, what the model says, what people decide. A pure function of script and record."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import TypeAlias

from msgspec.structs import replace

from midturn.events.types import Approval, ChatResponse, Event, InquiryCancelled, InquiryRequest, ToolCallRequest
from midturn.question.reply import Reply
from midturn.question.text import rfc3339
from midturn.turn.step import Happened, Interrupted, ModelAnswered, ModelFailed, TurnFailed
from support.turn_bridge import reply
from support.turn_crowd import Came, came, next_deals
from support.turn_oracle import called_name
from support.turn_people import ARGUMENTS, Does, delivery, permission, person, review
from support.turn_record_reading import NOTES, CallEvents, ask_behind, call_events, is_superseded
from support.turn_script import Called, Deal, Script, Value

NOON = datetime.fromisoformat("2030-01-01T12:00:00+00:00")
FOR_LONG = timedelta(hours=2)  # how long nobody does anything, where they are too late: everything that is asked has an hour
Open: TypeAlias = InquiryRequest | Approval


def ids_after(events: Sequence[Event]) -> Iterator[str]:
    """Yield ids that no event of the turn has."""
    return (f"e{len(events)}.{number}" for number in itertools.count(1))


class World:
    """The script, and everything that was recorded of it. `batches` are the places in `events` where a step's batch begins."""

    def __init__(self, script: Script, events: Sequence[Event] = ()) -> None:
        self.script = script
        self.events = list(events)
        self.batches: list[int] = []
        self.given: dict[str, list[tuple[str, dict[str, Value]]]] = {}
        self.model_is_down = script.model_is_down
        self._called = list(itertools.chain.from_iterable(script.cycles))
        self._asked_in: dict[str, int] = {}
        self._numbers: dict[str, int] = {}
        self._recorded: dict[str, CallEvents] = {}
        self._hours = 0
        self._note(self.events)
        self.steps = 0

    def record(self, batch: Sequence[Event]) -> None:
        """Make a batch durable."""
        if batch:
            self.batches.append(len(self.events))
            self.events += [replace(event, more=len(batch) - place - 1) for place, event in enumerate(batch)]
            self._note(batch)

    def called(self, call: str) -> Called:
        """Return the script of a call."""
        return self._called[self.number(call)]

    def number(self, call: str) -> int:
        """Return the place of a call in the turn."""
        return self._numbers[call]

    def recorded(self, call: str) -> CallEvents:
        """Return what was recorded of a call; it is asked for many times before more is."""
        if call not in self._recorded:
            self._recorded[call] = call_events(self.events, call)
        return self._recorded[call]

    def pick(self, ready: Iterable[str]) -> str:
        """Say what happens next: without a schedule, whatever belongs to the first call."""
        ordered = sorted(ready)
        schedule = self.script.schedule
        self.steps += 1
        return ordered[schedule[self.steps % len(schedule)] % len(ordered)] if schedule else ordered[0]

    # People and the time ----------------------------------------------------------------------------------------------------

    def now(self, hours: int = 0) -> str:
        """Return the time: it is read off the record, for all that is recorded of a time was asked, or over, then."""
        return rfc3339(NOON + timedelta(hours=self._hours + hours))

    def _note(self, events: Sequence[Event]) -> None:
        self._recorded.clear()
        for event in events:
            if isinstance(event, ToolCallRequest):
                self._numbers[event.event_id] = len(self._numbers)
            elif isinstance(event, Open) and event.deadline:
                asked = datetime.fromisoformat(event.deadline) - timedelta(hours=1) - NOON
                self._asked_in[event.id] = round(asked / timedelta(hours=1))
                self._hours = max(self._hours, self._asked_in[event.id])
            elif (isinstance(event, InquiryCancelled) and event.reason == "deadline") or (
                isinstance(event, Approval) and event.state == "expired"
            ):
                self._hours = max(self._hours, self._asked_in[event.id] + round(FOR_LONG / timedelta(hours=1)))

    def came(self, request: Open) -> Came | None:
        """Return what the people come to whom something is put; None where it is anyone's."""
        called = self.called(request.call)
        if isinstance(request, Approval):
            tool = called.tool
            of = tool.of if tool and request.kind == "run" else None
            return came(of, 0, is_yes_or_no=True, is_permission=True, is_timed=bool(tool and tool.timed)) if of else None
        ask, time = ask_behind(called, request, self.recorded(request.call))
        return came(ask.of, time, is_yes_or_no=ask.kind == "boolean", is_timed=ask.timed) if ask.of else None

    def next_deals(self, request: Open) -> Sequence[tuple[Deal, bool]]:
        """Return what people do next about what is put to them: what does not count, and then what does; nothing where it is anyone's."""
        found = self.came(request)
        if found is None:
            return ()
        noted = sum(isinstance(event, NOTES) and event.id == request.id for event in self.events)
        return next_deals(found, noted)

    def is_late(self, request: Open) -> bool:
        """Whether no one does anything more about it in time."""
        if deals := self.next_deals(request):
            return deals[-1][0].what == "late"
        called = self.called(request.call)
        if isinstance(request, Approval):
            return request.kind == "run" and permission(called) == Does("late")
        ask, time = ask_behind(called, request, self.recorded(request.call))
        return person(called, ask, time, can_go_back=False, link=bool(request.escalates)) == Does("late")

    def model(self) -> Happened:
        """Let the model speak, go down, or be interrupted."""
        if self.model_is_down:
            self.model_is_down = False
            return ModelFailed("overloaded")
        spoken, so_far = len(self._numbers), 0
        for cycle in self.script.cycles:
            if so_far == spoken:
                return ModelAnswered((ChatResponse(message="Let me see."), *(_part(called) for called in cycle)))
            so_far += len(cycle)
        match self.script.ending:
            case "says":
                return ModelAnswered((ChatResponse(message="Done."),))
            case "fails":
                return TurnFailed("the script is at its end")
            case "interrupted":
                return Interrupted((ChatResponse(message="I was about to"),))


def _part(called: Called) -> ToolCallRequest:
    arguments = "{broken" if called.broken else {"text": ARGUMENTS}
    return ToolCallRequest(id=called.id, name=called_name(called), arguments=arguments)


def decision(world: World, call: str, kind: str, reached: int | None = None) -> Reply:
    """Return what a person does about an approval; `reached` is how many attempts the walk to a review has come by (None: all)."""
    called = world.called(call)
    match kind:
        case "run":
            return reply(permission(called), kind)
        case "deliver":
            return reply(delivery(called), kind)
        case _:
            chains = [(request, response) for request, response in world.recorded(call).asked if not request.escalates][:reached]
            backs = sum(bool(request.revises) and not is_superseded(response) for request, response in chains)
            return reply(review(called, backs), kind)
