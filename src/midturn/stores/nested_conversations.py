"""Conversations of agents that run inside tools.

Together with the outermost conversation, they form a family. A family continues, ends and is
removed as a whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial

from midturn.clock import TimeOfDay
from midturn.errors import NoConversation, StoreError
from midturn.events.types import Child, Event
from midturn.events.window import children_of, open_turn, parent_of, turns
from midturn.stores.batch import event_ids, stamped
from midturn.stores.decisions import is_due, is_ready
from midturn.stores.port import LastTurn, StorePort
from midturn.turn.ending import TurnEnding, ended_by_user, ending_batch
from midturn.turn.view import TurnView


async def root_of(port: StorePort, id: str) -> str:
    """Return the conversation in which a turn continues: the outermost conversation of its
    family.
    """
    try:
        parent = parent_of((await port.look(id)).turn.events)
    except StoreError:  # opening the conversation reports the error
        return id
    return parent.root if parent else id


async def open_family(port: StorePort, id: str) -> list[str]:
    """Return a conversation, and the conversations whose open turns run inside its open turn."""
    try:
        turn = (await port.look(id)).turn
    except StoreError:  # an unreadable conversation has no questions
        return [id]
    found = [id]
    for child in _once(_view(turn.events).open_children):
        found += await open_family(port, child)
    return found


async def whole_family(port: StorePort, id: str) -> list[str]:
    """Return a conversation and all conversations that its tools ever started, innermost first."""
    try:
        events = (await port.read(id)).events
    except StoreError:  # removing the conversation reports the error
        return [id]
    found: list[str] = []
    for child in _once(children_of(events)):
        if await _started_inside_tool(port, child):
            found += [each for each in await whole_family(port, child) if each not in found]
    return [*found, id]


async def _started_inside_tool(port: StorePort, id: str) -> bool:
    """Return whether a conversation was started inside a tool: its first turn then has a parent."""
    try:
        first = turns((await port.read(id)).events)[:1]
    except StoreError:  # the conversation was never started, or was removed
        return False
    return bool(first) and parent_of(first[0].events) is not None


async def end_family(port: StorePort, clock: TimeOfDay, turn: Sequence[Event]) -> None:
    """End the outer and the nested turns of an ended turn."""
    await end_children(port, clock, _view(turn).open_children, ended_by_user(set()))
    await end_around(port, clock, turn)


async def end_children(
    port: StorePort, clock: TimeOfDay, children: Iterable[Child], ending: TurnEnding
) -> None:
    """End the recorded child turns that are open and unlocked, the innermost first."""
    for child in children:
        below: list[Child] = []

        def decide(
            turn: LastTurn, child: Child = child, below: list[Child] = below
        ) -> Sequence[Event]:
            window, parent = open_turn(turn.events), parent_of(turn.events)
            if window is None or parent is None or parent.child != child.event_id:
                return ()
            if not below and (inside := _view(window.events).open_children):
                below.extend(inside)
                return ()
            return _ending_batch(window.events, ending, clock)

        try:
            await port.settle(child.conversation, decide)
            if below:
                await end_children(port, clock, below, ending)
                await port.settle(child.conversation, decide)
        except NoConversation:  # the conversation was never started, or was removed
            continue


async def is_answered_inside(port: StorePort, events: Sequence[Event]) -> bool:
    """Return whether a turn inside a tool of the open turn can continue. If so, the open turn can
    continue as well.
    """
    if not _view(events).awaited_children:
        return False
    found: dict[str, LastTurn] = {}
    await _find_all(port, _view(events).awaited_children, found)
    window = open_turn(events)
    return window is not None and is_ready(LastTurn(window.events), found.get)


async def can_continue(port: StorePort, turn: LastTurn, now: str) -> bool:
    """Return whether an unlocked open turn, or a turn inside one of its tools, can continue without
    people at the time `now`.
    """
    found: dict[str, LastTurn] = {}
    await _find_all(port, _view(turn.events).awaited_children, found)
    return is_due(turn, found.get, now)


async def _find_all(port: StorePort, children: Iterable[Child], found: dict[str, LastTurn]) -> None:
    for child in children:
        with suppress(StoreError):  # the conversation was never started
            found[child.conversation] = turn = (await port.look(child.conversation)).turn
            await _find_all(port, _view(turn.events).awaited_children, found)


async def end_around(port: StorePort, clock: TimeOfDay, turn: Sequence[Event]) -> None:
    """End the outer turns of an ended turn and their other nested turns. A turn that is running is
    ended by its own process.
    """
    parent = parent_of(turn)
    while parent is not None:
        try:
            around = (await port.look(parent.conversation)).turn.events
        except StoreError:  # the conversation was removed
            return
        window = open_turn(around)
        if window is None or not any(
            child.event_id == parent.child for child in _view(around).open_children
        ):
            return
        await end_children(port, clock, _view(around).open_children, ended_by_user(set()))
        asked, child = {parent.call}, parent
        batch = partial(_ended, clock, child.child, asked)
        await port.settle(parent.conversation, batch)
        parent = parent_of(window.events)


def _ended(clock: TimeOfDay, child: str, asked: set[str], turn: LastTurn) -> Sequence[Event]:
    window = open_turn(turn.events)
    if window is None or not any(
        each.event_id == child for each in _view(window.events).open_children
    ):
        return ()
    return _ending_batch(window.events, ended_by_user(asked), clock)


def _ending_batch(events: Sequence[Event], ending: TurnEnding, clock: TimeOfDay) -> Sequence[Event]:
    return stamped(ending_batch(events, ending, event_ids()), clock)


def _once(children: Iterable[Child]) -> list[str]:
    return list(dict.fromkeys(child.conversation for child in children))


def _view(turn: Sequence[Event]) -> TurnView:
    return TurnView.last(turn)
