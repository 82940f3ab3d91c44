from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
from hypothesis import given

from midturn.question.json_value import canonical, json_equal, json_problem, pointer_to, shown
from support.json_values import JSON


def nested(levels: int) -> Any:
    value: Any = 0
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        (True, 1, False),
        (False, 0, False),
        (1, 1.0, True),
        (0, -0.0, True),
        (2**53 + 1, float(2**53), False),
        (1e300, int(1e300), True),
        ("1", 1, False),
        ("é", "e\u0301", False),
        ([1, 2], [2, 1], False),
        ({"a": 1, "b": 2}, {"b": 2.0, "a": 1}, True),
        ({"a": None}, {}, False),
        ([True], [1], False),
    ],
)
def test_values_are_equal_as_in_json(left: Any, right: Any, equal: object) -> None:
    assert json_equal(left, right) is equal


@given(JSON, JSON)
def test_values_are_equal_if_and_only_if_their_bytes_are(left: Any, right: Any) -> None:
    assert (canonical(left) == canonical(right)) == json_equal(left, right)
    assert json_equal(left, msgspec.json.decode(msgspec.json.encode(left)))


@given(JSON)
def test_json_values_have_no_problem(value: Any) -> None:
    assert json_problem(value, 128) is None


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        math.inf,
        "\ud800",
        {"\udfff": 1},
        {1: 2},
        {1, 2},
        b"x",
        1 << 1024,
        complex(1),
        [[{"a": -math.inf}]],
    ],
    ids=repr,
)
def test_values_outside_json_are_reported(value: Any) -> None:
    assert json_problem(value, 128) is not None


def test_a_problem_names_its_location() -> None:
    problem = json_problem({"a/b": [0, {"~c": math.nan}]}, 128)
    assert problem is not None
    assert problem.pointer == "/a~1b/1/~0c"


def test_depth_counts_containers_and_does_not_overflow_the_stack() -> None:
    assert json_problem(nested(128), 128) is None
    assert json_problem(nested(129), 128) is not None
    assert json_problem(nested(100_000), 128) is not None


def test_the_first_problem_in_reading_order_is_reported() -> None:
    problem = json_problem([1, math.nan, math.inf], 128)
    assert problem is not None
    assert problem.pointer == "/1"


def test_a_value_with_too_many_parts_is_refused_before_it_is_walked() -> None:
    problem = json_problem(list(range(1_000_000)), 128)
    assert problem is not None
    assert "parts" in problem.message


def test_long_keys_are_not_copied_for_each_part() -> None:
    """A JSON pointer for each of these values would take 40 gigabytes in total."""
    assert json_problem({"k" * 1_000_000: list(range(40_000))}, 128) is None


def test_a_pointer_escapes_its_segments() -> None:
    assert pointer_to("/a", "b/c~d") == "/a/b~1c~0d"


def test_a_long_value_is_shortened_in_messages() -> None:
    assert shown("x" * 1_000) == '"' + "x" * 58 + "…"


@pytest.mark.parametrize("empty", [[], {}, ()])
def test_too_deep_nesting_is_refused_even_if_empty(empty: object) -> None:
    assert json_problem([[empty]], 3) is None
    assert json_problem([[empty]], 2) is not None


def test_a_value_that_contains_itself_many_times_is_refused_at_once() -> None:
    value: object = "x"
    for _ in range(40):
        value = [value] * 1_000
    assert json_problem(value, 100) is not None
