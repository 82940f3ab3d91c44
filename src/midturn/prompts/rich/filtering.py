"""More than 20 options: typing filters, twelve rows are seen."""

from __future__ import annotations

from typing import cast

from midturn.core.prompt import Prompt
from midturn.core.question.answer_type import MultiSelectType, SelectType
from midturn.core.reply import Answered
from midturn.prompts.accept import NotAccepted, accept
from midturn.prompts.cells import cells, hang, wrap
from midturn.prompts.choosing import matching
from midturn.prompts.content import first_other, marked, one_line
from midturn.prompts.rich.buffer import Buffer
from midturn.prompts.rich.face import Outcome, Sign
from midturn.prompts.rich.key import ENTER, Key, Paste
from midturn.prompts.rich.listing import chosen_values, other_rows
from midturn.prompts.rich.options import Mark, Options
from midturn.prompts.rich.screen import Frame, Row, Size, joined, row

MOST_ROWS = 12

_STEPS = {"up": -1, "c-p": -1, "s-tab": -1, "down": 1, "c-n": 1, "tab": 1, "pageup": -10, "pagedown": 10}
_TITLE = "filter: "


class Filtering:
    """Pick one, or mark several, among the options that have all typed words in their label or description."""

    submits = None

    def __init__(self, prompt: Prompt, tail: str) -> None:
        self._prompt = prompt
        self._tail = tail
        self._type = cast("SelectType | MultiSelectType", prompt.question.answer_type)
        self._drawn = Options(self._type.options)
        self._words = Buffer()
        self._found = list(range(len(self._type.options)))
        self._chosen = set(marked(prompt)) if self._several else set[int]()
        self._at = min(marked(prompt), default=0)
        self._message: list[str] = []
        self.other = first_other(prompt) if self._several else None

    @property
    def empty(self) -> bool:
        """Whether there is no filter."""
        return not self._words.text

    @property
    def _several(self) -> bool:
        return isinstance(self._type, MultiSelectType)

    def press(self, key: Key) -> Outcome:
        """Filter, move, pick or mark."""
        self._message = []
        if isinstance(key, Paste):
            self._words.insert(one_line(key.text))
            self._filter()
        elif key.key in ENTER:
            return self._enter()
        elif key.key == "escape":
            return self._escape()
        elif self._several and key.key in {" ", "c-space"}:
            self._chosen ^= set(self._found[self._at : self._at + 1])
        elif self._several and key.key == "c-a":
            self._mark_all()
        elif key.key in _STEPS:
            self._move(_STEPS[key.key])
        elif key.character:
            self._words.type(key.character)
            self._filter()
        elif self._words.press(key.key):
            self._filter()
        else:
            return Sign.RING
        return None

    def frame(self, size: Size) -> Frame:
        """Draw the question's last row, the filter, the options around the highlighted one, and how many there are."""
        title = [row(text) for text in hang(self._tail, size.columns, "  ")]
        before = cells(_TITLE) + cells(one_line(self._words.text[: self._words.cursor]))
        words = row(f"{_TITLE}{one_line(self._words.text)} ")
        below = other_rows(self.other, size)
        room = size.rows - len(title) - len(below) - len(self._hint(size, len(self._found))) - 1
        listed, hidden = self._listed(size, max(1, min(MOST_ROWS, room)))
        hint = self._hint(size, hidden)
        message = [row(text, "error") for line in self._message for text in wrap(line, size.columns)]
        return Frame(joined(title, [words], listed, below, hint, message), (len(title), before))

    def _escape(self) -> Outcome:
        if not self._words.text:
            return Sign.MENU
        self._words.replace("")
        self._filter()
        return None

    def _filter(self) -> None:
        at = self._found[self._at] if self._at < len(self._found) else -1
        self._found = matching(self._words.text, self._type.options)
        self._at = self._found.index(at) if at in self._found else 0

    def _move(self, by: int) -> None:
        if self._found:
            self._at = (self._at + by) % len(self._found) if abs(by) == 1 else max(0, min(len(self._found) - 1, self._at + by))

    def _mark_all(self) -> None:
        visible = set(self._found)
        self._chosen = self._chosen - visible if visible <= self._chosen else self._chosen | visible

    def _enter(self) -> Outcome:
        if not self._several and not self._found:
            self._message = ["nothing matches: change the filter, or press Esc"]
            return Sign.RING
        try:
            if self._several:
                return Answered(accept(self._prompt, chosen_values(self._prompt, self._chosen, self.other)))
            return Answered(accept(self._prompt, self._type.options[self._found[self._at]].value))
        except NotAccepted as error:
            self._message = error.lines
            return Sign.RING

    def _listed(self, size: Size, room: int) -> tuple[list[Row], int]:
        """Return the rows of the options that are seen, and how many options are not."""
        if not self._found:
            return [row("  nothing matches", "dim")], 0
        full = self._rows(self._at, size, highlighted=True)[:room]
        others = room - len(full)
        first = max(0, min(self._at - others // 2, len(self._found) - others - 1))
        rows: list[Row] = []
        for at in range(first, min(len(self._found), first + others + 1)):
            rows += full if at == self._at else self._rows(at, size, highlighted=False)
        return rows, len(self._found) - min(len(self._found) - first, others + 1)

    def _rows(self, at: int, size: Size, *, highlighted: bool) -> list[Row]:
        place = self._found[at]
        chosen = place in self._chosen if self._several else None
        return self._drawn.rows(place, Mark(chosen=chosen), size, highlighted=highlighted)

    def _hint(self, size: Size, hidden: int = 0) -> list[Row]:
        chosen = f"{len(self._chosen) + (self.other is not None)} chosen · " if self._several else ""
        keys = "Space marks, Enter submits" if self._several else "Enter picks"
        more = f" · ↓ {hidden} more" if hidden else ""
        text = f"{chosen}{len(self._found)}/{len(self._type.options)} type to filter, {keys}, Esc cancels{more}"
        return [row(part, "key") for part in wrap(text, size.columns)]
