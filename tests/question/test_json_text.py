"""The strict JSON reader, used for input of people, models and commands."""

from __future__ import annotations

import pytest

from midturn.question.json_text import NotJson, read_json


def test_json_is_read() -> None:
    assert read_json('{"a": [1, 2.5, null, true, "本"]}') == {"a": [1, 2.5, None, True, "本"]}


@pytest.mark.parametrize(
    ("text", "message", "offset"),
    [
        ('{"a": 1', "not valid JSON: Expecting ',' delimiter (line 1, column 8)", 7),
        ('{"a": {"b": 1, "b": 2}}', 'the key "b" appears twice in one object', None),
        ("[Infinity]", "Infinity is not JSON; use a number or null", None),
        ("-1e400", "-1e400 is too large for a number", None),
        ('"\\ud83d"', "not valid JSON: half of a surrogate pair", None),
        ("9" * 5_000, "not accepted: a number with too many digits", None),
        ("[" * 100_000, "not accepted: nested too deeply", None),
    ],
)
def test_invalid_json_is_refused_with_its_location(
    text: str, message: str, offset: int | None
) -> None:
    with pytest.raises(NotJson) as caught:
        read_json(text)

    assert str(caught.value) == message
    assert caught.value.offset == offset
