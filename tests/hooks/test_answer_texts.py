"""The format in which agents read answers."""

from __future__ import annotations

import pytest

from midturn.integrations.hooks.model_messages import answer_in_words
from midturn.question.json_value import Json


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        (["api", "web"], "api, web"),
        (["red, green", "blue"], '"red, green", blue'),
        (["red", "green, blue"], 'red, "green, blue"'),
        (["red, green"], '"red, green"'),
        ([{"other": 'the "old" one'}], '"the \\"old\\" one"'),
        (["می\u200cخواهید, ok"], '"می\u200cخواهید, ok"'),  # noqa: RUF001  Persian
        ([], ""),
    ],
)
def test_list_of_labels_is_unambiguous(chosen: Json, said: str) -> None:
    assert answer_in_words(chosen) == said


def test_single_label_is_unchanged() -> None:
    assert answer_in_words("red, green") == "red, green"
