"""The answers that the review of a form shows, for rich and plain prompts."""

from __future__ import annotations

import pytest

from midturn.events.prompt import FormSubject, Prompt
from midturn.question.json_value import Json
from midturn.question.question import Question
from midturn.terminal.prompts.body import subject_lines


def reviewed(question: Question[object], answer: Json) -> list[str]:
    """Return the review lines of a form with one question."""
    subject = FormSubject((question,), {question.id: answer})
    return subject_lines(
        Prompt(question=Question.boolean("go", "Go?"), kind="review", subject=subject)
    )


@pytest.mark.parametrize(
    "question",
    [
        Question.boolean("it", "Deploy?"),
        Question.text("it", "Why not?"),
        Question.select("it", "Where?", ["eu", "us"]),
        Question.multi_select("it", "Which?", ["a", "b"]),
        Question.schema("it", "How?", {"type": "object"}),
    ],
)
def test_a_question_that_was_not_asked_is_not_shown(question: Question[object]) -> None:
    """In particular, it is not shown as a "no"."""
    assert reviewed(question, None) == []


def test_a_skipped_optional_question_is_shown_as_skipped() -> None:
    assert reviewed(Question.boolean("it", "Deploy?", optional=True), None) == [
        "1. Deploy? (skipped)"
    ]


def test_an_answer_follows_its_question() -> None:
    assert reviewed(Question.multi_select("it", "Which?", ["a", "b"]), ["b"]) == ["1. Which? b"]
