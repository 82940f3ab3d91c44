"""Markdown that arrives in pieces, cut into blocks that can be drawn on their own."""

from __future__ import annotations

import re

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r" {0,3}#{1,6}(\s|$)")
_ITEM = re.compile(r" {0,3}([-*+]|\d{1,9}[.)])(\s|$)")


class MarkdownBlocks:
    """Blocks come out when they are whole: a paragraph, a heading, a list, a table, fenced code."""

    def __init__(self) -> None:
        self._rest = ""
        self._lines: list[str] = []
        self._fence = ""
        self._blank = False

    @property
    def pending(self) -> bool:
        """Whether something has been taken in and has not come out."""
        return bool(self._rest.strip() or self._lines)

    def feed(self, text: str) -> list[str]:
        """Take the next piece; return the blocks that it completes."""
        *lines, self._rest = (self._rest + text).split("\n")
        return [block for line in lines for block in self._take(line)]

    def flush(self) -> list[str]:
        """Return what is there, whole or not."""
        rest, self._rest = self._rest, ""
        blocks = self._take(rest) if rest else []
        return [*blocks, *self._close()]

    def _take(self, line: str) -> list[str]:
        if self._fence:
            return self._in_code(line)
        if not line.strip():
            self._blank = True
            return []
        before = self._close() if self._blank and not self._continues(line) else []
        self._lines += [""] if self._blank and self._lines else []
        self._blank = False
        if fence := _FENCE.match(line):
            before += [] if self._in_list() and line[:1].isspace() else self._close()
            self._fence = fence[1]
        self._lines.append(line)
        return [*before, *self._close()] if _HEADING.match(line) and len(self._lines) == 1 else before

    def _in_code(self, line: str) -> list[str]:
        self._lines.append(line)
        found = _FENCE.match(line)
        if found and found[1].startswith(self._fence) and not line[found.end() :].strip():
            self._fence = ""
            return [] if self._in_list() else self._close()
        return []

    def _continues(self, line: str) -> bool:
        """Tell whether a line behind a blank one goes on with the list that came before."""
        return self._in_list() and (line[:1].isspace() or _ITEM.match(line) is not None)

    def _in_list(self) -> bool:
        return any(map(_ITEM.match, self._lines))

    def _close(self) -> list[str]:
        lines, self._lines, self._blank, self._fence = self._lines, [], False, ""
        return ["\n".join(lines)] if lines else []
