"""Output of commands: results to stdout, everything else to stderr, and the exit status."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from enum import IntEnum
from typing import LiteralString, TextIO

from midturn.question.json_value import Json
from midturn.question.text import exact, exact_block, prose
from midturn.terminal.prompts.cells import cells, continued_rows, cut_ranges, hang

# ----------------------------------------------------------------------------------------------------------------------
# Exit statuses


class ExitStatus(IntEnum):
    """Every status that midturn ends with."""

    DONE = 0
    ERROR = 1
    USAGE = 2
    SUSPENDED = 3
    REFUSED = 4
    TERMINAL_GONE = 129
    ENDED_BY_USER = 130
    TERMINATED = 143


# ----------------------------------------------------------------------------------------------------------------------
# Text that may go to a terminal: words of ours, and what came from outside through the one sink.
# The types make sure of it: what is printed is a literal of this program, or a `Shown`. Only this module makes one.


class Shown(str):
    """Text in which nothing acts on a terminal."""

    __slots__ = ()


class Drawn(Shown):
    """A row that is drawn for the width of its terminal, with its colours: it is printed as it is."""

    __slots__ = ()


def line(template: LiteralString, *fields: object) -> Shown:
    """Fill a template of ours (`{}` for each field); a field that is not `Shown` becomes one line in which every character is seen."""
    return Shown(template.format(*(field if isinstance(field, Shown) else exact(str(field)) for field in fields)))


def block(text: str) -> Shown:
    """Show several lines as they are (diffs, errors, results)."""
    return Shown(exact_block(text))


def spoken(text: str) -> Shown:
    """Show what a person or a model said."""
    return Shown(prose(text))


def presented(text: str) -> Shown:
    """Take over what a presenter of a prompt has made fit to be shown; to show it once more would write its codes twice."""
    return Shown(text)


def drawn(row: str) -> Drawn:
    """Take over a row that was drawn."""
    return Drawn(row)


def joined(separator: LiteralString, parts: Iterable[str]) -> Shown:
    """Join parts; those that are not `Shown` are shown as one line each."""
    return Shown(separator.join(part if isinstance(part, Shown) else exact(part) for part in parts))


# ----------------------------------------------------------------------------------------------------------------------
# Listings on a terminal of any width, and points in time in them; what is not read on a terminal is neither wrapped nor cut


_GAP = 2
_LEAST = 24  # cells; a last column with less room begins on a line of its own
_INDENT = "  "
_UNLIMITED = 1_000
QUOTED = "| "
"""Prefix of a line that is shown character by character, such as one of a diff: every row of it stands behind the same."""


def columns(stream: TextIO | None) -> int | None:
    """Return how wide the terminal is that `stream` goes to; None where it goes elsewhere."""
    if stream is None or not stream.isatty():
        return None
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):  # a terminal that does not say
        return 80


def wrapped(text: Shown, stream: TextIO | None, indent: str = "") -> list[Shown]:
    """Break text between words to the width of the terminal.

    Lines after the first of a paragraph stand behind `indent`; those of a paragraph that is indented itself stand behind more than that.
    """
    if isinstance(text, Drawn):
        return [text]
    width = columns(stream)
    rows: list[Shown] = []
    for paragraph in text.split("\n"):
        own = paragraph[: len(paragraph) - len(paragraph.lstrip(" "))]
        rows += [Shown(row) for row in _hang(paragraph, width, indent or own + _INDENT if own else indent)]
    return rows


def table(rows: Sequence[Sequence[Shown]], stream: TextIO | None = None) -> list[Shown]:
    """Align columns for stdout (or `stream`); the last one wraps behind its own beginning, or below the others if there is little room."""
    width = columns(stream or sys.stdout)
    widths = [max(map(_cells, column)) for column in zip(*(row[:-1] for row in rows), strict=True)]
    start = sum(widths) + _GAP * len(widths)
    below = width is not None and width - start < _LEAST
    lines: list[Shown] = []
    for row in rows:
        *firsts, last = row
        padded = "".join(cell + " " * (column - _cells(cell) + _GAP) for cell, column in zip(firsts, widths, strict=True))
        if below:
            lines += [Shown(text) for text in _hang(padded.rstrip(), width, _INDENT) if text]
            padded = _INDENT
        lines += _behind(padded, last, width)
    return lines


def room_behind(first: str, stream: TextIO | None) -> int:
    """Return how many cells `table` leaves for a last column behind one whose widest cell is `first`."""
    width = columns(stream) or _UNLIMITED
    room = width - _cells(first) - _GAP
    return room if room >= _LEAST else max(1, width - len(_INDENT))


def _behind(padded: str, last: Shown, width: int | None) -> list[Shown]:
    """Wrap the last column behind the others."""
    if isinstance(last, Drawn):
        return [Drawn(f"{padded}{last}")]
    first, *more = _hang(last, None if width is None else max(1, width - _cells(padded)), "")
    rows = [padded + first, *(" " * _cells(padded) + row for row in more)]
    return [Shown(row.rstrip()) for row in rows if row.strip()]


def indented(text: Shown, gutter: Shown) -> list[Shown]:
    """Put each line behind a gutter, wrapped for stdout so that no continuation begins where a line of ours would."""
    width = columns(sys.stdout)
    room = None if width is None else max(width - len(gutter), _LEAST // 2)
    lines = text.rstrip("\n").split("\n")
    return [Shown((gutter + row).rstrip()) for paragraph in lines for row in _hang(paragraph, room, "")]


def _hang(text: str, width: int | None, indent: str) -> list[str]:
    if width is None or (text.isascii() and len(text) <= width):
        return [text]

    if text.startswith(QUOTED):
        return [QUOTED + row for row in continued_rows(text.removeprefix(QUOTED), max(1, width - len(QUOTED)))]
    if any(len(word) > width - len(indent) and re.search(_PART, word) for word in text.split(" ")):
        return _hang_parts(text, width, indent)
    return hang(text, width, indent)


_PART = r"(?<=[./])(?=[^./ ])"


def _hang_parts(text: str, width: int, indent: str) -> list[str]:
    """Break text between words, and one that is longer than a row behind its dots and slashes: keys and paths are read by their parts."""
    rows = [""]
    for part in re.findall(r" *[^ ]+", text):
        for piece in [part] if _cells(part.lstrip(" ")) <= width - len(indent) else re.split(_PART, part):
            if _cells(rows[-1] + piece) <= width:
                rows[-1] += piece
                continue
            first, *more = cut_ranges(piece.lstrip(" "), max(1, width - len(indent)))
            rows += [indent + piece.lstrip(" ")[start:end] for start, end in (first, *more)]
    return [row for row in rows if row.strip()] or [""]


def _cells(text: str) -> int:
    if text.isascii():
        return len(text)

    return cells(text)


def moment(text: str, now: datetime | None = None) -> Shown:
    """Show an RFC 3339 time in the local zone: the time of day, with the date unless it is today's. Anything else is shown as it is."""
    try:
        at = datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        return line("{}", text)
    today = (now or datetime.now().astimezone()).date()
    return line("{}", f"{at:%H:%M}" if at.date() == today else f"{at:%Y-%m-%d %H:%M}")


def say(text: LiteralString | Shown = "", *fields: object) -> None:
    """Print a line of a listing on stdout: a template of ours with its fields, or shown text."""
    _write(sys.stdout, text if isinstance(text, Shown) else line(text, *fields))


def tell(text: LiteralString | Shown, *fields: object) -> None:
    """Print a sentence on stdout; a terminal gets it wrapped between words."""
    for row in wrapped(text if isinstance(text, Shown) else line(text, *fields), sys.stdout):
        _write(sys.stdout, row)


def note(text: LiteralString | Shown, *fields: object) -> None:
    """Print something beside the result, on stderr; a terminal gets it wrapped between words. A reader that is gone is no error."""
    with suppress(OSError):
        for row in wrapped(text if isinstance(text, Shown) else line(text, *fields), sys.stderr):
            _write(sys.stderr, row)


def say_json(value: Json) -> None:
    """Print JSON on stdout; towards a terminal nothing in it can act, for all of it is ASCII."""
    _write(sys.stdout, _dumps(value, sys.stdout, indent=2))


def say_line(value: Json) -> None:
    """Print JSON on stdout, on a line of its own."""
    _write(sys.stdout, json_line(value, sys.stdout).rstrip("\n"))


def json_line(value: Json, stream: TextIO) -> str:
    """Return JSON on one line, as it is safe to write to `stream`."""
    return f"{_encodable(_dumps(value, stream), stream)}\n"


def _dumps(value: Json, stream: TextIO, indent: int | None = None) -> str:
    return dumped(value, ensure_ascii=_is_terminal(stream), indent=indent, separators=None if indent else (",", ":"))


def dumped(value: Json, *, ensure_ascii: bool = True, indent: int | None = None, separators: tuple[str, str] | None = None) -> str:
    """Write JSON, as the library of that name does."""
    import json  # most commands are asked for none

    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators)


def is_terminal() -> bool:
    """Say whether a person reads stdout on a terminal."""
    return _is_terminal(sys.stdout)


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


def _write(stream: TextIO | None, text: str) -> None:
    if stream is None:  # it was closed before we began
        return
    stream.write(f"{text if isinstance(text, Drawn) else _encodable(text, stream)}\n")
    stream.flush()


def _encodable(text: str, stream: TextIO) -> str:
    """Write what the stream cannot encode as escapes."""
    encoding = stream.encoding or "utf-8"
    if _is_terminal(stream) and encoding.replace("-", "").lower() != "utf8":
        from midturn.terminal.ascii import as_ascii  # hardly any terminal needs it

        return as_ascii(text)
    return text.encode(encoding, "backslashreplace").decode(encoding)


def flush_stdout() -> None:
    """Write what is left, so that Python has nothing to complain about when it ends."""
    if sys.stdout is not None:
        sys.stdout.flush()


def forget_stdout() -> None:
    """The reader is gone: let what is still to be written go nowhere."""
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
