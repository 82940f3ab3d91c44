"""Width of text in terminal cells, and wrapping and cutting by width."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TypeAlias

ELLIPSIS = "…"
CONTINUED = "… "
"""Start of a row that continues the previous row."""

BETWEEN = " · "
"""Separator between two short texts on a row."""

_MIN_MIDDLE_CUT = 5  # minimum width in cells to show both ends of a text

_FIRST_REGIONAL = 0x1F1E6
_FLAG = "[\U0001f1e6-\U0001f1ff]{2}"
_FIRST_TONE = 0x1F3FB
_TONES_BEGIN = 2  # tones 1 and 2 of the Fitzpatrick scale look the same in emoji
_TONE = "[\U0001f3fb-\U0001f3ff]"

_JOINED = "[^\x00-\x7f][\ufe0e\ufe0f\U0001f3fb-\U0001f3ff]*(?:\u200d[^\x00-\x7f][\ufe0e\ufe0f\U0001f3fb-\U0001f3ff]*)+"
"""Characters connected with joiners, such as a family emoji."""
_CLUSTER = rf"{_FLAG}|{_JOINED}|[^\x00-\x7f]{_TONE}|."
_HAS_CLUSTERS = "[\u200d\U0001f1e6-\U0001f1ff\U0001f3fb-\U0001f3ff]"
_MAX_CLUSTER_SEARCH = (
    256  # maximum number of characters examined before the cursor to find the start of a cluster
)

_GLUE = "\u00a0"
"""Space at which rows are not wrapped. Untrusted text contains none, because it is escaped."""

Range: TypeAlias = tuple[int, int]
"""Start and end of a row within its line."""


@lru_cache(maxsize=4096)
def char_cells(char: str) -> int:
    """Return the width of a character in cells: 0 for combining marks, 2 for CJK and emoji."""
    from wcwidth import wcwidth  # imported here, because ASCII text does not need its tables

    return max(0, wcwidth(char))


def cells(text: str) -> int:
    """Return the width of `text` in cells.

    The width is the sum of the widths of the single characters, as terminals compute it.
    """
    return len(text) if text.isascii() else sum(map(char_cells, text))


def steady(text: str) -> str:
    """Replace emoji whose width differs between terminals.

    Flags become `⟨NL⟩`, and skin tones become `⟨tone 4⟩`. Joined emoji are not replaced.

    Escaped text contains these brackets only around code points, so no other text can look like a
    replacement.
    """
    if text.isascii():
        return text
    return re.sub(f"(?P<joined>{_JOINED})|(?P<flag>{_FLAG})|{_TONE}", _replacement, text)


def cluster_end(text: str, start: int) -> int:
    """Return the end of the cluster at `start`.

    A cluster is what a reader sees as one character, with its marks and joined characters.
    """
    found = re.compile(_CLUSTER, re.DOTALL).match(text, start)
    end = found.end() if found else start
    while end < len(text) and not text[end].isascii() and char_cells(text[end]) == 0:
        end += 1
    return end


def cluster_start(text: str, end: int) -> int:
    """Return the start of the cluster that ends at or contains `end`."""
    start = max(0, end - 1)
    while start > 0 and end - start < _MAX_CLUSTER_SEARCH and not text[start].isascii():
        start -= 1
    while (after := cluster_end(text, start)) < end:
        start = after
    return start


def clip(text: str, width: int) -> str:
    """Cut `text` to `width` cells with an ellipsis at the end."""
    if cells(text) <= width:
        return text
    return f"{_head(text, width - 1)}{ELLIPSIS}" if width > 0 else ""


def clip_start(text: str, width: int) -> str:
    """Cut `text` to its last `width` cells with an ellipsis at the start."""
    if cells(text) <= width:
        return text
    return f"{ELLIPSIS}{_head(text[::-1], width - 1)[::-1]}" if width > 0 else ""


def clip_middle(text: str, width: int) -> str:
    """Cut `text` to `width` cells by removing its middle, because similar names often differ at
    the end.
    """
    if cells(text) <= width or width < _MIN_MIDDLE_CUT:
        return clip(text, width)
    room = width - 1
    return f"{_head(text, room // 2)}{ELLIPSIS}{_head(text[::-1], room - room // 2)[::-1]}"


def cut_ranges(text: str, width: int) -> list[Range]:
    """Split a line into rows of at most `width` cells, even inside words.

    Used for code and for approved subjects.
    """
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
    """Yield the range of each cluster. Text without joined characters is split into characters."""
    if re.search(_HAS_CLUSTERS, text) is None:
        yield from ((at, at + 1) for at in range(len(text)))
        return
    start = 0
    while start < len(text):
        end = cluster_end(text, start)
        yield start, end
        start = end


def wrap_ranges(text: str, width: int) -> list[Range]:
    """Wrap a line at spaces into rows of at most `width` cells.

    Longer words are cut. The spaces between two rows belong to neither row.
    """
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
    """Split a line into rows, even inside words. Each row after the first leaves room for the
    continuation marker.
    """
    (start, end), *more = cut_ranges(text, width)
    if not more:
        return [(start, end)]
    rest = text[end:]
    return [
        (start, end),
        *(
            (end + first, end + last)
            for first, last in cut_ranges(rest, max(1, width - cells(CONTINUED)))
        ),
    ]


def continued_rows(text: str, width: int) -> list[str]:
    """Return the rows of `continued_ranges`. A marker shows that a row continues the row above."""
    (start, end), *more = continued_ranges(text, width)
    return [text[start:end], *(CONTINUED + text[first:last] for first, last in more)]


def continued_words(text: str, width: int) -> list[str]:
    """Return rows wrapped at spaces, with a marker before each row after the first."""
    (start, end), *more = wrap_ranges(text, width)
    if not more:
        return [text[start:end]]
    return [
        text[start:end],
        *(CONTINUED + row for row in wrap(text[more[0][0] :], max(1, width - cells(CONTINUED)))),
    ]


def wrap(text: str, width: int) -> list[str]:
    """Return the rows of `wrap_ranges`."""
    return [text[start:end] for start, end in wrap_ranges(text, width)]


def wrap_parts(parts: Sequence[str], width: int) -> list[str]:
    """Put short texts next to each other on as few rows as possible.

    A text is broken only if it is longer than a row.
    """
    rows: list[str] = []
    for part in parts:
        if rows and cells(f"{rows[-1]}{BETWEEN}{part}") <= width:
            rows[-1] += f"{BETWEEN}{part}"
        else:
            rows += wrap(part, width)
    return rows


def hang(text: str, width: int, indent: str) -> list[str]:
    """Wrap at spaces, with `indent` before each row after the first."""
    (_, end), *more = wrap_ranges(text, width)
    if not more:
        return [text[:end]]
    rest = text[more[0][0] :]
    return [text[:end], *(indent + row for row in wrap(rest, max(1, width - cells(indent))))]


def glued(text: str, width: int) -> str:
    """Replace the spaces in a short text with non-breaking spaces. `unglued` restores them.

    Text that is longer than a row is returned unchanged.
    """
    return text.replace(" ", _GLUE) if cells(text) <= width else text


def unglued(rows: Sequence[str]) -> list[str]:
    """Restore the spaces that `glued` replaced."""
    return [row.replace(_GLUE, " ") for row in rows]


def _replacement(found: re.Match[str]) -> str:
    if found["joined"]:
        return found[0]
    if found["flag"]:
        return f"⟨{''.join(chr(ord(letter) - _FIRST_REGIONAL + ord('A')) for letter in found[0])}⟩"
    return f"⟨tone {ord(found[0]) - _FIRST_TONE + _TONES_BEGIN}⟩"


def _head(text: str, width: int) -> str:
    """Return the longest start of `text` that fits into `width` cells."""
    if text.isascii():
        return text[:width]
    used = 0
    for index, char in enumerate(text):
        used += char_cells(char)
        if used > width:
            return text[:index]
    return text


def _words(text: str) -> Iterator[Range]:
    """Yield the range of each word with the spaces after it."""
    start = 0
    inside = True
    for index, char in enumerate(text):
        if char != " " and not inside:
            yield start, index
            start = index
        inside = char != " "
    yield start, len(text)
