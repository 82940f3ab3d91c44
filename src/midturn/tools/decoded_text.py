"""Decoded views of text. In a view, the escapes of JSON, HTML or URLs are decoded, or line breaks
are removed.

Each view maps its positions to positions in the original text. A view is created only if the text
contains escapes that the view decodes. Creating a view takes time proportional to the length of the
text. There are at most as many views as entries in `_CHAINS`.
"""

from __future__ import annotations

import html
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Final

_JSON: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|([\"\\/bfnrt']))")
_JSON_NAMED: Final = dict(zip("\"\\/bfnrt'", "\"\\/\b\f\n\r\t'", strict=True))
_ESCAPE: Final = re.compile(
    r"(?<!\\)\\+(?:u([0-9A-Fa-f]{4})|u\{([0-9A-Fa-f]{1,6})\}|U([0-9A-Fa-f]{8})|x([0-9A-Fa-f]{2}))"
)
_ENTITY: Final = re.compile(r"&(?:#[0-9]{1,10}|#[xX][0-9A-Fa-f]{1,8}|[A-Za-z][A-Za-z0-9]{1,31});")
_PERCENT: Final = re.compile(r"(?:%[0-9A-Fa-f]{2})+")
_BREAK: Final = re.compile(r"\\?\r?\n[ \t]*|(?<!\\)\\+[rn]")
_OTHER_BREAKS: Final = tuple(
    map(re.compile, (r"\\?\r?\n(?=[ \t])", r"(?<=\\)\r?\n[ \t]*", r"(?<=\\)\r?\n(?=[ \t])"))
)
"""Line breaks without the whitespace after them, without the backslash before them, and without
both: whitespace and backslash may belong to a secret.
"""
_MAX_CODE: Final = 0x10FFFF


class DecodedText:
    """Decoded text. `span` maps a part of it to the original text."""

    def __init__(
        self, text: str, pieces: list[tuple[int, int, int]], source: DecodedText | None = None
    ) -> None:
        """Create a view from pieces. A piece is a triple: start in the view, start in the source,
        and end in the source. The end is 0 if the piece has the same length in both.
        """
        self.text = text
        self._pieces = pieces
        self._starts = [start for start, _, _ in pieces]
        self._source = source

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the span in the original text for a span of this view."""
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
    view: DecodedText,
    pattern: re.Pattern[str],
    decode: Callable[[re.Match[str]], Iterator[tuple[str, int, int]]],
) -> DecodedText | None:
    """Return a view in which each match is replaced with the texts that `decode` yields, with their
    source spans. Return None if there are no matches.
    """
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
    yield (
        _character(int(found[1], 16)) if found[1] else _JSON_NAMED[found[2]],
        found.start(),
        found.end(),
    )


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
    """Return the text and its decoded views: JSON, other escapes, HTML and URLs. Some escapes are
    decoded twice, for example JSON within JSON.
    """
    decoded: dict[tuple[str, ...], DecodedText | None] = {(): DecodedText(text, [])}
    for chain in _CHAINS:
        source = decoded[chain[:-1]]
        pattern, decode, sign = _KINDS[chain[-1]]
        decoded[chain] = (
            _replaced(source, pattern, decode)
            if source is not None and sign in source.text
            else None
        )
    return [view for view in decoded.values() if view is not None]


def without_breaks(view: DecodedText) -> list[DecodedText]:
    """Return views without line breaks, including escaped line breaks.

    In the first view, the indentation after a line break and a backslash before it are also
    removed. In the other views, one or both are kept, because they may belong to a secret. A view
    is left out if the text has no such line break.
    """
    found = (_replaced(view, pattern, _nothing) for pattern in (_BREAK, *_OTHER_BREAKS))
    return [each for each in found if each is not None]


def unbroken(text: str) -> str:
    """Return text without line breaks, as in the first view of `without_breaks`."""
    return _BREAK.sub("", text)
