"""External calls, from a loop of another program.

They begin from outside, can be abandoned and begun again. The loop ends the turn.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from midturn.events.outcome import Success
from midturn.events.types import (
    AnsweredBy,
    Event,
    InquiryCancelled,
    ToolCallRequest,
    TurnEnd,
    TurnStart,
)
from midturn.question.reply import Answered
from midturn.routing.policy import DetachedPolicies
from midturn.turn.inputs import (
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


class ExternalTurn(Played):
    """A turn without requests to a model."""

    def __init__(self, events: Sequence[Event] = (), *, attached: bool = True) -> None:
        waits = replace(UNATTENDED, detached=DetachedPolicies(tool="defer"))
        self.settings = settings(waits, attached=attached)
        self.events = list(events)
        self.batches = []
        self.ids = counting_ids(len(self.events) + 1)
        self.turn = Turn.load(self.events, self.settings, self.ids)
        self.last = ()

    def begin(self, begun: CallBegun = BEGUN) -> str:
        """Begin a call, and return its event ID."""
        self.step(begun)
        return self.run.call.event


def test_the_first_call_begins_the_turn() -> None:
    turn = ExternalTurn()
    turn.begin()
    start, request = turn.events
    assert isinstance(start, TurnStart)
    assert isinstance(request, ToolCallRequest)
    assert (request.id, request.name, request.arguments) == ("call_1", "deploy", {"env": "staging"})


def test_model_text_is_not_awaited_and_the_loop_ends_the_turn() -> None:
    turn = ExternalTurn()
    call = turn.begin()
    turn.step(ToolDone(call, Success("done")))
    assert len(turn.wanted(CallModel)) == 1
    turn.step(LoopEnded())
    assert turn.wanted(EndTurn) == [EndTurn("completed")]
    assert isinstance(turn.events[-1], TurnEnd)


def test_calls_begin_while_others_run() -> None:
    turn = ExternalTurn()
    first = turn.begin()
    second = turn.begin(CallBegun("call_2", "deploy", {}))
    assert len(turn.wanted(RunTool)) == 1, "the first is not run again"
    turn.step(ToolDone(second, Success("done")))
    assert not turn.wanted(CallModel)
    turn.step(ToolDone(first, Success("done")))
    assert turn.wanted(CallModel)


def test_an_abandoned_call_stays_open_and_its_prompt_closes() -> None:
    turn = ExternalTurn()
    call = turn.begin()
    turn.asks(call, CONFIRM, ask=1)
    turn.step(CallLeft(call))
    assert turn.wanted(ClosePrompt) == [ClosePrompt(turn.asked_as("call_1.confirm.1"))]
    assert turn.wanted(StopTool) == [StopTool(call)]
    assert not turn.recorded(InquiryCancelled)
    turn.step(LoopEnded())
    assert turn.wanted(SuspendTurn) == [SuspendTurn()]
    assert not turn.recorded(TurnEnd)


def test_an_abandoned_call_continues_in_this_process_or_another() -> None:
    turn = ExternalTurn()
    call = turn.begin()
    turn.asks(call, CONFIRM, ask=1)
    turn.step(
        UserReplied(turn.asked_as("call_1.confirm.1"), Answered(value=True), AnsweredBy("user"))
    )
    turn.asks(call, REGION, ask=2)
    turn.step(CallLeft(call))

    for again in (turn, ExternalTurn(turn.events)):
        assert again.begin() == call
        before = list(again.events)
        again.asks(call, CONFIRM, ask=1)
        assert again.wanted(GiveAnswers)[0].answers["confirm"]
        again.asks(call, REGION, ask=2)
        assert [shown.id for shown in again.wanted(PromptUser)] == [
            again.asked_as("call_1.region.1")
        ]
        assert again.events == before
        again.step(CallLeft(call))


def test_a_call_with_other_arguments_is_another_call() -> None:
    turn = ExternalTurn()
    call = turn.begin()
    turn.step(CallLeft(call))
    assert turn.begin(CallBegun("call_1", "deploy", {"env": "production"})) != call


def test_the_turn_is_suspended_when_no_call_can_continue() -> None:
    turn = ExternalTurn(attached=False)
    first = turn.begin()
    second = turn.begin(CallBegun("call_2", "deploy", {}))
    turn.asks(first, CONFIRM, ask=1)
    assert not turn.wanted(SuspendTurn), "the second one works"
    turn.step(ToolDone(second, Success("done")))
    assert turn.wanted(SuspendTurn) == [SuspendTurn()]
