"""Turns of agents inside of tools: where they are, and which turn is around them, as their events say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from midturn.core.events import Child, Event, Parent, ToolCallResponse, TurnStart
from midturn.core.stream.window import Window, open_turn, turns


def parent_of(turn: Iterable[Event]) -> Parent | None:
    """Return the call that a turn runs in; None for one that stands alone."""
    return next((event.parent for event in turn if isinstance(event, TurnStart)), None)


def children_of(events: Iterable[Event]) -> list[Child]:
    """Return the turns that tools have started, each as it was first recorded."""
    return [event for event in events if isinstance(event, Child) and not event.of]


def open_children(events: Sequence[Event]) -> list[Child]:
    """Return the turns inside of calls of the open turn that have no response yet. Which of them are over, only they know."""
    window = open_turn(events)
    children = children_of(window.events) if window else []
    if window is None or not children:
        return []
    done = {event.call for event in window.events if isinstance(event, ToolCallResponse)}
    return [child for child in children if child.call not in done]


def awaited_children(events: Sequence[Event]) -> list[Child]:
    """Return those of them that the turn had not taken in when it was left."""
    children = open_children(events)
    if not children:  # most turns have none, and the turns before are not looked at for them
        return []
    last_said = {event.of: event.state for event in events if isinstance(event, Child) and event.of}
    return [child for child in children if last_said.get(child.event_id) != "done"]


def turn_of_child(events: Sequence[Event], child: str) -> Window | None:
    """Return the turn that an event `child` of the turn around has named."""
    found = ((window, parent_of(window.events)) for window in reversed(turns(events)))
    return next((window for window, parent in found if parent and parent.child == child), None)
