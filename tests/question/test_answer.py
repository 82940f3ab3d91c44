"""Checks of answers."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given, strategies as st

from midturn.errors import AnswerError
from midturn.question.answer import answer_from_words
from midturn.question.answer_type import SecretType, SelectOption
from midturn.question.json_value import SecretValue, json_equal
from midturn.question.question import Question
from support.asked_questions import authored_questions
from support.json_values import JSON

YES_NO = Question.boolean("ok", "Ok?")
PICK = Question.select("pick", "Which?", ["eu-1", 3, True, 0.5])
MANY = Question.multi_select("many", "Which?", ["a", "b", 3], min=1, max=2)
OTHER = Question.select("other", "Which?", ["a"], allow_other=True)
MANY_OTHER = Question.multi_select("others", "Which?", ["a", "b"], allow_other=True)
WORDS = Question.text("words", "Say.")
SECRET = Question.secret("word", "Passphrase?")
SHAPE = Question.schema(
    "shape",
    "Shape?",
    {"type": "object", "properties": {"port": {"type": "integer"}}, "required": ["port"]},
)


def refused(question: Question[Any], value: object) -> str:
    with pytest.raises(AnswerError) as caught:
        question.check(value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("question", "value", "answer"),
    [
        (YES_NO, True, True),
        (YES_NO, False, False),
        (PICK, "eu-1", "eu-1"),
        (PICK, 3.0, 3),
        (PICK, True, True),
        (MANY, ["b", "a"], ["a", "b"]),
        (MANY, (3,), [3]),
        (OTHER, {"other": "mine"}, {"other": "mine"}),
        (MANY_OTHER, [{"other": "mine"}, "b"], ["b", {"other": "mine"}]),
        (MANY_OTHER, [], []),
        (WORDS, "", ""),
        (WORDS, "two\nlines", "two\nlines"),
        (SHAPE, {"port": 80, "more": None}, {"port": 80, "more": None}),
    ],
)
def test_a_valid_answer_is_returned_in_recorded_form(
    question: Question[Any], value: Any, answer: Any
) -> None:
    checked = question.check(value)
    assert msgspec.json.encode(checked) == msgspec.json.encode(answer)


@pytest.mark.parametrize("value", ["true", "yes", 1, 0, 1.0, None, [], {}, "", [True], {"x": 1}])
def test_only_true_and_false_are_booleans(value: Any) -> None:
    assert "true or false" in refused(YES_NO, value)


@pytest.mark.parametrize(
    ("question", "value"),
    [
        (PICK, "3"),
        (PICK, 1),
        (PICK, "true"),
        (PICK, "EU-1"),
        (PICK, {"other": "x"}),
        (PICK, ["eu-1"]),
        (PICK, None),
        (MANY, []),
        (MANY, ["a", "b", 3]),
        (MANY, ["a", "a"]),
        (MANY, "a"),
        (MANY, {"a": 1}),
        (MANY, ["a", "c"]),
        (OTHER, {"other": " "}),
        (OTHER, {"other": 3}),
        (OTHER, {"other": "x", "more": 1}),
        (OTHER, {}),
        (MANY_OTHER, [{"other": "x"}, {"other": "y"}]),
        (WORDS, 3),
        (WORDS, None),
        (SHAPE, {"port": "80"}),
        (SHAPE, {}),
    ],
)
def test_invalid_answers_are_refused(question: Question[Any], value: Any) -> None:
    assert refused(question, value)


def test_an_error_names_allowed_values_and_the_nearest_match() -> None:
    assert (
        refused(PICK, "EU-1")
        == '"EU-1" is not one of the options. Choose "eu-1", 3, true, 0.5. Did you mean "eu-1"?'
    )
    assert (
        refused(MANY, ["a", "B"])
        == '/1: "B" is not one of the options. Choose "a", "b", 3. Did you mean "b"?'
    )
    assert refused(MANY, []) == "0 choices are given; 1 to 2 are allowed."
    assert (
        refused(Question.multi_select("m", "M?", ["a", "b"], min=2), ["a"])
        == "1 choice is given; exactly 2 are allowed."
    )
    assert refused(OTHER, "z").endswith('Choose "a", or {"other": "<text>"}.')
    assert refused(SHAPE, {"port": "80"}) == '/port: must be a whole number, not "80".'
    assert (
        refused(Question.number("n", "N?", type=int, max=9), 12)
        == "the answer must be at most 9, not 12."
    )


def test_a_long_list_of_options_is_shortened_in_the_error() -> None:
    question = Question.select("n", "Which?", [f"option {number}" for number in range(200)])
    assert "(200 options)" in refused(question, "x")
    assert len(refused(question, "x" * 10_000)) < 300


@pytest.mark.parametrize("question", [YES_NO, PICK, MANY, WORDS, SECRET, SHAPE])
def test_null_is_an_answer_only_to_an_optional_question(question: Question[Any]) -> None:
    assert refused(question, None)
    assert msgspec.structs.replace(question, optional=True).check(None) is None


def test_a_schema_may_allow_null() -> None:
    assert Question.schema("n", "N?", {"type": ["integer", "null"]}).check(None) is None


@pytest.mark.parametrize(
    "value",
    [float("nan"), float("inf"), "\ud800", {"a": "\udc00"}, {1: 1}, {b"x"}, b"x", 1 << 2000],
)
@pytest.mark.parametrize("question", [YES_NO, WORDS, Question.schema("any", "Any?", {})])
def test_values_outside_json_are_refused(question: Question[Any], value: Any) -> None:
    assert refused(question, value)


def test_depth_is_limited() -> None:
    deep: Any = []
    for _ in range(127):
        deep = [deep]
    question = Question.schema("any", "Any?", {})
    assert question.check(deep) is not None
    assert "deeper than 128" in refused(question, [deep])
    with pytest.raises(AnswerError, match="deeper than 2"):
        question.check([[[1]]], depth_limit=2)


def test_a_secret_is_returned_wrapped() -> None:
    assert SECRET.check("hunter2") == SecretValue("hunter2")
    assert SECRET.check(SecretValue("hunter2")) == SecretValue("hunter2")


@pytest.mark.parametrize(
    "value",
    [["hunter2"], {"hunter2": 1}, b"hunter2", "hunter2\ud800", SecretValue("hunter2\ud800")],
)
def test_an_error_never_shows_a_secret(value: Any) -> None:
    assert "hunter2" not in refused(SECRET, value)


@pytest.mark.parametrize("question", [YES_NO, PICK, WORDS, MANY, OTHER])
def test_a_wrapped_secret_answers_only_secret_questions(question: Question[Any]) -> None:
    assert "hunter2" not in refused(question, SecretValue("hunter2"))


@given(authored_questions(), JSON)
def test_a_checked_answer_is_canonical(authored: dict[str, Any], value: Any) -> None:
    """Checking it again returns the same value, which can be written as JSON."""
    question = Question.from_json(authored)
    try:
        answer = question.check(value)
    except AnswerError:
        return
    if isinstance(question.answer_type, SecretType):
        assert answer is None or isinstance(answer, SecretValue)
        return
    assert not isinstance(answer, SecretValue)
    assert question.check(answer) == answer
    assert json_equal(answer, msgspec.json.decode(msgspec.json.encode(answer)))


@given(
    st.lists(
        st.sampled_from(["a", "b", 3, 3.0, "3", True, {"other": "x"}, {"other": "y"}]), max_size=5
    )
)
def test_choices_come_in_option_order_without_repeats(values: list[Any]) -> None:
    question = Question.multi_select("m", "M?", ["a", SelectOption(3), "b"], allow_other=True)
    try:
        answer = question.check(values)
    except AnswerError:
        return
    assert isinstance(answer, list)
    order = ["a", 3, "b"]
    places = [order.index(item) if isinstance(item, str | int) else 9 for item in answer]
    assert places == sorted(set(places))
    assert all(type(item) in {str, int, dict} for item in answer)


@pytest.mark.parametrize(
    ("question", "words", "answer"),
    [
        (YES_NO, "y", True),
        (YES_NO, "NO", False),
        (YES_NO, " true ", True),
        (PICK, "eu-1", "eu-1"),
        (PICK, '"eu-1"', "eu-1"),
        (PICK, "EU-1", "eu-1"),
        (PICK, "3", 3),
        (PICK, "true", True),
        (PICK, "1.", "eu-1"),
        (OTHER, '{"other": "something else"}', {"other": "something else"}),
        (OTHER, "A", "a"),
        (MANY, "a", ["a"]),
        (MANY, "3, a", ["a", 3]),
        (MANY, '["b"]', ["b"]),
        (MANY, "1, b", ["a", "b"]),
        (MANY_OTHER, '["a", {"other": "none of these"}]', ["a", {"other": "none of these"}]),
        (WORDS, "staging", "staging"),
        (WORDS, "42", "42"),
        (WORDS, "null", "null"),
        (WORDS, '"quoted"', "quoted"),
        (WORDS, "{", "{"),
        (SHAPE, '{"port": 1}', {"port": 1}),
        (SECRET, '"hunter2"', '"hunter2"'),
    ],
)
def test_command_line_words_are_parsed_by_answer_type(
    question: Question[Any], words: str, answer: Any
) -> None:
    meant = answer_from_words(question, words)
    assert meant == answer
    question.check(meant)


def test_a_label_with_a_comma_is_one_choice() -> None:
    assert answer_from_words(Question.multi_select("m", "M?", ["a,b", "a"]), "a,b") == ["a,b"]


def test_null_skips_an_optional_question() -> None:
    assert answer_from_words(Question.text("t", "T?", optional=True), "null") is None


@pytest.mark.parametrize(
    ("question", "words"),
    [
        (YES_NO, "maybe"),
        (PICK, "eu-3"),
        (PICK, "9"),
        (OTHER, "mars"),
        (MANY, "a, zz"),
        (MANY_OTHER, "a, zz"),
        (SHAPE, "nope"),
        (WORDS, "\udc80"),
    ],
)
def test_invalid_words_are_refused_with_a_message_for_their_type(
    question: Question[Any], words: str
) -> None:
    assert refused(question, answer_from_words(question, words))


@pytest.mark.parametrize(
    ("question", "words", "answer"),
    [
        (YES_NO, "👍", True),
        (YES_NO, "👍🏽", True),
        (YES_NO, "❌", False),
        (YES_NO, " Yes ", True),
        (PICK, "2.", 3),
        (MANY_OTHER, "all", ["a", "b"]),
        (PICK, "=3", 3),
        (MANY, "1-2", ["a", "b"]),
        (WORDS, "👍", "👍"),
        (Question.number("n", "N?", type=int, min=1), " 3 ", 3),
        (Question.text("t", "T?", optional=True), "null", None),
        (Question.select("s", "S?", ["a"], optional=True), "null", None),
    ],
)
def test_typed_input_is_parsed(question: Question[Any], words: str, answer: Any) -> None:
    assert question.parse(words) == answer
    assert question.persisted().parse(words) == answer


def test_a_typed_secret_is_a_secret() -> None:
    assert cast("SecretValue", SECRET.parse('"hunter2"')).reveal() == '"hunter2"'


@pytest.mark.parametrize(
    ("question", "words", "says"),
    [
        (YES_NO, "maybe", "'maybe' is neither yes nor no. Answer yes or no."),
        (PICK, "eu-3", "'eu-3' is not one of the options. They are: 1 eu-1, 2 3, 3 true, 4 0.5."),
        (PICK, "3", "3 is both a number and a name: write 3. for the number, =3 for the name."),
        (MANY, "1-9", "'1-9' is not one of the options. They are: 1 a, 2 b, 3 3."),
        (Question.number("n", "N?", type=int, min=1), "0", "must be"),
    ],
)
def test_unparsable_input_is_refused_with_a_message_for_people(
    question: Question[Any], words: str, says: str
) -> None:
    with pytest.raises(AnswerError, match=re.escape(says)):
        question.parse(words)


@given(st.text(), authored_questions())
def test_any_words_are_accepted_or_refused(words: str, authored: dict[str, Any]) -> None:
    question = Question.from_json(authored)
    read = answer_from_words(question, words)
    with suppress(AnswerError):
        question.check(read)


@pytest.mark.parametrize("words", ["[" * 100_000, "9" * 5_000, "1e400", '{"a":' * 2_000])
def test_extreme_words_are_handled(words: str) -> None:
    assert answer_from_words(WORDS, words) == words
