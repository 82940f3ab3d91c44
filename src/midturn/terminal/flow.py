"""Writes the assistant's text, unchanged or wrapped into rows. Written rows are never redrawn."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Protocol

from midturn.question.text import prose
from midturn.terminal.prompts.cells import cells, cut_ranges, wrap_ranges

_MAX_WORD = 400
_OURS = r"[│|·~]|midturn:"
_FENCE = r" {0,3}(`{3,}|~{3,})"
_MARKER = r"(?:[ >]|[-*+] |\d{1,9}[.)] )*"


class Flow(Protocol):
    """Receives text in pieces, and returns what can be written now."""

    def feed(self, text: str) -> str:
        """Process the next piece."""
        ...

    def tick(self) -> str:
        """Return the text that was pending long enough."""
        ...

    def finish(self) -> str:
        """Return the rest of the message, because it is complete."""
        ...


class Untouched:
    """Output for files and pipes: the unchanged text. The last line always ends with a line break."""

    def __init__(self) -> None:
        self._in_line = False

    def feed(self, text: str) -> str:
        """Return the text unchanged."""
        self._in_line = not text.endswith("\n") if text else self._in_line
        return text

    def tick(self) -> str:
        """Return nothing, because no text is pending."""
        return ""

    def finish(self) -> str:
        """Return a line break if the last line has none."""
        in_line, self._in_line = self._in_line, False
        return "\n" if in_line else ""


class PlainFlow:
    """Output for terminals without colours: the Markdown source, wrapped.

    A row is written when it is full or when its line ends. `mark` precedes every row, and `paint`
    adds colour.
    """

    def __init__(
        self, width: Callable[[], int], mark: str = "", paint: Callable[[str], str] = str
    ) -> None:
        self._width = width
        self._mark = mark
        self._paint = paint
        self._raw = ""
        self._line = ""
        self._hangs = ""
        self._fence = ""

    def feed(self, text: str) -> str:
        """Return the rows that are now complete."""
        self._raw += text
        return self._flow(_safe_cut(self._raw))

    def tick(self) -> str:
        """Return nothing, because rows do not depend on time."""
        return ""

    def finish(self) -> str:
        """Return the last row."""
        shown = self._flow(len(self._raw))
        if self._line:
            shown += self._flow_line()
        self._line = self._hangs = self._fence = ""
        return shown

    def _flow(self, cut: int) -> str:
        ready, self._raw = self._raw[:cut], self._raw[cut:]
        first, *more = prose(ready.replace("\r\n", "\n")).split("\n")
        self._line += first
        shown = ""
        for line in more:
            shown += self._flow_line()
            self._line = line
        return shown + self._full_rows()

    def _full_rows(self) -> str:
        """Return the full rows of a line that is not complete yet."""
        shown = ""
        while cells(self._line) > self._room:
            ranges = (
                cut_ranges(self._line, self._room)
                if self._fence
                else wrap_ranges(self._line, self._room)
            )
            if len(ranges) == 1:  # only trailing spaces do not fit, and they are dropped
                break
            (_, end), (start, _), *_ = ranges
            row, self._line = self._line[:end], self._line[start:]
            shown += self._row(row)
        return shown

    def _flow_line(self) -> str:
        """Return the rows of the complete line."""
        if (
            not self._hangs
            and (found := re.match(_FENCE, self._line))
            and (not self._fence or found[1].startswith(self._fence))
        ):
            self._fence = "" if self._fence else found[1]
        shown = self._full_rows() + self._row(self._line)
        self._line = self._hangs = ""
        return shown

    @property
    def _room(self) -> int:
        return max(2, self._width() - 1 - cells(self._mark) - cells(self._hangs))

    def _row(self, row: str) -> str:
        """Return one row. Continuation rows are indented by the width of the list marker."""
        full = f"{self._mark}{self._hangs}{row}".rstrip(" ")
        if not self._hangs and not self._fence and (marker := re.match(_MARKER, row)):
            self._hangs = " " * min(cells(marker[0]), self._width() // 3)
        return f"{self._paint(full if self._mark else f'{margin(full)}{full}')}\n"


def margin(row: str) -> str:
    """Return an indentation for a row that looks like a row of a prompt, a tool or a notice.

    It prevents a model from imitating such rows.
    """
    return " " if re.match(_OURS, row) else ""


def _safe_cut(raw: str) -> int:
    """Return the position up to which the text can be escaped.

    Whether a joiner is escaped depends on the characters next to it, so the text is cut only after
    whitespace.
    """
    cut = max(raw.rfind(" "), raw.rfind("\n")) + 1
    return len(raw) if len(raw) - cut > _MAX_WORD else cut
