from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, strategies as st

from midturn.models.library_messages import Arguments, clean, read_arguments


@given(st.text())
def test_text_is_unchanged(text: str) -> None:
    assert clean(text) == text


def test_surrogate_pairs_are_joined_and_lone_ones_replaced() -> None:
    assert clean("a\ud83d\ude00b") == "a\U0001f600b"
    assert clean("a\ud83db") == "a�b"


@given(st.text(alphabet=st.characters(codec=None, categories=("L", "Cs")), max_size=6))
def test_any_input_can_be_recorded(text: str) -> None:
    assert msgspec.json.encode(clean(text))


def test_an_object_is_unchanged_and_null_is_none() -> None:
    assert read_arguments('{"path": "a", "n": 1.5}') == Arguments({"path": "a", "n": 1.5})
    assert read_arguments({"path": "a"}) == Arguments({"path": "a"})
    assert read_arguments(None) == read_arguments(" ") == Arguments({})


@pytest.mark.parametrize(
    ("sent", "problem"),
    [
        ('{"path": ', "Expecting value"),
        ("[1]", "it is not an object"),
        ('"text"', "it is not an object"),
        ('{"a": NaN}', "NaN is not JSON"),
        ('{"a": "\\ud800"}', "half of a surrogate pair"),
        ('{"a": 1, "a": 2}', 'the key "a" appears twice'),
        ('{"a":' * 200 + "1" + "}" * 200, "nested deeper"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_other_arguments_stay_text(sent: str, problem: str) -> None:
    arguments = read_arguments(sent)

    assert arguments.value == sent
    assert arguments.problem is not None
    assert problem in arguments.problem


def test_a_broken_object_becomes_text() -> None:
    arguments = read_arguments({"a": float("nan")})

    assert arguments.value == '{"a": NaN}'
    assert arguments.problem
