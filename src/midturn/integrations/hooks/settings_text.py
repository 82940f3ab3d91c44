"""Settings as text: JSON with comments, read with the place of every value, so that only our own lines are written and taken away."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from json.decoder import scanstring  # type: ignore[attr-defined]  # it is there, and the stubs do not know it
from typing import Any, Final, cast

from msgspec import Struct

from midturn.question.json_value import Json

_COMMENT: Final = re.compile(r'("(?:[^"\\\n]|\\.)*")|(//[^\n]*|/\*.*?\*/)', re.DOTALL)
_TRAILING: Final = re.compile(r'("(?:[^"\\\n]|\\.)*")|(,)(?=\s*[\]}])')
_BESIDE: Final = re.compile(r"(,?)([ \t]*(?://[^\r\n]*|/\*[^\r\n]*?\*/)[ \t]*)(?=\r?\n)")
_COMMA: Final = re.compile(r"[ \t]*,")
_WORD: Final = re.compile(r"[^\s,\]}]+")
_BOM: Final = "\ufeff"


class Part(Struct, frozen=True):
    """One value and where it stands; a member begins at its key. `parts` are the values inside, by key or by place."""

    start: int
    end: int
    inside: int
    """Offset at which its value begins."""
    parts: Mapping[str | int, Part] = {}


class SettingsText(Struct, frozen=True):
    """The text of a file of settings; `value` is what it says.

    Args:
        text: As it is read, with its mark of the byte order if it has one.
    """

    text: str

    @property
    def value(self) -> Any:
        """Its value.

        Raises:
            ValueError: It is no JSON, with comments or without.
        """
        return json.loads(_plain(self.text) or "{}")

    def with_item(self, path: Sequence[str], item: Json) -> SettingsText:
        """Return it with one more item at the end of a list; the list is made where it is not there, and what it is in."""
        found, missing = self._reached(path)
        if missing:
            value: Json = [item]
            for key in reversed(missing[1:]):
                value = {key: value}
            return self._with(found, len(path) - len(missing) + 1, f"{json.dumps(missing[0])}: ", value)
        return self._with(found, len(path) + 1, "", item)

    def with_member(self, key: str, value: Json) -> SettingsText:
        """Return it with one more member of the whole."""
        return self._with(self._root(), 1, f"{json.dumps(key)}: ", value)

    def without(self, path: Sequence[str | int]) -> SettingsText:
        """Return it without a value, and the comma that it needs no more."""
        above = self._root()
        for key in path[:-1]:
            above = above.parts[key]
        gone, parts = above.parts[path[-1]], [*above.parts.values()]
        place = parts.index(gone)
        if len(parts) == 1:
            inner = self.text[above.inside + 1 : gone.start] + self.text[gone.end : above.end - 1]
            return SettingsText(self.text[: above.inside + 1] + ("" if not inner.strip(" \t\r\n,") else inner) + self.text[above.end - 1 :])
        start, end = (parts[place - 1].end, gone.end) if place else (gone.start, parts[1].start)
        kept = self.text[start : gone.start].strip(", \t\r\n") if place else ""
        if kept:  # a comment about what stands before it
            comma = _COMMA.match(self.text, gone.end)
            between = self.text[start : gone.start].rstrip()
            return SettingsText(self.text[:start] + (between + self.text[comma.end() :] if comma else between[1:] + self.text[gone.end :]))
        return SettingsText(self.text[:start] + self.text[end:])

    def _reached(self, path: Sequence[str]) -> tuple[Part, Sequence[str]]:
        found = self._root()
        for place, key in enumerate(path):
            if key not in found.parts:
                return found, path[place:]
            found = found.parts[key]
        return found, ()

    def _with(self, above: Part, depth: int, key: str, value: Json) -> SettingsText:
        line = "\r\n" if "\r\n" in self.text else "\n"
        unit = self._indent()
        written = f"{key}{json.dumps(value, indent=unit, ensure_ascii=False)}".replace("\n", line + unit * depth)
        if above.parts:
            at = [*above.parts.values()][-1].end
            beside = _BESIDE.match(self.text, at)
            comma, comment, at_end = ("," if beside[1] else "", beside[2], beside.end()) if beside else ("", "", at)
            return SettingsText(f"{self.text[:at]},{comment}{line}{unit * depth}{written}{comma}{self.text[at_end:]}")
        at = above.inside + 1
        rest = self.text[at:]
        closing = "" if rest.lstrip(" \t").startswith(("\n", "\r")) else f"{line}{unit * (depth - 1)}"
        return SettingsText(f"{self.text[:at]}{line}{unit * depth}{written}{closing}{rest}")

    def _indent(self) -> str:
        found = re.search(r"\n([ \t]+)\S", self.text)
        return found[1] if found else "  "

    def _root(self) -> Part:
        plain = _plain(self.text)
        return _part(plain, _after_space(plain, 0))


def _plain(text: str) -> str:
    """Return the text with everything blanked that is not JSON; what is left stands where it stood."""
    blanked = _COMMENT.sub(lambda found: found[1] or re.sub(r"[^\r\n]", " ", found[2]), text.replace(_BOM, " ", 1))
    return _TRAILING.sub(lambda found: found[1] or " ", blanked)


def _part(plain: str, at: int, start: int | None = None) -> Part:
    """Read the value that begins at a place; the text is JSON."""
    begins = at if start is None else start
    if plain[at] == '"':
        return Part(begins, cast("int", scanstring(plain, at + 1)[1]), at)
    if plain[at] not in "{[":
        found = _WORD.match(plain, at)
        return Part(begins, found.end() if found else at, at)
    parts: dict[str | int, Part] = {}
    place = _after_space(plain, at + 1)
    while plain[place] not in "}]":
        key: str | int = len(parts)
        value = place
        if plain[at] == "{":
            key, value = cast("tuple[str, int]", scanstring(plain, place + 1))
            value = _after_space(plain, _after_space(plain, value) + 1)
        parts[key] = _part(plain, value, place)
        place = _after_space(plain, parts[key].end)
        place = _after_space(plain, place + 1) if plain[place] == "," else place
    return Part(begins, place + 1, at, parts)


def _after_space(plain: str, at: int) -> int:
    while plain[at].isspace():
        at += 1
    return at
