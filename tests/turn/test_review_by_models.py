"""Questions answered by models: reasons, escalation, and the limit of rejections."""

from __future__ import annotations

import pytest

from midturn.events.types import (
    InquiryAnswered,
    InquiryCancelled,
    InquiryRequest,
    ToolCallResponse,
    TurnEnd,
)
from midturn.events.window import refused
from midturn.question.question import Question
from midturn.question.reply import Unavailable, WentBack
from midturn.routing.messages import REVIEWER_FAILED
from midturn.routing.policy import (
    DetachedPolicies,
    DetachedPolicy,
    QuestionPolicy,
    Target,
    TargetKind,
    ToolPolicy,
)
from midturn.turn.inputs import (
    AssistantFailed,
    AssistantReplied,
    CallModel,
    ConsultAssistant,
    EndTurn,
    PromptFailed,
    PromptUser,
    SuspendTurn,
    Warn,
)
from midturn.turn.view import TurnView
from support.turns import CONFIRM, DEPLOY, REGION, Played, settings

PATCH = Question.boolean("confirm", "Apply it?", context="+ a line", default=True)


def reviewed(
    kind: TargetKind = "assistant_with_escalation", detached: DetachedPolicy = "deny"
) -> ToolPolicy:
    """Return a policy that lets a model answer."""
    return ToolPolicy(
        source=DEPLOY,
        run="unattended",
        detached=DetachedPolicies(tool=detached),
        questions={"*": QuestionPolicy(Target(kind))},
    )


def says(played: Played, answer: object, reason: str | None = "It drops a test.") -> None:
    """Let the asked model answer."""
    (asked,) = played.wanted(ConsultAssistant)
    played.step(AssistantReplied(asked.id, answer, "anthropic/claude-haiku-4-5", reason))  # type: ignore[arg-type]


def asked(policy: ToolPolicy, question: object = PATCH, **changes: object) -> tuple[Played, str]:
    """Return a turn whose only call asks a model."""
    played = Played(settings(policy, **changes))
    (call,) = played.model_calls("deploy")
    played.asks(call, question)  # type: ignore[arg-type]
    return played, call


def test_a_rejection_by_a_model_is_explained_to_the_main_model() -> None:
    played, call = asked(reviewed("assistant"))
    says(played, False)
    played.fails(call, "Not applied.")

    (response,) = played.recorded(ToolCallResponse)
    assert (
        response.content
        == "The `deploy` call was reviewed by a secondary assistant (anthropic/claude-haiku-4-5)"
        ' and rejected.\n\nQuestion: Apply it?\nReason: "It drops a test."\n\nNot applied.\nYou'
        " may retry with different input, or ask the user to review."
    )


def test_retry_advice_of_a_tool_is_not_repeated() -> None:
    played, call = asked(reviewed("assistant"))
    says(played, False)
    played.fails(call, "Not applied. You may retry with different changes.")

    (response,) = played.recorded(ToolCallResponse)
    assert response.content.endswith(
        "\n\nNot applied.\nYou may retry with different input, or ask the user to review."
    )
    assert response.content.count("You may retry") == 1


@pytest.mark.parametrize(
    "last",
    [
        "You may retry with --force.",
        "You may retry after 17:00, when the freeze ends.",
        "You may retry with different input in eu-1.",
        "You may retry, but run the tests first.",
        "You may retry with different input: a version above 2",
    ],
)
def test_a_different_last_sentence_of_a_tool_is_kept(last: str) -> None:
    played, call = asked(reviewed("assistant"))
    says(played, False)
    played.fails(call, f"Not applied. {last}")

    (response,) = played.recorded(ToolCallResponse)
    assert response.content.endswith(
        f"\n\nNot applied. {last}\nYou may retry with different input, or ask the user to review."
    )


def test_a_rejection_by_the_user_has_other_text() -> None:
    played = Played()
    (call,) = played.model_calls("deploy")
    played.asks(call, PATCH)
    played.answer(False)
    played.fails(call, "Not applied.")

    (response,) = played.recorded(ToolCallResponse)
    assert (
        response.content
        == "The user reviewed the `deploy` call and rejected it.\n\nQuestion: Apply it?\n\nNot"
        " applied."
    )


def test_a_reason_typed_with_a_no_is_passed_on_if_the_call_succeeds() -> None:
    played = Played()
    (call,) = played.model_calls("deploy")
    played.asks(call, PATCH)
    played.answer(False, reason="Use two lines.")
    played.succeeds(call, "Left as it was.")

    assert (
        played.recorded(ToolCallResponse)[0].content
        == 'Left as it was.\nThe user added: "Use two lines."'
    )


def test_a_reason_typed_with_a_no_is_passed_on_if_the_call_fails_later() -> None:
    played = Played()
    (call,) = played.model_calls("deploy")
    played.asks(call, PATCH)
    played.answer(False, reason="Use two lines.")
    played.asks(call, Question.secret("key", "The key?"))
    played.step(PromptFailed(played.prompt.id, "the terminal is gone"))

    failed = 'deploy: the prompt for "The key?" failed: the terminal is gone.'
    assert (
        played.recorded(ToolCallResponse)[0].content
        == f'{failed}\nThe user added: "Use two lines."'
    )


def test_a_rejection_is_escalated_to_the_user_and_the_tool_gets_the_users_answer() -> None:
    played, call = asked(reviewed())
    says(played, False)

    prompt = played.prompt.prompt
    assert played.prompt.id == played.asked_as("call_1.confirm.2")
    assert (
        prompt.question.context
        == 'The assistant recommended rejecting this:\n"It drops a test."\n\n+ a line'
    )
    assert prompt.question.to_json().get("default") is None
    second = played.recorded(InquiryRequest)[1]
    assert second.escalates == "call_1.confirm.1"

    played.answer(True)
    assert played.run.answers == {"confirm": True}
    assert played.run.call.event == call


def test_back_to_an_escalated_question_shows_the_models_answer_again_without_a_default() -> None:
    """This holds however often they go back. The field contains only their own answer."""
    reviewing = {"confirm": QuestionPolicy(Target("assistant_with_escalation"))}
    played = Played(settings(ToolPolicy(source=DEPLOY, run="unattended", questions=reviewing)))
    (call,) = played.model_calls("deploy")
    played.asks(call, PATCH, REGION)
    says(played, False)
    played.answer(False)

    for answered in (False, True):
        played.reply(WentBack())
        prompt = played.prompt.prompt
        assert (
            prompt.question.context
            == 'The assistant recommended rejecting this:\n"It drops a test."\n\n+ a line'
        )
        assert prompt.verdict == 'The assistant recommended rejecting this:\n"It drops a test."'
        assert (prompt.question.to_json().get("default"), prompt.prefill) == (None, answered)
        played.answer(True)


def test_a_failing_reviewer_is_not_a_no() -> None:
    played, _ = asked(reviewed())
    played.step(AssistantFailed(played.asked_as("call_1.confirm.1"), "overloaded"))

    assert played.recorded(InquiryCancelled)[0].reason == "backend_error"
    assert played.prompt.prompt.question.context == f"{REVIEWER_FAILED}\n\n+ a line"


def test_detached_a_rejection_follows_the_policy() -> None:
    answers: dict[DetachedPolicy, object] = {}
    for policy in ("deny", "auto", "defaults", "defer"):
        played, _ = asked(reviewed(detached=policy), attached=False)
        says(played, False)
        answers[policy] = (
            "suspended" if played.wanted(SuspendTurn) else played.run.answers["confirm"]
        )

    assert answers == {"deny": False, "auto": False, "defaults": True, "defer": "suspended"}


def test_an_open_escalation_continues_in_a_resumed_turn() -> None:
    played, call = asked(reviewed(detached="defer"), attached=False)
    says(played, False)

    resumed = Played(settings(reviewed(detached="defer")), played.events)
    resumed.asks(call, PATCH)

    assert resumed.prompt.id == resumed.asked_as("call_1.confirm.2")
    resumed.answer(True)
    assert resumed.run.answers == {"confirm": True}
    assert len(resumed.recorded(InquiryRequest)) == 2


def test_escalation_of_another_answer_type_gives_one_warning() -> None:
    played, _ = asked(reviewed(), REGION)
    assert len(played.wanted(Warn)) == 1
    says(played, "eu-1")

    assert played.run.answers == {"region": "eu-1"}


def test_an_assistant_never_answers_an_exclusive_question() -> None:
    exclusive = Question.boolean("confirm", "Really?", exclusive=True)
    played, _ = asked(reviewed("assistant"), exclusive)

    assert (
        played.recorded(ToolCallResponse)[0].content
        == "deploy requires a human answer and cannot be routed to the assistant. Do not retry this"
        " tool call in this turn."
    )


def rejected_cycles(count: int, **changes: object) -> tuple[Played, str]:
    """Return a turn in which a model has rejected `count` times in a row.

    The model is about to be asked once more.
    """
    played = Played(settings(reviewed("assistant"), **changes))
    for _ in range(count):
        (call,) = played.model_calls("deploy")
        played.asks(call, CONFIRM)
        says(played, False)
        played.fails(call)
    (call,) = played.model_calls("deploy")
    played.asks(call, CONFIRM)
    return played, call


def test_after_three_consecutive_rejections_a_person_is_asked() -> None:
    played, _ = rejected_cycles(3)

    assert played.wanted(PromptUser)
    assert not played.wanted(ConsultAssistant)


def test_after_three_consecutive_rejections_with_nobody_attached_the_turn_fails() -> None:
    played, _ = rejected_cycles(3, attached=False)

    assert played.recorded(InquiryCancelled)[-1].reason == "limit_exceeded"
    assert played.recorded(TurnEnd)[0].status == "failed"
    assert played.wanted(EndTurn)
    assert not played.wanted(CallModel)


def test_two_rejections_are_below_the_limit() -> None:
    played, _ = rejected_cycles(2)

    assert played.wanted(ConsultAssistant)


def test_a_models_answer_is_attributed_to_the_model() -> None:
    played, _ = asked(reviewed("assistant"))
    says(played, True)

    (answer,) = played.recorded(InquiryAnswered)
    assert answer.answered_by is not None
    assert (answer.answered_by.by, answer.answered_by.model, answer.reason) == (
        "assistant",
        "anthropic/claude-haiku-4-5",
        "It drops a test.",
    )


@pytest.mark.parametrize("detached", ["auto", "deny"])
def test_a_rejection_that_cannot_be_shown_is_final(detached: DetachedPolicy) -> None:
    """An unavailable prompter counts as nobody attached, also after a rejection by a model."""
    played, call = asked(reviewed(detached=detached))
    says(played, False)

    played.reply(Unavailable())

    assert played.run.answers == {"confirm": False}
    assert [
        (e.answer, e.answered_by.by) for e in played.recorded(InquiryAnswered) if e.answered_by
    ] == [(False, "assistant")]
    (unseen,) = played.recorded(
        InquiryCancelled
    )  # the request to the person, which nobody answered
    assert (unseen.reason, unseen.metadata) == ("no_prompt_backend", {"stands": "assistant"})
    played.fails(call, "Not applied.")
    assert "It drops a test." in played.recorded(ToolCallResponse)[0].content


def test_a_rejection_that_cannot_be_shown_uses_the_default_under_the_defaults_policy() -> None:
    played, _ = asked(reviewed(detached="defaults"))
    says(played, False)

    played.reply(Unavailable())

    assert played.run.answers == {"confirm": True}
    assert [e.answered_by.by for e in played.recorded(InquiryAnswered) if e.answered_by] == [
        "assistant",
        "default",
    ]


def test_a_rejection_that_cannot_be_shown_without_a_default_is_final() -> None:
    played, _ = asked(reviewed(detached="defaults"), Question.boolean("confirm", "Apply it?"))
    says(played, False)

    played.reply(Unavailable())

    assert played.run.answers == {"confirm": False}


def test_a_rejection_that_cannot_be_shown_waits_under_defer() -> None:
    played, _ = asked(reviewed(detached="defer"))
    says(played, False)

    played.reply(Unavailable())

    assert played.wanted(SuspendTurn)


def test_a_reviewer_failure_that_cannot_be_shown_fails_the_call_with_its_error() -> None:
    played, _ = asked(reviewed(detached="auto"))
    (consulted,) = played.wanted(ConsultAssistant)
    played.step(AssistantFailed(consulted.id, "overloaded"))

    played.reply(Unavailable())

    (response,) = played.recorded(ToolCallResponse)
    assert (
        response.content
        == 'deploy: the assistant that was asked "Apply it?" failed to answer: overloaded.'
    )
    assert [e.reason for e in played.recorded(InquiryCancelled)] == [
        "backend_error",
        "backend_error",
    ]


def test_false_is_a_no_only_for_yes_no_questions() -> None:
    """An option or a value of a schema may be false without a rejection."""
    option = Question.select("compress", "Compress it?", [True, False])
    played, call = asked(reviewed("assistant"), option)
    says(played, False)
    played.fails(call, "The disk is full.")

    assert played.recorded(ToolCallResponse)[0].content == "The disk is full."
    assert played.turn.record.rejections_in_a_row == 0


def test_a_reason_for_a_false_option_is_not_passed_on_as_a_no() -> None:
    played = Played()
    (call,) = played.model_calls("deploy")
    played.asks(call, Question.select("compress", "Compress it?", [True, False]))
    played.answer(False, reason="It is small.")
    played.fails(call, "The disk is full.")

    assert played.recorded(ToolCallResponse)[0].content == "The disk is full."


def test_a_models_no_that_could_not_be_shown_is_used_when_the_turn_is_resumed() -> None:
    played, call = asked(reviewed(detached="auto"))
    says(played, False)
    played.reply(Unavailable())

    again = Played(settings(reviewed(detached="auto")), events=played.events)
    again.asks(call, PATCH)

    assert again.run.answers == {"confirm": False}
    assert not again.wanted(ConsultAssistant)
    again.fails(call, "Not applied.")
    assert (
        refused(again.events) == []
    )  # a model rejected the call; it did not fail because nobody was there


@pytest.mark.parametrize("verdict", [True, False])
def test_a_no_overruled_by_a_person_is_not_counted_as_a_models_answer(*, verdict: bool) -> None:
    played, _ = asked(reviewed())
    says(played, False)
    played.answer(verdict)

    assert [who.by for who in TurnView.last(played.events).answerers if who] == ["user"]


def test_a_final_no_is_counted_as_a_models_answer() -> None:
    played, _ = asked(reviewed(detached="auto"))
    says(played, False)
    played.reply(Unavailable())

    assert [who.by for who in TurnView.last(played.events).answerers if who] == ["assistant"]
