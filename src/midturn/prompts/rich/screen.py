"""A drawn screen: rows of styled spans, the cursor, and the parts that take keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum, auto
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from midturn.prompts.cells import BETWEEN, CONTINUED, Range, cells, clip, continued_ranges, wrap_parts, wrap_ranges
from midturn.prompts.keys import Command
from midturn.prompts.plain_scene import Edit
from midturn.prompts.rich.keyboard import Key
from midturn.question.reply import Reply

Style: TypeAlias = Literal[
    "", "header", "quoted", "gutter", "dim", "key", "pointer", "chosen", "error", "hidden",
    "added", "removed", "hunk", "code", "strong", "emphasis", "heading", "name", "string", "number", "found", "link", "keyword",
]  # fmt: skip


POINTER = "❯ "  # noqa: RUF001 (an arrow, and no sign of comparison)
"""What stands before what is highlighted, and before a text field."""


class Size(Struct, frozen=True):
    """How much room there is, in cells."""

    columns: int
    rows: int


class Span(Struct, frozen=True):
    """A piece of a row in one style; the text is fit to be shown."""

    text: str
    style: Style = ""


Row: TypeAlias = tuple[Span, ...]


class Frame(Struct, frozen=True):
    """The live rows, and the row and column of the cursor in them."""

    rows: tuple[Row, ...]
    cursor: tuple[int, int] = (0, 0)


def row(text: str, style: Style = "") -> Row:
    """Return a row of one style."""
    return (Span(text, style),)


def parts_rows(parts: Sequence[str], width: int) -> list[Row]:
    """Return rows of words of ours, dimly: as many parts in each as there is room for."""
    return [_parts(text.split(BETWEEN)) for text in wrap_parts(parts, width)]


def _parts(parts: Sequence[str]) -> Row:
    spans = [span for part in parts for span in (Span(BETWEEN, "dim"), Span(part, "dim"))]
    return tuple(spans[1:])


def row_text(spans: Row) -> str:
    """Return what a row says."""
    return "".join(span.text for span in spans)


def row_cells(spans: Iterable[Span]) -> int:
    """Return how wide a row is."""
    return sum(cells(span.text) for span in spans)


def sliced(spans: Row, where: Range) -> Row:
    """Return the part of a row from one character to another."""
    start, end = where
    found: list[Span] = []
    at = 0
    for span in spans:
        text = span.text[max(0, start - at) : max(0, end - at)]
        if text:
            found.append(Span(text, span.style))
        at += len(span.text)
    return tuple(found)


def wrapped(spans: Row, width: int) -> list[Row]:
    """Break a styled line at spaces."""
    return [sliced(spans, where) for where in wrap_ranges(row_text(spans), width)]


def cut(spans: Row, width: int) -> list[Row]:
    """Break a styled line with every character kept; rows that continue it say so."""
    first, *more = continued_ranges(row_text(spans), width)
    return [sliced(spans, first), *((Span(CONTINUED, "gutter"), *sliced(spans, where)) for where in more)]


def clipped(spans: Row, width: int) -> Row:
    """Cut a row off at `width` cells; spaces at its end go without a sign."""
    if row_cells(spans) <= width:
        return spans
    bare = sliced(spans, (0, len(row_text(spans).rstrip(" "))))
    if row_cells(bare) <= width:
        return bare
    kept: list[Span] = []
    for span in spans:
        room = width - row_cells(kept)
        if cells(span.text) > room or span is spans[-1]:
            return (*kept, Span(clip(span.text, room), span.style))
        if cells(span.text) == room:
            return (*kept, Span(clip(f"{span.text} ", room), span.style))
        kept.append(span)
    return tuple(kept)


def fitted(frame: Frame, size: Size) -> Frame:
    """Cut a frame to the room there is, keeping the rows around the cursor."""
    at, column = frame.cursor
    rows = frame.rows
    if len(rows) > size.rows:
        first = min(max(0, at - size.rows // 2), len(rows) - size.rows)
        rows, at = rows[first : first + size.rows], at - first
    return Frame(tuple(clipped(spans, size.columns) for spans in rows), (at, min(column, size.columns - 1)))


def joined(*parts: Sequence[Row]) -> tuple[Row, ...]:
    """Put rows below rows."""
    return tuple(spans for part in parts for spans in part)


# ----------------------------------------------------------------------------------------------------------------------
# Faces: the parts of a prompt that take keys


class Sign(Enum):
    """What a face wants that is neither an answer nor a command."""

    MENU = auto()  # show the ways out
    LEAVE = auto()  # close this face
    RING = auto()  # that key does nothing here
    SUSPEND = auto()  # stop the job
    VIEW = auto()  # show everything on a screen of its own
    REDRAW = auto()  # draw everything anew, what was printed above included


Pressed: TypeAlias = Reply | Command | Edit | Sign | None
"""None: the key was for the face alone."""


class Face(Protocol):
    """Takes keys and draws the live rows."""

    @property
    def submits(self) -> frozenset[str] | None:
        """Which keys are dead while keys come too soon: those that submit a text; None where every key may answer."""
        ...

    @property
    def empty(self) -> bool:
        """Whether nothing has been typed: Ctrl-D then ends the turn."""
        ...

    def press(self, key: Key) -> Pressed:
        """Take a key."""
        ...

    def frame(self, size: Size) -> Frame:
        """Draw."""
        ...

    def retitle(self, title: str) -> None:
        """Put another last row of the question above: the window has another width."""
        ...

    def kept(self, size: Size) -> list[Row]:
        """Draw what stays to be seen while another face takes the keys: the question, and what there is to choose from."""
        ...
