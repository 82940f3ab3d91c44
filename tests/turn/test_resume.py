"""A resumed turn continues where its events end."""

from __future__ import annotations

import pytest

from midturn.events.types import InquiryAnswered, InquiryCancelled, InquiryRequest, ToolCallResponse
from midturn.question.answer_type import When
from midturn.question.json_value import SecretValue
from midturn.question.question import Question
from midturn.question.reply import Answered, Replied, Submitted, WentBack
from midturn.routing.policy import DetachedPolicies, ToolPolicy
from midturn.turn.inputs import CallModel, EndTurn, GiveAnswers, PromptUser, RunTool, SuspendTurn
from support.turns import CONFIRM, DEPLOY, REGION, TOKEN, Played, settings

NOTE = Question.text("note", "A note?")
DEFER = settings(
    ToolPolicy(
        source=DEPLOY, run="unattended", detached=DetachedPolicies("defer", "defer", "defer")
    ),
    attached=False,
)


def test_an_answered_question_is_not_asked_again() -> None:
    played = Played()
    (call,) = played.model_calls("deploy")
    played.asks(call, CONFIRM)
    played.answer(True)

    resumed = Played(events=played.events)
    assert resumed.run.answers == {}
    resumed.asks(call, CONFIRM)

    assert resumed.run.answers == {"confirm": True}
    assert len(resumed.recorded(InquiryRequest)) == 1


def test_an_open_question_keeps_its_id() -> None:
    played = Played(DEFER)
    (call,) = played.model_calls("deploy")
    played.asks(call, CONFIRM)
    assert played.wanted(SuspendTurn)

    resumed = Played(events=played.events)
    resumed.asks(call, CONFIRM)
    assert resumed.prompt.id == resumed.asked_as("call_1.confirm.1")
    resumed.answer(False)

    assert len(resumed.recorded(InquiryRequest)) == 1
    assert resumed.run.answers == {"confirm": False}


def test_a_changed_question_replaces_the_open_one() -> None:
    """An old yes never approves a new diff."""
    played = Played(DEFER)
    (call,) = played.model_calls("deploy")
    played.asks(call, Question.boolean("confirm", "Apply?", context="+ old"))

    resumed = Played(events=played.events)
    resumed.asks(call, Question.boolean("confirm", "Apply?", context="+ new"))

    assert [(e.id, e.reason) for e in resumed.recorded(InquiryCancelled)] == [
        ("call_1.confirm.1", "superseded")
    ]
    assert resumed.prompt.id == resumed.asked_as("call_1.confirm.2")


def test_a_call_that_no_longer_asks_closes_its_open_question() -> None:
    played = Played(DEFER)
    (call,) = played.model_calls("deploy")
    played.asks(call, CONFIRM)

    resumed = Played(events=played.events)
    resumed.succeeds(call)

    assert [e.reason for e in resumed.recorded(InquiryCancelled)] == ["superseded"]
    assert resumed.wanted(CallModel)


def test_a_secret_is_asked_again_instead_of_using_a_placeholder() -> None:
    played = Played()
    (call,) = played.model_calls("deploy")
    played.asks(call, TOKEN, NOTE)
    played.answer("hunter2")
    played.answer("hello")

    resumed = Played(events=played.events)
    resumed.asks(call, TOKEN, NOTE)
    assert resumed.prompt.id == resumed.asked_as("call_1.token.2")
    assert not resumed.wanted(RunTool)
    resumed.answer("hunter3")

    token = resumed.run.answers["token"]
    assert isinstance(token, SecretValue)
    assert token.reveal() == "hunter3"
    assert resumed.run.answers["note"] == "hello"


def test_a_repeated_secret_question_can_be_replied_to() -> None:
    played = Played()
    (call,) = played.model_calls("deploy")
    played.asks(call, TOKEN, NOTE)
    played.answer("hunter2")
    played.answer("hello")
    resumed = Played(events=played.events)
    resumed.asks(call, TOKEN, NOTE)

    resumed.reply(Replied("Not now."))

    assert (
        resumed.events[-1].to_json()["content"]
        == '{"cancelled": true, "answered": {"note": "hello"}, "reply": "Not now."}'
    )


def test_going_back_is_replayed() -> None:
    played = Played()
    (call,) = played.model_calls("deploy")
    played.asks(call, CONFIRM, REGION, NOTE)
    played.answer(True)
    played.reply(WentBack())
    assert played.prompt.prompt.prefill is True
    played.answer(False)
    assert [r.revises for r in played.recorded(InquiryRequest)] == [
        None,
        None,
        "call_1.confirm.1",
        None,
    ]
    played.answer("us-2")

    resumed = Played(events=played.events)
    resumed.asks(call, CONFIRM, REGION, NOTE)
    assert resumed.prompt.prompt.question.id == "note"
    resumed.answer("x")

    assert resumed.run.answers == {"confirm": False, "region": "us-2", "note": "x"}
    assert resumed.events[: len(played.events)] == played.events


def test_back_at_the_review_is_replayed() -> None:
    played = Played()
    (call,) = played.model_calls("deploy")
    played.asks(call, CONFIRM, NOTE, review=True)
    played.answer(True)
    played.answer("a")
    assert played.prompt.prompt.kind == "review"
    played.reply(WentBack())
    played.answer("b")

    resumed = Played(events=played.events)
    resumed.asks(call, CONFIRM, NOTE, review=True)
    assert resumed.prompt.prompt.kind == "review"
    resumed.reply(Submitted())

    assert resumed.run.answers == {"confirm": True, "note": "b"}


def test_only_the_first_request_of_a_form_carries_the_form() -> None:
    played = Played()
    (call,) = played.model_calls("deploy")
    played.asks(call, CONFIRM, NOTE)
    played.answer(True)

    first, second = played.recorded(InquiryRequest)
    assert first.form is not None
    assert (first.form.total, [q["id"] for q in first.form.questions]) == (2, ["confirm", "note"])
    assert second.form is None


def test_a_conditional_question_is_skipped() -> None:
    gated = Question.text("why", "Why not?", when=When("confirm", False))
    played = Played()
    (call,) = played.model_calls("deploy")
    played.asks(call, CONFIRM, gated)
    played.answer(True)

    assert played.run.answers == {"confirm": True, "why": None}


def test_concurrent_asks_are_matched_by_id_in_any_order() -> None:
    played = Played()
    (call,) = played.model_calls("deploy")
    played.asks(call, CONFIRM, ask=1)
    played.asks(call, REGION, ask=2)

    resumed = Played(events=played.events)
    resumed.asks(call, REGION, ask=1)
    assert resumed.prompt.id == resumed.asked_as("call_1.region.1")
    resumed.asks(call, CONFIRM, ask=2)

    assert len(resumed.recorded(InquiryRequest)) == 2
    assert resumed.turn.record.next_inquiry_id("call_1", "confirm") == "call_1.confirm.2"


def test_an_ask_is_answered_at_its_own_position() -> None:
    played = Played()
    (call,) = played.model_calls("deploy")
    played.asks(call, CONFIRM, ask=1)
    played.answer(True)

    (given,) = played.wanted(GiveAnswers)
    assert (given.call, given.ask, given.answers["confirm"]) == (call, 1, given.answers["confirm"])
    assert not played.wanted(RunTool)


@pytest.mark.parametrize("cut", range(2, 9))
def test_every_prefix_of_a_simple_turn_can_be_finished(cut: int) -> None:
    played = Played()
    (call,) = played.model_calls("deploy")
    played.asks(call, CONFIRM)
    played.answer(True)
    played.succeeds(call, "deployed")
    played.model_says()

    resumed = Played(events=played.events[:cut])
    if resumed.wanted(CallModel) and cut < 3:
        (call,) = resumed.model_calls("deploy")
    if resumed.wanted(RunTool):
        resumed.asks(call, CONFIRM)
        if resumed.wanted(PromptUser):
            resumed.answer(True)
        resumed.succeeds(call, "deployed")
    if resumed.wanted(CallModel):
        resumed.model_says()

    assert resumed.kinds == played.kinds
    assert len(resumed.recorded(InquiryAnswered)) == 1
    assert resumed.wanted(EndTurn) or cut == len(played.events)


def test_a_remembered_answer_survives_the_process_and_is_dropped_when_revised() -> None:
    played = Played()
    (call,) = played.model_calls("deploy")
    played.asks(call, CONFIRM, NOTE)
    played.reply(Answered(True, remember=True))
    played.reply(WentBack())

    resumed = Played(events=played.events)

    assert resumed.turn.record.memory.answers == {}


def test_a_person_may_reply_at_the_review() -> None:
    played = Played()
    (call,) = played.model_calls("deploy")
    played.asks(call, CONFIRM, NOTE, review=True)
    played.answer(True)
    played.answer("a")
    assert played.prompt.prompt.can_reply

    played.reply(Replied("Wait."))

    response = played.recorded(ToolCallResponse)[0]
    assert (
        response.content
        == '{"cancelled": true, "answered": {"confirm": true, "note": "a"}, "reply": "Wait."}'
    )
