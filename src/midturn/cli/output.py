"""Output of commands: results on stdout, messages on stderr, and exit statuses."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from enum import IntEnum
from typing import LiteralString, TextIO

from midturn.question.json_value import Json
from midturn.question.text import exact, exact_block, prose
from midturn.terminal.prompts.cells import cells, continued_rows, cut_ranges, hang

# --------------------------------------------------------------------------------------------------
# Exit statuses


class ExitStatus(IntEnum):
    """All exit statuses of midturn."""

    DONE = 0
    ERROR = 1
    USAGE = 2
    SUSPENDED = 3
    REFUSED = 4
    TERMINAL_GONE = 129
    ENDED_BY_USER = 130
    TERMINATED = 143


# --------------------------------------------------------------------------------------------------
# Text that is safe to print on a terminal.
# The types ensure this: only literals in this program and `Shown` text are printed, and only this
# module creates `Shown`.


class Shown(str):
    """Text without terminal control codes."""

    __slots__ = ()


class Drawn(Shown):
    """A row that was already laid out and coloured for the terminal. It is printed unchanged."""

    __slots__ = ()


def line(template: LiteralString, *fields: object) -> Shown:
    """Fill a template that has one `{}` per field.

    A field that is not `Shown` is escaped and put on one line.
    """
    return Shown(
        template.format(
            *(field if isinstance(field, Shown) else exact(str(field)) for field in fields)
        )
    )


def block(text: str) -> Shown:
    """Escape text with several lines, such as a diff, an error or a result."""
    return Shown(exact_block(text))


def spoken(text: str) -> Shown:
    """Escape text that a person or a model wrote. Unusual spaces are kept, and tabs become spaces."""
    return Shown(prose(text))


def presented(text: str) -> Shown:
    """Mark prompt text as already escaped, so that it is not escaped again."""
    return Shown(text)


def drawn(row: str) -> Drawn:
    """Mark a row that was laid out for the terminal."""
    return Drawn(row)


def joined(separator: LiteralString, parts: Iterable[str]) -> Shown:
    """Join parts. A part that is not `Shown` is escaped and put on one line."""
    return Shown(separator.join(part if isinstance(part, Shown) else exact(part) for part in parts))


# --------------------------------------------------------------------------------------------------
# Tables, wrapping and times. Output is only wrapped on a terminal.


_GAP = 2
# minimum width of the last column in cells; if less room is left, the column starts on the next
# line
_MIN_LAST_COLUMN = 24
_INDENT = "  "
_UNLIMITED = 1_000
QUOTED = "| "
"""Prefix of a line that is wrapped at any character, such as a line of a diff.

Every row of the wrapped line gets the prefix.
"""


def columns(stream: TextIO | None) -> int | None:
    """Return the width of the terminal of `stream`, or None if it is not a terminal."""
    if stream is None or not stream.isatty():
        return None
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError):  # the terminal does not report its size
        return 80


def wrapped(text: Shown, stream: TextIO | None, indent: str = "") -> list[Shown]:
    """Wrap text at word boundaries to the width of the terminal.

    The second and later rows of a paragraph are indented by `indent`, and further if the paragraph
    itself is indented.
    """
    if isinstance(text, Drawn):
        return [text]
    width = columns(stream)
    rows: list[Shown] = []
    for paragraph in text.split("\n"):
        own = paragraph[: len(paragraph) - len(paragraph.lstrip(" "))]
        rows += [
            Shown(row)
            for row in _hang(paragraph, width, indent or own + _INDENT if own else indent)
        ]
    return rows


def table(rows: Sequence[Sequence[Shown]], stream: TextIO | None = None) -> list[Shown]:
    """Align columns for stdout (or `stream`).

    The last column is wrapped. If it would be too narrow, it starts below the other columns.
    """
    width = columns(stream or sys.stdout)
    widths = [max(map(_cells, column)) for column in zip(*(row[:-1] for row in rows), strict=True)]
    start = sum(widths) + _GAP * len(widths)
    below = width is not None and width - start < _MIN_LAST_COLUMN
    lines: list[Shown] = []
    for row in rows:
        *firsts, last = row
        padded = "".join(
            cell + " " * (column - _cells(cell) + _GAP)
            for cell, column in zip(firsts, widths, strict=True)
        )
        if below:
            lines += [Shown(text) for text in _hang(padded.rstrip(), width, _INDENT) if text]
            padded = _INDENT
        lines += _append_last(padded, last, width)
    return lines


def room_behind(first: str, stream: TextIO | None) -> int:
    """Return the width in cells of the last column that `table` prints.

    `first` is the widest cell of the column before it.
    """
    width = columns(stream) or _UNLIMITED
    room = width - _cells(first) - _GAP
    return room if room >= _MIN_LAST_COLUMN else max(1, width - len(_INDENT))


def _append_last(padded: str, last: Shown, width: int | None) -> list[Shown]:
    if isinstance(last, Drawn):
        return [Drawn(f"{padded}{last}")]
    first, *more = _hang(last, None if width is None else max(1, width - _cells(padded)), "")
    rows = [padded + first, *(" " * _cells(padded) + row for row in more)]
    return [Shown(row.rstrip()) for row in rows if row.strip()]


def indented(text: Shown, gutter: Shown) -> list[Shown]:
    """Prefix each line with a gutter, and wrap for stdout.

    With the gutter, no wrapped row can look like midturn's own output.
    """
    width = columns(sys.stdout)
    room = None if width is None else max(width - len(gutter), _MIN_LAST_COLUMN // 2)
    lines = text.rstrip("\n").split("\n")
    return [
        Shown((gutter + row).rstrip()) for paragraph in lines for row in _hang(paragraph, room, "")
    ]


def _hang(text: str, width: int | None, indent: str) -> list[str]:
    if width is None or (text.isascii() and len(text) <= width):
        return [text]

    if text.startswith(QUOTED):
        return [
            QUOTED + row
            for row in continued_rows(text.removeprefix(QUOTED), max(1, width - len(QUOTED)))
        ]
    if any(len(word) > width - len(indent) and re.search(_PART, word) for word in text.split(" ")):
        return _hang_parts(text, width, indent)
    return hang(text, width, indent)


_PART = r"(?<=[./])(?=[^./ ])"


def _hang_parts(text: str, width: int, indent: str) -> list[str]:
    """Wrap text at word boundaries.

    Words that are too long, such as keys and paths, are broken after dots and slashes.
    """
    rows = [""]
    for part in re.findall(r" *[^ ]+", text):
        for piece in (
            [part] if _cells(part.lstrip(" ")) <= width - len(indent) else re.split(_PART, part)
        ):
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
    """Convert an RFC 3339 time to the local time zone.

    The date is included unless it is today. Other text is returned unchanged.
    """
    try:
        at = datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        return line("{}", text)
    today = (now or datetime.now().astimezone()).date()
    return line("{}", f"{at:%H:%M}" if at.date() == today else f"{at:%Y-%m-%d %H:%M}")


def say(text: LiteralString | Shown = "", *fields: object) -> None:
    """Print a line on stdout: a template with its fields, or `Shown` text."""
    _write(sys.stdout, text if isinstance(text, Shown) else line(text, *fields))


def tell(text: LiteralString | Shown, *fields: object) -> None:
    """Print a sentence on stdout, wrapped at word boundaries on a terminal."""
    for row in wrapped(text if isinstance(text, Shown) else line(text, *fields), sys.stdout):
        _write(sys.stdout, row)


def note(text: LiteralString | Shown, *fields: object) -> None:
    """Print a message on stderr, wrapped at word boundaries on a terminal.

    Write errors are ignored.
    """
    _write_message(text if isinstance(text, Shown) else line(text, *fields), is_failure=False)


def fail(reason: Shown) -> None:
    """Print why a command failed, as `note` does. In a JSON log, the level is `error`."""
    _write_message(reason, is_failure=True)


def _write_message(message: Shown, *, is_failure: bool) -> None:
    if _note_writer is not None:
        _note_writer(message, is_failure)
        return
    with suppress(OSError):
        for row in wrapped(message, sys.stderr):
            _write(sys.stderr, row)


_note_writer: Callable[[str, bool], None] | None = None


def write_notes_with(writer: Callable[[str, bool], None]) -> None:
    """Pass the messages of `note` and `fail` to a function from now on, instead of printing them.

    Args:
        writer: Called with a message, and with whether the message reports a failure.
    """
    global _note_writer  # noqa: PLW0603  one stderr, one way to write it
    _note_writer = writer


def notes_are_logged() -> bool:
    """Return whether messages go to a log instead of the terminal."""
    return _note_writer is not None


def say_json(value: Json) -> None:
    """Print JSON on stdout.

    On a terminal, the JSON is ASCII only, so that it cannot contain control codes.
    """
    _write(sys.stdout, _dumps(value, sys.stdout, indent=2))


def say_line(value: Json) -> None:
    """Print JSON on stdout on one line."""
    _write(sys.stdout, json_line(value, sys.stdout).rstrip("\n"))


def json_line(value: Json, stream: TextIO) -> str:
    """Return JSON on one line in a form that is safe for `stream`."""
    return f"{_encodable(_dumps(value, stream), stream)}\n"


def _dumps(value: Json, stream: TextIO, indent: int | None = None) -> str:
    return dumped(
        value,
        ensure_ascii=_is_terminal(stream),
        indent=indent,
        separators=None if indent else (",", ":"),
    )


def dumped(
    value: Json,
    *,
    ensure_ascii: bool = True,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
) -> str:
    """Serialize JSON, with the parameters of `json.dumps`."""
    import json  # imported lazily, because most commands print no JSON

    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators)


def is_terminal() -> bool:
    """Return whether stdout is a terminal."""
    return _is_terminal(sys.stdout)


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()


def _write(stream: TextIO | None, text: str) -> None:
    if stream is None:  # stdout was closed before midturn started
        return
    stream.write(f"{text if isinstance(text, Drawn) else _encodable(text, stream)}\n")
    stream.flush()


def _encodable(text: str, stream: TextIO) -> str:
    """Escape the characters that the stream cannot encode."""
    encoding = stream.encoding or "utf-8"
    if _is_terminal(stream) and encoding.replace("-", "").lower() != "utf8":
        from midturn.terminal.ascii import (
            as_ascii,
        )  # imported lazily, because few terminals need it

        return as_ascii(text)
    return text.encode(encoding, "backslashreplace").decode(encoding)


def flush_stdout() -> None:
    """Write buffered output, so that Python does not report an error at exit."""
    if sys.stdout is not None:
        sys.stdout.flush()


def forget_stdout() -> None:
    """Discard buffered output after the reader closed the pipe."""
    with suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
