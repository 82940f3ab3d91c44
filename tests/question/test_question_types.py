"""Static types of answers. Pyright checks these tests, too."""

from __future__ import annotations

from enum import Enum
from typing import Any, assert_type

from msgspec import Struct

from midturn.question.answer_type import OtherAnswer, SelectOption, When
from midturn.question.json_value import Json, SecretValue
from midturn.question.question import Question


class Size(Enum):
    """Numbers behind names."""

    SMALL = 1
    LARGE = 2


class Point(Struct):
    """A type with a schema."""

    x: int


def test_a_boolean_answers_bool() -> None:
    assert_type(Question.boolean("a", "A?"), Question[bool])
    assert_type(Question.boolean("a", "A?", optional=True), Question[bool | None])
    assert_type(Question.boolean("a", "A?").typed(True), bool)


def test_a_select_answers_the_type_of_its_options() -> None:
    assert_type(Question.select("a", "A?", ["x", "y"]), Question[str])
    assert_type(Question.select("a", "A?", [1, 2], default=2), Question[int])
    assert_type(Question.select("a", "A?", [SelectOption("x", "the first"), "y"]), Question[str])
    assert_type(Question.select("a", "A?", ["x", "y"], optional=True), Question[str | None])
    assert_type(Question.select("a", "A?", ["x"], allow_other=True), Question[str | OtherAnswer])
    assert_type(
        Question.select("a", "A?", ["x"], allow_other=True, optional=True),
        Question[str | OtherAnswer | None],
    )
    assert_type(Question.select("a", "A?", Size), Question[Size])
    assert_type(
        Question.select("a", "A?", Size, optional=True, default=Size.SMALL), Question[Size | None]
    )


def test_a_multi_select_answers_a_list() -> None:
    assert_type(Question.multi_select("a", "A?", ["x", "y"], min=1), Question[list[str]])
    assert_type(
        Question.multi_select("a", "A?", [1, 2], default=[1], optional=True),
        Question[list[int] | None],
    )
    assert_type(Question.multi_select("a", "A?", Size, default=[Size.LARGE]), Question[list[Size]])
    assert_type(
        Question.multi_select("a", "A?", ["x"], allow_other=True), Question[list[str | OtherAnswer]]
    )


def test_a_conditional_question_may_have_no_answer() -> None:
    earlier = When("b", equals=True)
    assert_type(Question.boolean("a", "A?", when=earlier), Question[bool | None])
    assert_type(Question.text("a", "A?", when=earlier), Question[str | None])
    assert_type(Question.select("a", "A?", ["x"], when=earlier), Question[str | None])
    assert_type(Question.multi_select("a", "A?", [1], when=earlier), Question[list[int] | None])
    assert_type(Question.schema("a", "A?", Point, when=earlier), Question[Point | None])
    assert_type(Question.secret("a", "A?", when=earlier), Question[SecretValue | None])


def test_a_number_answers_a_number() -> None:
    assert_type(Question.number("a", "A?", type=int, min=1), Question[int])
    assert_type(Question.number("a", "A?", max=1.5), Question[float])
    assert_type(Question.number("a", "A?", type=int, optional=True), Question[int | None])
    assert_type(Question.number("a", "A?", when=When("b", equals=True)), Question[float | None])


def test_text_and_secret_answer_strings() -> None:
    assert_type(Question.text("a", "A?"), Question[str])
    assert_type(Question.text("a", "A?", optional=True), Question[str | None])
    assert_type(Question.text("a", "A?").text, str)
    assert_type(Question.secret("a", "A?"), Question[SecretValue])
    assert_type(Question.secret("a", "A?", optional=True), Question[SecretValue | None])


def test_a_schema_answers_its_type() -> None:
    assert_type(Question.schema("a", "A?", Point), Question[Point])
    assert_type(Question.schema("a", "A?", list[int], default=[1]), Question[list[int]])
    assert_type(Question.schema("a", "A?", Point, optional=True), Question[Point | None])
    assert_type(Question.schema("a", "A?", {"type": "integer"}), Question[Json])


def test_a_typed_question_is_a_question_of_any_type() -> None:
    questions: list[Question[Any]] = [Question.boolean("a", "A?"), Question.text("b", "B?")]
    wider: Question[object] = Question.boolean("a", "A?")
    assert wider == questions[0]
