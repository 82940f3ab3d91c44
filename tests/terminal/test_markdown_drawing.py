"""Markdown, drawn."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings, strategies as st

from midturn.prompts.cells import cells
from midturn.terminal.markdown_drawing import drawn_markdown

SGR = re.compile(r"\x1b\[[0-9;]*m")


def seen(block: str, columns: int = 40) -> str:
    """Draw a block without its colours."""
    return SGR.sub("", drawn_markdown(block, columns, colour=True))


@pytest.mark.parametrize(
    ("block", "rows"),
    [
        ("# Title", "Title\n"),
        ("some *words* **here** `now`", "some words here now\n"),
        ("- one\n- two", " • one\n • two\n"),
        ("Vec<T> & <b>text</b>", "Vec<T> & <b>text</b>\n"),
        ("[shown](http://example.com/real)", "shown (http://example.com/real)\n"),
        ("a [/b] [link=file:///etc/passwd] :smile:", "a [/b] [link=file:///etc/passwd] :smile:\n"),
    ],
)
def test_markdown_is_drawn_as_text(block: str, rows: str) -> None:
    """No HTML, no console markup, no emoji names, and a link shows where it leads."""
    assert seen(block, 60) == rows


@pytest.mark.parametrize(
    "block",
    [
        "a\x1b[31mred",
        "&#27;[31mred &#x1b;]0;title&#7;",
        "`code\x1b[2J`",
        "```\x1b]0;x\x07\ncode\x9b2J\n```",
        "[link](http://e\x1b[31m.com)",
        "[a](javascript:alert(1) '\u202e')",
        "| a\u202e |\n|---|\n| \x1b[8mb |",
        "# t\u200bitle\ud800",
        "![\x1b[31m](x)",
        "<http://e\x1b.com>",
    ],
)
def test_nothing_in_a_block_acts_on_the_terminal(block: str) -> None:
    text = drawn_markdown(block, 40, colour=True)

    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e]", SGR.sub("", text))
    assert not re.search(r"\x1b\[[0-9;]*(?:[34]8)[;:]", text)


def test_without_colours_there_are_none() -> None:
    drawn = drawn_markdown("# Title\n\n```python\nreturn 'x'\n```\n\n`code`", 40, colour=False)

    assert not re.search(r"\x1b\[[0-9;]*(?:3[0-7]|4[0-7]|9[0-7])", drawn)


@settings(deadline=None)
@given(st.text(alphabet=st.sampled_from("ab #*`-|>[]()!&;<\n\t\x1b\x07\x9b\u202e1.本27x"), max_size=60), st.integers(2, 50))
def test_whatever_is_drawn_only_colours_are_sequences(block: str, columns: int) -> None:
    text = SGR.sub("", drawn_markdown(block, columns, colour=True))

    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)


def test_rows_fit() -> None:
    for columns in (20, 40, 80):
        rows = seen("word " * 50 + "\n\n- " + "item " * 30, columns).split("\n")
        assert all(cells(row) <= columns for row in rows)
