"""Edits settings files as text. The parser supports JSON with comments and reports the position of
each value, so that an edit does not change any other text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from json.decoder import scanstring  # type: ignore[attr-defined]  # missing in the type stubs
from typing import Any, Final, cast

from msgspec import Struct

from midturn.question.json_value import Json

_COMMENT: Final = re.compile(r'("(?:[^"\\\n]|\\.)*")|(//[^\n]*|/\*.*?\*/)', re.DOTALL)
_TRAILING_COMMA: Final = re.compile(r'("(?:[^"\\\n]|\\.)*")|(,)(?=\s*[\]}])')
_LINE_COMMENT: Final = re.compile(r"(,?)([ \t]*(?://[^\r\n]*|/\*[^\r\n]*?\*/)[ \t]*)(?=\r?\n)")
_COMMA: Final = re.compile(r"[ \t]*,")
_WORD: Final = re.compile(r"[^\s,\]}]+")
_BOM: Final = "\ufeff"


class JsonSpan(Struct, frozen=True):
    """A value and its position. The position of an object's member starts at the key. `parts`
    contains the values inside an object or a list, by key or index.
    """

    start: int
    end: int
    inside: int
    """Offset at which the value starts."""
    parts: Mapping[str | int, JsonSpan] = {}


class SettingsText(Struct, frozen=True):
    """Content of a settings file.

    Args:
        text: The content, including a byte order mark if there is one.
    """

    text: str

    @property
    def value(self) -> Any:
        """The parsed value.

        Raises:
            ValueError: The text is not JSON, with or without comments.
        """
        return json.loads(_strip_comments(self.text) or "{}")

    def with_item(self, path: Sequence[str], item: Json) -> SettingsText:
        """Return the text with an item appended to the list at `path`. If the list or its parents
        are missing, they are created.
        """
        found, missing = self._descend(path)
        if missing:
            value: Json = [item]
            for key in reversed(missing[1:]):
                value = {key: value}
            return self._insert(
                found, len(path) - len(missing) + 1, f"{json.dumps(missing[0])}: ", value
            )
        return self._insert(found, len(path) + 1, "", item)

    def with_member(self, key: str, value: Json) -> SettingsText:
        """Return the text with a new member of the top-level object."""
        return self._insert(self._root(), 1, f"{json.dumps(key)}: ", value)

    def without(self, path: Sequence[str | int]) -> SettingsText:
        """Return the text without the value at `path` and its comma."""
        parent = self._root()
        for key in path[:-1]:
            parent = parent.parts[key]
        removed, parts = parent.parts[path[-1]], [*parent.parts.values()]
        place = parts.index(removed)
        if len(parts) == 1:
            inner = (
                self.text[parent.inside + 1 : removed.start]
                + self.text[removed.end : parent.end - 1]
            )
            return SettingsText(
                self.text[: parent.inside + 1]
                + ("" if not inner.strip(" \t\r\n,") else inner)
                + self.text[parent.end - 1 :]
            )
        start, end = (
            (parts[place - 1].end, removed.end) if place else (removed.start, parts[1].start)
        )
        comment_before = self.text[start : removed.start].strip(", \t\r\n") if place else ""
        if comment_before:  # keep a comment that belongs to the previous value
            comma = _COMMA.match(self.text, removed.end)
            between = self.text[start : removed.start].rstrip()
            return SettingsText(
                self.text[:start]
                + (
                    between + self.text[comma.end() :]
                    if comma
                    else between[1:] + self.text[removed.end :]
                )
            )
        return SettingsText(self.text[:start] + self.text[end:])

    def _descend(self, path: Sequence[str]) -> tuple[JsonSpan, Sequence[str]]:
        found = self._root()
        for place, key in enumerate(path):
            if key not in found.parts:
                return found, path[place:]
            found = found.parts[key]
        return found, ()

    def _insert(self, parent: JsonSpan, depth: int, key: str, value: Json) -> SettingsText:
        line = "\r\n" if "\r\n" in self.text else "\n"
        unit = self._indent()
        written = f"{key}{json.dumps(value, indent=unit, ensure_ascii=False)}".replace(
            "\n", line + unit * depth
        )
        if parent.parts:
            at = [*parent.parts.values()][-1].end
            comment_after = _LINE_COMMENT.match(self.text, at)
            comma, comment, at_end = (
                ("," if comment_after[1] else "", comment_after[2], comment_after.end())
                if comment_after
                else ("", "", at)
            )
            return SettingsText(
                f"{self.text[:at]},{comment}{line}{unit * depth}{written}{comma}{self.text[at_end:]}"
            )
        at = parent.inside + 1
        rest = self.text[at:]
        closing = (
            "" if rest.lstrip(" \t").startswith(("\n", "\r")) else f"{line}{unit * (depth - 1)}"
        )
        return SettingsText(f"{self.text[:at]}{line}{unit * depth}{written}{closing}{rest}")

    def _indent(self) -> str:
        found = re.search(r"\n([ \t]+)\S", self.text)
        return found[1] if found else "  "

    def _root(self) -> JsonSpan:
        plain = _strip_comments(self.text)
        return _parse(plain, _after_space(plain, 0))


def _strip_comments(text: str) -> str:
    """Replace comments and trailing commas with spaces, so that the offsets of all values stay the
    same.
    """
    blanked = _COMMENT.sub(
        lambda found: found[1] or re.sub(r"[^\r\n]", " ", found[2]), text.replace(_BOM, " ", 1)
    )
    return _TRAILING_COMMA.sub(lambda found: found[1] or " ", blanked)


def _parse(plain: str, at: int, start: int | None = None) -> JsonSpan:
    """Parse the value at an offset. The text must be valid JSON."""
    begins = at if start is None else start
    if plain[at] == '"':
        return JsonSpan(begins, cast("int", scanstring(plain, at + 1)[1]), at)
    if plain[at] not in "{[":
        found = _WORD.match(plain, at)
        return JsonSpan(begins, found.end() if found else at, at)
    parts: dict[str | int, JsonSpan] = {}
    place = _after_space(plain, at + 1)
    while plain[place] not in "}]":
        key: str | int = len(parts)
        value = place
        if plain[at] == "{":
            key, value = cast("tuple[str, int]", scanstring(plain, place + 1))
            value = _after_space(plain, _after_space(plain, value) + 1)
        parts[key] = _parse(plain, value, place)
        place = _after_space(plain, parts[key].end)
        place = _after_space(plain, place + 1) if plain[place] == "," else place
    return JsonSpan(begins, place + 1, at, parts)


def _after_space(plain: str, at: int) -> int:
    while plain[at].isspace():
        at += 1
    return at
