"""An open turn, visited from another process."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings as examples, strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from midturn.errors import AlreadyAnswered, AnswerError
from midturn.events.prompt import Prompt
from midturn.events.types import (
    AnsweredBy,
    Approval,
    Event,
    InquiryCancelled,
    InquiryRequest,
    ToolCallResponse,
)
from midturn.question.answer_type import When
from midturn.question.form import Form
from midturn.question.question import Question
from midturn.question.reply import Answered, EndedTurn, Replied, Reply, Submitted, WentBack
from midturn.routing.policy import DetachedPolicies
from midturn.turn.inputs import PromptUser
from midturn.turn.visit import Visit
from support.depth import tries
from support.form_oracle import POSSIBLE, Draw, answering, draws, forms, kind_of
from support.turns import CONFIRM, REGION, UNATTENDED, Played, counting_ids, settings

SOMEBODY = AnsweredBy("user", via="inbox")
DETACHED = settings(
    replace(UNATTENDED, detached=DetachedPolicies("defer", "defer", "defer")), attached=False
)
NOTE = Question.text("note", "Anything else?")


def suspended(*questions: Question[Any], review: bool = True) -> Played:
    """Return a turn that waits for the answers to a form."""
    played = Played(DETACHED)
    (call,) = played.model_calls("deploy")
    played.asks(call, *questions, review=review)
    return played


def open_id(played: Played) -> str:
    """Return the event ID of the open question."""
    waiting = [
        e
        for e in played.events
        if isinstance(e, InquiryRequest) or (isinstance(e, Approval) and e.state == "waiting")
    ]
    return waiting[-1].event_id


def visit(events: list[Event], event_id: str) -> Visit:
    return Visit(events, event_id, (f"v{len(events)}.{id}" for id in counting_ids()))


def shown(visiting: Visit) -> Prompt:
    prompt = visiting.prompt()
    assert prompt
    return prompt


def test_a_visitor_completes_a_form() -> None:
    played = suspended(CONFIRM, REGION)
    visiting = visit(played.events, open_id(played))

    first = visiting.take(Answered(True), SOMEBODY)
    assert [event.type for event in first] == ["inquiry_response"]
    assert shown(visiting).question.id == "region"
    second = visiting.take(Answered("eu-1"), SOMEBODY)
    assert [event.type for event in second] == ["inquiry_request", "inquiry_response"]
    assert shown(visiting).kind == "review"
    third = visiting.take(Submitted(), SOMEBODY)
    assert [event.type for event in third] == ["approval", "approval"]

    assert visiting.prompt() is None
    again = Played(DETACHED, [*played.events, *first, *second, *third])
    (call,) = again.turn.record.calls
    again.asks(call, CONFIRM, REGION, review=True)
    assert again.run.answers == {"confirm": True, "region": "eu-1"}


def test_an_old_yes_is_never_offered_for_a_new_question() -> None:
    """A call may ask two forms with equal IDs. Only Back shows an earlier answer again."""
    played = suspended(CONFIRM, NOTE, review=False)
    (call,) = played.turn.record.calls
    batch = visit(played.events, open_id(played)).take(
        Answered({"confirm": True, "note": "go"}), SOMEBODY
    )
    played = Played(DETACHED, [*played.events, *batch])
    played.asks(call, CONFIRM, NOTE)
    played.asks(call, Question.boolean("confirm", "Delete the production database?"), NOTE)

    prompt = shown(visit(played.events, open_id(played)))

    assert prompt.question.text == "Delete the production database?"
    assert prompt.prefill is UNSET


def test_back_of_a_visitor_shows_the_earlier_answer() -> None:
    played = suspended(CONFIRM, REGION)
    visiting = visit(played.events, open_id(played))
    visiting.take(Answered(True), SOMEBODY)

    back = visiting.take(WentBack(), SOMEBODY)

    assert [type(event) for event in back] == [InquiryRequest, InquiryCancelled, InquiryRequest]
    assert (shown(visiting).question.id, shown(visiting).prefill) == ("confirm", True)


def test_back_at_a_review_is_recorded_as_the_next_request() -> None:
    played = suspended(CONFIRM, REGION)
    visiting = visit(played.events, open_id(played))
    events = [
        *played.events,
        *visiting.take(Answered(True), SOMEBODY),
        *visiting.take(Answered("eu-1"), SOMEBODY),
    ]

    back = visiting.take(WentBack(), SOMEBODY)

    assert isinstance(back[-1], InquiryRequest)
    assert back[-1].revises == "call_1.region.1"
    assert shown(visit([*events, *back], back[-1].event_id)).prefill == "eu-1"


def test_an_invalid_reply_changes_nothing() -> None:
    played = suspended(CONFIRM, REGION)
    visiting = visit(played.events, open_id(played))

    with pytest.raises(AnswerError, match="must be true or false"):
        visiting.take(Answered("yes"), SOMEBODY)

    assert [event.type for event in visiting.take(Answered(True), SOMEBODY)] == ["inquiry_response"]


def test_ending_the_turn_closes_everything_in_one_batch() -> None:
    played = suspended(CONFIRM, REGION)

    batch = visit(played.events, open_id(played)).take(EndedTurn(), SOMEBODY)

    assert [event.type for event in batch] == ["inquiry_response", "tool_call_response", "turn_end"]


def test_a_reply_of_a_visitor_completes_the_call() -> None:
    played = suspended(CONFIRM, REGION)

    batch = visit(played.events, open_id(played)).take(Replied("Never mind."), SOMEBODY)

    assert isinstance(batch[-1], ToolCallResponse)
    assert batch[-1].content == '{"cancelled": true, "answered": {}, "reply": "Never mind."}'


GATED = Question.text("why", "Why not?", when=When("confirm", equals=False))


def test_a_map_with_an_answer_to_an_unasked_question_is_an_error_that_names_it() -> None:
    """Otherwise, the sender would assume that the answer counts."""
    played = suspended(CONFIRM, GATED, NOTE)
    visiting = visit(played.events, open_id(played))

    with pytest.raises(AnswerError) as raised:
        visiting.take(Answered({"confirm": True, "why": "It is Friday.", "note": "go"}), SOMEBODY)

    (problem,) = raised.value.problems
    assert problem.pointer == "/why"
    assert "`confirm`" in problem.message
    assert (
        len(
            visiting.take(
                Answered({"confirm": False, "why": "It is Friday.", "note": "go"}), SOMEBODY
            )
        )
        > 1
    )


def test_a_map_may_repeat_a_recorded_answer_but_not_change_it() -> None:
    played = suspended(CONFIRM, REGION)
    visiting = visit(played.events, open_id(played))
    visiting.take(Answered(True), SOMEBODY)

    with pytest.raises(AnswerError) as raised:
        visiting.take(Answered({"confirm": False, "region": "eu-1"}), SOMEBODY)

    assert raised.value.problems[0].pointer == "/confirm"
    assert visiting.take(Answered({"confirm": True, "region": "eu-1"}), SOMEBODY)


def test_a_null_for_an_unasked_question_in_a_map_is_accepted() -> None:
    played = suspended(CONFIRM, GATED, NOTE)

    batch = visit(played.events, open_id(played)).take(
        Answered({"confirm": True, "why": None, "note": "go"}), SOMEBODY
    )

    assert [event.type for event in batch].count("inquiry_response") == 2


def test_a_late_answer_names_the_first_responder() -> None:
    played = suspended(CONFIRM)
    batch = visit(played.events, open_id(played)).take(Answered(True), SOMEBODY)

    with pytest.raises(AlreadyAnswered, match=r"was answered before, by a person \(inbox\)"):
        visit([*played.events, *batch], open_id(played))


def test_a_visit_continues_after_other_writes_to_the_turn() -> None:
    """Another call of the turn was answered.

    The visitor's request is held back and not recorded yet.
    """
    played = Played(DETACHED)
    first, second = played.model_calls("deploy", "deploy")
    played.asks(first, CONFIRM, REGION)
    played.asks(second, NOTE)
    mine, other = [event.event_id for event in played.recorded(InquiryRequest)]
    visiting = visit(played.events, mine)
    events = [*played.events, *visiting.take(Answered(True), SOMEBODY)]
    events += visit(events, other).take(Answered("no"), SOMEBODY)

    visiting.catch_up(events)
    batch = visiting.take(Answered("eu-1"), SOMEBODY)

    assert [event.type for event in batch] == ["inquiry_request", "inquiry_response"]


def test_a_visit_ends_when_its_question_is_answered_elsewhere() -> None:
    played = suspended(CONFIRM, REGION)
    visiting = visit(played.events, open_id(played))
    other = visit(played.events, open_id(played)).take(Answered(True), SOMEBODY)

    with pytest.raises(AlreadyAnswered, match=r"was answered before, by a person \(inbox\)"):
        visiting.catch_up([*played.events, *other])


@examples(max_examples=tries(60), deadline=None, derandomize=True)
@given(forms(), st.lists(st.one_of(answering, draws), min_size=1, max_size=14))
def test_after_every_batch_another_process_asks_the_visitors_question(
    form: Form, doings: list[Draw]
) -> None:
    """Both have the same question, initial value, Back option, and answers at the review."""
    played = suspended(*form.questions, review=form.review)
    assert played.events[-1].type == "inquiry_request"
    events = list(played.events)
    visiting = visit(events, open_id(played))
    for draw in doings:
        prompt = visiting.prompt()
        if prompt is None:
            return
        batch = visiting.take(_reply(draw, prompt), SOMEBODY, prompt.digest)
        events += batch
        _matches_the_next_prompt(visiting, events, form)


def _reply(draw: Draw, prompt: Prompt) -> Reply:
    if prompt.kind == "review":
        return WentBack() if draw.flag else Submitted()
    if draw.kind in (2, 3, 4) and prompt.can_go_back:
        return WentBack()
    possible = [*POSSIBLE[kind_of(prompt.question)], *([None] if prompt.question.optional else [])]
    return Answered(possible[draw.choice % len(possible)])


def _matches_the_next_prompt(visiting: Visit, events: list[Event], form: Form) -> None:
    """Resume the turn with a person at a terminal, and let the tool ask its form again."""
    there = Played(settings(), events)
    (call,) = there.turn.record.calls
    there.asks(call, *form.questions, review=form.review)
    prompts = there.wanted(PromptUser)
    seen = visiting.prompt()
    if seen is None:
        assert all(kind_of(prompt.prompt.question) == "secret" for prompt in prompts), (
            "only what is never written is asked again"
        )
        return
    asked = prompts[0].prompt
    assert (asked.kind, asked.question, asked.index, asked.can_go_back) == (
        seen.kind,
        seen.question,
        seen.index,
        seen.can_go_back,
    )
    assert asked.prefill == seen.prefill
    assert asked.subject == seen.subject


def test_a_reason_discarded_with_back_is_not_sent_to_the_model() -> None:
    played = suspended(CONFIRM, NOTE, review=False)
    (call,) = played.turn.record.calls
    visiting = visit(played.events, open_id(played))
    for reply in (
        Answered(False, reason="Not on a Friday."),
        WentBack(),
        Answered(True),
        Answered("go"),
    ):
        played.events += visiting.take(reply, SOMEBODY)
    again = Played(DETACHED, played.events)
    again.asks(call, CONFIRM, NOTE)
    again.asks(call, REGION)

    batch = visit(again.events, open_id(again)).take(Replied("Elsewhere."), SOMEBODY)

    (told,) = [event.content for event in batch if isinstance(event, ToolCallResponse)]
    assert "Elsewhere." in told
    assert "Friday" not in told
