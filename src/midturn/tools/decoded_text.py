"""Decoded views of a text: what it says without the escapes of JSON, HTML and URLs, and without line breaks.

Each view knows which part of the original text a part of it comes from. A view is made only if the text has escapes of its kind, and
in time proportional to the length of the text. At most `_CHAINS` views are made.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Final

_JSON: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|([\"\\/bfnrt']))")
_JSON_NAMED: Final = dict(zip("\"\\/bfnrt'", "\"\\/\b\f\n\r\t'", strict=True))
_ESCAPE: Final = re.compile(r"(?<!\\)\\+(?:u([0-9A-Fa-f]{4})|u\{([0-9A-Fa-f]{1,6})\}|U([0-9A-Fa-f]{8})|x([0-9A-Fa-f]{2}))")
_ENTITY: Final = re.compile(r"&(?:#[0-9]{1,10}|#[xX][0-9A-Fa-f]{1,8}|[A-Za-z][A-Za-z0-9]{1,31});")
_PERCENT: Final = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_BREAK: Final = re.compile(r"\\?\r?\n[ \t]*|(?<!\\)\\+[rn]")
_MAX_CODE: Final = 0x10FFFF


class DecodedText:
    """A decoded text. `span` returns the part of the original that a part of it comes from."""

    def __init__(self, text: str, pieces: list[tuple[int, int, int]], source: DecodedText | None = None) -> None:
        """Make a view of pieces: where each begins here, where in the source, and where it ends there (0: as long as it is here)."""
        self.text = text
        self._pieces = pieces
        self._starts = [start for start, _, _ in pieces]
        self._source = source

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the part of the original text that a part of this view comes from."""
        if not self._pieces:
            return start, end
        first, _ = self._at(start)
        _, last = self._at(end - 1)
        return self._source.span(first, last) if self._source else (first, last)

    def _at(self, position: int) -> tuple[int, int]:
        begins, source, source_end = self._pieces[bisect_right(self._starts, position) - 1]
        at = source + position - begins
        return (source, source_end) if source_end else (at, at + 1)


def _replaced(
    view: DecodedText, pattern: re.Pattern[str], decode: Callable[[re.Match[str]], Iterator[tuple[str, int, int]]]
) -> DecodedText | None:
    """Return a view in which each match is what `decode` makes of it: texts with their places in the source. None if nothing matches."""
    texts: list[str] = []
    pieces: list[tuple[int, int, int]] = []
    at = length = 0
    for found in pattern.finditer(view.text):
        if found.start() > at:
            texts.append(view.text[at : found.start()])
            pieces.append((length, at, 0))
            length += len(texts[-1])
        for decoded, start, end in decode(found):
            if decoded:
                texts.append(decoded)
                pieces.append((length, start, end))
                length += len(decoded)
        at = found.end()
    if not at:
        return None
    if at < len(view.text):
        texts.append(view.text[at:])
        pieces.append((length, at, 0))
    return DecodedText("".join(texts), pieces or [(0, 0, 0)], view)


def _character(code: int) -> str:
    return chr(code) if code <= _MAX_CODE else ""


def _json(found: re.Match[str]) -> Iterator[tuple[str, int, int]]:
    yield _character(int(found[1], 16)) if found[1] else _JSON_NAMED[found[2]], found.start(), found.end()


def _escape(found: re.Match[str]) -> Iterator[tuple[str, int, int]]:
    digits = next(filter(None, found.groups()))
    yield _character(int(digits, 16)), found.start(), found.end()


def _entity(found: re.Match[str]) -> Iterator[tuple[str, int, int]]:
    yield html.unescape(found[0]), found.start(), found.end()


def _percent(found: re.Match[str]) -> Iterator[tuple[str, int, int]]:
    start = found.start()
    for character in bytes.fromhex(found[0].replace("%", "")).decode("utf-8", "surrogateescape"):
        end = start + 3 * len(character.encode("utf-8", "surrogateescape"))
        yield character, start, end
        start = end


def _nothing(_: re.Match[str]) -> Iterator[tuple[str, int, int]]:
    yield from ()


_KINDS: Final = {
    "json": (_JSON, _json, "\\"),
    "escape": (_ESCAPE, _escape, "\\"),
    "entity": (_ENTITY, _entity, "&"),
    "percent": (_PERCENT, _percent, "%"),
}
_CHAINS: Final = (
    ("json",),
    ("escape",),
    ("entity",),
    ("percent",),
    ("json", "json"),
    ("json", "entity"),
    ("json", "percent"),
    ("entity", "entity"),
    ("entity", "percent"),
    ("percent", "percent"),
)


def views(text: str) -> list[DecodedText]:
    """Return the text as it is, and its decoded views: JSON (twice, as in JSON within JSON), other escapes, HTML, URLs."""
    made: dict[tuple[str, ...], DecodedText | None] = {(): DecodedText(text, [])}
    for chain in _CHAINS:
        source = made[chain[:-1]]
        pattern, decode, sign = _KINDS[chain[-1]]
        made[chain] = _replaced(source, pattern, decode) if source is not None and sign in source.text else None
    return [view for view in made.values() if view is not None]


def without_breaks(view: DecodedText) -> DecodedText | None:
    """Return a view without line breaks, also those written as escapes, and the blanks after them; None if there are none."""
    return _replaced(view, _BREAK, _nothing)


def unbroken(text: str) -> str:
    """Return a text without line breaks, as `without_breaks` has it."""
    return _BREAK.sub("", text)
