"""The environment of a scripted turn: records events and computes the model's answers and the
people's decisions from script and record.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import TypeAlias

from msgspec.structs import replace

from midturn.events.types import (
    Approval,
    ChatResponse,
    Event,
    InquiryCancelled,
    InquiryRequest,
    ToolCallRequest,
)
from midturn.question.reply import Reply
from midturn.question.text import rfc3339
from midturn.turn.inputs import Happened, Interrupted, ModelAnswered, ModelFailed, TurnFailed
from support.turn_bridge import reply
from support.turn_group import GroupOutcome, group_outcome, next_actions
from support.turn_oracle import called_name
from support.turn_people import ARGUMENTS, Does, delivery, permission, person, review
from support.turn_record_reading import NOTES, CallEvents, ask_behind, call_events, is_superseded
from support.turn_script import Called, GroupAction, Script, Value

NOON = datetime.fromisoformat("2030-01-01T12:00:00+00:00")
LATE_BY = timedelta(hours=2)  # time that passes without an action, past each deadline of one hour
Open: TypeAlias = InquiryRequest | Approval


def ids_after(events: Sequence[Event]) -> Iterator[str]:
    """Yield IDs that no event of the turn has."""
    return (f"e{len(events)}.{number}" for number in itertools.count(1))


class World:
    """The script and its recorded events. `batches` are the indexes in `events` at which a batch
    begins.
    """

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
        """Record a batch."""
        if batch:
            self.batches.append(len(self.events))
            self.events += [
                replace(event, more=len(batch) - place - 1) for place, event in enumerate(batch)
            ]
            self._note(batch)

    def called(self, call: str) -> Called:
        """Return the script of a call."""
        return self._called[self.number(call)]

    def number(self, call: str) -> int:
        """Return the index of a call in the turn."""
        return self._numbers[call]

    def recorded(self, call: str) -> CallEvents:
        """Return the events of a call. They are cached until more are recorded."""
        if call not in self._recorded:
            self._recorded[call] = call_events(self.events, call)
        return self._recorded[call]

    def pick(self, ready: Iterable[str]) -> str:
        """Return the next input: by the schedule, or else the first by call."""
        ordered = sorted(ready)
        schedule = self.script.schedule
        self.steps += 1
        return (
            ordered[schedule[self.steps % len(schedule)] % len(ordered)] if schedule else ordered[0]
        )

    # People and the time
    # ----------------------------------------------------------------------------------------------

    def now(self, hours: int = 0) -> str:
        """Return the current time. It is derived from the recorded deadlines and expirations."""
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
                self._hours = max(
                    self._hours, self._asked_in[event.id] + round(LATE_BY / timedelta(hours=1))
                )

    def group_outcome(self, request: Open) -> GroupOutcome | None:
        """Return the outcome for the people a request is put to, or None if anyone may answer."""
        called = self.called(request.call)
        if isinstance(request, Approval):
            tool = called.tool
            of = tool.of if tool and request.kind == "run" else None
            return (
                group_outcome(
                    of, 0, is_yes_or_no=True, is_permission=True, is_timed=bool(tool and tool.timed)
                )
                if of
                else None
            )
        ask, time = ask_behind(called, request, self.recorded(request.call))
        return (
            group_outcome(ask.of, time, is_yes_or_no=ask.kind == "boolean", is_timed=ask.timed)
            if ask.of
            else None
        )

    def next_actions(self, request: Open) -> Sequence[tuple[GroupAction, bool]]:
        """Return the next actions on a request: those that do not count, then one that does.
        Empty if anyone may answer.
        """
        found = self.group_outcome(request)
        if found is None:
            return ()
        noted = sum(isinstance(event, NOTES) and event.id == request.id for event in self.events)
        return next_actions(found, noted)

    def is_late(self, request: Open) -> bool:
        """Whether nobody will act on the request before its deadline."""
        if actions := self.next_actions(request):
            return actions[-1][0].what == "late"
        called = self.called(request.call)
        if isinstance(request, Approval):
            return request.kind == "run" and permission(called) == Does("late")
        ask, time = ask_behind(called, request, self.recorded(request.call))
        return person(called, ask, time, can_go_back=False, link=bool(request.escalates)) == Does(
            "late"
        )

    def model(self) -> Happened:
        """Return the model's answer, its failure or an interruption."""
        if self.model_is_down:
            self.model_is_down = False
            return ModelFailed("overloaded")
        spoken, so_far = len(self._numbers), 0
        for cycle in self.script.cycles:
            if so_far == spoken:
                return ModelAnswered(
                    (ChatResponse(message="Let me see."), *(_part(called) for called in cycle))
                )
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
    """Return the decision of a person about an approval. `reached` is the number of attempts
    before a review (None: all).
    """
    called = world.called(call)
    match kind:
        case "run":
            return reply(permission(called), kind)
        case "deliver":
            return reply(delivery(called), kind)
        case _:
            chains = [
                (request, response)
                for request, response in world.recorded(call).asked
                if not request.escalates
            ][:reached]
            backs = sum(
                bool(request.revises) and not is_superseded(response)
                for request, response in chains
            )
            return reply(review(called, backs), kind)
