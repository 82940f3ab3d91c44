from __future__ import annotations

import pytest

from midturn.events.types import (
    ASSISTANT,
    AnsweredBy,
    Event,
    InquiryAnswered,
    InquiryCancelled,
    InquiryRedacted,
    InquiryRequest,
)
from midturn.testing import RecordedPair, assert_answers, recorded_pairs
from support.conversations import REQUEST, asked_events


def events_with(*responses: Event) -> list[Event]:
    return [*asked_events(), *responses]


def test_each_question_is_paired_with_its_response() -> None:
    answered = InquiryAnswered(
        id=REQUEST.id, answer=False, reason="no", answered_by=AnsweredBy("assistant", model="m")
    )

    assert recorded_pairs(asked_events()) == [RecordedPair("fs_modify_file.apply_changes", "open")]
    assert recorded_pairs(events_with(answered)) == [
        RecordedPair("fs_modify_file.apply_changes", "answered", False, "assistant", "no")
    ]
    assert (
        recorded_pairs(events_with(InquiryCancelled(id=REQUEST.id, reason="user")))[0].reason
        == "user"
    )
    assert (
        recorded_pairs(events_with(InquiryRedacted(id=REQUEST.id, answered_by=AnsweredBy("user"))))[
            0
        ].outcome
        == "redacted"
    )


def test_a_question_of_ask_user_is_named_by_its_call() -> None:
    by_model = InquiryRequest(
        id="i", source=ASSISTANT, question=REQUEST.question, call="c1", question_id="answer"
    )

    assert recorded_pairs(events_with(by_model))[-1].question == "fs_modify_file.answer"


def test_answers_are_compared_as_json_and_in_order() -> None:
    events = events_with(InquiryAnswered(id=REQUEST.id, answer=1))

    assert_answers(events, {"fs_modify_file.apply_changes": 1.0})
    with pytest.raises(
        AssertionError, match=r"but these were recorded:\n  RecordedPair\(question='fs_modify_file"
    ):
        assert_answers(events, {"fs_modify_file.apply_changes": True})
    with pytest.raises(AssertionError, match="but these were recorded:\n  nothing"):
        assert_answers([], {"a.b": 1})


def test_a_conversation_can_replace_its_events() -> None:
    class Conversation:
        events = tuple(asked_events())

    assert len(recorded_pairs(Conversation())) == 1
