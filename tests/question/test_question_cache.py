"""A question that was asked before is not parsed again.

It must be equal in every value and every type.
"""

from __future__ import annotations

import enum

import pytest
from msgspec.structs import replace

from midturn.errors import QuestionError
from midturn.question.authoring import as_authored
from midturn.question.json_value import DEFAULT_LIMITS
from midturn.question.question import Question


class Level(enum.IntEnum):
    """A subclass of a number."""

    HIGH = 1


class Word(enum.StrEnum):
    """A subclass of a string."""

    HIGH = "high"


def asked(*options: object) -> Question[object]:
    return Question.select("level", "Which?", list(options))  # type: ignore[list-item, return-value]  # some are what they should not be


def test_an_equal_question_is_parsed_once() -> None:
    assert asked("a", "b") is asked("a", "b")
    assert asked(1, 2) is asked(1, 2)


@pytest.mark.parametrize("other", [1.0, "1"])
def test_an_option_of_another_type_makes_another_question(other: object) -> None:
    assert asked(other, 2) is not asked(1, 2)
    assert repr(asked(other, 2).to_json()) != repr(asked(1, 2).to_json())


@pytest.mark.parametrize("option", [b"high", {"high"}, object(), float("nan")])
def test_an_invalid_option_is_refused_after_a_similar_question(option: object) -> None:
    asked("high", "low")
    for _ in range(2):
        with pytest.raises(QuestionError):
            asked(option, "low")


def test_values_that_only_look_like_known_ones_are_parsed_again() -> None:
    for known, given in (("high", Word.HIGH), (1, Level.HIGH)):
        first = _outcome(given)
        asked(known, 2)
        assert _outcome(given) == first


@pytest.mark.parametrize("changed", [{"shown": 5}, {"repeats": 9}, {"cycles": 7}, {"form": 3}])
def test_unrelated_limits_do_not_cause_a_second_check(changed: dict[str, int]) -> None:
    question = asked("a", "b")
    assert as_authored([question], replace(DEFAULT_LIMITS, **changed)) == as_authored(
        [question], DEFAULT_LIMITS
    )


@pytest.mark.parametrize("changed", ["question", "context", "options", "json_depth", "batch"])
def test_question_limits_cause_a_second_check(changed: str) -> None:
    assert as_authored([asked("a", "b")], replace(DEFAULT_LIMITS, **{changed: 100})) is None


def _outcome(option: object) -> object:
    try:
        return asked(option, 2).to_json()
    except QuestionError as error:
        return str(error)


def test_changing_a_list_after_creation_changes_the_question() -> None:
    options = ["a", "b"]
    first = Question.select("level", "Which?", options)
    options.append("c")
    assert first.to_json() != Question.select("level", "Which?", options).to_json()
    assert first is asked("a", "b")
