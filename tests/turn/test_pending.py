"""Open questions of a turn."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given

from midturn.events.open_question import recorded_at, recorded_form
from midturn.events.types import Event, FormAuthored, InquiryRequest, TurnStart
from midturn.question.answer_type import When
from midturn.question.form import Form
from midturn.question.question import Question
from midturn.question.reader_schema import form_schema
from midturn.question.text import rfc3339
from midturn.turn.pending import pending
from support.damaged_streams import STREAMS
from support.tapes import Tape


def _tape() -> Tape:
    tape = Tape()
    tape.start()
    tape.user("Ship it")
    return tape


def test_an_open_question_has_one_standard_description() -> None:
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


def test_a_finished_turn_has_no_open_question() -> None:
    tape = _tape()
    tape.ask(tape.call("call_1"))
    tape.end("ended_by_user")
    assert pending(tape.events, "1") == []


def test_a_call_with_a_response_has_no_open_question() -> None:
    tape = _tape()
    call = tape.call("call_1")
    tape.ask(call)
    tape.result(call)
    assert pending(tape.events, "1") == []


def test_a_legacy_question_is_open_while_any_call_waits() -> None:
    """A legacy question does not name the asking call."""
    tape = _tape()
    call = tape.call("call_1")
    asked = tape.ask(call)
    tape.events[-1] = msgspec.structs.replace(asked, call="", tool_call_id="", question_id="")
    (question,) = pending(tape.events, "1")
    assert (question.tool, question.arguments) == ("deploy", None)
    tape.result(call)
    assert pending(tape.events, "1") == []


def test_questions_and_approvals_are_listed_in_the_order_asked() -> None:
    tape = _tape()
    first, second = tape.call("call_1", more=1), tape.call("call_2")
    waiting = tape.wait(second)
    asked = tape.ask(first)
    assert [question.id for question in pending(tape.events, "1")] == [
        f"1-{waiting.event_id}",
        f"1-{asked.event_id}",
    ]


def test_the_end_of_a_conversation_is_sufficient() -> None:
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


def test_a_decided_approval_is_not_open() -> None:
    tape = _tape()
    tape.decide(tape.wait(tape.call("call_1")), "skipped")
    assert pending(tape.events, "1") == []


def test_a_waiting_result_approval_shows_the_result() -> None:
    tape = _tape()
    tape.wait(tape.call("call_1"), "deliver", content="a line\n```\nand a fence")
    (question,) = pending(tape.events, "1")
    assert question.question.text == "Deliver the result of deploy?"
    assert question.question.context == "````\na line\n```\nand a fence\n````"


def test_a_long_result_is_cut_at_the_context_limit() -> None:
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


def test_a_waiting_review_omits_answers_discarded_with_back() -> None:
    """A question that is no longer asked has an earlier answer, which is not sent."""
    tape = _tape()
    call = tape.call("call_1")
    confirm: dict[str, Any] = {
        "id": "confirm",
        "text": "Deploy to production?",
        "answer_type": {"type": "boolean"},
    }
    notify: dict[str, Any] = {
        **confirm,
        "id": "notify",
        "when": {"question_id": "confirm", "equals": True},
    }
    tape.answer(tape.ask(call, form=FormAuthored(2, (confirm, notify))), answer=True)
    tape.answer(tape.ask(call, "notify"), answer=True)
    tape.cancel(tape.revise(call, "notify"), "back")
    tape.answer(tape.revise(call), answer=False)
    tape.wait(call, "review")
    (question,) = pending(tape.events, "1")
    assert question.question.context == "- Deploy to production?: false"


def test_a_review_of_an_unreadable_form_shows_the_recorded_answers() -> None:
    """Another version recorded the form.

    Its conditions are unknown, but its answers are known.
    """
    tape = _tape()
    call = tape.call("call_1")
    tape.answer(
        tape.ask(
            call,
            form=FormAuthored(
                1, ({"id": "confirm", "answer_type": {"type": "of a later version"}},)
            ),
        ),
        answer=True,
    )
    tape.wait(call, "review")
    (question,) = pending(tape.events, "1")
    assert question.question.context == "- Deploy to production?: true"


def test_a_review_is_open_only_with_all_answers() -> None:
    """Back has reopened a question."""
    tape = _tape()
    call = tape.call("call_1")
    tape.answer(tape.ask(call))
    tape.wait(call, "review")
    again = tape.ask(call, attempt=2)
    assert [question.request.event_id for question in pending(tape.events, "1")] == [again.event_id]


def test_shown_arguments_are_those_that_run() -> None:
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
        {"id": name, "text": f"{name}?", "answer_type": {"type": "boolean"}}
        for name in ("confirm", "notify")
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


def test_an_unreadable_time_is_shown_unchanged() -> None:
    tape = _tape()
    asked = tape.ask(tape.call("call_1"))
    tape.events[-1] = msgspec.structs.replace(asked, timestamp="yesterday")
    assert pending(tape.events, "1")[0].asked_at == "yesterday"


def test_a_legacy_time_is_converted() -> None:
    tape = _tape()
    asked = tape.ask(tape.call("call_1"))
    tape.events[-1] = msgspec.structs.replace(asked, timestamp="2026-03-05 22:07:43.3")
    assert pending(tape.events, "1")[0].asked_at == "2026-03-05T22:07:43.300000Z"


@given(STREAMS)
def test_any_recorded_events_give_displayable_open_questions(events: list[Event]) -> None:
    for question in pending(events, "1"):
        assert msgspec.json.encode(question.to_json())
        assert question.kind == "tool" or not isinstance(question.request, InquiryRequest)


@pytest.mark.parametrize("written", ["2026-01-02T03:04:05.000006Z", "2026-13-45T99:00:00.000000Z"])
def test_a_time_in_the_current_format_is_unchanged(written: str) -> None:
    assert recorded_at(TurnStart(timestamp=written)) == written


def test_a_time_in_another_format_is_converted() -> None:
    assert (
        recorded_at(TurnStart(timestamp="2026-01-02 03:04:05.1")) == "2026-01-02T03:04:05.100000Z"
    )
    assert (
        recorded_at(TurnStart(timestamp="2026-01-02T05:04:05.000006+02:00"))
        == "2026-01-02T03:04:05.000006Z"
    )


def test_an_open_form_has_a_schema() -> None:
    form = Form(
        [
            Question.boolean("ship", "Ship it?"),
            Question.text("note", "A note?", optional=True, when=When("ship", equals=True)),
        ]
    )
    tape = _tape()
    authored = FormAuthored(total=2, questions=tuple(form.to_json()))
    tape.ask(tape.call("call_1"), "ship", form=authored)
    (question,) = pending(tape.events, "1")

    recorded = recorded_form(question)
    assert recorded is not None
    assert recorded.to_json() == form.to_json()
    assert question.form_schema == form_schema(form.questions)


@pytest.mark.parametrize(
    "other", [{"id": "token", "text": "?", "answer_type": {"type": "secret"}}, {"id": "new"}]
)
def test_a_form_with_a_secret_or_of_a_newer_version_has_no_schema(other: dict[str, Any]) -> None:
    ship = Question.boolean("ship", "Ship it?")
    tape = _tape()
    authored = FormAuthored(total=2, questions=(ship.to_json(), other))
    tape.ask(tape.call("call_1"), "ship", form=authored)
    (question,) = pending(tape.events, "1")

    assert question.form_schema is None


def test_a_single_question_has_no_schema_of_a_form_or_of_arguments() -> None:
    tape = _tape()
    tape.ask(tape.call("call_1"))
    (question,) = pending(tape.events, "1")

    assert (question.form_schema, question.arguments_schema) == (None, None)
