"""Plays a scripted turn with the state machine: one process after the other, from any point, in
any order of inputs.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from midturn.errors import AnswerError, NotAllowed
from midturn.events.open_question import Address, OpenQuestion
from midturn.events.types import AnsweredBy, Approval, Event, InquiryRequest, TurnEnd
from midturn.question.reply import Reply
from midturn.routing.policy import DetachedPolicies
from midturn.turn.inputs import (
    Effect,
    EndTurn,
    LeaveOpen,
    SuspendTurn,
    TimePassed,
    TurnRequested,
    TurnResumed,
)
from midturn.turn.pending import pending
from midturn.turn.settings import TurnSettings
from midturn.turn.turn import Turn
from midturn.turn.view import TurnView, expired_requests
from midturn.turn.visit import Visit
from midturn.turn.votes import note_batch
from support.turn_bridge import action_input, reply, settings
from support.turn_group import AT_PROMPT
from support.turn_people import person
from support.turn_process import Process
from support.turn_record_reading import ask_behind
from support.turn_script import GroupAction, Script
from support.turn_world import Open, World, decision, ids_after

MOST_PROCESSES = 300


def play(script: Script, events: Sequence[Event] = (), *, detached_first: bool = False) -> World:
    """Play a script from the end of its events until its turn has ended. With `detached_first`, a
    detached process runs first.
    """
    world = World(script, events)
    attached = script.attached
    if detached_first and isinstance(_run_detached(world), EndTurn):
        return world
    for _ in range(MOST_PROCESSES):
        match _process(world, attached=attached):
            case EndTurn():
                return world
            case SuspendTurn() if script.later == "attach" and not script.attached:
                if attached:
                    assert _answer_suspended(world), (
                        "nobody could be asked although somebody sits there"
                    )
                attached = True
            case SuspendTurn():
                _answer_suspended(world)
                if isinstance(world.events[-1], TurnEnd):
                    return world
            case _:
                pass  # the model is available again
    raise AssertionError("the turn never ends")


def _process(world: World, *, attached: bool) -> SuspendTurn | LeaveOpen | EndTurn:
    """Run one process until the machine is done."""
    given = settings(world.script, attached=attached)
    ids = ids_after(world.events)
    if world.events:
        turn, effects = _resumed(world, given)
    else:
        turn = Turn(given, ids)
        effects = turn.step(TurnRequested("Ship it"))
    return Process(world, turn).run(effects)


def _resumed(world: World, given: TurnSettings) -> tuple[Turn, Sequence[Effect]]:
    turn = Turn.load(world.events, given, ids_after(world.events))
    if turn.needs_time(TurnResumed()):
        turn.step(TimePassed(world.now()))
    return turn, turn.step(TurnResumed())


def _run_detached(world: World) -> SuspendTurn | LeaveOpen | EndTurn:
    """Run one detached process that defers everything to people. What it leaves must need a
    person.
    """
    given = settings(world.script, attached=False)
    everything = DetachedPolicies("defer", "defer", "defer")
    tools = {name: replace(policy, detached=everything) for name, policy in given.tools.items()}
    turn, effects = _resumed(world, replace(given, tools=tools))
    ending = Process(world, turn).run(effects)
    if isinstance(ending, SuspendTurn):
        left = TurnView.last(world.events)
        assert left.goes_on_here
        assert not left.is_ready, "what is left waits for a person"
        assert not left.is_due, "as above"
    return ending


# Answers while no process runs
# --------------------------------------------------------------------------------------------------


def _answer_suspended(world: World) -> bool:
    """Answer the first open question, like `midturn answer`, or let time pass. Return True if the
    question is for several people or late.
    """
    open_now = pending(world.events, "1")
    assert open_now, "the turn waits for nothing"
    waiting = next((each for each in open_now if not world.is_late(each.request)), None)
    if waiting is None:
        world.record(
            expired_requests(TurnView.last(world.events), world.now(2), ids_after(world.events))
        )
        return True
    if actions := world.next_actions(waiting.request):
        for action, counts in actions:
            _apply_action(world, waiting.request, action, counts=counts)
        return True
    who = AnsweredBy("user", via="inbox", user=AT_PROMPT)
    for back in (True, False):
        what = _answer(world, waiting, may_go_back=back)
        try:
            batch = Visit(world.events, waiting.request.event_id, ids_after(world.events)).take(
                what, who, waiting.digest
            )
        except AnswerError:
            assert back
            continue
        assert batch, "an answer was taken and nothing was recorded"
        world.record(batch)
        return False
    raise AssertionError("no answer fits")


def _apply_action(world: World, request: Open, action: GroupAction, *, counts: bool) -> None:
    """Apply an action of a person: it counts, or is refused."""
    ids, kind = ids_after(world.events), "boolean"
    if isinstance(request, InquiryRequest):
        kind = ask_behind(world.called(request.call), request, world.recorded(request.call))[0].kind
    done, who = action_input(action, kind)
    try:
        if isinstance(done, Reply):
            seen = next(
                each.digest
                for each in pending(world.events, "1")
                if each.request.event_id == request.event_id
            )
            batch = Visit(world.events, request.event_id, ids).take(done, who, seen)
        else:
            batch = note_batch(world.events, Address("1", request.event_id), done, ids)
    except NotAllowed:
        assert not counts, action
    else:
        assert counts, action
        world.record(batch)


def _answer(world: World, waiting: OpenQuestion, *, may_go_back: bool) -> Reply:
    match waiting.request:
        case InquiryRequest() as request:
            called, recorded = world.called(request.call), world.recorded(request.call)
            ask, time = ask_behind(called, request, recorded)
            return reply(
                person(called, ask, time, can_go_back=may_go_back, link=bool(request.escalates)),
                "tool",
            )
        case Approval() as approval:
            return decision(world, approval.call, approval.kind)
