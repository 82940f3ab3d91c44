"""The assistant's words on their way to a stream: as they come, or row by row; what has been shown is never drawn again."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Protocol

from midturn.question.text import prose
from midturn.terminal.prompts.cells import cells, cut_ranges, wrap_ranges

_LONGEST_WORD = 400
_OURS = r"[│|·~]|midturn:"
_FENCE = r" {0,3}(`{3,}|~{3,})"
_MARKER = r"(?:[ >]|[-*+] |\d{1,9}[.)] )*"


class Flow(Protocol):
    """Takes text piece by piece and gives back what is to be written of it now."""

    def feed(self, text: str) -> str:
        """Take the next piece."""
        ...

    def tick(self) -> str:
        """Return what has waited long enough."""
        ...

    def finish(self) -> str:
        """Return the rest: the message is complete."""
        ...


class Untouched:
    """For files and pipes: byte by byte what was said; a line that was begun is ended after the message."""

    def __init__(self) -> None:
        self._in_line = False

    def feed(self, text: str) -> str:
        """Pass it on."""
        self._in_line = not text.endswith("\n") if text else self._in_line
        return text

    def tick(self) -> str:
        """Nothing waits."""
        return ""

    def finish(self) -> str:
        """End the line."""
        in_line, self._in_line = self._in_line, False
        return "\n" if in_line else ""


class PlainFlow:
    """For terminals without colours: the source as it was written, wrapped. A row is shown when it is full, or its line ends.

    `mark` stands before every row, and `paint` dresses it.
    """

    def __init__(self, width: Callable[[], int], mark: str = "", paint: Callable[[str], str] = str) -> None:
        self._width = width
        self._mark = mark
        self._paint = paint
        self._raw = ""
        self._line = ""
        self._hangs = ""
        self._fence = ""

    def feed(self, text: str) -> str:
        """Return the rows that are full now."""
        self._raw += text
        return self._flow(_safe_cut(self._raw))

    def tick(self) -> str:
        """Nothing waits for time."""
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
        """Take off the rows of the line that are full while it still grows."""
        shown = ""
        while cells(self._line) > self._room:
            ranges = cut_ranges(self._line, self._room) if self._fence else wrap_ranges(self._line, self._room)
            if len(ranges) == 1:  # what does not fit is spaces, which belong to no row
                break
            (_, end), (start, _), *_ = ranges
            row, self._line = self._line[:end], self._line[start:]
            shown += self._row(row)
        return shown

    def _flow_line(self) -> str:
        """Show the line, which is complete."""
        if not self._hangs and (found := re.match(_FENCE, self._line)) and (not self._fence or found[1].startswith(self._fence)):
            self._fence = "" if self._fence else found[1]
        shown = self._full_rows() + self._row(self._line)
        self._line = self._hangs = ""
        return shown

    @property
    def _room(self) -> int:
        return max(2, self._width() - 1 - cells(self._mark) - cells(self._hangs))

    def _row(self, row: str) -> str:
        """Write out a row; those after it in the same line hang behind its marker."""
        full = f"{self._mark}{self._hangs}{row}".rstrip(" ")
        if not self._hangs and not self._fence and (marker := re.match(_MARKER, row)):
            self._hangs = " " * min(cells(marker[0]), self._width() // 3)
        return f"{self._paint(full if self._mark else f'{margin(full)}{full}')}\n"


def margin(row: str) -> str:
    """Return what moves a row away that begins like one of a prompt, a tool or a notice: no model can imitate them."""
    return " " if re.match(_OURS, row) else ""


def _safe_cut(raw: str) -> int:
    """Return up to where text can be judged: joiners are judged by their neighbours, which a cut between words never separates."""
    cut = max(raw.rfind(" "), raw.rfind("\n")) + 1
    return len(raw) if len(raw) - cut > _LONGEST_WORD else cut
