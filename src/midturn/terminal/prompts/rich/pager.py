"""The rows above a question (context, and diffs with line numbers), and the full-screen pager that
shows them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from msgspec import Struct

from midturn.question.reply import EndedTurn, Reply
from midturn.question.text import prose
from midturn.terminal.prompts.cells import cells, clip
from midturn.terminal.prompts.changes import ChangeRow, hunk_end
from midturn.terminal.prompts.keys import DIFFS, code_line, diff_line, one_line
from midturn.terminal.prompts.rich.buffer import Buffer
from midturn.terminal.prompts.rich.burst import NOTHING_CHOSEN, KeyMode
from midturn.terminal.prompts.rich.keyboard import ENTER, Key, Paste, Press
from midturn.terminal.prompts.rich.screen import (
    Frame,
    Pressed,
    Row,
    Sign,
    Size,
    Span,
    Style,
    cut,
    fitted,
    joined,
    row,
    row_cells,
    row_text,
    wrapped,
)

# --------------------------------------------------------------------------------------------------
# Diffs: line numbers in the margin, and the changed parts of a line highlighted


_HUNK = re.compile(r"@@ -(\d{1,7})(?:,(\d{1,7}))? \+(\d{1,7})(?:,(\d{1,7}))? @@")
_HUNK_BEGINS = re.compile(r"@@ ")
_SIGNS = {"add": "+", "del": "-", "same": " "}
_MIN_COLUMNS_WITH_NUMBERS = 24  # minimum width in cells of a window with line numbers
_CHANGES: dict[str, Style] = {"+": "added", "-": "removed"}
_WITHIN: dict[str, Style] = {"+": "inserted", "-": "deleted"}


class ContextLine(Struct, frozen=True):
    """One line of a context.

    If `kept` is true, the line is broken at any character, otherwise between words. `margin` is the
    line number, which is displayed before the line and is not part of its text.
    """

    spans: Row
    kept: bool = False
    margin: str = ""

    def rows(self, width: int) -> list[Row]:
        """Return the rows of the line at this width."""
        room = width - len(self.margin)
        if not self.margin or room < _MIN_COLUMNS_WITH_NUMBERS:
            return (cut if self.kept else wrapped)(self.spans, width)
        first, *more = cut(self.spans, room)
        beside = [Span(self.margin, "dim"), Span(" " * len(self.margin))]
        return [(beside[0], *first), *((beside[1], *spans) for spans in more)]


def diff_lines(lines: Sequence[str]) -> list[ContextLine]:
    """Return the lines of a diff with every character visible.

    The line numbers are computed from the hunk headers.
    """
    read = list(_numbered(lines))
    margin = max((len(str(line.number)) for line in read if line.number), default=0)
    marked = _marked(read)
    return [
        ContextLine(spans, kept=True, margin=_margin(line, margin))
        for line, spans in zip(read, marked, strict=True)
    ]


def change_lines(rows: Sequence[ChangeRow]) -> list[ContextLine]:
    """Return the rows of a file change in the format of `diff_lines`."""
    read = [_Line(row.line, _SIGNS.get(row.kind, ""), row.new or row.old) for row in rows]
    margin = max((len(str(line.number)) for line in read if line.number), default=0)
    return [
        ContextLine(spans, kept=True, margin=_margin(line, margin))
        for line, spans in zip(read, _marked(read), strict=True)
    ]


class _Line(Struct, frozen=True):
    """A displayed line. `sign` is its first column if the line is part of a hunk, else empty."""

    shown: str
    sign: str = ""
    number: int = 0


def _margin(line: _Line, digits: int) -> str:
    if not digits or not (line.sign or line.shown.startswith("\\")):
        return ""
    return f"{line.number or '':>{digits}} "


def _numbered(lines: Sequence[str]) -> Iterator[_Line]:
    """Yield each line with its sign and number.

    The lines of a hunk are counted, because a removed line can look like a file header.
    """
    old = new = end = 0
    for at, line in enumerate(lines):
        shown = diff_line(line)
        if at >= end and (found := _HUNK.match(line)):
            old, new = int(found[1]), int(found[3])
            end = hunk_end(lines, at)
            yield _Line(shown)
        elif at < end and (sign := line[:1] or " ") in " +-":
            yield _Line(shown, sign, old if sign == "-" else new)
            old, new = old + (sign != "+"), new + (sign != "-")
        elif line.startswith(("+++", "---")):
            yield _Line(shown)
        else:
            yield _Line(shown, line[:1] if line[:1] in _CHANGES else "")


def _marked(lines: Sequence[_Line]) -> list[Row]:
    """Return coloured rows.

    If a removed block is followed by an added block of the same length, their lines are compared
    one by one.
    """
    rows = [_coloured(line) for line in lines]
    at = 0
    while at < len(lines):
        removed = _run(lines, at, "-")
        added = _run(lines, removed, "+")
        if removed - at == added - removed:
            for old in range(at, removed):
                new = old + removed - at
                rows[old], rows[new] = _compared(lines[old], lines[new])
        at = max(added, at + 1)
    return rows


def _run(lines: Sequence[_Line], start: int, sign: str) -> int:
    """Return the end of the run of lines with this sign that begins at `start`."""
    end = start
    while end < len(lines) and lines[end].sign == sign:
        end += 1
    return end


def _coloured(line: _Line) -> Row:
    if line.sign:
        return row(line.shown, _CHANGES.get(line.sign, ""))
    if _HUNK_BEGINS.match(line.shown):
        return row(line.shown, "hunk")
    return row(line.shown, "strong" if line.shown.startswith(("+++", "---")) else "")


def _compared(old: _Line, new: _Line) -> tuple[Row, Row]:
    """Highlight the part in which two lines differ, between their common start and their common
    end.

    If the lines have little in common, highlight nothing.
    """
    before, after = old.shown[1:], new.shown[1:]
    start = _alike(before, after)
    end = _alike(before[start:][::-1], after[start:][::-1])
    if not (before[:start].strip() or before[len(before) - end :].strip()):
        return _coloured(old), _coloured(new)
    return _split(old, start + 1, len(old.shown) - end), _split(
        new, start + 1, len(new.shown) - end
    )


def _alike(one: str, other: str) -> int:
    """Return the length of the common prefix."""
    return next(
        (at for at, (mine, its) in enumerate(zip(one, other, strict=False)) if mine != its),
        min(len(one), len(other)),
    )


def _split(line: _Line, start: int, end: int) -> Row:
    style, within = _CHANGES[line.sign], _WITHIN[line.sign]
    spans = (
        Span(line.shown[:start], style),
        Span(line.shown[start:end], within),
        Span(line.shown[end:], style),
    )
    return tuple(span for span in spans if row_cells([span]))


# --------------------------------------------------------------------------------------------------
# The full-screen pager


_CLOSE = frozenset({"q", "escape", "v"})
_NEXT = frozenset({" ", "pagedown", "enter", "c-f", "c-d", "c-j"})
_BACK = frozenset({"b", "pageup", "c-b", "backspace"})
_PAGES = KeyMode(moves=frozenset({*_NEXT, *_BACK, "j", "k", "g", "G", "n", "N"}))
_WORDS = KeyMode(writes=True, decides=ENTER)
_KEYS = (
    " · Space next · b back · ↑↓ j k · / search · q back to the question",
    " · Space next · b back · / search · q close",
    " · Space · b · / · q close",
    " · q close",
)
"""Key hints for the bar, longest first. The first one that fits is displayed."""


class Pager:
    """A full-screen view of many rows, laid out for the current width.

    It counts the rows that have not been displayed yet.
    """

    def __init__(
        self,
        layout: Callable[[int], Sequence[Row]],
        first: int = 0,
        exit_reply: Reply | None = None,
    ) -> None:
        self._layout = layout
        self._exit_reply = exit_reply or EndedTurn()
        self._columns = 0
        self._rows: Sequence[Row] = ()
        self._first = first
        self._room = 10
        self._unseen: set[int] | None = None
        self._shown_before = first
        self._search: Buffer | None = None
        self._words = ""
        self._note = ""

    @property
    def unseen(self) -> int:
        """Number of rows that have not been displayed.

        Rows printed above the question count as displayed.
        """
        return len(self._unseen) if self._unseen is not None else len(self._rows)

    @property
    def entry(self) -> KeyMode:
        """How keys are interpreted now."""
        return _WORDS if self._search is not None else _PAGES

    def press(self, key: Key, now: float) -> Pressed:  # noqa: PLR0911 (one for each thing that a key may do)
        """Handle a key: turn the page, move by one row, search, or close."""
        del now
        self._note = ""
        if isinstance(key, Press) and key.key == "c-c":
            return self._exit_reply
        if isinstance(key, Press) and key.key == "c-z":
            return Sign.SUSPEND
        if self._search is not None:
            return self._press_in_search(key, self._search)
        if isinstance(key, Paste):
            self._note = NOTHING_CHOSEN
            return Sign.RING
        if key.key in _CLOSE:
            return Sign.LEAVE
        if key.key == "/":
            self._search = Buffer()
            return None
        if key.key in {"n", "N"} and self._words:
            return self._find(1 if key.key == "n" else -1)
        step = self._step(key.key)
        if step is None:
            return Sign.RING
        self._first += step
        return None

    def frame(self, size: Size) -> Frame:
        """Draw the rows that fit, and the bar with the position."""
        if size.columns != self._columns:
            self._lay_out(size.columns)
        self._room = max(1, size.rows - 1)
        self._first = max(0, min(self._first, len(self._rows) - self._room))
        shown = self._rows[self._first : self._first + self._room]
        end = self._first + len(shown)
        if self._unseen is not None:
            self._unseen -= set(range(self._first, end))
        blank: list[Row] = [()] * (self._room - len(shown))
        bar = self._bar(end, size)
        return fitted(
            Frame(
                joined(shown, blank, [row(bar, "key")]),
                (self._room, min(len(bar), size.columns - 1)),
            ),
            size,
        )

    def _lay_out(self, columns: int) -> None:
        """Lay out the rows for a new width.

        If all rows were displayed before, all rows still count as displayed. Otherwise only the
        rows printed above the question count as displayed.
        """
        all_seen = self._unseen is not None and not self._unseen
        before = self._rows[self._first : self._first + 1]
        self._rows, self._columns = self._layout(columns), columns
        if all_seen:
            return
        self._unseen = set(range(min(self._shown_before, len(self._rows)), len(self._rows)))
        if before and before[0] in self._rows:
            self._first = list(self._rows).index(before[0])

    def _bar(self, end: int, size: Size) -> str:
        if self._search is not None:
            return clip(f"/{one_line(self._search.text)}", size.columns)
        place = f"rows {self._first + 1}-{end} of {len(self._rows)}"
        keys = next((keys for keys in _KEYS if cells(f"{place}{keys}") < size.columns), _KEYS[-1])
        return clip(self._note or f"{place}{keys}", size.columns - 1)

    def _press_in_search(self, key: Key, words: Buffer) -> Pressed:
        if isinstance(key, Paste):
            words.insert(one_line(key.text))
        elif key.key in ENTER:
            self._search, self._words = None, words.text or self._words
            return self._find(1) if self._words else None
        elif key.key == "escape" or (key.key == "backspace" and not words.text):
            self._search = None
        elif key.character:
            words.type(key.character)
        else:
            words.press(key.key)
        return None

    def _find(self, step: int) -> Pressed:
        """Go to the next row that contains the search text. The search continues at the other end
        of the rows.
        """
        wanted = self._words.casefold()
        count = len(self._rows)
        for by in range(1, count + 1):
            at = (self._first + step * by) % count
            if wanted in row_text(self._rows[at]).casefold():
                self._first = at
                return None
        self._note = f"no row contains {one_line(self._words)}"
        return Sign.RING

    def _step(self, key: str) -> int | None:
        if key in _NEXT:
            return self._room
        if key in _BACK:
            return -self._room
        count = len(self._rows)
        return {
            "down": 1,
            "j": 1,
            "up": -1,
            "k": -1,
            "home": -count,
            "g": -count,
            "end": count,
            "G": count,
        }.get(key)


ContextRows: TypeAlias = Callable[[str, int], Sequence[Row]]
"""Function that lays out a context in rows of a given width."""

_FENCE = re.compile(r"\s{0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r"\s{0,3}#{1,6}\s+(?P<text>.*)")
_INLINE = re.compile(
    r"(?P<code>`[^`]+`)|(?P<strong>\*\*[^*\s](?:[^*]*[^*\s])?\*\*)|(?P<emphasis>(?<![\w*])\*[^*\s](?:[^*]*[^*\s])?\*(?![\w*]))"
)
_DIFF_BEGINS = ("diff --git ", "@@ -")
_DIFF_LINES = (
    " ",
    "+",
    "-",
    "@",
    "\\",
    "diff ",
    "index ",
    "new file",
    "deleted file",
    "old mode",
    "new mode",
    "similarity ",
    "rename ",
    "Binary ",
)


def markdown_lines(text: str) -> list[ContextLine]:
    """Return the lines of a context with every character visible."""
    return list(_read(text.rstrip("\n").split("\n"))) if text else []


def plain_context(text: str, width: int) -> list[Row]:
    """Return the rows of a context at this width."""
    return [found for line in markdown_lines(text) for found in line.rows(width)]


def json_spans(line: str) -> Row:
    """Return a displayable line of JSON, with colours."""
    spans: list[Span] = []
    at = 0
    for found in _JSON.finditer(line):
        spans += [Span(line[at : found.start()])] if found.start() > at else []
        spans.append(Span(found[0], _JSON_STYLES.get(found.lastgroup or "", "")))
        at = found.end()
    return (*spans, Span(line[at:])) if at < len(line) or not spans else tuple(spans)


def argument_spans(line: str) -> Row:
    """Colour the name of an argument.

    Indented lines belong to a multi-line value and stay uncoloured.
    """
    name, colon, rest = line.partition(":")
    if line.startswith(" ") or not colon:
        return row(line)
    return (Span(f"{name}:", "name"), *([Span(rest)] if rest else []))


def diff_spans(line: str) -> Row:
    """Return a displayable line of a diff with its colour."""
    return row(line, _CHANGES.get(line[:1], ""))


_JSON = re.compile(
    r'(?P<name>"(?:\\.|[^"\\])*"(?=\s*:))|(?P<string>"(?:\\.|[^"\\])*"?)|(?P<number>-?\d[\d.eE+-]*|\b(?:true|false|null)\b)'
)
_JSON_STYLES: dict[str, Style] = {"name": "name", "string": "string", "number": "number"}


def _read(lines: list[str]) -> Iterator[ContextLine]:
    fence = ""
    language = ""
    diff = list[str]()
    for number, line in enumerate(lines):
        begins = not fence and (
            begins_diff(lines, number) or (diff and (not line or line.startswith(_DIFF_LINES)))
        )
        if begins or (fence and language in DIFFS and not _closes(line, fence)):
            diff.append(line)
            continue
        yield from diff_lines(diff)
        diff.clear()
        if found := _FENCE.match(line):
            if not fence:
                fence, language = found[1], line[found.end() :].strip()
                continue
            if found[1].startswith(fence):
                fence = ""
                continue
        if fence or line.startswith(("    ", "\t")):
            yield ContextLine(row(code_line(line), "code"), kept=True)
        else:
            yield ContextLine(_prose(line.removesuffix("\r")))
    yield from diff_lines(diff)


def _closes(line: str, fence: str) -> bool:
    found = _FENCE.match(line)
    return found is not None and found[1].startswith(fence)


def begins_diff(lines: list[str], number: int) -> bool:
    """Return whether a diff without a code fence begins at line `number`."""
    line = lines[number]
    following = lines[number + 1] if number + 1 < len(lines) else ""
    return line.startswith(_DIFF_BEGINS) or (
        line.startswith("--- ") and following.startswith("+++ ")
    )


def _prose(line: str) -> Row:
    if found := _HEADING.fullmatch(line):
        return row(prose(found["text"]), "heading")
    spans: list[Span] = []
    at = 0
    for found in _INLINE.finditer(line):
        spans += [Span(prose(line[at : found.start()]))] if found.start() > at else []
        kind = found.lastgroup or ""
        marks = 2 if kind == "strong" else 1
        spans.append(Span(prose(found[0][marks:-marks]), _INLINE_STYLES[kind]))
        at = found.end()
    return (*spans, Span(prose(line[at:]))) if at < len(line) or not spans else tuple(spans)


_INLINE_STYLES: dict[str, Style] = {"code": "code", "strong": "strong", "emphasis": "emphasis"}
