"""A line that was begun before the terminal could edit it."""

from __future__ import annotations

import pytest

from midturn.terminal.lines import BegunLine, typed_text


@pytest.mark.parametrize(
    ("begun", "keys", "text", "shown"),
    [
        ("ab", b"c", "abc", "c"),
        ("ab", b"\x7f", "a", "\b \b"),
        ("ab", b"\b\b\b", "", "\b \b\b \b"),
        ("本", b"\x7f", "", "\b\b  \b\b"),
        ("e\u0301", b"\x7f", "", "\b \b"),
        ("", "ü".encode(), "ü", "ü"),
        ("one two ", b"\x17", "one ", "\b\b\b\b    \b\b\b\b"),
        ("one", b"\x15x", "x", "\b\b\b   \b\b\bx"),
        ("a\x1b", b"\x7f", "a", "\b\b  \b\b"),
        ("", b"\x1b[A", "\x1b[A", "^[[A"),
    ],
)
def test_keys_edit_it_and_are_shown_as_terminals_show_them(begun: str, keys: bytes, text: str, shown: str) -> None:
    line = BegunLine(begun.encode())
    drawn = "".join(line.press(keys[at : at + 1]) for at in range(len(keys)))

    assert (line.text, drawn) == (text, shown)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b"\x1b[Aa\x1b[1;5Cb\x1bOPc\x1b[[Ad\x1b[3~", "abcd"),
        (b"a\x1bb\x1b", "ab"),
        (b"\x1b[200~one\x1b[201~", "one"),
        (b"\x1b]11;rgb:0/0/0\x07a\x1b[?1;2cb", "ab"),
        (b"\x1b[hello", "[hello"),
    ],
)
def test_keys_that_mean_nothing_in_a_line_are_dropped_and_nothing_behind_them(line: bytes, text: str) -> None:
    assert typed_text(line) == text
