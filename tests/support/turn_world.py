"""The world of a scripted turn: what was recorded, what the model says, what people decide. A pure function of script and record."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from midturn.question.reply import Reply
from midturn.record.events import Event
from midturn.record.exchange import TextPart, ToolCallPart
from midturn.turn.inputs import Happened, Interrupted, ModelAnswered, ModelFailed, TurnFailed
from support.turn_bridge import reply
from support.turn_oracle import called_name
from support.turn_people import ARGUMENTS, delivery, permission, review
from support.turn_record_reading import CallEvents, call_events, calls_in, is_superseded
from support.turn_script import Called, Script, Value


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
        self.steps = 0

    def record(self, batch: Sequence[Event]) -> None:
        """Make a batch durable."""
        if batch:
            self.batches.append(len(self.events))
            self.events += [replace(event, more=len(batch) - place - 1) for place, event in enumerate(batch)]

    def called(self, call: str) -> Called:
        """Return the script of a call."""
        every = list(itertools.chain.from_iterable(self.script.cycles))
        return every[calls_in(self.events).index(call)]

    def number(self, call: str) -> int:
        """Return the place of a call in the turn."""
        return calls_in(self.events).index(call)

    def recorded(self, call: str) -> CallEvents:
        """Return what was recorded of a call."""
        return call_events(self.events, call)

    def pick(self, ready: Iterable[str]) -> str:
        """Say what happens next: without a schedule, whatever belongs to the first call."""
        ordered = sorted(ready)
        schedule = self.script.schedule
        self.steps += 1
        return ordered[schedule[self.steps % len(schedule)] % len(ordered)] if schedule else ordered[0]

    def model(self) -> Happened:
        """Let the model speak, go down, or be interrupted."""
        if self.model_is_down:
            self.model_is_down = False
            return ModelFailed("overloaded")
        spoken, so_far = len(calls_in(self.events)), 0
        for cycle in self.script.cycles:
            if so_far == spoken:
                return ModelAnswered((TextPart("Let me see."), *(_part(called) for called in cycle)))
            so_far += len(cycle)
        match self.script.ending:
            case "says":
                return ModelAnswered((TextPart("Done."),))
            case "fails":
                return TurnFailed("the script is at its end")
            case "interrupted":
                return Interrupted((TextPart("I was about to"),))


def _part(called: Called) -> ToolCallPart:
    arguments = "{broken" if called.broken else {"text": ARGUMENTS}
    return ToolCallPart(called.id, called_name(called), arguments, "it ends early" if called.broken else None)


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
