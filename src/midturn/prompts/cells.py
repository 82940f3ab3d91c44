"""Text in terminal cells: how wide it is, how it is wrapped and cut."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import wcwidth

ELLIPSIS = "…"


@lru_cache(maxsize=4096)
def char_cells(char: str) -> int:
    """Return how many cells one character takes: 0 for marks, 2 for CJK and emoji."""
    return max(0, wcwidth.wcwidth(char))


def cells(text: str) -> int:
    """Return how many cells `text` takes, character by character, as a terminal adds them up."""
    return len(text) if text.isascii() else sum(map(char_cells, text))


def clip(text: str, width: int) -> str:
    """Cut `text` to `width` cells; what was cut ends in an ellipsis."""
    if cells(text) <= width:
        return text
    return f"{_head(text, max(0, width - 1))}{ELLIPSIS}"[: max(0, width)]


def cut_rows(text: str, width: int) -> list[str]:
    """Break one line into rows of at most `width` cells, every character kept: for code and for what is approved."""
    rows: list[str] = []
    rest = text
    while cells(rest) > width:
        head = _head(rest, width) or rest[:1]
        rows.append(head)
        rest = rest[len(head) :]
    return [*rows, rest]


def wrap(text: str, width: int) -> list[str]:
    """Break one line at spaces into rows of at most `width` cells; a word that is longer is cut."""
    if cells(text) <= width:
        return [text]
    rows: list[str] = []
    row = ""
    for word in _words(text):
        if row and cells(row) + cells(word.rstrip(" ")) > width:
            rows.append(row.rstrip(" "))
            row = ""
        *full, row = cut_rows(row + word, width) if cells((row + word).rstrip(" ")) > width else [row + word]
        rows.extend(full)
    return [*rows, row.rstrip(" ")]


def hang(text: str, width: int, indent: str) -> list[str]:
    """Wrap, with every row after the first behind `indent`, so that no continuation begins at the edge of the screen."""
    first, *more = wrap(text, width)
    if not more:
        return [first]
    rest = text[len(first) :].lstrip(" ")
    return [first, *(indent + row for row in wrap(rest, max(1, width - cells(indent))))]


def _head(text: str, width: int) -> str:
    """Return the longest beginning of `text` that fits into `width` cells."""
    if text.isascii():
        return text[:width]
    used = 0
    for index, char in enumerate(text):
        used += char_cells(char)
        if used > width:
            return text[:index]
    return text


def _words(text: str) -> Iterator[str]:
    """Yield each word with the spaces after it."""
    start = 0
    inside = True
    for index, char in enumerate(text):
        if char != " " and not inside:
            yield text[start:index]
            start = index
        inside = char != " "
    yield text[start:]
