"""Answers from outside to conversations that no process has locked."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from midturn.errors import AlreadyAnswered, AnswerError, NoSuchQuestion, NotOpen
from midturn.events.open_question import address
from midturn.events.types import (
    AnsweredBy,
    Approval,
    Event,
    FormAuthored,
    InquiryAnswered,
    InquiryCancelled,
    InquiryRequest,
    ToolCallResponse,
    TurnEnd,
)
from midturn.question.answer_type import SecretType
from midturn.stores.answer_service import Receipt
from midturn.stores.store import ConversationStore
from support.stored import append, asking, finished, hold, keep, release, reopen
from support.tapes import CONFIRM, Tape

FORM = FormAuthored(
    total=2,
    questions=(
        {"id": "confirm", "text": "Deploy to production?", "answer_type": {"type": "boolean"}},
        {
            "id": "region",
            "text": "Where?",
            "answer_type": {"type": "select", "options": [{"value": "eu-1"}, {"value": "us-2"}]},
        },
    ),
)
SECRET_FORM = FormAuthored(
    total=2,
    questions=(
        FORM.questions[0],
        {"id": "token", "text": "Token?", "answer_type": {"type": "secret"}},
    ),
)


def answer(store: ConversationStore, event_id: str, *value: Any, **how: Any) -> Receipt:
    """Answer the question with this event ID in any conversation."""
    asked = (
        number
        for number in store.ids_sync()
        if any(event.event_id == event_id for event in store.read_sync(number).events)
    )
    return asyncio.run(store.answer(address(next(asked, "17"), event_id), *value, **how))


def new_events(store: ConversationStore, tape: Tape) -> list[Event]:
    (only,) = store.ids_sync()
    return list(store.read_sync(only).events[len(tape.events) :])


def test_question_object_works_like_its_id(store: ConversationStore) -> None:
    tape, _ = asking()
    kept = keep(store, tape)
    (listed,) = store.pending_sync()

    assert store.answer_sync(listed, True) == Receipt(kept, listed.id)


@pytest.mark.parametrize("named", [None, 7, object()])
def test_invalid_question_reference_is_a_type_error(store: ConversationStore, named: Any) -> None:
    with pytest.raises(TypeError, match="`id` must be a string"):
        store.answer_sync(named, True)


@pytest.mark.parametrize("id", ["nonsense", "17-e99", ""])
def test_unknown_id_differs_from_a_closed_question(store: ConversationStore, id: str) -> None:
    keep(store, asking()[0])

    with pytest.raises(NoSuchQuestion) as refused:
        store.answer_sync(id, True)

    assert refused.value.id == id


@pytest.mark.parametrize("is_held", [False, True])
def test_an_answer_that_is_too_large_is_refused_with_the_limit(
    store: ConversationStore, *, is_held: bool
) -> None:
    journal = hold(store, asking()[0])
    if not is_held:
        release(journal)
    (asked,) = store.pending_sync()

    with pytest.raises(
        AnswerError, match=r"too large.*2,097,152 may be recorded at once \(`limits.batch`\)"
    ):
        store.answer_sync(asked, reply="x" * 3_000_000)

    assert store.pending_sync() == [asked]
    if is_held:
        release(journal)


def test_answer_is_recorded_with_user_and_interface(store: ConversationStore) -> None:
    tape, question = asking()
    kept = keep(store, tape)

    receipt = answer(
        store, question.event_id, False, reason="Not on Friday.", user="u42", via="inbox"
    )

    assert receipt == Receipt(kept, address(kept, question.event_id))
    (recorded,) = new_events(store, tape)
    assert isinstance(recorded, InquiryAnswered)
    assert (recorded.id, recorded.answer, recorded.reason) == (question.id, False, "Not on Friday.")
    assert recorded.answered_by == AnsweredBy("user", via="inbox", user="u42")
    assert recorded.timestamp.endswith("Z")
    assert len(recorded.event_id) == 12
    assert store.pending_sync() == []


@pytest.mark.parametrize("typed", ["", "e4", "17", "17-", "-e4", "x-e4", "\u0661-e4"])
def test_only_a_complete_id_names_a_question(store: ConversationStore, typed: str) -> None:
    keep(store, asking()[0])

    with pytest.raises(NotOpen, match="is not a question ID: an ID is"):
        asyncio.run(store.answer(typed, True))


def test_removed_conversation_has_no_question(store: ConversationStore) -> None:
    with pytest.raises(NotOpen, match="There is no question '17-e4'"):
        asyncio.run(store.answer("17-e4", True))


def test_id_prefix_is_not_accepted(store: ConversationStore) -> None:
    kept = keep(store, asking("long")[0])

    with pytest.raises(NotOpen, match="There is no question"):
        asyncio.run(store.answer(address(kept, "long"), True))


@pytest.mark.parametrize("id", ["zz", "e1", "call_1.confirm.1"])
def test_unknown_id_is_not_open(store: ConversationStore, id: str) -> None:
    keep(store, asking()[0])

    with pytest.raises(NotOpen, match="There is no question"):
        answer(store, id, True)


def test_second_answer_names_the_first_responder(store: ConversationStore) -> None:
    tape, question = asking()
    keep(store, tape)
    answer(store, question.event_id, True, user="u1", via="web")

    with pytest.raises(AlreadyAnswered, match=r"-e4 was answered before, by u1 \(web\)") as second:
        answer(store, question.event_id, False, user="u2")

    assert second.value.answered_by
    assert (second.value.answered_by.who, second.value.answered_by.via) == ("u1", "web")
    assert second.value.answered_by.when == new_events(store, tape)[0].timestamp
    assert len(new_events(store, tape)) == 1


def test_a_question_of_a_finished_turn_is_not_open(store: ConversationStore) -> None:
    tape, question = asking()
    tape.end("ended_by_user")
    keep(store, tape)

    with pytest.raises(NotOpen):
        answer(store, question.event_id, True)


def test_an_answer_that_does_not_fit_records_nothing(store: ConversationStore) -> None:
    tape, question = asking()
    keep(store, tape)

    with pytest.raises(AnswerError):
        answer(store, question.event_id, "perhaps")

    assert new_events(store, tape) == []
    assert len(store.pending_sync()) == 1


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"cancel": True, "reply": "x"},
        {"approve": False, "arguments": {}},
        {"approve": True, "cancel": True},
    ],
)
def test_exactly_one_kind_of_decision_is_required(
    store: ConversationStore, how: dict[str, Any]
) -> None:
    tape, question = asking()
    keep(store, tape)

    with pytest.raises(AnswerError, match="Pass exactly one of"):
        answer(store, question.event_id, **how)

    assert new_events(store, tape) == []


def test_reply_finishes_the_call_in_one_batch(store: ConversationStore) -> None:
    tape, question = asking()
    keep(store, tape)

    answer(store, question.event_id, reply="Ask me tomorrow.")

    cancelled, response = new_events(store, tape)
    assert isinstance(cancelled, InquiryCancelled)
    assert (cancelled.reason, cancelled.more) == ("reply", 1)
    assert isinstance(response, ToolCallResponse)
    assert "Ask me tomorrow." in response.content


def test_end_turn_ends_the_turn(store: ConversationStore) -> None:
    tape, question = asking()
    keep(store, tape)

    answer(store, question.event_id, cancel=True)

    events = new_events(store, tape)
    assert isinstance(events[0], InquiryCancelled)
    assert isinstance(events[-1], TurnEnd)
    assert [event.more for event in events] == list(range(len(events)))[::-1]
    assert store.ready_sync() == []


def waiting(kind: str) -> tuple[Tape, Approval]:
    tape = Tape()
    tape.start()
    tape.user("Ship it")
    call = tape.call("call_1")
    return tape, tape.wait(call, kind, content="secret plans" if kind == "deliver" else None)


@pytest.mark.parametrize("kind", ["run", "deliver"])
def test_an_approval_is_decided_with_a_reason(store: ConversationStore, kind: str) -> None:
    tape, approval = waiting(kind)
    keep(store, tape)

    answer(store, approval.event_id, approve=False, reason="Too early.", user="u1")

    decision = new_events(store, tape)[0]
    assert isinstance(decision, Approval)
    assert (decision.id, decision.state, decision.reason) == (approval.id, "skipped", "Too early.")
    with pytest.raises(AlreadyAnswered, match=r"by u1 \(api\)"):
        answer(store, approval.event_id, approve=True)


@pytest.mark.parametrize(
    "how", [{"arguments": {"env": "staging"}}, {"approve": True, "arguments": {"env": "staging"}}]
)
def test_a_call_is_approved_with_other_arguments(
    store: ConversationStore, how: dict[str, Any]
) -> None:
    tape, approval = waiting("run")
    keep(store, tape)

    answer(store, approval.event_id, **how)

    decision = new_events(store, tape)[0]
    assert isinstance(decision, Approval)
    assert (decision.state, decision.arguments) == ("edited", {"env": "staging"})


def form_tape(form: FormAuthored) -> tuple[Tape, InquiryRequest]:
    tape = Tape()
    tape.start()
    tape.user("Ship it")
    return tape, tape.ask(tape.call("call_1"), form=form)


def test_a_whole_form_is_answered_with_one_object(store: ConversationStore) -> None:
    tape, question = form_tape(FORM)
    keep(store, tape)

    answer(store, question.event_id, {"confirm": True, "region": "eu-1"})

    answers = [
        event.answer for event in new_events(store, tape) if isinstance(event, InquiryAnswered)
    ]
    assert answers == [True, "eu-1"]
    assert store.pending_sync() == []


def test_secret_is_refused_from_outside(store: ConversationStore) -> None:
    tape, question = asking()
    tape.events[-1] = replace(question, question=replace(CONFIRM, answer_type=SecretType()))
    keep(store, tape)

    with pytest.raises(AnswerError, match="A secret is not accepted here") as refused:
        answer(store, question.event_id, "hunter2")

    assert "hunter2" not in str(refused.value)
    for way in (
        "on its page",
        "`midturn answer` at a terminal",
        "`agent.resume(…, secrets={id: …})`",
    ):
        assert way in str(refused.value)
    answer(store, question.event_id, cancel=True)


@pytest.mark.parametrize("answers", [{}, {"region": "eu-1"}])
def test_a_map_without_an_answer_to_the_open_question_is_refused(
    store: ConversationStore, answers: dict[str, str]
) -> None:
    """Recording it would have no effect, but the responder would believe that it had."""
    tape, question = form_tape(FORM)
    keep(store, tape)

    with pytest.raises(
        AnswerError, match="/confirm: the open question `confirm` has no answer in the map"
    ):
        answer(store, question.event_id, answers)

    assert [one.request.event_id for one in store.pending_sync()] == [question.event_id]


def test_secret_in_a_form_is_refused_from_outside(store: ConversationStore) -> None:
    tape, question = form_tape(SECRET_FORM)
    keep(store, tape)

    with pytest.raises(AnswerError, match="is not accepted here"):
        answer(store, question.event_id, {"confirm": True, "token": "hunter2"})

    assert new_events(store, tape) == []


def test_answer_after_the_turn_names_the_responder(store: ConversationStore) -> None:
    """The question was closed in an earlier turn, and another turn has begun."""
    tape, question = asking()
    kept = keep(store, tape)
    answer(store, question.event_id, True, user="u1", via="web")
    journal = reopen(store, kept)
    append(journal, [TurnEnd(status="completed")], asking("later")[0].events)
    release(journal)

    with pytest.raises(AlreadyAnswered, match=r"by u1 \(web\)") as late:
        answer(store, question.event_id, False, user="u2")

    assert late.value.answered_by
    assert late.value.answered_by.who == "u1"


def test_answered_turn_is_ready(store: ConversationStore) -> None:
    answered, open_still = keep(store, asking("a")[0]), keep(store, asking("b")[0])
    keep(store, finished("c"))
    assert store.ready_sync() == []

    answer(store, "a4", True)

    assert store.ready_sync() == [answered]
    assert [question.conversation for question in store.pending_sync()] == [open_still]


def test_a_turn_that_is_being_resumed_is_not_ready(store: ConversationStore) -> None:
    kept = keep(store, asking()[0])
    answer(store, "e4", True)

    journal = reopen(store, kept)
    assert store.ready_sync() == []
    release(journal)


def test_closed_question_does_not_make_a_turn_ready(store: ConversationStore) -> None:
    """Otherwise a watcher would resume the turn forever."""
    tape = Tape()
    tape.start()
    tape.user("Ship it")
    waiting, other = tape.call("call_1"), tape.call("call_2")
    question, given_up = tape.ask(waiting), tape.ask(other)
    tape.cancel(given_up, "superseded")
    kept = keep(store, tape)

    assert store.ready_sync() == []
    answer(store, question.event_id, True)
    assert store.ready_sync() == [kept]


def test_yes_is_remembered_for_the_turn_if_allowed(store: ConversationStore) -> None:
    tape, question = asking()
    keep(store, tape)

    answer(store, question.event_id, True, remember=True)

    (recorded,) = new_events(store, tape)
    assert isinstance(recorded, InquiryAnswered)
    assert recorded.remembered


def test_remember_is_refused_if_not_possible(store: ConversationStore) -> None:
    tape, question = form_tape(FORM)
    keep(store, tape)

    with pytest.raises(AnswerError, match="Only a plain yes or no can be remembered"):
        answer(store, question.event_id, {"confirm": True, "region": "eu-1"}, remember=True)
    with pytest.raises(AnswerError, match="Only a plain yes or no can be remembered"):
        answer(store, question.event_id, reply="Later.", remember=True)

    assert new_events(store, tape) == []


def test_a_result_is_not_remembered(store: ConversationStore) -> None:
    tape, approval = waiting("deliver")
    keep(store, tape)

    with pytest.raises(AnswerError, match="cannot be remembered for the turn"):
        answer(store, approval.event_id, approve=True, remember=True)


def test_back_in_a_form_reopens_the_previous_question(store: ConversationStore) -> None:
    """The earlier question is open in the inbox again: after *Back* a person is asked, whatever
    is configured.
    """
    tape, question = form_tape(FORM)
    kept = keep(store, tape)
    answer(store, question.event_id, {"confirm": True})
    (second,) = store.pending_sync()

    asyncio.run(store.answer(second.id, back=True))

    (again,) = store.pending_sync()
    assert isinstance(again.request, InquiryRequest)
    assert (again.conversation, again.request.question_id, again.request.revises is not None) == (
        kept,
        "confirm",
        True,
    )
    with pytest.raises(AnswerError, match="There is no earlier answer"):
        asyncio.run(store.answer(again.id, back=True))
