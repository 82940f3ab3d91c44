"""The open requests, updated batch by batch, equal the open requests computed from the whole
turn.
"""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import example, given, settings, strategies as st

from midturn.events.types import (
    Approval,
    ChatResponse,
    ConfigDelta,
    Event,
    InquiryRequest,
    InquiryResponse,
    ToolCallRequest,
    ToolCallResponse,
)
from midturn.events.window import last_turn, open_turn
from midturn.stores.decisions import is_ready
from midturn.stores.port import LastTurn
from midturn.stores.postgres.journal import TurnRow
from midturn.turn.pending import pending
from midturn.turn.view import TurnView
from support.tapes import Tape

STEPS = st.sampled_from(
    [
        "start",
        "end",
        "call",
        "ask",
        "answer",
        "cancel",
        "approve",
        "decide",
        "respond",
        "say",
        "legacy",
        "between",
    ]
)


def recorded(  # noqa: C901, PLR0912  one step after the other
    steps: Sequence[tuple[str, int]],
) -> list[Event]:
    """Return the events of random steps; each step refers to an earlier one."""
    tape = Tape()
    for step, number in steps:
        calls = [event for event in tape.events if isinstance(event, ToolCallRequest)]
        requests = [event for event in tape.events if isinstance(event, InquiryRequest)]
        approvals = [event for event in tape.events if isinstance(event, Approval)]
        match step:
            case "start":
                tape.start()
            case "end":
                tape.end()
            case "call":
                tape.call(f"call_{number}")
            case "ask" if calls:
                tape.ask(calls[number % len(calls)], attempt=len(requests) + 1)
            case "answer" if requests:
                tape.answer(requests[number % len(requests)])
            case "cancel" if requests:
                tape.cancel(requests[number % len(requests)])
            case "approve" if calls:
                tape.wait(calls[number % len(calls)])
            case "decide" if approvals:
                tape.decide(approvals[number % len(approvals)])
            case "respond" if calls:
                tape.result(calls[number % len(calls)])
            case "say":
                tape.model("Fine.")
            case "legacy":
                tape.add(ChatResponse(message="Fine.", timestamp="2025-01-01 10:00:00"))
            case "between":
                tape.record(ConfigDelta(delta={}))
            case _:
                pass
    return tape.events


def open_by_definition(events: Sequence[Event]) -> set[str]:
    """Compute the open requests as documented: a request without an answer or a decision, whose
    call is in the open turn and has no response.
    """
    window = open_turn(events)
    turn = window.events if window else ()
    running = {event.event_id for event in turn if isinstance(event, ToolCallRequest)}
    running -= {event.call for event in turn if isinstance(event, ToolCallResponse)}
    requests = [
        event
        for event in turn
        if isinstance(event, InquiryRequest)
        or (isinstance(event, Approval) and event.state == "waiting")
    ]
    return {r.event_id for r in requests if not _decided(turn, r) and r.call in running}


def _decided(turn: Sequence[Event], request: InquiryRequest | Approval) -> bool:
    """Return whether a later line closes a request.

    A tape asks nothing twice under one ID. Two calls, and so their approvals, may share an ID.
    """
    if isinstance(request, Approval):
        decisions = (
            event for event in turn if isinstance(event, Approval) and event.state != "waiting"
        )
        return any((event.id, event.call) == (request.id, request.call) for event in decisions)
    behind = turn[next(place for place, event in enumerate(turn) if event is request) :]
    return any(isinstance(event, InquiryResponse) and event.id == request.id for event in behind)


TWICE = [("call", 0), ("call", 0), ("approve", 0), ("approve", 1), ("decide", 0)]
"""Two calls with one ID: the first is allowed, the second waits."""


def test_decision_does_not_apply_to_another_call_with_the_same_id() -> None:
    events = recorded(TWICE)
    assert open_by_definition(events) == {events[-2].event_id}
    assert TurnRow(events).waiting == TurnView.last(events).open_ids == [events[-2].event_id]


@settings(max_examples=150)
@given(st.lists(st.tuples(STEPS, st.integers(0, 5)), max_size=40), st.data())
def test_incremental_row_equals_the_computed_row(
    steps: list[tuple[str, int]], data: st.DataObject
) -> None:
    events = recorded(steps)
    cuts = (
        sorted(data.draw(st.sets(st.integers(0, len(events)), max_size=len(events))))
        if events
        else []
    )
    kept, place = TurnRow(), 0
    for cut in [*cuts, len(events)]:
        batch = events[place:cut]
        if batch:
            kept.follow(events[:place], batch)
        place = cut
        whole, window = TurnRow(events[:cut]), last_turn(events[:cut])
        assert (kept.turn_at, kept.unfinished, kept.waiting) == (
            whole.turn_at,
            whole.unfinished,
            whole.waiting,
        )
        assert kept.unfinished == (window is not None and window.open)
        assert set(kept.waiting) == open_by_definition(events[:cut])


@settings(max_examples=100)
@given(st.lists(st.tuples(STEPS, st.integers(0, 5)), max_size=40))
@example([("call", 0), ("start", 0), ("ask", 0), ("respond", 0)]).via(
    "a response of this turn to a call of an earlier one"
)
def test_inbox_shows_the_open_requests(steps: list[tuple[str, int]]) -> None:
    events = recorded(steps)
    assert (
        sorted(question.request.event_id for question in pending(events, ""))
        == TurnView.last(events).open_ids
    )


@settings(max_examples=100)
@given(st.lists(st.tuples(STEPS, st.integers(0, 5)), max_size=30))
def test_incremental_ready_state_equals_the_computed_one(steps: list[tuple[str, int]]) -> None:
    events = recorded(steps)
    kept = TurnRow()
    for place, event in enumerate(events):
        kept.follow(events[:place], [event])
        window = open_turn(events[: place + 1])
        assert kept.answered == (window is not None and is_ready(LastTurn(window.events)))
