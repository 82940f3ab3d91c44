"""Typed decisions. Words decide only if they contain nothing except the decision."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from midturn.errors import AnswerError
from midturn.question.decision_words import YES_OR_NO, ClearDecision, Unclear, read_decision
from midturn.question.question import Question
from support.channels.sentences import CONDITIONAL, NOT_A_DECISION

YES = [
    "yes",
    "Yes",
    " YES. ",
    "y",
    "yes!",
    "true",
    "👍",
    "👍🏽",
    "✅",
    "✔️",
    ":+1:",
    ":thumbsup::skin-tone-3:",
    "👍.",
]
NO = ["no", "No.", "n", "NO!", "false", "👎", "❌", ":-1:"]


@pytest.mark.parametrize(
    ("words", "answer"), [*((one, True) for one in YES), *((one, False) for one in NO)]
)
def test_a_decision_word_alone_is_a_decision(words: str, answer: bool) -> None:  # noqa: FBT001  a parameter
    assert read_decision(words) == ClearDecision(answer)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("no, because it is Friday", "it is Friday"),
        ("No because it is Friday", "it is Friday"),
        ("no. Because: it is Friday", "it is Friday"),
        ("no: it is Friday", "it is Friday"),
        ("n: it is Friday ", "it is Friday"),
        ("👎 because it is Friday", "it is Friday"),
        ("no — because\nit is Friday", "it is Friday"),
    ],
)
def test_a_no_can_have_a_reason(words: str, reason: str) -> None:
    assert read_decision(words) == ClearDecision(answer=False, reason=reason)


@pytest.mark.parametrize(
    "words",
    [
        *CONDITIONAL,
        "yes, because it is Monday",
        "yes: go",
        "yes yes",
        "no, go ahead",
        "no because",
        "no:",
    ],
)
def test_a_decision_word_with_other_words_is_not_a_decision(words: str) -> None:
    found = read_decision(words)
    assert isinstance(found, Unclear)
    assert found.words == words.strip()
    with pytest.raises(AnswerError, match=r'more than "yes"|may mean "yes"'):
        Question.boolean("go", "Deploy?").parse(words)


@pytest.mark.parametrize(
    "words", [*NOT_A_DECISION, "", "   ", "maybe", "yesterday", "not", "?", "nope"]
)
def test_other_words_are_not_a_decision(words: str) -> None:
    assert read_decision(words) is None


@given(
    st.sampled_from(sorted(YES_OR_NO)),
    st.text(min_size=1).filter(lambda more: more.strip(" .!\n\t\r\f\v").isprintable()),
)
def test_a_word_with_one_letter_more_is_not_a_yes(word: str, more: str) -> None:
    found = read_decision(f"{word} {more}")
    if any(sign.isalnum() for sign in more):
        assert not isinstance(found, ClearDecision) or (not found.answer and found.reason)
