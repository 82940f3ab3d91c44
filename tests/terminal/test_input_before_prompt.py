"""Input typed before the terminal could edit the line."""

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
def test_keys_edit_the_line_and_are_echoed_as_by_a_terminal(
    begun: str, keys: bytes, text: str, shown: str
) -> None:
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
def test_unsupported_keys_are_dropped_without_the_following_text(line: bytes, text: str) -> None:
    assert typed_text(line) == text
