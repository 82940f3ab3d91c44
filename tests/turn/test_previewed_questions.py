"""Previewed questions: a tool announces a question before it runs.

One yes answers the permission and the previewed question, and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from midturn.events.codec import decode_event, encode_event
from midturn.events.transcript import agreed
from midturn.events.types import (
    AnsweredBy,
    Approval,
    Event,
    InquiryAnswered,
    InquiryRequest,
    ToolCallRequest,
)
from midturn.question.question import Question
from midturn.question.reply import Answered, Edited
from midturn.routing.policy import DetachedPolicies, QuestionPolicy, Target, ToolPolicy
from midturn.turn.inputs import (
    ConsultAssistant,
    ModelAnswered,
    PreviewQuestion,
    PromptUser,
    QuestionPreviewed,
    RunTool,
    SuspendTurn,
)
from midturn.turn.pending import pending
from midturn.turn.visit import Visit
from support.turns import DEPLOY, Played, counting_ids, settings

OVERWRITE = Question.boolean("overwrite", "Overwrite plan.md?", context="-old\n+new")
ASKS = ToolPolicy(source=DEPLOY, run="ask", detached=DetachedPolicies(run="defer"))
ADA = AnsweredBy("user", via="inbox", user="ada")


def previewing(
    *, attached: bool = True, policy: ToolPolicy = ASKS, events: Sequence[Event] = ()
) -> Played:
    return Played(settings(policy, attached=attached, previewing=frozenset({"deploy"})), events)


def turn_with_preview(
    question: Question[bool] | None = OVERWRITE, *, attached: bool = True, policy: ToolPolicy = ASKS
) -> tuple[Played, str]:
    """Return a turn whose call has previewed a question, and the call's ID."""
    played = previewing(attached=attached, policy=policy)
    (call,) = played.model_calls("deploy")
    (effect,) = played.wanted(PreviewQuestion)
    assert effect.call.event == call
    assert not played.wanted(SuspendTurn)
    played.step(QuestionPreviewed(call, question))
    return played, call


def answered_in_the_inbox(*, value: bool = True, policy: ToolPolicy = ASKS) -> tuple[Played, str]:
    """Return a turn whose permission was answered in the inbox, and the call's ID."""
    played, call = turn_with_preview(attached=False, policy=policy)
    (waiting,) = played.recorded(Approval)
    batch = Visit(played.events, waiting.event_id, counting_ids(100)).take(Answered(value), ADA)
    return previewing(attached=False, policy=policy, events=[*played.events, *batch]), call


def test_the_permission_prompt_shows_the_question_and_one_yes_answers_both() -> None:
    played, call = turn_with_preview()

    assert (played.prompt.prompt.question.text, played.prompt.prompt.question.context) == (
        "Overwrite plan.md?",
        "-old\n+new",
    )
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


def test_without_a_preview_the_standard_question_is_asked() -> None:
    played, _ = turn_with_preview(None)

    assert played.prompt.prompt.question.text == "Run deploy?"


def test_an_inbox_question_is_the_tools_own_question_and_is_asked_once() -> None:
    played, _ = turn_with_preview(attached=False)
    (waiting,) = pending(played.events, "1")
    assert (waiting.kind, waiting.question.text, waiting.question.context) == (
        "run",
        "Overwrite plan.md?",
        "-old\n+new",
    )

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
def test_a_question_that_differs_from_its_preview_is_asked_too(name: str) -> None:
    played, call = turn_with_preview()
    played.answer(True)
    played.asks(call, OTHERS[name])

    assert played.prompt.prompt.question.text == OTHERS[name].text
    assert not played.recorded(InquiryAnswered)


@pytest.mark.parametrize("name", OTHERS)
def test_a_question_that_differs_from_its_preview_is_asked_after_an_inbox_permission(
    name: str,
) -> None:
    policy = replace(ASKS, detached=DetachedPolicies(run="defer", tool="defer"))
    played, call = answered_in_the_inbox(policy=policy)
    played.asks(call, OTHERS[name])

    assert [question.question.text for question in pending(played.events, "1")] == [
        OTHERS[name].text
    ]
    assert not played.recorded(InquiryAnswered)


def test_one_yes_answers_one_question() -> None:
    played, call = turn_with_preview()
    played.answer(True)
    played.asks(call, OVERWRITE, replace(OVERWRITE, id="again"))

    assert played.prompt.prompt.question.id == "again"
    assert len(played.recorded(InquiryAnswered)) == 1


def test_two_calls_with_one_id_each_wait_for_a_permission() -> None:
    """Some models repeat call IDs.

    Both previewed questions are known before a permission is recorded.
    """
    played = previewing(attached=False)
    parts = [
        ToolCallRequest(id="call_0", name="deploy", arguments={}),
        ToolCallRequest(id="call_0", name="deploy", arguments={}),
    ]
    played.step(ModelAnswered(tuple(parts)))
    for effect in played.wanted(PreviewQuestion):
        played.step(QuestionPreviewed(effect.call.event, OVERWRITE))

    waiting = played.recorded(Approval)
    assert [approval.id for approval in waiting] == ["call_0.__run__.1", "call_0.__run__.2"]
    assert len(pending(played.events, "1")) == 2


def test_a_question_for_a_model_is_answered_by_the_model() -> None:
    policy = replace(ASKS, questions={"overwrite": QuestionPolicy(target=Target("assistant"))})
    played, call = turn_with_preview(policy=policy)
    played.answer(True)
    played.asks(call, OVERWRITE)

    assert played.wanted(ConsultAssistant)


def test_a_preview_does_not_apply_to_edited_arguments() -> None:
    played, call = turn_with_preview()
    played.reply(Edited({"path": "other.md"}))
    played.asks(call, OVERWRITE)

    assert played.prompt.prompt.question.text == "Overwrite plan.md?"


def test_a_remembered_permission_does_not_answer_a_previewed_question() -> None:
    played, call = turn_with_preview()
    played.answer(True, remember=True)
    played.succeeds(call)
    (second,) = played.model_calls("deploy")
    played.step(QuestionPreviewed(second, replace(OVERWRITE, context="-other")))
    played.asks(second, replace(OVERWRITE, context="-other"))

    assert played.recorded(Approval)[-1].question is None
    assert played.prompt.prompt.question.context == "-other"


def test_a_configured_answer_is_used() -> None:
    policy = replace(ASKS, questions={"overwrite": QuestionPolicy(answer=False)})
    played, call = turn_with_preview(policy=policy)
    played.answer(True)
    played.asks(call, OVERWRITE)

    assert [event.answer for event in played.recorded(InquiryAnswered)] == [False]


def test_a_no_runs_nothing() -> None:
    played, _ = answered_in_the_inbox(value=False)

    assert not played.wanted(RunTool)
    assert played.recorded(Approval)[-1].state == "skipped"


def test_a_late_preview_is_dropped() -> None:
    played, call = turn_with_preview()
    played.answer(True)

    assert played.step(QuestionPreviewed(call, replace(OVERWRITE, text="Another?"))) == ()


@pytest.mark.parametrize("attached", [True, False])
def test_a_turn_cut_anywhere_continues_with_one_question(*, attached: bool) -> None:
    """After a crash at any point, at most one question is open, and none is repeated."""
    whole, call = turn_with_preview() if attached else answered_in_the_inbox()
    if attached:
        whole.answer(True)
    whole.asks(call, OVERWRITE)
    whole.succeeds(call)

    for cut in range(3, len(whole.events)):  # starts after the call was recorded
        events = [decode_event(encode_event(event), "here") for event in whole.events[:cut]]
        again = previewing(attached=attached, events=events)
        if again.wanted(PreviewQuestion):
            again.step(QuestionPreviewed(call, OVERWRITE))
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
