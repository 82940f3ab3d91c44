from __future__ import annotations

from midturn.record.exchange import Finished, TextPart, ToolCallPart, Usage


def test_what_a_response_cost_stands_in_its_last_part() -> None:
    finished = Finished((TextPart("a"), ToolCallPart("c", "t", {}, metadata={"scripted": {"next": 1}})), Usage(120, 3))

    first, last = finished.counted()

    assert first == TextPart("a")
    assert last.metadata == {"scripted": {"next": 1}, "usage": {"input_tokens": 120, "output_tokens": 3}}


def test_a_response_that_cost_nothing_or_says_nothing_stays_as_it_is() -> None:
    free = Finished((TextPart("a"),))

    assert free.counted() is free.parts
    assert Finished((), Usage(1)).counted() == ()


def test_usages_add_up() -> None:
    assert Usage(1, 2, 3, 4) + Usage(10, 20, 30, 40) == Usage(11, 22, 33, 44)
