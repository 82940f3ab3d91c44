"""Calls of a loop that is not ours: begun from outside, left and begun again, and a turn that ends when the loop says so."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from midturn.events.outcome import Success
from midturn.events.types import AnsweredBy, Event, InquiryCancelled, ToolCallRequest, TurnEnd, TurnStart
from midturn.question.reply import Answered
from midturn.routing.policy import DetachedPolicies
from midturn.turn.step import (
    CallBegun,
    CallLeft,
    CallModel,
    ClosePrompt,
    EndTurn,
    GiveAnswers,
    LoopEnded,
    PromptUser,
    RunTool,
    StopTool,
    SuspendTurn,
    ToolDone,
    UserReplied,
)
from midturn.turn.turn import Turn
from support.turns import CONFIRM, REGION, UNATTENDED, Played, counting_ids, settings

BEGUN = CallBegun("call_1", "deploy", {"env": "staging"})


class Foreign(Played):
    """A turn that nobody asked a model for."""

    def __init__(self, events: Sequence[Event] = (), *, attached: bool = True) -> None:
        waits = replace(UNATTENDED, detached=DetachedPolicies(tool="defer"))
        self.settings = settings(waits, attached=attached)
        self.events = list(events)
        self.batches = []
        self.ids = counting_ids(len(self.events) + 1)
        self.turn = Turn.load(self.events, self.settings, self.ids)
        self.last = ()

    def begin(self, begun: CallBegun = BEGUN) -> str:
        """Begin a call, and return its identity."""
        self.step(begun)
        return self.run.call.event


def test_the_first_call_begins_the_turn() -> None:
    turn = Foreign()
    turn.begin()
    start, request = turn.events
    assert isinstance(start, TurnStart)
    assert isinstance(request, ToolCallRequest)
    assert (request.id, request.name, request.arguments) == ("call_1", "deploy", {"env": "staging"})


def test_what_a_model_says_is_not_waited_for_and_the_loop_ends_the_turn() -> None:
    turn = Foreign()
    call = turn.begin()
    turn.step(ToolDone(call, Success("done")))
    assert len(turn.wanted(CallModel)) == 1
    turn.step(LoopEnded())
    assert turn.wanted(EndTurn) == [EndTurn("completed")]
    assert isinstance(turn.events[-1], TurnEnd)


def test_calls_begin_while_others_run() -> None:
    turn = Foreign()
    first = turn.begin()
    second = turn.begin(CallBegun("call_2", "deploy", {}))
    assert len(turn.wanted(RunTool)) == 1, "the first is not run again"
    turn.step(ToolDone(second, Success("done")))
    assert not turn.wanted(CallModel)
    turn.step(ToolDone(first, Success("done")))
    assert turn.wanted(CallModel)


def test_a_call_that_is_left_stays_open_and_its_prompt_closes() -> None:
    turn = Foreign()
    call = turn.begin()
    turn.asks(call, CONFIRM, ask=1)
    turn.step(CallLeft(call))
    assert turn.wanted(ClosePrompt) == [ClosePrompt(turn.asked_as("call_1.confirm.1"))]
    assert turn.wanted(StopTool) == [StopTool(call)]
    assert not turn.recorded(InquiryCancelled)
    turn.step(LoopEnded())
    assert turn.wanted(SuspendTurn) == [SuspendTurn()]
    assert not turn.recorded(TurnEnd)


def test_the_same_call_goes_on_where_it_was_left_in_this_process_or_another() -> None:
    turn = Foreign()
    call = turn.begin()
    turn.asks(call, CONFIRM, ask=1)
    turn.step(UserReplied(turn.asked_as("call_1.confirm.1"), Answered(value=True), AnsweredBy("user")))
    turn.asks(call, REGION, ask=2)
    turn.step(CallLeft(call))

    for again in (turn, Foreign(turn.events)):
        assert again.begin() == call
        before = list(again.events)
        again.asks(call, CONFIRM, ask=1)
        assert again.wanted(GiveAnswers)[0].answers["confirm"]
        again.asks(call, REGION, ask=2)
        assert [shown.id for shown in again.wanted(PromptUser)] == [again.asked_as("call_1.region.1")]
        assert again.events == before
        again.step(CallLeft(call))


def test_a_call_with_other_arguments_is_another_call() -> None:
    turn = Foreign()
    call = turn.begin()
    turn.step(CallLeft(call))
    assert turn.begin(CallBegun("call_1", "deploy", {"env": "production"})) != call


def test_the_turn_is_suspended_once_no_call_moves() -> None:
    turn = Foreign(attached=False)
    first = turn.begin()
    second = turn.begin(CallBegun("call_2", "deploy", {}))
    turn.asks(first, CONFIRM, ask=1)
    assert not turn.wanted(SuspendTurn), "the second one works"
    turn.step(ToolDone(second, Success("done")))
    assert turn.wanted(SuspendTurn) == [SuspendTurn()]
