r"""Reversible conversion of text for ASCII-only terminals.

A non-ASCII character becomes `\xe9`, `\u202e` or `\U0001f600`. If the text itself contains such a
code, its backslash becomes `\x5c`. The symbols that midturn itself draws become similar ASCII
characters, followed by a tilde except at the start of a row.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from re import Match
from typing import Final

from midturn.terminal.prompts.cells import BETWEEN, cells
from midturn.terminal.prompts.rich.screen import (
    POINTER,
    Frame,
    Row,
    Size,
    Span,
    clipped,
    row_text,
    sliced,
)

_ALIKE: Final = dict(zip(f"{POINTER[0]}│·…↑↓⇥⏎⟨⟩", "}|-.^v]<()", strict=True))
_ONE_CELL: Final = str.maketrans("·…↑↓", "-.^v")
_FIRST: Final = rf"(?P<first>(?:^|(?<=\n))(?:\x1b\[[0-9;?]*[A-Za-z]|[ \r])*[{POINTER[0]}│·])"
_PATTERN: Final = (
    rf"{_FIRST}|⟨U\+(?P<code>[0-9A-F]{{4,6}})⟩|(?P<sign>[{''.join(_ALIKE)}])"
    r"|(?P<backslash>\\(?=x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}))|(?P<alike>[|}\-.^v\]<()](?=~))"
)


def as_ascii(text: str) -> str:
    """Return the text in ASCII, in a form from which the original can be reconstructed."""
    return re.sub(_PATTERN, _written, text).encode("ascii", "backslashreplace").decode("ascii")


def ascii_frame(frame: Frame, size: Size) -> Frame:
    """Return a frame in ASCII, with each row cut at the window's width.

    The rows are converted before they are drawn, because the conversion changes their width.
    """
    at, column = frame.cursor
    if at < len(frame.rows):
        column = len(
            row_text(
                ascii_row(
                    sliced(frame.rows[at], (0, _character_at(row_text(frame.rows[at]), column)))
                )
            )
        )
    rows = tuple(clipped(ascii_row(spans), size.columns) for spans in frame.rows)
    return Frame(tuple(map(_plain, rows)), (at, min(column, size.columns - 1)))


def ascii_row(spans: Row) -> Row:
    """Return a row in ASCII.

    Separators between keys, and arrows in key names, get no tilde, because they are never untrusted
    text.
    """
    return tuple(_written_spans(spans))


def _written_spans(spans: Row) -> Iterable[Span]:
    before = ""
    for place, span in enumerate(spans):
        ours = (
            span.text == BETWEEN or span.style == "key" or (span.style == "dim" and before == "key")
        )
        text = span.text.translate(_ONE_CELL) if ours else span.text
        yield Span(as_ascii(text) if place == 0 else as_ascii(f" x{text}")[2:], span.style)
        before = span.style


def _plain(spans: Row) -> Row:
    """Replace the ellipsis at the end of a cut row."""
    return tuple(Span(span.text.translate(_ONE_CELL), span.style) for span in spans)


def _character_at(text: str, column: int) -> int:
    """Return the index of the character at a column."""
    for place in range(len(text)):
        if cells(text[: place + 1]) > column:
            return place
    return len(text)


def _written(found: Match[str]) -> str:
    if first := found["first"]:
        return first[:-1] + (">" if first[-1] == POINTER[0] else _ALIKE[first[-1]])
    if code := found["code"]:
        return _escaped(int(code, 16))
    if sign := found["sign"]:
        return f"{_ALIKE[sign]}~"
    return _escaped(ord(found[0]))


def _escaped(code: int) -> str:
    return (
        f"\\x{code:02x}"
        if code < 1 << 8
        else f"\\u{code:04x}"
        if code < 1 << 16
        else f"\\U{code:08x}"
    )
