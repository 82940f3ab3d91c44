"""The assistant's text without drawing: the source, wrapped or unchanged."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings, strategies as st

from midturn.terminal.flow import PlainFlow, Untouched
from midturn.terminal.prompts.cells import cells
from support.streamed_markdown import in_pieces

ACTS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e]")


def plain(source: str, columns: int = 21, pieces: tuple[int, ...] = ()) -> str:
    """Return the output for a message."""
    flow = PlainFlow(lambda: columns)
    return "".join(map(flow.feed, in_pieces(source, pieces))) + flow.finish()


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("# Title\n\n**bold**", "# Title\n\n**bold**\n"),
        ("one two three four five", "one two three four\nfive\n"),
        ("- one two three four five", "- one two three four\n  five\n"),
        ("  12. one two three four", "  12. one two three\n      four\n"),
        ("> one two three four five", "> one two three four\n  five\n"),
        ("x" * 45, f"{'x' * 20}\n{'x' * 20}\nxxxxx\n"),
        ("```\nif a:   # and a comment\n```\n", "```\nif a:   # and a comm\nent\n```\n"),
        ("a\tb\r\nc", "a    b\nc\n"),
        ("| a | b |", " | a | b |\n"),
        ("│ fake\n· x: ok", " │ fake\n · x: ok\n"),
        ("\x1b[31mred\u202e", "⟨U+001B⟩[31mred⟨U+20\n2E⟩\n"),
        (
            "👨\u200d👩\u200d👧 本番環境は全員で共有しています",
            "👨\u200d👩\u200d👧\n本番環境は全員で共有\nしています\n",
        ),
        ("", ""),
        ("\n", "\n"),
    ],
)
@pytest.mark.parametrize("length", [1, 4, 1_000])
def test_the_source_is_wrapped(source: str, shown: str, length: int) -> None:
    assert plain(source, pieces=(length,) * len(source)) == shown


def test_full_rows_and_finished_lines_are_shown_at_once() -> None:
    flow = PlainFlow(lambda: 21)

    assert flow.feed("one two three four ") == ""
    assert flow.feed("five six") == "one two three four\n"
    assert flow.feed(" seven\nnext") == "five six seven\n"
    assert flow.finish() == "next\n"


def test_every_row_begins_with_the_mark() -> None:
    flow = PlainFlow(lambda: 14, "~ ", lambda row: f"<{row}>")

    assert (
        flow.feed("| one two three\n\nfour\n") + flow.finish()
        == "<~ | one two>\n<~ three>\n<~>\n<~ four>\n"
    )


@settings(deadline=None)
@given(
    st.text(
        alphabet=st.sampled_from("ab #*`-|>[]\n\t\x1b\x07\x9b\u202e1.本27x\u200d👩 "), max_size=120
    ),
    st.lists(st.integers(1, 9), max_size=60),
    st.integers(4, 50),
)
def test_output_contains_no_commands_and_every_row_fits(
    source: str, lengths: list[int], columns: int
) -> None:
    rows = plain(source, columns, tuple(lengths)).split("\n")

    assert not any(ACTS.search(row) for row in rows)
    assert all(cells(row) <= max(columns, 4) for row in rows)
    assert re.findall("[ax]", "".join(rows)) == re.findall("[ax]", source)


@given(st.lists(st.text()))
def test_a_file_gets_every_byte(pieces: list[str]) -> None:
    """This includes the end of an unfinished line."""
    flow = Untouched()
    said = "".join(pieces)

    written = "".join(map(flow.feed, pieces)) + flow.finish()

    assert written == said + ("" if said.endswith("\n") or not said else "\n")
