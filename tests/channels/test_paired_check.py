"""The check after each channel test finds answers of people who are not paired."""

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
def test_answers_of_unpaired_people_are_found(by: dict[str, str], *, is_a_lie: bool) -> None:
    assert bool(unpaired([{"type": "inquiry_response", "answered_by": by}], PAIRED)) is is_a_lie


def test_unpaired_topic_does_not_answer() -> None:
    assert unpaired([{"answered_by": {"by": "user", "via": "ntfy"}}], {("telegram", "ana")})
