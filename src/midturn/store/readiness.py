"""Whether a stored turn can go on: what `core.turn.readiness` says of it and of those inside of its tools, and what was handed over."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from midturn.core.stream.children import awaited_children, turn_of_child
from midturn.core.turn import readiness
from midturn.store.port import LastTurn

FindTurn: TypeAlias = Callable[[str], LastTurn | None]
"""Returns the last turn of a conversation; None where there is none."""


def is_ready(turn: LastTurn, find: FindTurn | None = None) -> bool:
    """Say whether a turn, which nobody holds, can go on without a person who is absent.

    `find` finds the turns inside of its tools, with which it goes on; without it, they wait.
    """
    record = readiness.recorded_turn(turn.events)
    return record is not None and (bool(turn.handed) or readiness.is_ready(record) or _goes_on_inside(turn, find, is_ready))


def is_due(turn: LastTurn, find: FindTurn | None = None) -> bool:
    """Say whether an open turn, which nobody holds, does not wait for a person alone; `find` is as for `is_ready`."""
    record = readiness.recorded_turn(turn.events)
    return record is not None and (bool(turn.handed) or readiness.is_due(record) or _goes_on_inside(turn, find, is_due))


def _goes_on_inside(turn: LastTurn, find: FindTurn | None, judged: Callable[[LastTurn, FindTurn | None], bool]) -> bool:
    """Say whether a turn inside of a tool goes on, is over, or was never begun: then its call does."""
    if find is None:
        return False
    for child in awaited_children(turn.events):
        inside = find(child.conversation)
        window = turn_of_child(inside.events, child.event_id) if inside else None
        if inside is None or window is None or not window.open or judged(inside, find):
            return True
    return False
