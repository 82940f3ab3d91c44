"""Find the line of each key in a TOML document that is known to parse; the parser itself does not say."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import lru_cache

_WORD = r"""(?xs)
      (?P<string>\"\"\"(?:\\.|[^\\])*?\"{3,5}|'''.*?'{3,5}|"(?:\\.|[^"\\\n])*"|'[^'\n]*')
    | (?P<comment>\#[^\n]*)
    | (?P<newline>\n)
    | (?P<mark>[\[\]{}=,.])
    | (?P<bare>[^\s\[\]{}=,."'\#]+)
"""
_OPEN = {"[", "{"}
_CLOSE = {"]", "}"}


@lru_cache(maxsize=16)
def key_lines(text: str) -> dict[tuple[str, ...], int]:
    """Return the line (from 1) on which each key, and each table that it stands in, is first written."""
    return _Scanner(text).lines


class _Scanner:
    """Walks the tokens of a document once."""

    def __init__(self, text: str) -> None:
        self.lines: dict[tuple[str, ...], int] = {}
        self._words = _tokens(text)
        self._word, self._line = "", 0
        self._next()
        table: tuple[str, ...] = ()
        while self._word:
            if self._word == "\n":
                self._next()
            elif self._word == "[":
                table = self._header()
            else:
                self._assignment(table)

    def _next(self) -> None:
        self._word, self._line = next(self._words, ("", self._line))

    def _header(self) -> tuple[str, ...]:
        while self._word == "[":
            self._next()
        table = self._key((), "]")
        while self._word == "]":
            self._next()
        return table

    def _assignment(self, table: tuple[str, ...]) -> None:
        path = self._key(table, "=")
        self._next()
        if self._word == "{":
            self._inline(path)
        else:
            self._skip_value()

    def _key(self, path: tuple[str, ...], end: str) -> tuple[str, ...]:
        while self._word and self._word not in (end, "\n"):
            if self._word != ".":
                path = (*path, _unquoted(self._word))
                self.lines.setdefault(path, self._line)
            self._next()
        return path

    def _inline(self, table: tuple[str, ...]) -> None:
        self._next()
        while self._word and self._word != "}":
            if self._word in {",", "\n"}:
                self._next()
            else:
                self._assignment(table)
        self._next()

    def _skip_value(self) -> None:
        depth = 0
        while self._word:
            if not depth and self._word in {",", "\n", *_CLOSE}:
                return
            depth += (self._word in _OPEN) - (self._word in _CLOSE)
            self._next()


def _tokens(text: str) -> Iterator[tuple[str, int]]:
    line = 1
    for match in re.finditer(_WORD, text):
        token = match.group()
        if match.lastgroup != "comment":
            yield token, line
        line += token.count("\n")


def _unquoted(token: str) -> str:
    if token[0] not in "\"'":
        return token
    return str(tomllib.loads(f"key = {token}")["key"])
