"""Pairing of responses with requests."""

from __future__ import annotations

import msgspec

from midturn.turn.view import calls, pairs
from support.tapes import Tape


def test_two_attempts_at_one_question_are_two_pairs() -> None:
    tape = Tape()
    tape.start()
    call = tape.call("call_1")
    first = tape.ask(call)
    one = tape.answer(first, answer=False)
    second = tape.ask(call, attempt=2)
    two = tape.answer(second)
    assert pairs(tape.events) == [(first, one), (second, two)]


def test_unanswered_question_has_no_pair() -> None:
    tape = Tape()
    tape.start()
    asked = tape.ask(tape.call("call_1"))
    assert pairs(tape.events) == [(asked, None)]


def test_the_same_id_in_two_turns_makes_two_pairs() -> None:
    tape = Tape()
    expected = []
    for answer in (True, False):
        tape.start()
        asked = tape.ask(tape.call("call_1"))
        expected.append((asked, tape.answer(asked, answer=answer)))
        tape.end()
    assert pairs(tape.events) == expected


def test_legacy_requests_that_share_an_id_pair_in_order() -> None:
    tape = Tape()
    tape.start()
    call = tape.call("call_1")
    first, second = tape.ask(call), tape.ask(call)
    one, two = tape.answer(first, answer=False), tape.answer(second)
    assert pairs(tape.events) == [(first, one), (second, two)]


def test_response_before_its_request_has_no_pair() -> None:
    tape = Tape()
    tape.start()
    asked = tape.ask(tape.call("call_1"))
    answered = tape.answer(asked)
    assert pairs([tape.events[0], answered, asked]) == [(asked, None)]


def test_calls_pair_by_the_event_of_their_request() -> None:
    """A provider used one ID for two calls of one response."""
    tape = Tape()
    tape.start()
    first, second = tape.call("call_1", more=1), tape.call("call_1")
    two, one = tape.result(second, "two"), tape.result(first, "one")
    assert calls(tape.events) == [(first, one), (second, two)]


def test_legacy_calls_pair_by_id_in_order() -> None:
    tape = Tape()
    tape.start()
    first, second = tape.call("call_1"), tape.call("call_1")
    one, two = (
        msgspec.structs.replace(tape.result(first, content), call="") for content in ("one", "two")
    )
    assert calls([tape.events[0], first, second, one, two]) == [(first, one), (second, two)]
