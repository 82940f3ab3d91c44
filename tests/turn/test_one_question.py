"""A call that asks one question."""

from __future__ import annotations

from typing import Any

import pytest

from midturn.events.types import (
    InquiryAnswered,
    InquiryCancelled,
    InquiryRedacted,
    InquiryRequest,
    ToolCallResponse,
)
from midturn.question.json_value import SecretValue
from midturn.question.question import Question
from midturn.question.reply import Answered, EndedTurn, Replied
from midturn.turn.inputs import (
    CallModel,
    EndTurn,
    PromptUser,
    Record,
    RunTool,
    TimeIsUp,
    UserReplied,
)
from support.turns import CONFIRM, REGION, TOKEN, Played


def asked(*questions: object) -> tuple[Played, str]:
    """Return a turn whose only call asks."""
    played = Played()
    (call,) = played.model_calls("deploy")
    played.asks(call, *questions)  # type: ignore[arg-type]
    return played, call


def test_a_request_is_recorded_before_it_is_shown() -> None:
    played, _ = asked(CONFIRM)

    recorded, prompted = played.last

    assert isinstance(recorded, Record)
    assert isinstance(recorded.event, InquiryRequest)
    assert recorded.event.id == "call_1.confirm.1"
    assert isinstance(prompted, PromptUser)
    assert prompted.prompt.asked_by == "deploy"


def test_an_answer_is_recorded_before_the_tool_runs_again() -> None:
    """Durability follows from the order of the effects."""
    played, call = asked(CONFIRM)

    recorded, run = played.answer(True)

    assert isinstance(recorded, Record)
    assert isinstance(recorded.event, InquiryAnswered)
    assert isinstance(run, RunTool)
    assert (run.call.event, run.answers) == (call, {"confirm": True})


def test_the_model_is_called_when_the_call_has_its_response() -> None:
    played, call = asked(CONFIRM)
    played.answer(True)

    recorded, model = played.succeeds(call, "deployed")

    assert isinstance(recorded, Record)
    assert isinstance(recorded.event, ToolCallResponse)
    assert recorded.event.content == "deployed"
    assert model == CallModel()


def test_the_whole_turn_takes_six_batches() -> None:
    """Every step that records takes one sync."""
    played, call = asked(CONFIRM)
    played.answer(True)
    played.succeeds(call)
    played.model_says()

    assert played.batches == [2, 1, 1, 1, 1, 2]
    assert played.kinds == [
        "turn_start",
        "chat_request",
        "tool_call_request",
        "inquiry_request",
        "inquiry_response",
        "tool_call_response",
        "chat_response",
        "turn_end",
    ]


def test_the_whole_form_is_recorded_in_the_persisted_format() -> None:
    """Options are recorded as objects, as in the question itself."""
    played, _ = asked(REGION, CONFIRM)

    (request,) = played.recorded(InquiryRequest)

    assert request.form
    assert request.form.questions[0] == {"id": "region", **request.question.to_json()}
    assert request.form.questions[0]["answer_type"] == {
        "type": "select",
        "options": [{"value": "eu-1"}, {"value": "us-2"}],
    }


def test_a_turn_past_its_time_limit_closes_open_questions_with_that_reason() -> None:
    """It is not reported as cancelled by the user."""
    played, _ = asked(CONFIRM)

    played.step(TimeIsUp(60))

    (response,) = played.recorded(InquiryCancelled)
    assert (response.reason, response.metadata) == ("limit_exceeded", {"limit": "seconds"})
    assert (
        played.wanted(EndTurn)[0].error
        == "stopped after 60 seconds; raise limits.seconds to allow more"
    )


def test_a_chain_of_questions_accumulates_answers() -> None:
    played, call = asked(CONFIRM)
    played.answer(True)
    played.asks(call, REGION)

    played.answer("eu-1")

    assert played.run.answers == {"confirm": True, "region": "eu-1"}


def test_a_secret_is_passed_to_the_tool_and_never_recorded() -> None:
    played, _ = asked(TOKEN)

    played.answer("hunter2")

    token = played.run.answers["token"]
    assert isinstance(token, SecretValue)
    assert token.reveal() == "hunter2"
    assert isinstance(played.events[-1], InquiryRedacted)
    assert "hunter2" not in repr(played.events)


def test_an_invalid_answer_is_asked_again_and_fails_the_third_time() -> None:
    played, _ = asked(CONFIRM)

    for _ in range(2):
        played.answer("yes")
        assert played.prompt.prompt.error
    played.answer("yes")

    assert played.recorded(ToolCallResponse)[0].content.startswith(
        'deploy: the prompt for "Deploy to staging?" failed: '
    )


def test_ending_the_turn_at_a_prompt_closes_everything_in_one_batch() -> None:
    played = Played()
    first, _second = played.model_calls("deploy", "deploy")
    played.asks(first, CONFIRM)

    played.reply(EndedTurn())

    assert [(e.event.type, getattr(e.event, "content", None)) for e in played.wanted(Record)] == [
        ("inquiry_response", None),
        ("tool_call_response", "Tool input cancelled by user."),
        ("tool_call_response", "Tool call cancelled: the user ended the turn."),
        ("turn_end", None),
    ]
    assert played.wanted(EndTurn) == [EndTurn("ended_by_user")]


def test_a_reply_is_the_result_of_the_call_and_the_turn_goes_on() -> None:
    played, _ = asked(CONFIRM)

    played.reply(Replied("Ask Ada first."))

    (response,) = played.recorded(ToolCallResponse)
    assert response.content == '{"cancelled": true, "answered": {}, "reply": "Ask Ada first."}'
    assert not response.is_error
    assert played.wanted(CallModel) == [CallModel()]


@pytest.mark.parametrize(
    ("question", "is_offered"),
    [
        (CONFIRM, True),
        (Question.boolean("confirm", "Apply it?", persistence="none"), False),
        (REGION, False),
        (TOKEN, False),
    ],
    ids=["yes or no", "yes or no, anew each time", "one of several", "a secret"],
)
def test_only_yes_no_answers_can_be_remembered_if_the_tool_allows_it(
    question: Question[Any],
    is_offered: bool,  # noqa: FBT001
) -> None:
    played, _ = asked(question)

    assert played.prompt.prompt.may_remember is is_offered


def test_a_remembered_answer_applies_to_the_next_call_and_not_to_the_same_one() -> None:
    """Three equal questions show one prompt.

    A call that repeats its question needs a new answer.
    """
    played = Played()
    first, second = played.model_calls("deploy", "deploy")
    played.asks(first, CONFIRM)
    first_prompt = played.prompt
    played.asks(second, CONFIRM)
    assert not played.wanted(PromptUser)

    played.step(UserReplied(first_prompt.id, Answered(True, remember=True)))

    assert {run.call.event for run in played.wanted(RunTool)} == {first, second}
    assert [e.answered_by.by for e in played.recorded(InquiryAnswered) if e.answered_by] == [
        "user",
        "cached",
    ]
    played.asks(first, CONFIRM)
    assert played.wanted(PromptUser)
