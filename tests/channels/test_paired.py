"""What is looked up at the end of each test of channels finds an answer that no paired person gave."""

from __future__ import annotations

import pytest

from support.channels.paired import unpaired

PAIRED = {("telegram", "ana"), ("ntfy", "bo")}


@pytest.mark.parametrize(
    ("by", "is_a_lie"),
    [
        ({"by": "user", "via": "telegram", "user": "ana"}, False),
        ({"by": "user", "via": "ntfy"}, False),
        ({"by": "user", "via": "web", "user": "cy"}, False),
        ({"by": "user", "via": "telegram", "user": "bo"}, True),
        ({"by": "user", "via": "slack", "user": "ana"}, True),
        ({"by": "user", "via": "telegram"}, True),
        ({"by": "policy", "via": "telegram", "user": "ana"}, True),
    ],
)
def test_an_answer_over_a_channel_is_of_a_person_who_was_paired_there(by: dict[str, str], *, is_a_lie: bool) -> None:
    assert bool(unpaired([{"type": "inquiry_response", "answered_by": by}], PAIRED)) is is_a_lie


def test_a_topic_that_was_paired_by_nobody_answers_nothing() -> None:
    assert unpaired([{"answered_by": {"by": "user", "via": "ntfy"}}], {("telegram", "ana")})
