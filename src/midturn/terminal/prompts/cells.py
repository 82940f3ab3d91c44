"""Text in terminal cells: how wide it is, how it is wrapped and cut."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TypeAlias

ELLIPSIS = "…"
CONTINUED = "… "
"""Start of a row that continues the one above it."""

BETWEEN = " · "
"""Separator of two short texts in a row."""

_BOTH_ENDS = 5  # cells that show something of both

_FIRST_REGIONAL = 0x1F1E6
_FLAG = "[\U0001f1e6-\U0001f1ff]{2}"
_FIRST_TONE = 0x1F3FB
_TONES_BEGIN = 2  # tones 1 and 2 of the scale that they are named for have one picture
_TONE = "[\U0001f3fb-\U0001f3ff]"

_JOINED = "[^\x00-\x7f][\ufe0e\ufe0f\U0001f3fb-\U0001f3ff]*(?:\u200d[^\x00-\x7f][\ufe0e\ufe0f\U0001f3fb-\U0001f3ff]*)+"
"""Signs with a joiner between them, such as a family of emoji."""
_CLUSTER = rf"{_FLAG}|{_JOINED}|[^\x00-\x7f]{_TONE}|."
_HAS_CLUSTERS = "[\u200d\U0001f1e6-\U0001f1ff\U0001f3fb-\U0001f3ff]"
_LONGEST_RUN = 256  # characters before the cursor that are looked at to find where a cluster begins

_GLUE = "\u00a0"
"""A space at which no row is broken; in text from outside there is none, because the sink shows it as a code."""

Range: TypeAlias = tuple[int, int]
"""Start and end of a row in its line."""


@lru_cache(maxsize=4096)
def char_cells(char: str) -> int:
    """Return how many cells one character takes: 0 for marks, 2 for CJK and emoji."""
    from wcwidth import wcwidth  # plain text does without its tables

    return max(0, wcwidth(char))


def cells(text: str) -> int:
    """Return how many cells `text` takes, character by character, as a terminal adds them up."""
    return len(text) if text.isascii() else sum(map(char_cells, text))


def steady(text: str) -> str:
    """Replace the emoji whose width terminals disagree about: flags become `⟨NL⟩`, skin tones `⟨tone 4⟩`. Joined emoji stay whole.

    In a text that passed the sink there is no such bracket but around a code, so that no other text looks like them.
    """
    if text.isascii():
        return text
    return re.sub(f"(?P<joined>{_JOINED})|(?P<flag>{_FLAG})|{_TONE}", _steadied, text)


def cluster_end(text: str, start: int) -> int:
    """Return the end of the cluster at `start`: what a person takes for one character, with its marks and what is joined to it."""
    found = re.compile(_CLUSTER, re.DOTALL).match(text, start)
    end = found.end() if found else start
    while end < len(text) and not text[end].isascii() and char_cells(text[end]) == 0:
        end += 1
    return end


def cluster_start(text: str, end: int) -> int:
    """Return the beginning of the cluster that ends at `end`, or that `end` is inside of."""
    start = max(0, end - 1)
    while start > 0 and end - start < _LONGEST_RUN and not text[start].isascii():
        start -= 1
    while (after := cluster_end(text, start)) < end:
        start = after
    return start


def clip(text: str, width: int) -> str:
    """Cut `text` to `width` cells; what was cut ends in an ellipsis."""
    if cells(text) <= width:
        return text
    return f"{_head(text, width - 1)}{ELLIPSIS}" if width > 0 else ""


def clip_start(text: str, width: int) -> str:
    """Cut `text` to its last `width` cells; what was cut begins with an ellipsis."""
    if cells(text) <= width:
        return text
    return f"{ELLIPSIS}{_head(text[::-1], width - 1)[::-1]}" if width > 0 else ""


def clip_middle(text: str, width: int) -> str:
    """Cut `text` to `width` cells in its middle: names that begin alike differ at their end."""
    if cells(text) <= width or width < _BOTH_ENDS:
        return clip(text, width)
    room = width - 1
    return f"{_head(text, room // 2)}{ELLIPSIS}{_head(text[::-1], room - room // 2)[::-1]}"


def cut_ranges(text: str, width: int) -> list[Range]:
    """Break one line into rows of at most `width` cells, every character kept: for code and for what is approved."""
    width = max(1, width)
    if text.isascii():
        return [(start, min(start + width, len(text))) for start in range(0, len(text) or 1, width)]
    ranges: list[Range] = []
    start = used = 0
    for index, after in _clusters(text):
        taken = cells(text[index:after])
        if used + taken > width and index > start:
            ranges.append((start, index))
            start, used = index, 0
        used += taken
    return [*ranges, (start, len(text))]


def _clusters(text: str) -> Iterator[Range]:
    """Yield where each cluster begins and ends; of a text without joined signs, where each character does."""
    if re.search(_HAS_CLUSTERS, text) is None:
        yield from ((at, at + 1) for at in range(len(text)))
        return
    start = 0
    while start < len(text):
        end = cluster_end(text, start)
        yield start, end
        start = end


def wrap_ranges(text: str, width: int) -> list[Range]:
    """Break one line at spaces into rows of at most `width` cells; a word that is longer is cut. Spaces at a break belong to no row."""
    width = max(1, width)
    ranges: list[Range] = []
    start = end = 0
    for word_start, word_end in _words(text):
        if end > start and cells(text[start:word_end].rstrip(" ")) > width:
            ranges.append((start, end))
            start = word_start
        end = start + len(text[start:word_end].rstrip(" "))
        if cells(text[start:end]) > width:
            *full, (last, _) = cut_ranges(text[start:end], width)
            ranges.extend((start + first, start + after) for first, after in full)
            start += last
    return [*ranges, (start, max(start, end))]


def continued_ranges(text: str, width: int) -> list[Range]:
    """Break one line with every character kept, with room before all rows but the first for the sign that they continue it."""
    (start, end), *more = cut_ranges(text, width)
    if not more:
        return [(start, end)]
    rest = text[end:]
    return [(start, end), *((end + first, end + last) for first, last in cut_ranges(rest, max(1, width - cells(CONTINUED))))]


def continued_rows(text: str, width: int) -> list[str]:
    """Return the rows of `continued_ranges`: no row that continues another can be taken for a line of its own."""
    (start, end), *more = continued_ranges(text, width)
    return [text[start:end], *(CONTINUED + text[first:last] for first, last in more)]


def continued_words(text: str, width: int) -> list[str]:
    """Return rows broken at spaces, those that continue the first one behind the sign that they do."""
    (start, end), *more = wrap_ranges(text, width)
    if not more:
        return [text[start:end]]
    return [text[start:end], *(CONTINUED + row for row in wrap(text[more[0][0] :], max(1, width - cells(CONTINUED))))]


def wrap(text: str, width: int) -> list[str]:
    """Return the rows of `wrap_ranges`."""
    return [text[start:end] for start, end in wrap_ranges(text, width)]


def wrap_parts(parts: Sequence[str], width: int) -> list[str]:
    """Put short texts side by side, in as many rows as they need. A row breaks between two of them, inside one only if it is too long."""
    rows: list[str] = []
    for part in parts:
        if rows and cells(f"{rows[-1]}{BETWEEN}{part}") <= width:
            rows[-1] += f"{BETWEEN}{part}"
        else:
            rows += wrap(part, width)
    return rows


def hang(text: str, width: int, indent: str) -> list[str]:
    """Wrap, with every row after the first behind `indent`, so that no continuation begins at the edge of the screen."""
    (_, end), *more = wrap_ranges(text, width)
    if not more:
        return [text[:end]]
    rest = text[more[0][0] :]
    return [text[:end], *(indent + row for row in wrap(rest, max(1, width - cells(indent))))]


def glued(text: str, width: int) -> str:
    """Let no row end inside a short text, until `unglued`; one that is longer than a row is broken like any other."""
    return text.replace(" ", _GLUE) if cells(text) <= width else text


def unglued(rows: Sequence[str]) -> list[str]:
    """Return rows that were wrapped with `glued` texts in them."""
    return [row.replace(_GLUE, " ") for row in rows]


def _steadied(found: re.Match[str]) -> str:
    if found["joined"]:
        return found[0]
    if found["flag"]:
        return f"⟨{''.join(chr(ord(letter) - _FIRST_REGIONAL + ord('A')) for letter in found[0])}⟩"
    return f"⟨tone {ord(found[0]) - _FIRST_TONE + _TONES_BEGIN}⟩"


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


def _words(text: str) -> Iterator[Range]:
    """Yield where each word begins and ends, the spaces after it included."""
    start = 0
    inside = True
    for index, char in enumerate(text):
        if char != " " and not inside:
            yield start, index
            start = index
        inside = char != " "
    yield start, len(text)
