"""Previews of options: written by an author, recorded, and read again."""

from __future__ import annotations

import pytest

from midturn.errors import QuestionError
from midturn.question.answer_type import MultiSelectType, SelectOption, SelectType
from midturn.question.persisted_question import PersistedQuestion
from midturn.question.question import Question

PREVIEW = "+--+\n|ok|\n+--+"
OPTIONS = [SelectOption("a", preview=PREVIEW), SelectOption("b", "Plain")]


def test_a_preview_survives_writing_and_reading() -> None:
    asked = Question.select("q", "Which?", OPTIONS)

    wire = asked.to_json()
    assert wire["answer_type"] == {
        "type": "select",
        "options": [{"value": "a", "preview": PREVIEW}, {"value": "b", "description": "Plain"}],
    }
    assert Question.from_json(wire) == asked
    recorded = PersistedQuestion.from_json(asked.persisted().to_json())
    assert recorded.answer_type == SelectType(tuple(OPTIONS))
    assert recorded.asked("q").answer_type == asked.answer_type


def test_a_multi_select_supports_previews() -> None:
    assert Question.multi_select("q", "Which?", OPTIONS).answer_type == MultiSelectType(
        tuple(OPTIONS)
    )


def test_a_log_without_previews_can_be_read() -> None:
    old = {"text": "Which?", "answer_type": {"type": "select", "options": [{"value": "a"}, "b"]}}

    assert PersistedQuestion.from_json(old).answer_type == SelectType(
        (SelectOption("a"), SelectOption("b"))
    )


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (
            [{"value": "a", "preview": 3}],
            "/answer_type/options/0/preview: `preview` must be a string, not 3.",
        ),
        (
            [{"value": "a", "preview": "x" * 16_385}],
            (
                "/answer_type/options/0/preview: the preview has 16,385 bytes; the limit is 16,384."
                " Shorten it."
            ),
        ),
        (
            [{"value": number, "preview": "é" * 8_000} for number in range(5)],
            (
                "/answer_type/options: the previews together have 80,000 bytes; the limit is"
                " 65,536. Shorten them."
            ),
        ),
    ],
)
def test_an_invalid_or_too_large_preview_is_refused(options: list[object], problem: str) -> None:
    with pytest.raises(QuestionError) as caught:
        Question.from_json(
            {"id": "q", "text": "Which?", "answer_type": {"type": "select", "options": options}}
        )

    assert [str(one) for one in caught.value.problems] == [problem]


def test_an_empty_preview_is_dropped() -> None:
    asked = Question.from_json(
        {
            "id": "q",
            "text": "Q?",
            "answer_type": {"type": "select", "options": [{"value": "a", "preview": ""}]},
        }
    )

    assert asked.answer_type == SelectType((SelectOption("a"),))
