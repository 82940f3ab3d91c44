"""Checks of a played turn, whole or interrupted and resumed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from midturn.events.types import (
    Approval,
    Event,
    InquiryAnswered,
    InquiryCancelled,
    InquiryRedacted,
    InquiryRequest,
    ToolCallResponse,
    TurnEnd,
    Vote,
)
from support.turn_expected import CallLog, Expected, Result
from support.turn_oracle import INPUT_CANCELLED, TURN_ENDED
from support.turn_player import play
from support.turn_record_reading import (
    CallEvents,
    calls_in,
    comparable,
    decisions_of,
    pairs_of,
    secrets_in,
)
from support.turn_script import Together
from support.turn_world import World


def cut_everywhere(world: World, oracle: Expected) -> None:
    """Cut the events between any two batches, resume, and cut and resume once more.

    Reading a log removes an incomplete batch, so it cannot be cut inside a batch.
    """
    whole = comparable(world.events)
    for place in world.batches[1:]:
        resumed = play(world.script, world.events[:place])
        check(resumed, oracle)
        check_same_stream(resumed, whole)
        if (
            world.script.attached
        ):  # a detached process in between must leave every decision to the person
            check(play(world.script, world.events[:place], detached_first=True), oracle)
        later = resumed.batches[len(resumed.batches) // 2 :]
        if later:
            again = play(world.script, resumed.events[: later[0]])
            check(again, oracle)
            check_same_stream(again, whole)


def check_same_stream(world: World, whole: list[dict[str, object]]) -> None:
    """Check that the streams are equal except for times and IDs. This holds only with a fixed
    schedule and without concurrency.
    """
    script = world.script
    if script.schedule or any(
        isinstance(op, Together)
        for cycle in script.cycles
        for called in cycle
        for op in called.program.ops
    ):
        return
    if any(len(cycle) > 1 for cycle in script.cycles) or script.later == "attach":
        return
    assert comparable(world.events) == whole


def check(world: World, oracle: Expected) -> None:
    """Compare a played turn with the oracle."""
    check_ids(world.events)
    (end,) = [event for event in world.events if isinstance(event, TurnEnd)]
    assert (end.status, end.error) == (oracle.status, oracle.error), (
        f"{end} against {oracle.status} {oracle.error}"
    )
    calls = calls_in(world.events)
    assert len(calls) == len(oracle.calls)
    for number, (call, log) in enumerate(zip(calls, oracle.calls, strict=True)):
        check_call(world, call, log, cut=number in oracle.cut)
    if oracle.enders:
        ended = [world.recorded(calls[number]).response for number in oracle.enders]
        assert any(
            response and log_of(response) == oracle.calls[number].result
            for number, response in zip(oracle.enders, ended, strict=True)
        )


def log_of(response: ToolCallResponse) -> Result:
    return Result(response.content, response.is_error)


def check_ids(events: Sequence[Event]) -> None:
    """Check that IDs are unique, every request has one response, and every approval at most one
    decision.
    """
    assert len({event.event_id for event in events}) == len(events)
    requests = Counter(event.id for event in events if isinstance(event, InquiryRequest))
    responses = Counter(
        event.id
        for event in events
        if isinstance(event, InquiryAnswered | InquiryCancelled | InquiryRedacted)
    )
    assert requests == responses
    assert set(requests.values()) <= {1}
    approvals = [event for event in events if isinstance(event, Approval)]
    for state in (True, False):
        ids = Counter(event.id for event in approvals if (event.state == "waiting") is state)
        assert set(ids.values()) <= {1}, ids
    assert len({(event.id, event.call) for event in approvals}) == len(
        {event.id for event in approvals}
    )


def votes_of(events: Sequence[Event], recorded: CallEvents) -> list[list[str]]:
    """Return the voters behind each answer of a call that needed several people."""
    voters = {
        event.event_id: event.answered_by.user or ""
        for event in events
        if isinstance(event, Vote) and event.answered_by
    }
    closed = [
        response for _, response in recorded.asked if isinstance(response, InquiryAnswered)
    ] + recorded.approvals
    return [[voters[vote] for vote in each.votes] for each in closed if each.votes]


def check_call(world: World, call: str, log: CallLog, *, cut: bool) -> None:
    """Compare one call with the oracle. With `cut`, another call may have ended the turn before
    this one was done.
    """
    called, recorded = world.called(call), world.recorded(call)
    response = recorded.response
    assert response is not None
    assert response.id == called.id
    assert log.result is not None
    pairs, given = pairs_of(called, recorded), world.given.get(call)
    if any(
        isinstance(op, Together) for op in called.program.ops
    ):  # the order depends on the schedule
        assert response.content == TURN_ENDED or Counter(map(str, pairs)) == Counter(
            map(str, log.pairs)
        )
        assert (
            given is None
            or sorted(map(str, given)) == sorted(map(str, log.given))
            or response.content == TURN_ENDED
        )
        pairs, given = log.pairs, None
    if cut and response.content in (TURN_ENDED, INPUT_CANCELLED):
        closed = [pair for pair in pairs if pair.outcome != ("cancelled", None, "user")]
        assert closed == log.pairs[: len(closed)]
        assert given is None or given == log.given[: len(given)]
        return
    assert log.result.admits(response.content, is_error=response.is_error), (
        response.content,
        log.result,
    )
    ended = [pair for pair in pairs if pair.outcome == ("cancelled", None, "user")]
    assert pairs[: len(pairs) - len(ended)] == log.pairs, (pairs, log.pairs)
    assert decisions_of(called, recorded) == log.decisions
    assert Counter(map(str, votes_of(world.events, recorded))) == Counter(map(str, log.votes))
    assert secrets_in(recorded) >= log.secrets
    assert given is None or given == log.given
