"""Different texts are displayed differently.

This holds for titles, options, questions, code, diffs and results.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import combinations

import pytest
from hypothesis import given, settings, strategies as st

from midturn.question.answer_type import SelectOption
from midturn.question.text import prose
from midturn.terminal.flow import margin
from midturn.terminal.prompts.keys import TAB_STOP, code_line, diff_line, label, one_line
from midturn.terminal.prompts.rich.pager import markdown_lines

ALIKE = [
    "echo a",
    "echo a ",
    "echo a  ",
    "echo\ta",
    "echo    a",
    "echo⇥   a",
    "echo a\r",
    "echo a\n",
    "echo a⏎ ",
    "echo a\r\n",
    "echo a\ufe0f",
    "echo a\u3164",
    "echo a\u200b",
    "echo\u00a0a",
    "echo ⟨U+0020⟩",
    "echo 🇳🇱",
    "echo [NL]",
    "echo ⟨NL⟩",
    "echo 👍",
    "echo 👍🏽",
    "echo 👍🏿",
    "echo 👍⟨tone 4⟩",
]
_CODE = re.compile("⟨U\\+([0-9A-F]{4,6})⟩")


def option(text: str) -> str:
    return label(SelectOption(text))


@pytest.mark.parametrize("show", [one_line, code_line, option])
def test_similar_texts_are_displayed_differently_in_questions(show: Callable[[str], str]) -> None:
    for one, other in combinations(ALIKE, 2):
        ends = {one.rstrip(" "), other.rstrip(" ")}
        assert show(one) != show(other) or (show is not code_line and len(ends) == 1), (one, other)


def test_whitespace_changes_in_a_patch_are_visible() -> None:
    for old, new in (
        ("echo a", "echo a\r"),
        ("\techo", "    echo"),
        ("echo", "echo "),
        ("echo\t", "echo    "),
    ):
        shown = [
            "".join(span.text for span in line.spans)
            for line in markdown_lines(f"```diff\n-{old}\n+{new}\n```")
        ]
        assert shown[0][1:].rstrip() != shown[1][1:].rstrip(), (old, new)


def test_an_empty_line_of_a_diff_is_not_marked_as_blank() -> None:
    assert diff_line(" ") == " "
    assert diff_line("+ ") == "+⟨U+0020⟩"


def read_back(shown: str) -> str:
    """Return the original text of a `code_line`."""
    read, at = "", 0
    while at < len(shown):
        if code := _CODE.match(shown, at):
            read += chr(int(code[1], 16))
            at = code.end()
        elif shown[at] == "⇥":
            at += TAB_STOP - len(read.replace("\r", "x").expandtabs(TAB_STOP)) % TAB_STOP
            read += "\t"
        else:
            read += shown[at]
            at += 1
    return read


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from("ab \t⇥⏎⟨⟩\r\u202e\ufe0f漢🇳🇱"), max_size=20))
def test_a_displayed_line_of_code_can_be_decoded(line: str) -> None:
    assert read_back(code_line(line)) == line


@pytest.mark.parametrize("header", ["| deploy asks:", "│ deploy", "| Assistant asks:"])
def test_text_of_a_model_cannot_look_like_a_header(header: str) -> None:
    assert margin(prose(header)) == " "
