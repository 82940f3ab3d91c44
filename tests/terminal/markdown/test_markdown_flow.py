"""Markdown is displayed row by row while it is received."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings, strategies as st

from midturn.terminal.markdown.layout import ASCII
from midturn.terminal.prompts.cells import cells
from support.streamed_markdown import SGR, Streamed, in_pieces, seen

ACTS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u2028\u202a-\u202e\u2066-\u2069]")
PARAGRAPH = "one two three four five six seven eight nine ten"


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("# Title", "Title\n"),
        ("Title\n=====\ntext", "Title\n\ntext\n"),
        ("some *words* **here** `now`", "some words here now\n"),
        ("one\ntwo  \nthree", "one two\nthree\n"),
        ("- one\n- two", "• one\n• two\n"),
        ("- one\n\n- two", "• one\n\n• two\n"),
        ("7. one\n8. two\n   - in\n     1) deep", "7. one\n8. two\n   • in\n     1) deep\n"),
        ("text:\n- one", "text:\n• one\n"),
        ("> said\n>\n> again", "▌ said\n▌\n▌ again\n"),
        ("```py\nx = 1\n\n\ty = 2\n```\nafter", "    x = 1\n\n        y = 2\n\nafter\n"),
        ("a\n\n---\n\nb", f"a\n\n{'─' * 79}\n\nb\n"),
        ("| a | b |\n|--:|:-:|\n| 1 | 22 |\n| 333 | 4 |", "  a  b\n───  ──\n  1  22\n333  4\n"),
        ("Vec<T> & <b>text</b> <!-- seen -->", "Vec<T> & <b>text</b> <!-- seen -->\n"),
        ("R&amp;D &lt;3", "R&D <3\n"),
        ("[text](http://example.com/real)", "text (http://example.com/real)\n"),
        (
            "<http://example.com> [http://example.com](http://example.com)",
            "http://example.com http://example.com\n",
        ),
        ("![plan](plan.png)", "[image: plan] (plan.png)\n"),
        ("an ~~old~~ text", "an old text\n"),
        (
            "a [/b] [red] [link=file:///etc/passwd] :smile:",
            "a [/b] [red] [link=file:///etc/passwd] :smile:\n",
        ),
        ("[a][b]\n\n[b]: http://example.com", "[a][b]\n\n[b]: http://example.com\n"),
        ("[x](javascript:alert)", "[x](javascript:alert)\n"),
        ("1. ", "1.\n"),
        ("", ""),
        ("\n\n", ""),
    ],
)
def test_markdown_is_laid_out(source: str, shown: str) -> None:
    """Nothing is left out. HTML, definitions and console markup are shown as text.

    Links show their address.
    """
    assert seen(source) == shown


def test_colours_are_those_of_the_theme() -> None:
    raw = (
        Streamed()
        .feed("# T\n**b** *e* `c` [l](u)\n\n```py\nreturn 'x'  # y\n```\n> q")
        .finish()
        .raw
    )

    assert set(SGR.findall(raw)) <= {
        f"\x1b[{codes}m" for codes in ("0", "1;4", "1", "3", "33", "4;36", "90", "35", "32")
    }


def test_a_safe_link_can_be_opened_and_shows_its_address() -> None:
    """Only https links are made, without characters that a terminal could interpret."""
    raw = Streamed().feed("[text](https://example.com/a?b)").finish().raw
    assert "\x1b]8;;https://example.com/a?b\x1b\\" in raw
    assert raw.count("\x1b]8;;\x1b\\") == 1
    assert "(https://example.com/a?b)" in raw

    for target in ("http://example.com", "file:///etc/passwd", "mailto:a@b.c"):
        assert "\x1b]8" not in Streamed().feed(f"[text](<{target}>)").finish().raw
    for target in (
        "https://example.com/\x1b]0;x\x07",
        "https://exämple.com",
        "https://a b.c/\u202e",
    ):
        raw = Streamed().feed(f"[text](<{target}>)").finish().raw
        assert all(
            re.fullmatch("https://[!-~]+", found)
            for found in re.findall(r"\x1b]8;;([^\x1b]+)", raw)
        )
        assert not ACTS.search(SGR.sub("", re.sub(r"\x1b]8;;[!-~]*\x1b\\", "", raw)))


def test_ascii_mode_uses_only_ascii() -> None:
    shown = Streamed(20, glyphs=ASCII).feed("- a\n\n> b\n\n---").finish().seen

    assert shown == f"- a\n\n> b\n\n{'-' * 19}\n"


def test_a_block_is_shown_when_it_is_complete() -> None:
    streamed = Streamed().feed("# Title\n")
    assert streamed.rows == ["Title"]

    streamed.feed("short words\n")
    assert streamed.rows == ["Title"]

    streamed.feed("\n")
    assert streamed.rows == ["Title", "", "short words"]

    streamed.feed("- one\n")
    assert streamed.rows == ["Title", "", "short words"]

    streamed.feed("- two\n")
    assert streamed.rows[-1] == "• one"


def test_code_is_shown_line_by_line() -> None:
    streamed = Streamed().feed("```\n", "one\n", "tw")

    assert streamed.rows == ["    one"]


def test_a_paragraph_is_shown_when_it_is_closed() -> None:
    """An empty line or the start of another block closes it."""
    streamed = Streamed(25).feed(*(f"{word} " for word in f"{PARAGRAPH} eleven".split()))
    assert streamed.rows == []

    streamed.feed("\n")
    assert streamed.rows == []

    streamed.feed("```\n")
    assert streamed.rows == ["one two three four five", "six seven eight nine ten", "eleven"]


def test_incomplete_blocks_are_shown_at_the_end() -> None:
    streamed = Streamed(40).feed(*["x" * 100] * 50)

    assert streamed.rows == []
    assert streamed.finish().seen.replace("\n", "") == "x" * 5_000


def test_a_too_wide_table_wraps_in_its_columns() -> None:
    shown = seen("| name | what it is for |\n|---|---|\n| alpha | the first of all letters |", 24)

    assert (
        shown == "name   what it is for\n─────  ────────────────\nalpha  the first of all\n      "
        " letters\n"
    )


def test_a_table_without_room_becomes_lines() -> None:
    head = "|".join(f"h{number}" for number in range(8))
    shown = seen(f"{head}\n{'|'.join(['---'] * 8)}\n{'|'.join('values' for _ in range(8))}", 24)

    assert shown.split("\n")[:2] == ["h0: values", "h1: values"]


def test_wide_characters_are_measured() -> None:
    rows = Streamed(20).feed("本番環境は全員で共有しています 🚀 and more").finish().rows

    assert all(cells(row) <= 20 for row in rows)
    assert "".join(rows).replace(" ", "") == "本番環境は全員で共有しています🚀andmore"


def test_an_emoji_sequence_is_not_split() -> None:
    assert seen("a 👨\u200d👩\u200d👧 b ❤\ufe0f") == "a 👨\u200d👩\u200d👧 b ❤\ufe0f\n"


def test_all_line_endings_are_supported() -> None:
    assert seen("# a\r\n\r\nb\r\n") == "a\n\nb\n"
    assert Streamed().feed("# a\r", "\nb").finish().seen == "a\n\nb\n"
    assert seen("over\rwritten") == "over␍written\n"


def test_the_width_can_change_between_blocks() -> None:
    streamed = Streamed(80).feed(f"{PARAGRAPH}\n\n# first\n")
    streamed.columns = 30

    rows = streamed.feed("# next\n", PARAGRAPH).finish().rows

    assert rows[0] == PARAGRAPH
    assert all(len(row) < 30 for row in rows[1:])
    assert " ".join(row for row in rows if row) == f"{PARAGRAPH} first next {PARAGRAPH}"


@pytest.mark.parametrize(
    "deep", [">" * 500 + " said", "- " * 300 + "said", "[" * 3_000, "*a **b " * 400, "`" * 999]
)
def test_markdown_that_cannot_be_laid_out_is_still_shown(deep: str) -> None:
    shown = Streamed(40).feed(*in_pieces(deep, [7] * 60)).finish().seen

    assert re.findall("[a-z]", shown) == re.findall("[a-z]", deep)


@pytest.mark.parametrize("row", ["│ fake", "| fake", "· deploy: ok", "~ thought", "midturn: done"])
def test_no_row_imitates_a_row_of_the_interface(row: str) -> None:
    """No row starts with the gutter of a prompt, the sign of a tool, or a notice."""
    for source in (row, f"text\n\n{row}", f"{'x' * 39} {row}", f"# {row}", f"`{row}`"):
        rows = [shown for shown in Streamed(40).feed(source).finish().rows if shown]

        assert not any(shown.startswith(row[:2]) for shown in rows)
        assert any(shown.startswith(f" {row[:2]}") for shown in rows)


HOSTILE = [
    "a\x1b[31mred\x1b]0;title\x07",
    "&#27;[31mred &#x1b;]0;title&#7; &#x202e;",
    "`code\x1b[2J\x9b2J`",
    "```\x1b]0;x\x07\ncode\x9b2J\u202e\n```",
    "```py\x1b\nx = '\x1b[31m'\n```",
    '[link](http://e\x1b[31m.com) [b](http://x.y/&#x202e;z "ti\u202etle")',
    "[a](javascript:alert(1) '\u202e')",
    "| a\u202e |\n|---|\n| \x1b[8mb |",
    "# t\u200bitle\ud800",
    "![\x1b[31m](\u202ex)",
    "<http://e\x1b.com>",
    "\x1b]8;;http://evil\x1b\\shown\x1b]8;;\x1b\\",
    "1. \x07\n   > \x85 \u2028",
]


@pytest.mark.parametrize("source", HOSTILE)
@pytest.mark.parametrize("length", [1, 1_000])
def test_output_contains_no_terminal_commands(source: str, length: int) -> None:
    shown = Streamed(40).feed(*in_pieces(source, [length] * 200)).finish().seen

    assert ACTS.search(shown) is None
    assert "⟨U+" in shown or "%" in shown or "\ufffd" in shown or "javascript" in shown


_MARKUP = st.sampled_from(
    [
        *(
            "**",
            "*",
            "_",
            "`",
            "```",
            "~~~\n",
            "\n",
            "\n\n",
            "- ",
            "1. ",
            "> ",
            "# ",
            "    ",
            "\t",
            "[l](http://e.x)",
            "[",
            "](",
            "<b>",
        ),
        *(
            "&amp;",
            "&#x202e;",
            "\\",
            "\x1b[31m",
            "\u202e",
            "本番",
            "👨\u200d👩",
            "---\n",
            "===\n",
            "│ ",
            "\r",
            "\r\n",
            "\x00",
            "\x85",
            "+ ",
        ),
        *("word", "word ", "several words here ", "| a | b |\n", "|---|---|\n", "w" * 30),
    ]
)
_SOURCES = st.lists(_MARKUP, max_size=40).map("".join)
_LENGTHS = st.lists(st.sampled_from([1, 2, 5, 20]), max_size=80)


@settings(deadline=None, max_examples=150)
@given(_SOURCES, _LENGTHS, st.sampled_from([12, 40, 80]))
def test_for_any_input_only_colour_sequences_are_written_and_rows_fit(
    source: str, lengths: list[int], columns: int
) -> None:
    rows = Streamed(columns).feed(*in_pieces(source, lengths)).finish().rows

    assert not any(ACTS.search(row) for row in rows)
    assert all(cells(row) <= max(columns, 24) for row in rows)


@settings(deadline=None, max_examples=150)
@given(
    st.lists(
        st.sampled_from(
            [
                "**",
                "*",
                "`",
                "\n",
                "\n\n",
                "- ",
                "> ",
                "# ",
                "1. ",
                " ",
                "```\n",
                "    ",
                "<b>",
                "[",
                "]",
            ]
        ),
        max_size=60,
    ),
    _LENGTHS,
)
def test_every_word_is_shown_exactly_once(markup: list[str], lengths: list[int]) -> None:
    source = "".join(f"{sign}w{number} " for number, sign in enumerate(markup))
    names = re.findall(
        r"```[^\n]*(w\d+)[^`\n]*\n", source
    )  # a fence is followed by the name of its language

    wide = 1_000  # code is cut at the end of a row, even within a word
    shown = re.findall(r"w\d+", Streamed(wide).feed(*in_pieces(source, lengths)).finish().seen)

    assert [word for word in shown if word not in names] == [
        word for word in re.findall(r"w\d+", source) if word not in names
    ]


@settings(deadline=None, max_examples=150)
@given(
    st.lists(
        st.sampled_from(
            [
                "**a b**",
                "`c d`",
                "words and words ",
                "\n\n",
                "\n- ",
                "\n> ",
                "\n# ",
                "\n```\n",
                "本番 ",
                "[l](http://e.x) ",
            ]
        )
    ),
    _LENGTHS,
)
def test_the_output_does_not_depend_on_the_chunks(markup: list[str], lengths: list[int]) -> None:
    source = " ".join(markup)

    assert Streamed(40, pace=0).feed(*in_pieces(source, lengths)).finish().seen == seen(source, 40)
