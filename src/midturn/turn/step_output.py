"""Collects the output of one step of the state machine: the events to record, and the other
effects.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

from msgspec.structs import replace

from midturn.events.types import AnsweredBy, Event, InquiryCancelled, InquiryRequest
from midturn.question.json_value import Json
from midturn.turn.ending import TurnEnding
from midturn.turn.inputs import Effect, Record, Warn
from midturn.turn.record import CallRecord, TurnRecord
from midturn.turn.settings import TurnSettings
from midturn.turn.votes import ending_barred

E = TypeVar("E", bound=Event)


class StepOutput:
    """Collects the events and effects of the current step.

    Events are written only with `write`, and other effects are requested only with `want`.

    The object also contains the settings and the turn record, which all parts of a turn share.
    """

    def __init__(self, settings: TurnSettings, ids: Iterator[str]) -> None:
        self.settings = settings
        self.record = TurnRecord(settings.limits)
        self.record.memory.recall(settings.standing)
        self.now = ""
        """The last reported time (RFC 3339), from which new deadlines are computed. Empty if no
        time was reported.
        """
        self.deadlines_until = ""
        """Deadlines up to this time have passed. Empty if no trusted time was reported."""
        self.drafts: dict[str, dict[str, Json]] = {}
        """Answers that people entered in a form before they cancelled it, by tool and question id.
        """
        self.previewing: set[str] = set()
        """Ids of approvals that wait for a preview of the tool's question. They are in use although
        the approvals are not recorded yet.
        """
        self.written = 0
        """Number of events written by this process. If it has not changed since a decision was
        routed, the decision does not have to be routed again.
        """
        self._ids = ids
        self._warned: set[tuple[str, str | None]] = set()
        self._events: list[Event] = []
        self._effects: list[Effect] = []

    def write(self, event: E) -> E:
        """Give an event its id, apply the event to the record, and add it to the batch of this
        step. Return the event with its id.
        """
        identified = replace(event, event_id=next(self._ids))
        self.record.apply(
            identified
        )  # before it is durable: later events of this step depend on it, and a crash loses both
        self._events.append(identified)
        self.written += 1
        return identified

    def want(self, effect: Effect) -> None:
        """Request an effect. The driver performs it after all events of this step are durable."""
        self._effects.append(effect)

    def warn(self, about: str, what: str, event: str | None = None) -> None:
        """Show a warning to the user, once per process. `event` is the recorded event that caused
        it.
        """
        if (about, event) not in self._warned:
            self._warned.add((about, event))
            self.want(Warn(f"{about}: {what}", event))

    def drain(self) -> tuple[Effect, ...]:
        """Return the effects of this step, and begin the next step. The events come first, as one
        batch.
        """
        if not self._events and not self._effects:
            return ()
        effects = (*map(Record, self._events), *self._effects)
        self._events, self._effects = [], []
        return effects

    def end(self, ending: TurnEnding) -> None:
        """Write the closing batch of the turn."""
        for event in ending.events(self.record):
            self.write(event)

    def barred_from_ending(self, who: AnsweredBy) -> str:
        """Return why a person may not end this turn together with its outer and nested turns. Empty
        if the person may end them.
        """
        family = [turn for turn in self.settings.family.values() if turn is not self.record]
        return ending_barred((self.record, *family), who, self.settings.known_people)

    def supersede(self, request: InquiryRequest) -> None:
        """Close a question whose answer is no longer needed."""
        self.write(InquiryCancelled(id=request.id, reason="superseded"))

    def supersede_questions(self, call: CallRecord) -> None:
        """Close every open question of a call."""
        for thread in call.open_threads:
            self.supersede(thread.last.request)
