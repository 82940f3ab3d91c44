"""A tool foretells what it would ask: one yes answers the permission and the question, and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from midturn.events.codec import decode_event, encode_event
from midturn.events.transcript import agreed
from midturn.events.types import AnsweredBy, Approval, Event, InquiryAnswered, InquiryRequest, ToolCallRequest
from midturn.question.question import Question
from midturn.question.reply import Answered, Edited
from midturn.routing.policy import DetachedPolicies, QuestionPolicy, Target, ToolPolicy
from midturn.turn.pending import pending
from midturn.turn.step import ConsultAssistant, Foretell, Foretold, ModelAnswered, PromptUser, RunTool, SuspendTurn
from midturn.turn.visit import Visit
from support.turns import DEPLOY, Played, counting_ids, settings

OVERWRITE = Question.boolean("overwrite", "Overwrite plan.md?", context="-old\n+new")
ASKS = ToolPolicy(source=DEPLOY, run="ask", detached=DetachedPolicies(run="defer"))
ADA = AnsweredBy("user", via="inbox", user="ada")


def foretelling(*, attached: bool = True, policy: ToolPolicy = ASKS, events: Sequence[Event] = ()) -> Played:
    return Played(settings(policy, attached=attached, foretelling=frozenset({"deploy"})), events)


def told(question: Question[bool] | None = OVERWRITE, *, attached: bool = True, policy: ToolPolicy = ASKS) -> tuple[Played, str]:
    """Return a turn whose call has foretold a question, and the call."""
    played = foretelling(attached=attached, policy=policy)
    (call,) = played.model_calls("deploy")
    (effect,) = played.wanted(Foretell)
    assert effect.call.event == call
    assert not played.wanted(SuspendTurn)
    played.step(Foretold(call, question))
    return played, call


def answered_in_the_inbox(*, value: bool = True, policy: ToolPolicy = ASKS) -> tuple[Played, str]:
    """Return a turn that goes on after its permission was answered by somebody who came by, and its call."""
    played, call = told(attached=False, policy=policy)
    (waiting,) = played.recorded(Approval)
    batch = Visit(played.events, waiting.event_id, counting_ids(100)).take(Answered(value), ADA)
    return foretelling(attached=False, policy=policy, events=[*played.events, *batch]), call


def test_who_is_asked_for_permission_sees_the_question_and_its_yes_answers_both() -> None:
    played, call = told()

    assert (played.prompt.prompt.question.text, played.prompt.prompt.question.context) == ("Overwrite plan.md?", "-old\n+new")
    played.answer(True)
    played.asks(call, OVERWRITE)

    assert not played.wanted(PromptUser)
    assert played.run.answers == {"overwrite": True}
    assert [(approval.state, approval.question) for approval in played.recorded(Approval)] == [
        ("waiting", OVERWRITE.persisted()),
        ("approved", OVERWRITE.persisted()),
    ]
    assert [event.answered_by for event in played.recorded(InquiryAnswered)] == [AnsweredBy("user")]
    assert agreed(played.events) == {event.event_id for event in played.recorded(InquiryRequest)}


def test_nothing_foretold_is_asked_in_our_words() -> None:
    played, _ = told(None)

    assert played.prompt.prompt.question.text == "Run deploy?"


def test_what_waits_in_the_inbox_is_the_question_itself_and_is_not_asked_again() -> None:
    played, _ = told(attached=False)
    (waiting,) = pending(played.events, "1")
    assert (waiting.kind, waiting.question.text, waiting.question.context) == ("run", "Overwrite plan.md?", "-old\n+new")

    played, call = answered_in_the_inbox()
    assert isinstance(played.wanted(RunTool)[0], RunTool)
    played.asks(call, OVERWRITE)

    assert played.run.answers == {"overwrite": True}
    assert [event.answered_by for event in played.recorded(InquiryAnswered)] == [ADA]
    assert pending(played.events, "1") == []


OTHERS = {
    "another id": replace(OVERWRITE, id="delete"),
    "another text": replace(OVERWRITE, text="Delete everything?"),
    "another difference": replace(OVERWRITE, context="-old\n+worse"),
    "no difference": replace(OVERWRITE, context=None),
    "another type": Question.text("overwrite", "Overwrite plan.md?", context="-old\n+new"),
    "a secret": Question.secret("overwrite", "Overwrite plan.md?", context="-old\n+new"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_a_tool_that_foretells_one_thing_and_asks_another_is_asked_about_both(name: str) -> None:
    played, call = told()
    played.answer(True)
    played.asks(call, OTHERS[name])

    assert played.prompt.prompt.question.text == OTHERS[name].text
    assert not played.recorded(InquiryAnswered)


@pytest.mark.parametrize("name", OTHERS)
def test_the_same_where_the_permission_came_from_the_inbox(name: str) -> None:
    policy = replace(ASKS, detached=DetachedPolicies(run="defer", tool="defer"))
    played, call = answered_in_the_inbox(policy=policy)
    played.asks(call, OTHERS[name])

    assert [question.question.text for question in pending(played.events, "1")] == [OTHERS[name].text]
    assert not played.recorded(InquiryAnswered)


def test_one_yes_answers_one_question() -> None:
    played, call = told()
    played.answer(True)
    played.asks(call, OVERWRITE, replace(OVERWRITE, id="again"))

    assert played.prompt.prompt.question.id == "again"
    assert len(played.recorded(InquiryAnswered)) == 1


def test_two_calls_that_share_an_id_wait_for_a_permission_each() -> None:
    """Some models repeat the ids of their calls; what both tools foretell is known before anything of either permission is on record."""
    played = foretelling(attached=False)
    parts = [ToolCallRequest(id="call_0", name="deploy", arguments={}), ToolCallRequest(id="call_0", name="deploy", arguments={})]
    played.step(ModelAnswered(tuple(parts)))
    for effect in played.wanted(Foretell):
        played.step(Foretold(effect.call.event, OVERWRITE))

    waiting = played.recorded(Approval)
    assert [approval.id for approval in waiting] == ["call_0.__run__.1", "call_0.__run__.2"]
    assert len(pending(played.events, "1")) == 2


def test_a_model_that_is_to_answer_answers() -> None:
    policy = replace(ASKS, questions={"overwrite": QuestionPolicy(target=Target("assistant"))})
    played, call = told(policy=policy)
    played.answer(True)
    played.asks(call, OVERWRITE)

    assert played.wanted(ConsultAssistant)


def test_edited_arguments_are_not_what_was_foretold() -> None:
    played, call = told()
    played.reply(Edited({"path": "other.md"}))
    played.asks(call, OVERWRITE)

    assert played.prompt.prompt.question.text == "Overwrite plan.md?"


def test_a_remembered_yes_has_seen_no_question() -> None:
    played, call = told()
    played.answer(True, remember=True)
    played.succeeds(call)
    (second,) = played.model_calls("deploy")
    played.step(Foretold(second, replace(OVERWRITE, context="-other")))
    played.asks(second, replace(OVERWRITE, context="-other"))

    assert played.recorded(Approval)[-1].question is None
    assert played.prompt.prompt.question.context == "-other"


def test_a_configured_answer_holds() -> None:
    policy = replace(ASKS, questions={"overwrite": QuestionPolicy(answer=False)})
    played, call = told(policy=policy)
    played.answer(True)
    played.asks(call, OVERWRITE)

    assert [event.answer for event in played.recorded(InquiryAnswered)] == [False]


def test_a_no_runs_nothing() -> None:
    played, _ = answered_in_the_inbox(value=False)

    assert not played.wanted(RunTool)
    assert played.recorded(Approval)[-1].state == "skipped"


def test_what_is_foretold_too_late_is_dropped() -> None:
    played, call = told()
    played.answer(True)

    assert played.step(Foretold(call, replace(OVERWRITE, text="Another?"))) == ()


@pytest.mark.parametrize("attached", [True, False])
def test_a_turn_that_is_cut_anywhere_goes_on_with_one_question(*, attached: bool) -> None:
    """Whatever was on disk when the process died: at most one question for the one thing, and never one that was answered."""
    whole, call = told() if attached else answered_in_the_inbox()
    if attached:
        whole.answer(True)
    whole.asks(call, OVERWRITE)
    whole.succeeds(call)

    for cut in range(3, len(whole.events)):  # from the call on
        events = [decode_event(encode_event(event), "here") for event in whole.events[:cut]]
        again = foretelling(attached=attached, events=events)
        if again.wanted(Foretell):
            again.step(Foretold(call, OVERWRITE))
        if again.wanted(PromptUser):
            assert all(event.state == "waiting" for event in events if isinstance(event, Approval))
            again.answer(True)
        if again.wanted(SuspendTurn):
            assert [question.kind for question in pending(again.events, "1")] == ["run"]
            continue
        if not again.run.answers:
            again.asks(call, OVERWRITE)
        assert again.run.answers == {"overwrite": True}
        assert len(again.recorded(InquiryAnswered)) == 1
