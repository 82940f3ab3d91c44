"""Concurrent asks of one coroutine.

Each ask is recorded when it is made, and all of them are open at the same time.
"""

from __future__ import annotations

from msgspec.structs import replace

from midturn.events.prompt import FormSubject
from midturn.events.types import (
    AnsweredBy,
    Approval,
    Event,
    InquiryAnswered,
    InquiryCancelled,
    InquiryRequest,
    ToolCallResponse,
)
from midturn.question.json_value import SecretValue
from midturn.question.question import Question
from midturn.question.reply import Answered, EndedTurn, Replied, Submitted
from midturn.routing.policy import DetachedPolicies, QuestionPolicy, Target
from midturn.turn.inputs import (
    AssistantReplied,
    ClosePrompt,
    ConsultAssistant,
    FormDropped,
    GiveAnswers,
    PromptUser,
    StopTool,
    SuspendTurn,
    ToolQueued,
    UserReplied,
)
from midturn.turn.pending import pending
from midturn.turn.visit import Visit
from support.turns import CONFIRM, REGION, UNATTENDED, Played, counting_ids, settings

A = Question.text("a", "A?")
B = Question.text("b", "B?")
C = Question.text("c", "C?")
D = Question.text("d", "D?")
SECRET = Question.secret("token", "Which token?")
SOMEBODY = AnsweredBy("user", via="inbox")
DEFER = replace(UNATTENDED, detached=DetachedPolicies("defer", "defer", "defer"))


def asking(played: Played, *forms: tuple[Question[object], ...], review: bool = False) -> str:
    """Let a coroutine ask several forms at once."""
    (call,) = played.turn.record.calls or played.model_calls("deploy")
    for number, questions in enumerate(forms, 1):
        played.asks(call, *questions, ask=number, review=review)
    return call


def replied(played: Played, id: str, value: str) -> None:
    played.step(UserReplied(played.asked_as(id), Answered(value), AnsweredBy("user")))


def given(played: Played) -> list[tuple[int, object]]:
    """Return the asks that the last step answered, with their answers."""
    return [
        (e.ask, [getattr(a, "value", a) for a in e.answers.values()])
        for e in played.wanted(GiveAnswers)
    ]


def test_a_concurrent_prompter_gets_all_prompts_and_answers_in_any_order() -> None:
    played = Played(settings(prompts_at_once=9))
    asking(played, (A,), (B,))
    assert [request.id for request in played.recorded(InquiryRequest)] == [
        "call_1.a.1",
        "call_1.b.1",
    ]

    replied(played, "call_1.b.1", "second")
    assert given(played) == [(2, ["second"])]
    replied(played, "call_1.a.1", "first")
    assert given(played) == [(1, ["first"])]


def test_a_terminal_shows_one_prompt_after_the_other() -> None:
    played = Played()
    asking(played, (A,), (B,))

    assert played.wanted(PromptUser) == []
    replied(played, "call_1.a.1", "first")

    assert [e.prompt.question.id for e in played.wanted(PromptUser)] == ["b"]


def test_a_model_and_a_person_are_asked_concurrently() -> None:
    policy = replace(UNATTENDED, questions={"a": QuestionPolicy(Target("assistant"))})
    played = Played(settings(policy))
    (call,) = played.model_calls("deploy")
    played.asks(call, A, ask=1)
    assert played.wanted(ConsultAssistant)
    played.asks(call, B, ask=2)
    assert played.wanted(PromptUser)

    played.step(AssistantReplied(played.asked_as("call_1.a.1"), "model's", "m", "why"))

    assert given(played) == [(1, ["model's"])]


def test_a_call_queued_behind_a_waiting_call_does_not_prevent_suspension() -> None:
    """The turn is suspended: no call runs, and no call can begin."""
    played = Played(settings(DEFER, attached=False))
    first, second, third = played.model_calls("deploy", "deploy", "deploy")
    played.step(ToolQueued(second, (first,)))
    played.step(ToolQueued(third, (first, second)))
    assert not played.wanted(SuspendTurn), "the first runs"

    played.asks(first, A, ask=1)

    assert played.wanted(SuspendTurn)
    assert [question.question.text for question in pending(played.events, "1")] == ["A?"]


def test_a_queued_tool_begins_when_the_previous_one_is_done() -> None:
    played = Played(settings(replace(DEFER, result="ask"), attached=False))
    first, second = played.model_calls("deploy", "deploy")
    played.step(ToolQueued(second, (first,)))

    played.succeeds(first)
    assert [approval.state for approval in played.recorded(Approval)] == ["waiting"], (
        "a person has to allow it"
    )

    assert not played.wanted(SuspendTurn), "the second runs now"
    played.succeeds(second)
    assert played.wanted(SuspendTurn)


def test_a_later_visitor_sees_all_open_questions() -> None:
    played = Played(settings(DEFER, attached=False))
    call = played.model_calls("deploy")[0]
    for number, question in enumerate((A, B), 1):
        played.step_only(call, question, ask=number)
    assert played.turn.rest() == (SuspendTurn(),)
    assert [question.question.text for question in pending(played.events, "1")] == ["A?", "B?"]

    second = pending(played.events, "1")[1]
    events = [
        *played.events,
        *Visit(played.events, second.request.event_id, counting_ids(100)).take(
            Answered("two"), SOMEBODY
        ),
    ]
    again = Played(settings(DEFER, attached=False), events)
    again.step_only(call, A, ask=1)
    again.step_only(call, B, ask=2)

    assert [
        (e.ask, [getattr(a, "value", a) for a in e.answers.values()])
        for e in again.wanted(GiveAnswers)
    ] == [(2, ["two"])]
    assert [question.question.text for question in pending(again.events, "1")] == ["A?"]


def test_different_questions_with_one_id_do_not_close_each_other() -> None:
    played = Played(settings(prompts_at_once=9))
    asking(played, (Question.text("a", "Which?"),), (Question.text("a", "And which else?"),))

    assert [request.id for request in played.recorded(InquiryRequest)] == [
        "call_1.a.1",
        "call_1.a.2",
    ]
    assert played.recorded(InquiryCancelled) == []


def test_a_reply_to_one_question_ends_the_call_and_closes_the_others() -> None:
    played = Played(settings(prompts_at_once=9))
    asking(played, (A,), (B,))

    played.step(UserReplied(played.asked_as("call_1.a.1"), Replied("Never mind.")))

    assert [response.reason for response in played.recorded(InquiryCancelled)] == [
        "reply",
        "superseded",
    ]
    assert (
        played.recorded(ToolCallResponse)[0].content
        == '{"cancelled": true, "answered": {}, "reply": "Never mind."}'
    )
    assert played.wanted(ClosePrompt) == [ClosePrompt(played.asked_as("call_1.b.1"))]
    assert played.wanted(StopTool)


def test_a_reply_includes_earlier_answers_of_the_call() -> None:
    """Answers to earlier questions, concurrent questions and earlier forms reach the model."""
    played = Played(settings(prompts_at_once=9))
    asking(played, (A, D), (B,), (C,))
    replied(played, "call_1.c.1", "third")
    replied(played, "call_1.a.1", "first")

    played.step(UserReplied(played.asked_as("call_1.b.1"), Replied("Never mind.")))

    marker = '{"cancelled": true, "answered": {"c": "third", "a": "first"}, "reply": "Never mind."}'
    assert played.recorded(ToolCallResponse)[0].content == marker


def test_an_outside_reply_includes_earlier_answers_of_the_call() -> None:
    played = Played(settings(DEFER, attached=False))
    call = played.model_calls("deploy")[0]
    for number, question in enumerate((A, SECRET, B), 1):
        played.step_only(call, question, ask=number)
    events = played.events
    for id, said in (("a", "first"), ("token", SecretValue("hush"))):
        (asked,) = [one for one in pending(events, "1") if one.question_id == id]
        events = [
            *events,
            *Visit(events, asked.request.event_id, counting_ids(100 + len(events))).take(
                Answered(said), SOMEBODY
            ),
        ]
    (asked,) = pending(events, "1")

    batch = Visit(events, asked.request.event_id, counting_ids(200)).take(
        Replied("Never mind."), SOMEBODY
    )

    assert isinstance(batch[-1], ToolCallResponse)
    assert (
        batch[-1].content
        == '{"cancelled": true, "answered": {"a": "first"}, "reply": "Never mind."}'
    )


def test_a_reply_does_not_include_an_older_answer_to_a_repeated_question() -> None:
    """A yes to one diff does not apply to the next one."""
    played = Played(settings(prompts_at_once=9))
    call = asking(played, (A,))
    replied(played, "call_1.a.1", "first")
    played.asks(call, Question.text("a", "And which now?"), ask=2)
    played.asks(call, B, ask=3)

    played.step(UserReplied(played.asked_as("call_1.b.1"), Replied("Never mind.")))

    assert (
        played.recorded(ToolCallResponse)[0].content
        == '{"cancelled": true, "answered": {}, "reply": "Never mind."}'
    )


def test_ending_the_turn_at_one_question_closes_all() -> None:
    played = Played(settings(prompts_at_once=9))
    asking(played, (A,), (B,))

    played.step(UserReplied(played.asked_as("call_1.a.1"), EndedTurn()))

    assert [response.reason for response in played.recorded(InquiryCancelled)] == ["user", "user"]
    assert played.wanted(ClosePrompt) == [ClosePrompt(played.asked_as("call_1.b.1"))]


def test_dropping_an_ask_keeps_the_others() -> None:
    played = Played(settings(prompts_at_once=9))
    call = asking(played, (A,), (B,))

    played.step(FormDropped(call, 1))

    assert [(response.id, response.reason) for response in played.recorded(InquiryCancelled)] == [
        ("call_1.a.1", "superseded")
    ]
    replied(played, "call_1.b.1", "second")
    assert given(played) == [(2, ["second"])]


def test_a_started_form_keeps_the_screen() -> None:
    """Forms are shown in the order they were asked. Their questions are not interleaved."""
    played = Played()
    first, second = played.model_calls("deploy", "deploy")
    played.asks(first, A, B, C)
    played.asks(second, CONFIRM, REGION)
    shown: list[str] = []
    for value in ("one", "two", "three"):
        shown += [e.prompt.question.id for e in played.wanted(PromptUser)]
        replied(played, f"call_1.{'abc'[('one', 'two', 'three').index(value)]}.1", value)

    shown += [e.prompt.question.id for e in played.wanted(PromptUser)]
    assert shown == ["b", "c", "confirm"]


def test_a_form_keeps_the_screen_while_a_model_answers_in_between() -> None:
    policy = replace(UNATTENDED, questions={"b": QuestionPolicy(Target("assistant"))})
    played = Played(settings(policy))
    first, second = played.model_calls("deploy", "deploy")
    played.asks(first, A, B, C)
    played.asks(second, CONFIRM)

    replied(played, "call_1.a.1", "one")
    assert played.wanted(PromptUser) == []
    played.step(AssistantReplied(played.asked_as("call_1.b.1"), "two", "m", "why"))
    assert [e.prompt.question.id for e in played.wanted(PromptUser)] == ["c"]
    replied(played, "call_1.c.1", "three")
    assert [e.prompt.question.id for e in played.wanted(PromptUser)] == ["confirm"]


def test_each_waiting_review_belongs_to_its_own_form() -> None:
    """Submitting one form never submits another one."""
    detached = settings(DEFER, attached=False)
    played = Played(detached)
    call = played.model_calls("deploy")[0]
    forms = ((A, B), (CONFIRM, REGION))
    events: list[Event] = []
    for values in (None, ("a", "one"), ("confirm", True), ("b", "two"), ("region", "eu-1")):
        if values:
            question = next(
                q
                for q in pending(events, "1")
                if getattr(q.request, "question_id", "") == values[0]
            )
            events += Visit(
                events, question.request.event_id, (f"v{len(events)}.{id}" for id in counting_ids())
            ).take(Answered(values[1]), SOMEBODY)
        played = Played(detached, events) if values else played
        for number, questions in enumerate(forms, 1):
            played.step_only(call, *questions, ask=number, review=True)
        events = list(played.events)
    waiting = pending(events, "1")
    assert [question.kind for question in waiting] == ["review", "review"]
    assert [question.question.context for question in waiting] == [
        "- A?: one\n- B?: two",
        "- Deploy to staging?: true\n- Which region?: eu-1",
    ]

    visit = Visit(events, waiting[1].request.event_id, counting_ids(900))
    prompt = visit.prompt()
    assert prompt
    assert isinstance(prompt.subject, FormSubject)
    assert prompt.subject.answers == {"confirm": True, "region": "eu-1"}
    events += visit.take(Submitted(), SOMEBODY)

    assert [(question.kind, question.id) for question in pending(events, "1")] == [
        ("review", waiting[0].id)
    ]
    again = Played(detached, events)
    again.step_only(call, A, B, ask=1, review=True)
    assert again.wanted(GiveAnswers) == []
    again.step_only(call, CONFIRM, REGION, ask=2, review=True)
    assert [e.ask for e in again.wanted(GiveAnswers)] == [2]
    assert len([a for a in again.recorded(Approval) if a.state == "approved"]) == 1
    assert len(again.recorded(InquiryAnswered)) == 4


def test_a_question_is_visited_in_its_own_form() -> None:
    """Forms may have equal question IDs, and the latest form is not always the right one."""
    played = Played(settings(DEFER, attached=False))
    call = played.model_calls("deploy")[0]
    forms = [
        (Question.text("a", f"A {number}?"), Question.text("b", f"B {number}?"))
        for number in (1, 2, 3)
    ]
    for number, questions in enumerate(forms, 1):
        played.step_only(call, *questions, ask=number)
    (first, *_) = pending(played.events, "1")
    events = [
        *played.events,
        *Visit(played.events, first.request.event_id, counting_ids(100)).take(
            Answered("one"), SOMEBODY
        ),
    ]
    again = Played(settings(DEFER, attached=False), events)
    for number, questions in enumerate(forms, 1):
        again.step_only(call, *questions, ask=number)
    waiting = next(
        question for question in pending(again.events, "1") if question.question.text == "B 1?"
    )

    assert waiting.form
    assert [question["text"] for question in waiting.form.questions] == ["A 1?", "B 1?"]
    prompt = Visit(again.events, waiting.request.event_id, counting_ids(200)).prompt()
    assert prompt
    assert (prompt.index, prompt.total, prompt.can_go_back) == (2, 2, True)
