"""The same types work as parameters, as answers, and as results."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, TypedDict

import annotated_types
import msgspec
import pydantic
import pytest

from midturn.errors import AnswerError, QuestionError
from midturn.question.python_types import Mismatch, value_type
from midturn.question.question import Question


class Colour(Enum):
    """Colours."""

    RED = "red"


@dataclass
class Point:
    """A dataclass."""

    x: int


class Place(TypedDict):
    """A typed dictionary."""

    name: str


class Size(msgspec.Struct):
    """A struct."""

    width: Annotated[int, msgspec.Meta(ge=1)]


class Window(pydantic.BaseModel):
    """A model."""

    day: str
    hours: list[int] = []


@dataclass
class Price:
    """A decimal in a dataclass."""

    amount: Decimal


class PriceModel(pydantic.BaseModel):
    """A decimal in a model."""

    amount: Decimal


class Upload(pydantic.BaseModel):
    """Bytes in a model."""

    data: bytes


class Card(msgspec.Struct, tag=True):
    """One of two."""

    number: str


class Cash(msgspec.Struct, tag=True):
    """The other one."""

    coins: int


class ByCard(pydantic.BaseModel):
    """One of two."""

    kind: Literal["card"]
    number: str


class ByCash(pydantic.BaseModel):
    """The other one."""

    kind: Literal["cash"]
    coins: int


class Paid(pydantic.BaseModel):
    """A union with a discriminator."""

    by: Annotated[ByCard | ByCash, pydantic.Field(discriminator="kind")]


class Tree(msgspec.Struct):
    """A type that contains itself."""

    children: list[Tree] = []


TYPES: dict[str, tuple[Any, Any, Any, Any]] = {
    "builtin": (list[int], [1, 2], [1, 2], ["1"]),
    "enum": (Colour, "red", Colour.RED, "blue"),
    "dataclass": (Point, {"x": 1}, Point(1), {"x": "1"}),
    "typed dictionary": (Place, {"name": "a"}, {"name": "a"}, {"name": 1}),
    "struct": (Size, {"width": 1}, Size(1), {"width": 0}),
    "model": (Window, {"day": "mo"}, Window(day="mo"), {"day": 1}),
    "list of models": (list[Window], [{"day": "mo"}], [Window(day="mo")], [{}]),
    "meta": (Annotated[int, msgspec.Meta(ge=1)], 1, 1, 0),
    "annotated type": (Annotated[int, annotated_types.Ge(1)], 1, 1, 0),
    "field": (Annotated[int, pydantic.Field(ge=1)], 1, 1, 0),
    "decimal": (Decimal, "1.50", Decimal("1.50"), "a lot"),
    "decimal in a dataclass": (Price, {"amount": "-2e3"}, Price(Decimal(-2000)), {"amount": "1,5"}),
    "decimal in a model": (
        PriceModel,
        {"amount": "1.50"},
        PriceModel(amount=Decimal("1.50")),
        {"amount": []},
    ),
    "bytes": (bytes, "aGk=", b"hi", "%%%"),
    "bytes in a model": (Upload, {"data": "hi"}, Upload(data=b"hi"), {"data": 1}),
    "tagged union": (Card | Cash, {"type": "Cash", "coins": 3}, Cash(coins=3), {"type": "Bill"}),
    "discriminated union": (
        Paid,
        {"by": {"kind": "card", "number": "7"}},
        Paid(by=ByCard(kind="card", number="7")),
        {"by": {"kind": "bill"}},
    ),
}


def test_a_recursive_type_is_refused_with_the_reason() -> None:
    with pytest.raises(
        QuestionError,
        match="A prompt shows every level of an answer, so recursive types are not allowed",
    ):
        Question.schema("a", "A?", Tree)


@pytest.mark.parametrize("name", TYPES)
def test_each_type_has_the_same_schema_in_every_position(name: str) -> None:
    annotation, json, value, wrong = TYPES[name]

    assert value_type(annotation).read(json) == value
    with pytest.raises(Mismatch):
        value_type(annotation).read(wrong)
    question = Question.schema("a", "A?", annotation)
    assert question.typed(question.check(json)) == value
    with pytest.raises(AnswerError):
        question.check(wrong)
    assert Question.from_json(question.to_json()).check(json) == json


def test_a_typed_default_is_written_as_json() -> None:
    assert Question.schema("a", "A?", Window, default=Window(day="mo")).default == {
        "day": "mo",
        "hours": [],
    }


def test_a_type_without_a_schema_is_refused_with_an_alternative() -> None:
    with pytest.raises(QuestionError, match="Pydantic models"):
        Question.schema("a", "A?", object)
