"""Text measured in terminal cells."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from midturn.terminal.prompts.cells import (
    CONTINUED,
    cells,
    clip,
    continued_rows,
    hang,
    steady,
    wrap,
)

TEXT = st.text(alphabet="ab 本e\u0301👍", max_size=60)


@pytest.mark.parametrize(
    ("text", "width"), [("abc", 3), ("本番", 4), ("e\u0301", 1), ("👍", 2), ("", 0)]
)
def test_cells_match_the_terminals_width(text: str, width: int) -> None:
    assert cells(text) == width


def test_clipping_is_marked() -> None:
    assert clip("abcdef", 4) == "abc…"
    assert clip("本番環境", 5) == "本番…"
    assert clip("本番環境", 4) == "本…"
    assert clip("abc", 3) == "abc"
    assert clip("abc", 0) == ""


def test_words_are_kept_whole_if_they_fit() -> None:
    assert wrap("one two three", 8) == ["one two", "three"]
    assert wrap("  indented text", 10) == ["  indented", "text"]
    assert wrap("abcdefghij k", 4) == ["abcd", "efgh", "ij k"]
    assert wrap("", 4) == [""]


def test_approved_text_keeps_every_character() -> None:
    assert continued_rows("a  b  c d", 5) == ["a  b ", "…  c ", "… d"]


def test_a_wrapped_row_is_indented() -> None:
    assert hang("one two three four", 8, "  ") == ["one two", "  three", "  four"]


def test_padding_never_starts_a_row_at_the_edge() -> None:
    assert hang(f"harmless{' ' * 100}Assistant", 20, "  ") == ["harmless", "  Assistant"]


def test_emoji_with_inconsistent_widths_are_replaced() -> None:
    assert steady("🇳🇱 ok 👍🏽 本") == "⟨NL⟩ ok 👍⟨tone 4⟩ 本"


@given(TEXT, st.integers(4, 20))
def test_rows_fit_and_lose_no_character(text: str, width: int) -> None:
    assert all(cells(row) <= width for row in (*wrap(text, width), *continued_rows(text, width)))
    assert all(cells(row) <= max(width, 4) for row in hang(text, width, "  "))
    assert (
        "".join(
            row.removeprefix(CONTINUED) if at else row
            for at, row in enumerate(continued_rows(text, width))
        )
        == text
    )
    assert "".join(wrap(text, width)).replace(" ", "") == text.replace(" ", "")
    assert cells(clip(text, width)) <= width
