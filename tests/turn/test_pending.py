"""What an open turn waits for."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given

from midturn.events.open_question import recorded_at
from midturn.events.types import Event, FormAuthored, InquiryRequest, TurnStart
from midturn.question.text import rfc3339
from midturn.turn.pending import pending
from support.damaged_streams import STREAMS
from support.tapes import Tape


def _tape() -> Tape:
    tape = Tape()
    tape.start()
    tape.user("Ship it")
    return tape


def test_an_open_question_has_the_one_shape_that_everybody_shows() -> None:
    tape = _tape()
    asked = tape.ask(tape.call("call_1", arguments={"env": "production"}))
    (question,) = pending(tape.events, "17727484633")
    assert question.to_json() == {
        "id": f"17727484633-{asked.event_id}",
        "conversation": "17727484633",
        "kind": "tool",
        "source": {"source": "tool", "name": "deploy"},
        "question_id": "confirm",
        "question": {"text": "Deploy to production?", "answer_type": {"type": "boolean"}},
        "answer_schema": {"type": "boolean"},
        "form": None,
        "tool": "deploy",
        "arguments": {"env": "production"},
        "asked_at": rfc3339(asked.at),
    }
    assert question.request == asked


def test_an_answered_question_is_not_pending() -> None:
    tape = _tape()
    tape.answer(tape.ask(tape.call("call_1")))
    assert pending(tape.events, "1") == []


def test_a_finished_turn_waits_for_nothing() -> None:
    tape = _tape()
    tape.ask(tape.call("call_1"))
    tape.end("ended_by_user")
    assert pending(tape.events, "1") == []


def test_a_call_with_a_response_waits_for_nothing() -> None:
    tape = _tape()
    call = tape.call("call_1")
    tape.ask(call)
    tape.result(call)
    assert pending(tape.events, "1") == []


def test_a_legacy_question_waits_as_long_as_any_call_does() -> None:
    """It does not say which call asks."""
    tape = _tape()
    call = tape.call("call_1")
    asked = tape.ask(call)
    tape.events[-1] = msgspec.structs.replace(asked, call="", tool_call_id="", question_id="")
    (question,) = pending(tape.events, "1")
    assert (question.tool, question.arguments) == ("deploy", None)
    tape.result(call)
    assert pending(tape.events, "1") == []


def test_questions_and_approvals_come_in_the_order_in_which_they_were_asked() -> None:
    tape = _tape()
    first, second = tape.call("call_1", more=1), tape.call("call_2")
    waiting = tape.wait(second)
    asked = tape.ask(first)
    assert [question.id for question in pending(tape.events, "1")] == [f"1-{waiting.event_id}", f"1-{asked.event_id}"]


def test_the_tail_of_a_conversation_is_enough() -> None:
    tape = _tape()
    tape.ask(tape.call("call_1"))
    before = Tape()
    before.start()
    before.end()
    assert pending([*before.events, *tape.events], "1") == pending(tape.events, "1")


def test_a_waiting_permission_is_a_yes_no_question() -> None:
    tape = _tape()
    waiting = tape.wait(tape.call("call_1", arguments={"env": "production"}))
    (question,) = pending(tape.events, "1")
    shape = question.to_json()
    assert (shape["id"], shape["kind"], shape["form"]) == (f"1-{waiting.event_id}", "run", None)
    assert shape["question"] == {"text": "Run deploy?", "answer_type": {"type": "boolean"}}
    assert shape["arguments"] == {"env": "production"}


def test_a_decided_approval_waits_no_more() -> None:
    tape = _tape()
    tape.decide(tape.wait(tape.call("call_1")), "skipped")
    assert pending(tape.events, "1") == []


def test_a_waiting_delivery_shows_what_would_be_delivered() -> None:
    tape = _tape()
    tape.wait(tape.call("call_1"), "deliver", content="a line\n```\nand a fence")
    (question,) = pending(tape.events, "1")
    assert question.question.text == "Deliver the result of deploy?"
    assert question.question.context == "````\na line\n```\nand a fence\n````"


def test_a_long_result_is_cut_at_the_limit_of_a_context() -> None:
    tape = _tape()
    tape.wait(tape.call("call_1"), "deliver", content="ü" * 20_000)
    (question,) = pending(tape.events, "1")
    assert question.question.context
    assert len(question.question.context.encode()) <= 16 * 1024
    assert question.question.context.endswith("[…]")


def test_a_waiting_review_shows_the_latest_answers() -> None:
    tape = _tape()
    call = tape.call("call_1")
    tape.answer(tape.ask(call), answer=False)
    tape.answer(tape.ask(call, attempt=2), answer=True)
    tape.wait(call, "review")
    (question,) = pending(tape.events, "1")
    assert question.question.context == "- Deploy to production?: true"


def test_a_waiting_review_does_not_show_what_back_has_taken_back() -> None:
    """A question that is not asked any more was answered before; its answer is not sent."""
    tape = _tape()
    call = tape.call("call_1")
    confirm: dict[str, Any] = {"id": "confirm", "text": "Deploy to production?", "answer_type": {"type": "boolean"}}
    notify: dict[str, Any] = {**confirm, "id": "notify", "when": {"question_id": "confirm", "equals": True}}
    tape.answer(tape.ask(call, form=FormAuthored(2, (confirm, notify))), answer=True)
    tape.answer(tape.ask(call, "notify"), answer=True)
    tape.cancel(tape.revise(call, "notify"), "back")
    tape.answer(tape.revise(call), answer=False)
    tape.wait(call, "review")
    (question,) = pending(tape.events, "1")
    assert question.question.context == "- Deploy to production?: false"


def test_a_review_of_a_form_that_this_version_cannot_read_shows_what_was_recorded() -> None:
    """Another version asked it: its gates are not known here, its answers are."""
    tape = _tape()
    call = tape.call("call_1")
    tape.answer(tape.ask(call, form=FormAuthored(1, ({"id": "confirm", "answer_type": {"type": "of a later version"}},))), answer=True)
    tape.wait(call, "review")
    (question,) = pending(tape.events, "1")
    assert question.question.context == "- Deploy to production?: true"


def test_a_review_waits_only_when_all_its_answers_are_there() -> None:
    """Back opened a question again."""
    tape = _tape()
    call = tape.call("call_1")
    tape.answer(tape.ask(call))
    tape.wait(call, "review")
    again = tape.ask(call, attempt=2)
    assert [question.request.event_id for question in pending(tape.events, "1")] == [again.event_id]


def test_arguments_are_those_that_run() -> None:
    tape = _tape()
    call = tape.call("call_1", arguments={"env": "production"})
    edited = tape.decide(tape.wait(call), "edited")
    tape.events[-1] = msgspec.structs.replace(edited, arguments={"env": "staging"})
    tape.ask(call)
    (question,) = pending(tape.events, "1")
    assert question.arguments == {"env": "staging"}


def test_a_later_question_of_a_form_brings_the_whole_form() -> None:
    tape = _tape()
    call = tape.call("call_1")
    questions: tuple[dict[str, Any], ...] = tuple(
        {"id": name, "text": f"{name}?", "answer_type": {"type": "boolean"}} for name in ("confirm", "notify")
    )
    form = FormAuthored(2, questions)
    tape.answer(tape.ask(call, form=form))
    tape.ask(call, "notify")
    (question,) = pending(tape.events, "1")
    assert question.to_json()["form"] == {"total": 2, "questions": list(questions)}


def test_a_question_after_a_form_does_not_belong_to_it() -> None:
    tape = _tape()
    call = tape.call("call_1")
    tape.answer(tape.ask(call, form=FormAuthored(1, ({"id": "confirm"},))))
    tape.ask(call, "something_else")
    (question,) = pending(tape.events, "1")
    assert question.form is None


def test_an_unreadable_time_is_shown_as_it_stands() -> None:
    tape = _tape()
    asked = tape.ask(tape.call("call_1"))
    tape.events[-1] = msgspec.structs.replace(asked, timestamp="yesterday")
    assert pending(tape.events, "1")[0].asked_at == "yesterday"


def test_a_legacy_time_becomes_the_present_form() -> None:
    tape = _tape()
    asked = tape.ask(tape.call("call_1"))
    tape.events[-1] = msgspec.structs.replace(asked, timestamp="2026-03-05 22:07:43.3")
    assert pending(tape.events, "1")[0].asked_at == "2026-03-05T22:07:43.300000Z"


@given(STREAMS)
def test_whatever_the_stream_pending_gives_questions_that_can_be_shown(events: list[Event]) -> None:
    for question in pending(events, "1"):
        assert msgspec.json.encode(question.to_json())
        assert question.kind == "tool" or not isinstance(question.request, InquiryRequest)


@pytest.mark.parametrize("written", ["2026-01-02T03:04:05.000006Z", "2026-13-45T99:00:00.000000Z"])
def test_a_time_is_said_as_it_was_recorded_where_it_is_of_our_form(written: str) -> None:
    assert recorded_at(TurnStart(timestamp=written)) == written


def test_a_time_of_another_form_is_said_in_ours() -> None:
    assert recorded_at(TurnStart(timestamp="2026-01-02 03:04:05.1")) == "2026-01-02T03:04:05.100000Z"
    assert recorded_at(TurnStart(timestamp="2026-01-02T05:04:05.000006+02:00")) == "2026-01-02T03:04:05.000006Z"
