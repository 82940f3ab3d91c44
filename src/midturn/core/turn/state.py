"""What the parts of a turn share: its settings, its record, its desk, and the effects of the present step."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import TypeVar

from msgspec.structs import replace

from midturn.core.events import Event
from midturn.core.json_value import Json
from midturn.core.turn.desk import Desk
from midturn.core.turn.effects import Effect, Warn, records_first
from midturn.core.turn.record import TurnRecord
from midturn.core.turn.settings import TurnSettings

E = TypeVar("E", bound=Event)


class TurnState:
    """`write` is the only way to an event, `want` the only way to any other effect.

    `written` counts the events of this process; `drafts` is what people entered before they replied.
    """

    def __init__(self, settings: TurnSettings, ids: Iterator[str]) -> None:
        self.settings = settings
        self.record = TurnRecord(settings.limits)
        self.desk = Desk(settings.prompts_at_once)
        self.drafts: dict[str, dict[str, Json]] = {}
        self.written = 0
        self._ids = ids
        self._warned: set[tuple[str, str | None]] = set()
        self._records: list[Event] = []
        self._others: list[Effect] = []

    def write(self, event: E) -> E:
        """Give the event its id, take it into the record, and have it made durable."""
        identified = replace(event, event_id=next(self._ids))
        self.record.apply(identified)
        self._records.append(identified)
        self.written += 1
        return identified

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
        return next(free for free in ids if not (self.record.is_taken(free) or self.desk.find(free)))

    def drain(self) -> tuple[Effect, ...]:
        """Return the effects of this step."""
        effects = records_first(self._records, self._others)
        self._records, self._others = [], []
        return effects
