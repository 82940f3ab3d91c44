"""Canonical names: spellings of the same person, and names that are rejected."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, strategies as st

from midturn.question.text import canonical_name, is_same_name, name_key


@pytest.mark.parametrize(
    "spelling",
    [
        "Ana",
        "ANA",
        " ana",
        "ana\u00a0",
        "a\u200bna",
        "\ufeffana",
        "a\u00adna",
        "an\u2060a",
        "ana\ufe0f",
        "\uff41\uff4e\uff41",
        "ana\U000e0041",
    ],
)
def test_spellings_of_a_name_have_one_canonical_form(spelling: str) -> None:
    assert canonical_name(spelling) == "ana"
    assert is_same_name(spelling, "ana")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Jos\u00e9", "JOSE\u0301"),
        ("stra\u00dfe", "STRASSE"),
        ("\ufb01n", "fin"),
        ("\u212aelvin", "kelvin"),
        ("Ana@Example.org", "ana@example.ORG"),
    ],
)
def test_composed_and_decomposed_names_are_equal(one: str, other: str) -> None:
    assert canonical_name(one) == canonical_name(other)


@pytest.mark.parametrize(
    ("one", "other"), [("ana", "anna"), ("ana", "\u0430na"), ("a.b", "ab"), ("ana", "ana1")]
)
def test_different_names_stay_different(one: str, other: str) -> None:
    assert canonical_name(one) != canonical_name(other)


@pytest.mark.parametrize(
    "name", ["ana\n", "a\x00na", "\x1b[31mroot", "a\x85na", "a\u2028na", "\ud800"]
)
def test_control_characters_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="control character U\\+"):
        canonical_name(name)


@pytest.mark.parametrize("name", ["", " ", "\u200b", "\u3164", "\u00ad\ufe0f"])
def test_a_name_without_visible_characters_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is empty"):
        canonical_name(name)


@given(st.text(max_size=12))
def test_the_canonical_form_is_stable(name: str) -> None:
    key = name_key(name)
    assert name_key(key) == key
    assert unicodedata.is_normalized("NFKC", key)
    assert name_key(f"  {name}\u200b ") == key
