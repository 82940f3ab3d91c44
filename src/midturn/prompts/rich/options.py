"""Drawing of options: keys, labels, and descriptions beside or below them."""

from __future__ import annotations

from msgspec import Struct

from midturn.prompts.cells import ELLIPSIS, cells, clip, clip_middle, wrap
from midturn.prompts.content import description, label
from midturn.prompts.rich.screen import POINTER, Row, Size, Span, row, row_text
from midturn.question.answer_type import SelectOption
from midturn.values.json_value import Scalar

KEYS = "123456789acdefghilmnpqtuwxyz"
"""What picks at once: digits, then letters without those that move or leave."""

MOST_WITH_KEYS = 20

_WIDE = 60
_WIDEST_LABEL = 32


class OptionMark(Struct, frozen=True):
    """What stands before an option: its key, and whether it is chosen (None: there are no boxes)."""

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
