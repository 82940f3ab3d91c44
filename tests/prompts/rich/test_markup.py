"""Highlighting of a question's context."""

from __future__ import annotations

import pytest

from midturn.terminal.prompts.rich.pager import json_spans, markdown_lines
from midturn.terminal.prompts.rich.screen import Span


def styled(text: str) -> list[list[tuple[str, str]]]:
    """Return the spans of every line as pairs."""
    return [[(span.text, span.style) for span in line.spans] for line in markdown_lines(text)]


def test_inline_marks_become_styles() -> None:
    assert styled("some **strong** *em* `code` 2*3*4 snake_case") == [
        [
            ("some ", ""),
            ("strong", "strong"),
            (" ", ""),
            ("em", "emphasis"),
            (" ", ""),
            ("code", "code"),
            (" 2*3*4 snake_case", ""),
        ]
    ]


def test_a_heading_is_styled() -> None:
    assert styled("## Title") == [[("Title", "heading")]]


def test_a_fenced_diff_is_coloured_without_its_fence() -> None:
    assert styled("```diff\n@@ -1 +1 @@\n-old **x**\n+new\n same\n```\nafter") == [
        [("@@ -1 +1 @@", "hunk")],
        [("-old **x**", "removed")],
        [("+new", "added")],
        [(" same", "")],
        [("after", "")],
    ]


@pytest.mark.parametrize("begins", ["diff --git a/x b/x", "--- a/x\n+++ b/x", "@@ -1,2 +1,2 @@"])
def test_a_diff_needs_no_fence(begins: str) -> None:
    """No part of the diff is interpreted as Markdown."""
    lines = styled(f"{begins}\n-# old `x`\n+**new**\n\n context")

    assert [("-# old `x`", "removed")] in lines
    assert [("+**new**", "added")] in lines
    assert [(" context", "")] in lines


def test_text_after_a_diff_is_prose() -> None:
    assert styled("@@ -1 +1 @@\n-a\n+b\nThen **this**.")[-1] == [
        ("Then ", ""),
        ("this", "strong"),
        (".", ""),
    ]


def test_code_is_kept_exactly() -> None:
    lines = markdown_lines("```\n\tx  **y**\u202e\n```\n    indented *z*")

    assert [line.kept for line in lines] == [True, True]
    assert lines[0].spans == (Span("⇥   x  **y**⟨U+202E⟩", "code"),)
    assert lines[1].spans == (Span("    indented *z*", "code"),)


def test_no_line_is_lost() -> None:
    assert len(markdown_lines("one\n\ntwo\n\n\n")) == 3
    assert markdown_lines("") == []


def test_json_is_coloured() -> None:
    assert [(span.text, span.style) for span in json_spans('  "a": ["x:", -1.5e3, true]')] == [
        ("  ", ""),
        ('"a"', "name"),
        (": [", ""),
        ('"x:"', "string"),
        (", ", ""),
        ("-1.5e3", "number"),
        (", ", ""),
        ("true", "number"),
        ("]", ""),
    ]
