"""The comment shown in the editor below the text. No part of it becomes part of an answer."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from midturn.terminal.editor import comment_lines, without_comment
from midturn.terminal.prompts.keys import about
from midturn.terminal.prompts.plain_scene import Edit
from support.prompt_catalogue import PROMPTS, RUN, TEXT

COMMENT = comment_lines(Edit("none"), about(TEXT))


def test_the_question_is_a_comment_below_the_text() -> None:
    assert COMMENT == [
        "# Assistant asks: Note for the migration log?",
        "# These two lines are removed.",
    ]


def test_json_comments_use_the_editors_syntax() -> None:
    assert comment_lines(Edit("{}", ".json"), about(RUN))[0] == "// deploy asks: Run deploy?"


def test_a_hostile_question_is_one_visible_line() -> None:
    first, _ = comment_lines(Edit(""), about(PROMPTS["untrusted"]))

    assert "\n" not in first
    assert first.isprintable()


@given(st.text().filter(lambda text: "\r" not in text))
def test_an_unchanged_text_is_returned_unchanged(text: str) -> None:
    assert without_comment("\n".join([text, "", *COMMENT, ""]), COMMENT) == text


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (f"one\ntwo\n\n{COMMENT[0]}\n{COMMENT[1]}\n", "one\ntwo"),
        (f"one\n\n{COMMENT[0]}\n{COMMENT[1]}\ntwo\n", "one\ntwo"),
        (f"{COMMENT[0]}\n{COMMENT[1]}\none\n", "one"),
        (f"one\n{COMMENT[1]}", "one"),
        ("# a heading\nof my own\n", "# a heading\nof my own"),
        ("", ""),
    ],
    ids=["above", "below too", "only below", "one line left", "own comments", "emptied"],
)
def test_only_the_comment_is_removed(written: str, text: str) -> None:
    assert without_comment(written, COMMENT) == text
