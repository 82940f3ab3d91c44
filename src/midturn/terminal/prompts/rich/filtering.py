"""Lists of more than 20 options. Typed text filters the list, Tab selects, and twelve rows are
visible.
"""

from __future__ import annotations

from midturn.events.prompt import Prompt
from midturn.terminal.prompts.accept import Match, Matcher
from midturn.terminal.prompts.cells import cells, hang
from midturn.terminal.prompts.keys import OTHER, escape_hint, label, marked, one_line
from midturn.terminal.prompts.rich.buffer import Buffer
from midturn.terminal.prompts.rich.burst import KeyMode
from midturn.terminal.prompts.rich.keyboard import ENTER, Key, Paste
from midturn.terminal.prompts.rich.listing import OptionList
from midturn.terminal.prompts.rich.screen import (
    POINTER,
    Frame,
    OptionMark,
    Pressed,
    Row,
    Sign,
    Size,
    Span,
    joined,
    parts_rows,
    row,
)

MAX_ROWS = 12

_STEPS = {"up": -1, "c-p": -1, "s-tab": -1, "down": 1, "c-n": 1, "pageup": -10, "pagedown": 10}
_TITLE = "filter: "
_MAX_SELECTED_ROWS = 3
_MAX_KEPT_ROWS = 6


class Filtering(OptionList):
    """Single or multiple choice from the options that match the typed text."""

    marks = "Tab"
    entry = KeyMode(writes=True, decides=ENTER | {"tab"})

    def __init__(self, prompt: Prompt, tail: str) -> None:
        super().__init__(prompt, tail)
        self._escape = escape_hint(prompt) if prompt.exit_leaves_open else "Esc menu"
        self._matcher = Matcher(self._options)
        self._typed = Buffer()
        self._found = self._matcher.find("")
        on_own_words = self.other is not None and not self._several and not marked(prompt)
        self._at = len(self._found) if on_own_words else min(marked(prompt), default=0)

    @property
    def words(self) -> str:
        """Text typed into the filter."""
        return self._typed.text

    def press(self, key: Key) -> Pressed:
        """Handle a key: filter, move or select."""
        self._message = []
        if isinstance(key, Paste):
            self._typed.insert(one_line(key.text))
            self._filter()
        elif key.key in ENTER:
            return self._enter()
        elif key.key == "escape":
            return self._escaped()
        elif key.key in {"tab", "c-space"}:
            return self._mark()
        elif self._several and key.key == "c-a":
            self._mark_all()
        elif key.key in _STEPS:
            self._move(_STEPS[key.key])
        elif not self.words and self._previews.scrolls(key.key):
            return None
        elif not self.words and key.key in {"home", "end"}:
            self._move(len(self._options) + 1 if key.key == "end" else -len(self._options) - 1)
        elif key.character:
            self._typed.type(key.character)
            self._filter()
        elif self._typed.press(key.key):
            self._filter()
        else:
            return Sign.RING
        return None

    def frame(self, size: Size) -> Frame:
        """Draw the question's last row, the filter, the options around the highlighted one, and
        their number.
        """
        title = self._title(size)
        before = cells(_TITLE) + cells(one_line(self.words[: self._typed.cursor]))
        words = self._words_row()
        below = [*self._own_words(size), *self._chosen_rows(size)]
        message = self._said(size)
        longest = len(self._hint(size, len(self._options)))
        room = max(
            1, min(MAX_ROWS, size.rows - len(title) - len(below) - len(message) - longest - 1)
        )
        listed, hidden = self._listed(size, room)
        hint = self._hint(size, hidden)
        blank: list[Row] = [()] * (
            room - len(listed) + longest - len(hint)
        )  # a constant height keeps the rows below in place
        taken = len(title) + 1 + room + longest + len(below) + len(message)
        preview = self._previews.rows(self._place, size.columns, size.rows - taken)
        return Frame(
            joined(title, [words], listed, blank, below, preview, hint, message),
            (len(title), before),
        )

    def kept(self, size: Size) -> list[Row]:
        """Return the rows to display above another view."""
        title = self._title(size)
        words = [self._words_row()] if self.words else []
        chosen = self._chosen_rows(size) if self._chosen else []
        listed, _ = self._listed(
            size,
            max(1, min(_MAX_KEPT_ROWS, size.rows // 3 - len(title) - len(words) - len(chosen))),
        )
        return [*title, *words, *listed, *chosen]

    @property
    def _place(self) -> int:
        """Index of the highlighted option, or -1."""
        return self._found[self._at].place if self._at < len(self._found) else -1

    def _words_row(self) -> Row:
        return (Span(_TITLE, "dim"), Span(f"{one_line(self.words)} "))

    def _escaped(self) -> Pressed:
        if not self.words:
            return Sign.MENU
        self._typed.replace("")
        self._filter()
        return None

    def _filter(self) -> None:
        self._moved()
        at = self._found[self._at].place if self._at < len(self._found) else -1
        self._found = self._matcher.find(self.words)
        places = [hit.place for hit in self._found]
        self._at = places.index(at) if at in places and not self.words else 0

    def _move(self, by: int) -> None:
        rows = len(self._found) + self._type.allow_other
        self._moved()
        if rows:
            self._at = (
                (self._at + by) % rows if abs(by) == 1 else max(0, min(rows - 1, self._at + by))
            )

    def _mark(self) -> Pressed:
        """Select the highlighted option and move to the next.

        In a single choice, Tab only moves.
        """
        if self._several:
            if self._at == len(self._found) and self._type.allow_other:
                return OTHER
            self._chosen ^= {hit.place for hit in self._found[self._at : self._at + 1]}
        self._move(1)
        return None

    def _mark_all(self) -> None:
        visible = {hit.place for hit in self._found}
        self._chosen = self._chosen - visible if visible <= self._chosen else self._chosen | visible

    def _enter(self) -> Pressed:
        if self._several:
            return self._submit()
        if self._at < len(self._found):
            return self._take(self._found[self._at].place)
        if not self._type.allow_other:
            return self._complain("nothing matches: change the filter, or press Esc")
        return OTHER if self.other is None else self._answer({"other": self.other})

    def _listed(self, size: Size, room: int) -> tuple[list[Row], int]:
        """Return the rows of the options that fit, and the number of options that do not fit."""
        if not self._found:
            return [row("  nothing matches", "dim")], 0
        at = min(self._at, len(self._found) - 1)
        full = self._rows(self._found[at], size, highlighted=at == self._at)[:room]
        others = room - len(full)
        first = max(0, min(at - others // 2, len(self._found) - others - 1))
        rows: list[Row] = []
        for number in range(first, min(len(self._found), first + others + 1)):
            rows += (
                full if number == at else self._rows(self._found[number], size, highlighted=False)
            )
        return rows, len(self._found) - min(len(self._found) - first, others + 1)

    def _rows(self, hit: Match, size: Size, *, highlighted: bool) -> list[Row]:
        chosen = hit.place in self._chosen if self._several else None
        return self._drawn.rows(
            hit.place, OptionMark(chosen=chosen), size, highlighted=highlighted, found=hit.letters
        )

    def _own_words(self, size: Size) -> list[Row]:
        """Return the row for free text."""
        if not self._type.allow_other:
            return []
        highlighted = self._at >= len(self._found)
        text = "something else, in your own words" if self.other is None else one_line(self.other)
        box = ("[ ] " if self.other is None else "[x] ") if self._several else ""
        style = "strong" if highlighted else "dim" if self.other is None else "chosen"
        rows = hang(f"{box}{text}", max(1, size.columns - 2), "")
        pointer = Span(POINTER if highlighted else "  ", "pointer")
        return [(pointer, Span(rows[0], style)), *(row(f"  {more}", style) for more in rows[1:])]

    def _chosen_rows(self, size: Size) -> list[Row]:
        """Return the rows of the selected options, which the filter may hide."""
        if not self._several:
            return []
        names = (
            ", ".join(label(self._options[place]) for place in sorted(self._chosen))
            or "nothing yet"
        )
        rows = hang(f"marked: {names}", size.columns, "  ")
        rest = [] if len(rows) <= _MAX_SELECTED_ROWS else ["  …"]
        return [
            row(text, "chosen" if self._chosen else "dim")
            for text in (*rows[:_MAX_SELECTED_ROWS], *rest)
        ]

    def _hint(self, size: Size, hidden: int = 0) -> list[Row]:
        chosen = [self._marked] if self._several else []
        found = f"{len(self._found)}/{len(self._options)}"
        keys = ["Tab marks", "Enter submits"] if self._several else ["Enter picks"]
        more = [f"↓ {hidden} more"] if hidden else []
        parts = [*chosen, found, "type to filter", *keys, self._escape, *more]
        return parts_rows(parts, size.columns)
