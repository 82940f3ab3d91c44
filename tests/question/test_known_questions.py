"""A question that was asked before is not read again: only the very same one, value for value and type for type."""

from __future__ import annotations

import enum

import pytest

from midturn.errors import QuestionError
from midturn.question.question import Question


class Level(enum.IntEnum):
    """A number that is more than a number."""

    HIGH = 1


class Word(enum.StrEnum):
    """A text that is more than a text."""

    HIGH = "high"


def asked(*options: object) -> Question[object]:
    return Question.select("level", "Which?", list(options))  # type: ignore[list-item, return-value]  # some are what they should not be


def test_the_same_question_is_read_once() -> None:
    assert asked("a", "b") is asked("a", "b")
    assert asked(1, 2) is asked(1, 2)


@pytest.mark.parametrize("other", [1.0, "1"])
def test_an_option_of_another_type_is_another_question(other: object) -> None:
    assert asked(other, 2) is not asked(1, 2)
    assert repr(asked(other, 2).to_json()) != repr(asked(1, 2).to_json())


@pytest.mark.parametrize("option", [b"high", {"high"}, object(), float("nan")])
def test_what_is_no_option_is_refused_also_behind_a_question_that_looks_the_same(option: object) -> None:
    asked("high", "low")
    for _ in range(2):
        with pytest.raises(QuestionError):
            asked(option, "low")


def test_what_only_looks_like_a_known_text_or_number_is_read_by_the_rules_as_ever() -> None:
    for known, given in (("high", Word.HIGH), (1, Level.HIGH)):
        first = _outcome(given)
        asked(known, 2)
        assert _outcome(given) == first


def _outcome(option: object) -> object:
    try:
        return asked(option, 2).to_json()
    except QuestionError as error:
        return str(error)


def test_a_list_that_is_changed_behind_its_question_asks_something_else() -> None:
    options = ["a", "b"]
    first = Question.select("level", "Which?", options)
    options.append("c")
    assert first.to_json() != Question.select("level", "Which?", options).to_json()
    assert first is asked("a", "b")
