"""An open turn, visited from outside."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings as examples, strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from midturn.errors import AlreadyAnswered, AnswerError
from midturn.events.prompt import Prompt
from midturn.events.types import AnsweredBy, Approval, Event, InquiryCancelled, InquiryRequest, ToolCallResponse
from midturn.question.answer_type import When
from midturn.question.form import Form
from midturn.question.question import Question
from midturn.question.reply import Answered, EndedTurn, Replied, Reply, Submitted, WentBack
from midturn.routing.policy import DetachedPolicies
from midturn.turn.step import PromptUser
from midturn.turn.visit import Visit
from support.depth import tries
from support.turns import CONFIRM, REGION, UNATTENDED, Played, counting_ids, settings
from support.walks import POSSIBLE, Draw, answering, draws, forms, kind_of

SOMEBODY = AnsweredBy("user", via="inbox")
DETACHED = settings(replace(UNATTENDED, detached=DetachedPolicies("defer", "defer", "defer")), attached=False)
NOTE = Question.text("note", "Anything else?")


def suspended(*questions: Question[Any], review: bool = True) -> Played:
    """Return a turn that waits for the answers to a form."""
    played = Played(DETACHED)
    (call,) = played.model_calls("deploy")
    played.asks(call, *questions, review=review)
    return played


def open_id(played: Played) -> str:
    """Return the event that a turn waits for."""
    waiting = [e for e in played.events if isinstance(e, InquiryRequest) or (isinstance(e, Approval) and e.state == "waiting")]
    return waiting[-1].event_id


def visit(events: list[Event], event_id: str) -> Visit:
    return Visit(events, event_id, (f"v{len(events)}.{id}" for id in counting_ids()))


def shown(visiting: Visit) -> Prompt:
    prompt = visiting.prompt()
    assert prompt
    return prompt


def test_a_visitor_walks_a_form_to_its_end() -> None:
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
    """A call may ask two forms with equal ids; only what Back asks again comes with the answer that it had."""
    played = suspended(CONFIRM, NOTE, review=False)
    (call,) = played.turn.record.calls
    batch = visit(played.events, open_id(played)).take(Answered({"confirm": True, "note": "go"}), SOMEBODY)
    played = Played(DETACHED, [*played.events, *batch])
    played.asks(call, CONFIRM, NOTE)
    played.asks(call, Question.boolean("confirm", "Delete the production database?"), NOTE)

    prompt = shown(visit(played.events, open_id(played)))

    assert prompt.question.text == "Delete the production database?"
    assert prompt.prefill is UNSET


def test_back_of_a_visitor_comes_with_the_answer_that_is_revised() -> None:
    played = suspended(CONFIRM, REGION)
    visiting = visit(played.events, open_id(played))
    visiting.take(Answered(True), SOMEBODY)

    back = visiting.take(WentBack(), SOMEBODY)

    assert [type(event) for event in back] == [InquiryRequest, InquiryCancelled, InquiryRequest]
    assert (shown(visiting).question.id, shown(visiting).prefill) == ("confirm", True)


def test_back_at_a_review_is_on_record_as_the_request_that_it_leads_to() -> None:
    played = suspended(CONFIRM, REGION)
    visiting = visit(played.events, open_id(played))
    events = [*played.events, *visiting.take(Answered(True), SOMEBODY), *visiting.take(Answered("eu-1"), SOMEBODY)]

    back = visiting.take(WentBack(), SOMEBODY)

    assert isinstance(back[-1], InquiryRequest)
    assert back[-1].revises == "call_1.region.1"
    assert shown(visit([*events, *back], back[-1].event_id)).prefill == "eu-1"


def test_a_reply_that_does_not_fit_changes_nothing() -> None:
    played = suspended(CONFIRM, REGION)
    visiting = visit(played.events, open_id(played))

    with pytest.raises(AnswerError, match="must be true or false"):
        visiting.take(Answered("yes"), SOMEBODY)

    assert [event.type for event in visiting.take(Answered(True), SOMEBODY)] == ["inquiry_response"]


def test_ending_the_turn_closes_everything_in_one_batch() -> None:
    played = suspended(CONFIRM, REGION)

    batch = visit(played.events, open_id(played)).take(EndedTurn(), SOMEBODY)

    assert [event.type for event in batch] == ["inquiry_response", "tool_call_response", "turn_end"]


def test_what_a_visitor_says_instead_completes_the_call() -> None:
    played = suspended(CONFIRM, REGION)

    batch = visit(played.events, open_id(played)).take(Replied("Never mind."), SOMEBODY)

    assert isinstance(batch[-1], ToolCallResponse)
    assert batch[-1].content == '{"cancelled": true, "answered": {}, "reply": "Never mind."}'


GATED = Question.text("why", "Why not?", when=When("confirm", equals=False))


def test_an_answer_in_a_map_to_a_question_that_is_not_asked_is_an_error_that_names_it() -> None:
    """Whoever sent it would believe that it counts."""
    played = suspended(CONFIRM, GATED, NOTE)
    visiting = visit(played.events, open_id(played))

    with pytest.raises(AnswerError) as raised:
        visiting.take(Answered({"confirm": True, "why": "It is Friday.", "note": "go"}), SOMEBODY)

    (problem,) = raised.value.problems
    assert problem.pointer == "/why"
    assert "`confirm`" in problem.message
    assert len(visiting.take(Answered({"confirm": False, "why": "It is Friday.", "note": "go"}), SOMEBODY)) > 1


def test_a_map_may_say_again_what_is_on_record_but_not_otherwise() -> None:
    played = suspended(CONFIRM, REGION)
    visiting = visit(played.events, open_id(played))
    visiting.take(Answered(True), SOMEBODY)

    with pytest.raises(AnswerError) as raised:
        visiting.take(Answered({"confirm": False, "region": "eu-1"}), SOMEBODY)

    assert raised.value.problems[0].pointer == "/confirm"
    assert visiting.take(Answered({"confirm": True, "region": "eu-1"}), SOMEBODY)


def test_a_null_in_a_map_for_a_question_that_is_not_asked_is_what_it_gets() -> None:
    played = suspended(CONFIRM, GATED, NOTE)

    batch = visit(played.events, open_id(played)).take(Answered({"confirm": True, "why": None, "note": "go"}), SOMEBODY)

    assert [event.type for event in batch].count("inquiry_response") == 2


def test_who_comes_second_hears_who_was_first() -> None:
    played = suspended(CONFIRM)
    batch = visit(played.events, open_id(played)).take(Answered(True), SOMEBODY)

    with pytest.raises(AlreadyAnswered, match=r"was answered before, by a person \(inbox\)"):
        visit([*played.events, *batch], open_id(played))


def test_a_visit_goes_on_although_somebody_else_has_written_to_the_turn() -> None:
    """Another call of the turn was answered; the visitor's request, which was held back, is not on record yet."""
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


def test_a_visit_is_over_when_somebody_else_has_answered_what_it_shows() -> None:
    played = suspended(CONFIRM, REGION)
    visiting = visit(played.events, open_id(played))
    other = visit(played.events, open_id(played)).take(Answered(True), SOMEBODY)

    with pytest.raises(AlreadyAnswered, match=r"was answered before, by a person \(inbox\)"):
        visiting.catch_up([*played.events, *other])


@examples(max_examples=tries(60), deadline=None, derandomize=True)
@given(forms(), st.lists(st.one_of(answering, draws), min_size=1, max_size=14))
def test_after_every_batch_another_process_asks_what_the_visitor_sees(form: Form, doings: list[Draw]) -> None:
    """The question, what is filled in, and whether Back is offered; and at the review, the same answers."""
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
        _is_what_a_person_is_asked_next(visiting, events, form)


def _reply(draw: Draw, prompt: Prompt) -> Reply:
    if prompt.kind == "review":
        return WentBack() if draw.flag else Submitted()
    if draw.kind in (2, 3, 4) and prompt.can_go_back:
        return WentBack()
    possible = [*POSSIBLE[kind_of(prompt.question)], *([None] if prompt.question.optional else [])]
    return Answered(possible[draw.choice % len(possible)])


def _is_what_a_person_is_asked_next(visiting: Visit, events: list[Event], form: Form) -> None:
    """Resume the turn with a person at a terminal, and have the tool ask its form again."""
    there = Played(settings(), events)
    (call,) = there.turn.record.calls
    there.asks(call, *form.questions, review=form.review)
    prompts = there.wanted(PromptUser)
    seen = visiting.prompt()
    if seen is None:
        assert all(kind_of(prompt.prompt.question) == "secret" for prompt in prompts), "only what is never written is asked again"
        return
    asked = prompts[0].prompt
    assert (asked.kind, asked.question, asked.index, asked.can_go_back) == (seen.kind, seen.question, seen.index, seen.can_go_back)
    assert asked.prefill == seen.prefill
    assert asked.subject == seen.subject


def test_a_reason_that_back_discarded_in_an_earlier_form_is_not_told_to_the_model() -> None:
    played = suspended(CONFIRM, NOTE, review=False)
    (call,) = played.turn.record.calls
    visiting = visit(played.events, open_id(played))
    for reply in (Answered(False, reason="Not on a Friday."), WentBack(), Answered(True), Answered("go")):
        played.events += visiting.take(reply, SOMEBODY)
    again = Played(DETACHED, played.events)
    again.asks(call, CONFIRM, NOTE)
    again.asks(call, REGION)

    batch = visit(again.events, open_id(again)).take(Replied("Elsewhere."), SOMEBODY)

    (told,) = [event.content for event in batch if isinstance(event, ToolCallResponse)]
    assert "Elsewhere." in told
    assert "Friday" not in told
