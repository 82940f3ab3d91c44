"""Which requests wait, kept up to date batch by batch, says at every event what the whole turn says."""

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

STEPS = st.sampled_from(["start", "end", "call", "ask", "answer", "cancel", "approve", "decide", "respond", "say", "legacy", "between"])


def recorded(steps: Sequence[tuple[str, int]]) -> list[Event]:  # noqa: C901, PLR0912  one step after the other
    """Return the events of steps at random; each is about one of what came before it."""
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


def waiting_in_words(events: Sequence[Event]) -> set[str]:
    """Say it as the rule is written: a request without an answer or a decision, whose call is in the open turn and has no response."""
    window = open_turn(events)
    turn = window.events if window else ()
    running = {event.event_id for event in turn if isinstance(event, ToolCallRequest)}
    running -= {event.call for event in turn if isinstance(event, ToolCallResponse)}
    requests = [event for event in turn if isinstance(event, InquiryRequest) or (isinstance(event, Approval) and event.state == "waiting")]
    return {r.event_id for r in requests if not _decided(turn, r) and r.call in running}


def _decided(turn: Sequence[Event], request: InquiryRequest | Approval) -> bool:
    """Whether a later line closes a request; a tape asks nothing twice under one id. Two calls may have one, and so their approvals."""
    if isinstance(request, Approval):
        decisions = (event for event in turn if isinstance(event, Approval) and event.state != "waiting")
        return any((event.id, event.call) == (request.id, request.call) for event in decisions)
    behind = turn[next(place for place, event in enumerate(turn) if event is request) :]
    return any(isinstance(event, InquiryResponse) and event.id == request.id for event in behind)


TWICE = [("call", 0), ("call", 0), ("approve", 0), ("approve", 1), ("decide", 0)]
"""Two calls of one id: the first is allowed, and the other one waits."""


def test_a_decision_about_one_call_is_none_about_another_of_the_same_id() -> None:
    events = recorded(TWICE)
    assert waiting_in_words(events) == {events[-2].event_id}
    assert TurnRow(events).waiting == TurnView.last(events).open_ids == [events[-2].event_id]


@settings(max_examples=150)
@given(st.lists(st.tuples(STEPS, st.integers(0, 5)), max_size=40), st.data())
def test_a_row_kept_up_to_date_batch_by_batch_is_the_row_computed_from_all_events(
    steps: list[tuple[str, int]], data: st.DataObject
) -> None:
    events = recorded(steps)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(events)), max_size=len(events)))) if events else []
    kept, place = TurnRow(), 0
    for cut in [*cuts, len(events)]:
        batch = events[place:cut]
        if batch:
            kept.follow(events[:place], batch)
        place = cut
        whole, window = TurnRow(events[:cut]), last_turn(events[:cut])
        assert (kept.turn_at, kept.unfinished, kept.waiting) == (whole.turn_at, whole.unfinished, whole.waiting)
        assert kept.unfinished == (window is not None and window.open)
        assert set(kept.waiting) == waiting_in_words(events[:cut])


@settings(max_examples=100)
@given(st.lists(st.tuples(STEPS, st.integers(0, 5)), max_size=40))
@example([("call", 0), ("start", 0), ("ask", 0), ("respond", 0)]).via("a response of this turn to a call of an earlier one")
def test_what_the_inbox_shows_is_what_waits(steps: list[tuple[str, int]]) -> None:
    events = recorded(steps)
    assert sorted(question.request.event_id for question in pending(events, "")) == TurnView.last(events).open_ids


@settings(max_examples=100)
@given(st.lists(st.tuples(STEPS, st.integers(0, 5)), max_size=30))
def test_whether_a_turn_can_go_on_is_known_batch_by_batch(steps: list[tuple[str, int]]) -> None:
    events = recorded(steps)
    kept = TurnRow()
    for place, event in enumerate(events):
        kept.follow(events[:place], [event])
        window = open_turn(events[: place + 1])
        assert kept.answered == (window is not None and is_ready(LastTurn(window.events)))
