"""A drawn screen: rows of styled spans, the cursor, the parts that take keys, and options with their keys, labels and descriptions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum, auto
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from midturn.question.answer_type import SelectOption
from midturn.question.json_value import Scalar
from midturn.question.reply import Reply
from midturn.terminal.prompts.cells import (
    BETWEEN,
    CONTINUED,
    ELLIPSIS,
    Range,
    cells,
    clip,
    clip_middle,
    continued_ranges,
    wrap,
    wrap_parts,
    wrap_ranges,
)
from midturn.terminal.prompts.keys import Command, description, label
from midturn.terminal.prompts.plain_scene import Edit
from midturn.terminal.prompts.rich.burst import KeyMode
from midturn.terminal.prompts.rich.keyboard import Key

Style: TypeAlias = Literal[
    "", "header", "quoted", "gutter", "dim", "key", "pointer", "chosen", "error", "hidden",
    "added", "removed", "inserted", "deleted", "hunk", "code", "strong", "emphasis", "struck", "heading", "name", "string", "number",
    "found", "link", "keyword",
]  # fmt: skip


POINTER = "❯ "  # noqa: RUF001 (an arrow, and no sign of comparison)
"""Marker of the highlighted row, and of a text field."""


class Size(Struct, frozen=True):
    """Available room, in cells."""

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
    """Requests of a face that are neither an answer nor a command."""

    MENU = auto()  # show the ways out
    LEAVE = auto()  # close this face
    RING = auto()  # that key does nothing here
    SUSPEND = auto()  # stop the job
    VIEW = auto()  # show everything on a screen of its own
    REDRAW = auto()  # draw everything anew, what was printed above included
    RESIZED = auto()  # draw everything for another width


class Opened(Struct, frozen=True):
    """Another face, on top of the one that the key was for; Escape there comes back."""

    face: Face


Pressed: TypeAlias = Reply | Command | Edit | Sign | Opened | None
"""None: the key was for the face alone."""


class Face(Protocol):
    """Takes keys and draws the live rows."""

    @property
    def submits(self) -> frozenset[str] | None:
        """Keys that are dead while keys come too soon: those that submit a text; None where every key may answer."""
        ...

    @property
    def empty(self) -> bool:
        """Whether nothing has been typed: Ctrl-D then ends the turn."""
        ...

    @property
    def entry(self) -> KeyMode:
        """What keys do, so that a paste can be told from keys that a hand presses."""
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


KEYS = "123456789acdefghilmnpqtuwxyz"
"""Keys that pick at once: digits, then letters without those that move or leave."""

MOST_WITH_KEYS = 20

_WIDE = 60
_WIDEST_LABEL = 32


class OptionMark(Struct, frozen=True):
    """Mark of an option: its key, and whether it is chosen (None: no boxes)."""

    key: str = ""
    chosen: bool | None = None

    @property
    def text(self) -> str:
        """The box and the key."""
        box = "" if self.chosen is None else "[x] " if self.chosen else "[ ] "
        return f"{box}{self.key} " if self.key else box


class OptionRows:
    """A list of options; `marks` says what stands before each of those that are shown."""

    def __init__(self, options: tuple[SelectOption[Scalar], ...]) -> None:
        self._labels = [label(option) for option in options]
        self._meanings = [description(option) for option in options]
        self._label_width = min(_WIDEST_LABEL, max((cells(text) for text in self._labels), default=0))

    def rows(self, place: int, mark: OptionMark, size: Size, *, highlighted: bool, found: frozenset[int] = frozenset()) -> list[Row]:
        """Draw one option: a single row, and all of it where it is highlighted; `found` are the letters of its label to point out."""
        drawn = self._rows(place, mark, size, highlighted=highlighted)
        if not found or not drawn:
            return drawn
        before = 2 + len(mark.text)
        whole = row_text(drawn[0])
        end = whole.find(ELLIPSIS) if ELLIPSIS in whole else len(whole)
        return [pointed_out(drawn[0], frozenset(at for letter in found if (at := before + letter) < end)), *drawn[1:]]

    def _rows(self, place: int, mark: OptionMark, size: Size, *, highlighted: bool) -> list[Row]:
        pointer = Span(POINTER if highlighted else "  ", "pointer")
        before = Span(mark.text, "key" if mark.chosen is None else "chosen" if mark.chosen else "")
        indent = 2 + cells(mark.text)
        if size.columns >= _WIDE:
            return self._beside(place, (pointer, before), size.columns - indent, highlighted)
        return self._below(place, (pointer, before), size.columns - indent, highlighted)

    def _beside(self, place: int, before: Row, room: int, highlighted: bool) -> list[Row]:  # noqa: FBT001 (drawn in two ways)
        name, meaning = self._labels[place], self._meanings[place]
        if not meaning:
            return _hung(before, wrap(name, room) if highlighted else [clip_middle(name, room)], "strong" if highlighted else "")
        width = max(self._label_width, 1)
        left = wrap(name, width) if highlighted else [clip_middle(name, width)]
        right = _clipped_rows(wrap(meaning, max(1, room - width - 3)), highlighted, room - width - 3)
        rows: list[Row] = []
        for at in range(max(len(left), len(right))):
            text = left[at] if at < len(left) else ""
            padded = Span(text + " " * (width - cells(text) + 2), "strong" if highlighted else "")
            start = before if at == 0 else row(" " * sum(cells(span.text) for span in before))
            rows.append((*start, padded, Span(right[at] if at < len(right) else "", "" if highlighted else "dim")))
        return rows

    def _below(self, place: int, before: Row, room: int, highlighted: bool) -> list[Row]:  # noqa: FBT001 (drawn in two ways)
        name, meaning = self._labels[place], self._meanings[place]
        rows = _hung(before, wrap(name, room) if highlighted else [clip_middle(name, room)], "strong" if highlighted else "")
        if highlighted and meaning:
            indent = " " * max(4, sum(cells(span.text) for span in before))
            width = max(1, room + sum(cells(span.text) for span in before) - len(indent) - 1)
            rows += [row(indent + text, "dim") for text in _clipped_rows(wrap(meaning, width), highlighted, width)]
        return rows


def pointed_out(drawn: Row, letters: frozenset[int]) -> Row:
    """Draw single characters of a row as what was found."""
    spans: list[Span] = []
    at = 0
    for span in drawn:
        for letter in span.text:
            style = "found" if at in letters else span.style
            if spans and spans[-1].style == style:
                spans[-1] = Span(spans[-1].text + letter, style)
            else:
                spans.append(Span(letter, style))
            at += 1
    return tuple(spans)


def key_names(count: int) -> str:
    """Name the keys of the first `count` options, runs in short: `1-9,a,c-f`."""
    runs: list[list[str]] = []
    for key in KEYS[:count]:
        if runs and ord(key) == ord(runs[-1][-1]) + 1:
            runs[-1].append(key)
        else:
            runs.append([key])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else run[0] for run in runs)


def _hung(before: Row, rows: list[str], style: str) -> list[Row]:
    first, *more = rows
    indent = " " * sum(cells(span.text) for span in before)
    chosen = "strong" if style else ""
    return [(*before, Span(first, chosen)), *((Span(indent + text, chosen),) for text in more)]


def _clipped_rows(rows: list[str], highlighted: bool, width: int) -> list[str]:  # noqa: FBT001 (one row or several)
    """Keep one row, and all of what is highlighted; what is cut off ends in an ellipsis."""
    if highlighted or len(rows) <= 1:
        return rows
    return [clip(" ".join(rows), width)]
