"""Markdown that arrives in pieces."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from midturn.terminal.markdown_blocks import MarkdownBlocks


def blocks(*pieces: str) -> list[str]:
    """Return all blocks of a text that arrives in pieces."""
    reader = MarkdownBlocks()
    return [block for piece in pieces for block in reader.feed(piece)] + reader.flush()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one\ntwo\n\nthree", ["one\ntwo", "three"]),
        ("# Title\ntext", ["# Title", "text"]),
        ("```\na\n\nb\n```\nafter", ["```\na\n\nb\n```", "after"]),
        ("````\n```\n````\n", ["````\n```\n````"]),
        ("- one\n\n- two\n\n  more\n\nafter", ["- one\n\n- two\n\n  more", "after"]),
        ("list:\n- one\n\n- two", ["list:\n- one\n\n- two"]),
        ("1. one\n   ```\n   a\n\n   b\n   ```\n2. two\n", ["1. one\n   ```\n   a\n\n   b\n   ```\n2. two"]),
        ("| a |\n|---|\n| 1 |\n\ntext", ["| a |\n|---|\n| 1 |", "text"]),
        ("text\n```\ncode\n```", ["text", "```\ncode\n```"]),
        ("```\nnever closed\n\n# not a title", ["```\nnever closed\n\n# not a title"]),
        ("\n\n\n", []),
        ("", []),
    ],
)
def test_blocks_come_out_whole(text: str, expected: list[str]) -> None:
    assert blocks(text) == expected


def test_a_block_comes_out_as_soon_as_the_next_one_begins() -> None:
    reader = MarkdownBlocks()

    assert reader.feed("one\n\n") == []
    assert reader.pending
    assert reader.feed("two\n") == ["one"]
    assert reader.flush() == ["two"]
    assert not reader.pending


def test_fenced_code_comes_out_with_its_fence() -> None:
    assert MarkdownBlocks().feed("```\ncode\n```\n") == ["```\ncode\n```"]


@given(st.lists(st.text(alphabet="a#`-|1. \n", max_size=12), max_size=10))
def test_where_the_text_is_cut_changes_nothing(pieces: list[str]) -> None:
    assert blocks(*pieces) == blocks("".join(pieces))


@given(st.text(alphabet="a#`~-*1.| \n", max_size=80))
def test_no_word_is_lost(text: str) -> None:
    assert "".join("".join(blocks(text)).split()) == "".join(text.split())
