"""Drawing primitives: styled rows, frames with a cursor, the view protocol, and rows of options."""

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
    "",
    "header",
    "quoted",
    "gutter",
    "dim",
    "key",
    "pointer",
    "chosen",
    "error",
    "hidden",
    "added",
    "removed",
    "inserted",
    "deleted",
    "hunk",
    "code",
    "strong",
    "emphasis",
    "struck",
    "heading",
    "name",
    "string",
    "number",
    "found",
    "link",
    "keyword",
]


POINTER = "❯ "  # noqa: RUF001 (an arrow, not a comparison sign)
"""Marks the highlighted row and text fields."""


class Size(Struct, frozen=True):
    """Available space in cells."""

    columns: int
    rows: int


class Span(Struct, frozen=True):
    """Part of a row in one style. The text is displayable."""

    text: str
    style: Style = ""


Row: TypeAlias = tuple[Span, ...]


class Frame(Struct, frozen=True):
    """The live rows, and the row and column of the cursor in them."""

    rows: tuple[Row, ...]
    cursor: tuple[int, int] = (0, 0)


def row(text: str, style: Style = "") -> Row:
    """Return a row in one style."""
    return (Span(text, style),)


def parts_rows(parts: Sequence[str], width: int) -> list[Row]:
    """Return dimmed rows. Each row contains as many parts as fit."""
    return [_parts(text.split(BETWEEN)) for text in wrap_parts(parts, width)]


def _parts(parts: Sequence[str]) -> Row:
    spans = [span for part in parts for span in (Span(BETWEEN, "dim"), Span(part, "dim"))]
    return tuple(spans[1:])


def row_text(spans: Row) -> str:
    """Return the text of a row."""
    return "".join(span.text for span in spans)


def row_cells(spans: Iterable[Span]) -> int:
    """Return the width of a row in cells."""
    return sum(cells(span.text) for span in spans)


def sliced(spans: Row, where: Range) -> Row:
    """Return the part of a row within a range of characters."""
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
    """Wrap a styled line at spaces."""
    return [sliced(spans, where) for where in wrap_ranges(row_text(spans), width)]


def cut(spans: Row, width: int) -> list[Row]:
    """Split a styled line, even inside words. Each row after the first begins with a marker."""
    first, *more = continued_ranges(row_text(spans), width)
    return [
        sliced(spans, first),
        *((Span(CONTINUED, "gutter"), *sliced(spans, where)) for where in more),
    ]


def clipped(spans: Row, width: int) -> Row:
    """Cut a row at `width` cells. If only spaces are removed, no marker is added."""
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
    """Cut a frame to the available space, keeping the rows around the cursor."""
    at, column = frame.cursor
    rows = frame.rows
    if len(rows) > size.rows:
        first = min(max(0, at - size.rows // 2), len(rows) - size.rows)
        rows, at = rows[first : first + size.rows], at - first
    return Frame(
        tuple(clipped(spans, size.columns) for spans in rows), (at, min(column, size.columns - 1))
    )


def joined(*parts: Sequence[Row]) -> tuple[Row, ...]:
    """Concatenate rows."""
    return tuple(spans for part in parts for spans in part)


# --------------------------------------------------------------------------------------------------
# Views: the parts of a prompt that receive keys


class Sign(Enum):
    """Requests that a view makes to the prompt or the terminal."""

    MENU = auto()  # open the menu of ways to leave
    LEAVE = auto()  # close this view
    RING = auto()  # the key has no effect here
    SUSPEND = auto()  # stop the job
    VIEW = auto()  # show everything in the pager
    REDRAW = auto()  # draw everything again, including the rows printed above
    RESIZED = auto()  # draw everything for a new width


class Opened(Struct, frozen=True):
    """A view that is opened on top of the current view. Esc in the opened view closes it."""

    view: PromptView


Pressed: TypeAlias = Reply | Command | Edit | Sign | Opened | None
"""Result of a key. None: the view handled the key, and the caller has nothing to do."""


class PromptView(Protocol):
    """Receives keys and draws the live rows."""

    @property
    def submits(self) -> frozenset[str] | None:
        """Keys that submit text. They are ignored while keys arrive too soon.

        None if every key may answer.
        """
        ...

    @property
    def empty(self) -> bool:
        """Whether nothing has been typed. If so, Ctrl-D ends the turn."""
        ...

    @property
    def entry(self) -> KeyMode:
        """How keys are interpreted, which distinguishes a paste from pressed keys."""
        ...

    def press(self, key: Key) -> Pressed:
        """Handle a key."""
        ...

    def frame(self, size: Size) -> Frame:
        """Draw the view."""
        ...

    def retitle(self, title: str) -> None:
        """Replace the last row of the question after a resize."""
        ...

    def kept(self, size: Size) -> list[Row]:
        """Return the rows to display above another view: the question and its options."""
        ...


KEYS = "123456789acdefghilmnpqtuwxyz"
"""Keys that select an option immediately: digits, and the letters without another function."""

MAX_WITH_KEYS = 20

_WIDE_COLUMNS = 60
_MAX_LABEL_WIDTH = 32


class OptionMark(Struct, frozen=True):
    """Mark before an option: its key, and whether it is selected (None: no check box)."""

    key: str = ""
    chosen: bool | None = None

    @property
    def text(self) -> str:
        """The check box and the key."""
        box = "" if self.chosen is None else "[x] " if self.chosen else "[ ] "
        return f"{box}{self.key} " if self.key else box


class OptionRows:
    """Draws the options of a list."""

    def __init__(self, options: tuple[SelectOption[Scalar], ...]) -> None:
        self._labels = [label(option) for option in options]
        self._meanings = [description(option) for option in options]
        self._label_width = min(
            _MAX_LABEL_WIDTH, max((cells(text) for text in self._labels), default=0)
        )

    def rows(
        self,
        place: int,
        mark: OptionMark,
        size: Size,
        *,
        highlighted: bool,
        found: frozenset[int] = frozenset(),
    ) -> list[Row]:
        """Draw one option: on one row, or completely if it is highlighted.

        `found` are the indexes of matched characters in the label.
        """
        drawn = self._rows(place, mark, size, highlighted=highlighted)
        if not found or not drawn:
            return drawn
        before = 2 + len(mark.text)
        whole = row_text(drawn[0])
        end = whole.find(ELLIPSIS) if ELLIPSIS in whole else len(whole)
        return [
            pointed_out(
                drawn[0], frozenset(at for letter in found if (at := before + letter) < end)
            ),
            *drawn[1:],
        ]

    def _rows(self, place: int, mark: OptionMark, size: Size, *, highlighted: bool) -> list[Row]:
        pointer = Span(POINTER if highlighted else "  ", "pointer")
        before = Span(mark.text, "key" if mark.chosen is None else "chosen" if mark.chosen else "")
        indent = 2 + cells(mark.text)
        if size.columns >= _WIDE_COLUMNS:
            return self._beside(place, (pointer, before), size.columns - indent, highlighted)
        return self._below(place, (pointer, before), size.columns - indent, highlighted)

    def _beside(self, place: int, before: Row, room: int, highlighted: bool) -> list[Row]:  # noqa: FBT001 (drawn in two ways)
        name, meaning = self._labels[place], self._meanings[place]
        if not meaning:
            return _hung(
                before,
                wrap(name, room) if highlighted else [clip_middle(name, room)],
                "strong" if highlighted else "",
            )
        width = max(self._label_width, 1)
        left = wrap(name, width) if highlighted else [clip_middle(name, width)]
        right = _clipped_rows(
            wrap(meaning, max(1, room - width - 3)), highlighted, room - width - 3
        )
        rows: list[Row] = []
        for at in range(max(len(left), len(right))):
            text = left[at] if at < len(left) else ""
            padded = Span(text + " " * (width - cells(text) + 2), "strong" if highlighted else "")
            start = before if at == 0 else row(" " * sum(cells(span.text) for span in before))
            rows.append(
                (
                    *start,
                    padded,
                    Span(right[at] if at < len(right) else "", "" if highlighted else "dim"),
                )
            )
        return rows

    def _below(self, place: int, before: Row, room: int, highlighted: bool) -> list[Row]:  # noqa: FBT001 (drawn in two ways)
        name, meaning = self._labels[place], self._meanings[place]
        rows = _hung(
            before,
            wrap(name, room) if highlighted else [clip_middle(name, room)],
            "strong" if highlighted else "",
        )
        if highlighted and meaning:
            indent = " " * max(4, sum(cells(span.text) for span in before))
            width = max(1, room + sum(cells(span.text) for span in before) - len(indent) - 1)
            rows += [
                row(indent + text, "dim")
                for text in _clipped_rows(wrap(meaning, width), highlighted, width)
            ]
        return rows


def pointed_out(drawn: Row, letters: frozenset[int]) -> Row:
    """Highlight single characters of a row."""
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
    """Return the keys of the first `count` options, with consecutive keys abbreviated: `1-9,a,c-f`."""
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
    """Return all rows of the highlighted option, or one row of another option. Cut text ends with
    an ellipsis.
    """
    if highlighted or len(rows) <= 1:
        return rows
    return [clip(" ".join(rows), width)]
