"""On terminals that show only ASCII, different texts are also displayed differently."""

from __future__ import annotations

import re
from itertools import combinations

import pytest
from hypothesis import given, settings, strategies as st

from midturn.question.text import exact
from midturn.terminal.ascii import as_ascii, ascii_frame
from midturn.terminal.prompts.keys import code_line, one_line
from midturn.terminal.prompts.rich.screen import POINTER, Frame, Size, Span, row_cells, row_text

ALIKE = [
    *(
        "café",
        r"caf\xe9",
        r"caf\x5cxe9",
        "cafe\u0301",
        "echo a\tb",
        "echo a>  b",
        r"echo a\x09b",
        "echo a⇥  b",
        r"echo a\tb",
    ),
    *(
        "a│b",
        "a|b",
        "a|~b",
        "a…",
        "a~",
        "a.~",
        "a...",
        "wait·",
        "wait-",
        "wait-~",
        "wait^",
        "wait↑",
        "wait^~",
        "↓",
        "v",
        "v~",
    ),
    *(
        "a\u202eb",
        r"a\u202eb",
        "a<U+202E>b",
        "a⟨U+202E⟩b",
        "🇳🇱",
        "<NL>",
        "⟨NL⟩",
        "👍",
        r"\U0001f44d",
        "👍🏽",
        "a\nb",
        r"a\x0ab",
        "a⏎b",
    ),
    *("\u0430", "a", r"\u0430", "\uff41", "😀", "]~"),
]
_LOOKALIKES = {
    f"{alike}~": sign for sign, alike in zip(f"{POINTER[0]}│·…↑↓⇥⏎⟨⟩", "}|-.^v]<()", strict=True)
}


@pytest.mark.parametrize("show", [one_line, code_line, exact])
def test_similar_texts_are_displayed_differently(show: object) -> None:
    assert callable(show)
    for one, other in combinations(ALIKE, 2):
        assert as_ascii(f"> {show(one)}") != as_ascii(f"> {show(other)}"), (one, other)


def read_back(shown: str) -> str:
    def character(found: re.Match[str]) -> str:
        return _LOOKALIKES.get(found[0]) or chr(int(found[0][2:], 16))  # noqa: FURB166

    return re.sub(r"\\x[0-9a-f]{2}|\\u[0-9a-f]{4}|\\U[0-9a-f]{8}|[|}\-.^v\]<()]~", character, shown)


@settings(max_examples=300, deadline=None)
@given(
    st.text(st.sampled_from("abx0123456789\\uU |}-.^v]<()~│·…↑↓⇥⏎⟨⟩é\u202e漢\t\n😀"), max_size=24)
)
def test_displayed_text_can_be_decoded(text: str) -> None:
    shown = as_ascii(f"> {exact(text)}")

    assert shown.isascii()
    assert read_back(shown) == f"> {text}"


def test_symbols_of_the_interface_are_ascii_at_the_start_of_a_row() -> None:
    assert (
        as_ascii(f"│ deploy asks:\n\x1b[1m{POINTER}yes\n· deploy\n  ↑↓ scrolls")
        == "| deploy asks:\n\x1b[1m> yes\n- deploy\n  ^~v~ scrolls"
    )


def test_live_rows_know_their_width_in_ascii() -> None:
    keys = (
        Span("y", "key"),
        Span(" yes", "dim"),
        Span(" · ", "dim"),
        Span("p", "key"),
        Span(" no, because…", "dim"),
    )
    typed = (Span(POINTER, "pointer"), Span("né·e"))
    frame = ascii_frame(Frame((keys, typed), (1, 5)), Size(24, 5))

    assert [row_text(spans) for spans in frame.rows] == ["y yes - p no, because.", r"> n\xe9-~e"]
    assert frame.cursor == (1, len(r"> n\xe9-~"))
    assert all(
        row_cells(spans) <= 8 for spans in ascii_frame(Frame((keys, typed)), Size(8, 5)).rows
    )
