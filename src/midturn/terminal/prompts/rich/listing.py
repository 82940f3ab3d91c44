"""Lists of up to 20 options.

The key of an option selects it immediately, and arrows move. Free text and Skip are rows of the
list.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, cast

from midturn.events.prompt import Prompt
from midturn.question.answer_type import MultiSelectType, SelectType, folded
from midturn.question.json_value import Json
from midturn.question.reply import Answered
from midturn.terminal.prompts.accept import (
    NotAccepted,
    accept,
    bounds,
    chosen_values,
    unchosen,
    unchosen_once,
    unmarked,
    unmarked_once,
)
from midturn.terminal.prompts.answer_text import choice_text
from midturn.terminal.prompts.cells import BETWEEN, cells, hang, wrap
from midturn.terminal.prompts.keys import (
    Command,
    Commands,
    KeyStep,
    first_other,
    label,
    leaves,
    marked,
    skipped,
)
from midturn.terminal.prompts.rich import screen
from midturn.terminal.prompts.rich.burst import NOTHING_CHOSEN, KeyMode
from midturn.terminal.prompts.rich.choice import Help, help_rows, key_row
from midturn.terminal.prompts.rich.keyboard import ENTER, Key, Paste
from midturn.terminal.prompts.rich.preview import PreviewPane

_STEPS = {"up": -1, "k": -1, "c-p": -1, "s-tab": -1, "down": 1, "j": 1, "c-n": 1, "tab": 1}
_PAGE = 10
_BELOW = "o-"
"""Keys of the commands that are shown as rows below the options."""


class OptionList:
    """Base of every list of options.

    It handles the selection, the answer that Enter submits, and answers that need confirmation.

    `other` is the free text that is part of the selection.
    """

    submits = None
    entry = KeyMode(moves=frozenset({"j", "k", "tab"}))
    marks: ClassVar[str] = "Space"
    """Name of the key that selects the highlighted option."""

    def __init__(self, prompt: Prompt, tail: str) -> None:
        self._prompt = prompt
        self._tail = tail
        self._type = cast("SelectType | MultiSelectType", prompt.question.answer_type)
        self._options = self._type.options
        self._several = isinstance(self._type, MultiSelectType)
        self._chosen = set(marked(prompt)) if self._several else set[int]()
        self._drawn = screen.OptionRows(self._options)
        self._previews = PreviewPane(self._options)
        self._refuses = unmarked_once(prompt) if self._several else unchosen_once(prompt)
        self._message: list[str] = []
        self.other = first_other(prompt)
        self._at = 0

    @property
    def words(self) -> str:
        """Text typed into the filter, or an empty string."""
        return ""

    @property
    def empty(self) -> bool:
        """Whether nothing has been typed."""
        return not self.words

    @property
    def marked_values(self) -> list[Json]:
        """Values of the selected options, and the free text."""
        return chosen_values(self._options, self._chosen, self.other) if self._several else []

    def retitle(self, title: str) -> None:
        """Replace the last row of the question after a resize."""
        self._tail = title

    def _title(self, size: screen.Size) -> list[screen.Row]:
        return [screen.row(text) for text in hang(self._tail, size.columns, "  ")]

    def _said(self, size: screen.Size) -> list[screen.Row]:
        """Return the rows of the message about the last key."""
        return [
            screen.row(text, "error") for line in self._message for text in wrap(line, size.columns)
        ]

    def _complain(self, *lines: str) -> screen.Sign:
        self._message = list(lines)
        return screen.Sign.RING

    def _answer(self, value: Json) -> screen.Pressed:
        try:
            return Answered(accept(self._prompt, value))
        except NotAccepted as error:
            return self._complain(*error.lines)

    def _submit(self) -> screen.Pressed:
        """Submit all selected options."""
        values = chosen_values(self._options, self._chosen, self.other)
        if not values and self._refuses.now():
            return self._complain(unmarked(self.marks))
        return self._answer(values)

    def _moved(self) -> None:
        """After a move, treat the highlighted option of a single choice as selected."""
        if not self._several:
            self._refuses.not_any_more()

    def _take(self, place: int) -> screen.Pressed:
        """Submit the highlighted option, unless it must be confirmed first."""
        if self._refuses.now():
            return self._complain(unchosen(label(self._options[place])))
        return self._answer(self._options[place].value)

    @property
    def _marked(self) -> str:
        """Number of selected options, and the minimum and maximum."""
        limits = f" ({limited})" if (limited := bounds(cast("MultiSelectType", self._type))) else ""
        return f"{len(self._chosen) + (self.other is not None)} chosen{limits}"


class Listing(OptionList, ABC):
    """Base of the single-choice and the multiple-choice list."""

    def __init__(self, prompt: Prompt, tail: str, offered: Commands) -> None:
        super().__init__(prompt, tail)
        keys = {
            *_STEPS,
            *screen.KEYS[: len(self._options)],
        }  # a command with one of these keys is only in the menu that Esc opens
        self._offered = offered = tuple(command for command in offered if command.key not in keys)
        self._by_key = {command.key: command for command in self._offered}
        self._below = tuple(command for command in offered if command.key in _BELOW)
        self._initials = [_initial(label(option)) for option in self._options]
        self._tallest: tuple[int, str | None, int] = (0, None, 0)
        self._at = self._start()
        self._help = Help()

    def press(self, key: Key) -> screen.Pressed:  # noqa: PLR0911 (one for each thing that a key may do)
        """Handle a key: move, select, toggle, or run a command."""
        self._message = []
        if isinstance(key, Paste):
            return self._complain(NOTHING_CHOSEN)
        if self._help.scrolls(key.key) or self._previews.scrolls(key.key):
            return None
        if key.key == "escape":
            return screen.Sign.MENU
        command = self._by_key.get(key.key)
        if command is not None and command.does is KeyStep.HELP:
            self._help.toggle()
            return None
        if command is not None:
            return command
        place = screen.KEYS.find(key.character) if key.character else -1
        if 0 <= place < len(self._options):
            self._at = place
            return self._pick()
        if self._move(key.key) or self._goes_to(key.character):
            return None
        return self._other_key(key.key)

    def frame(self, size: screen.Size) -> screen.Frame:
        """Draw the question's last row, the options and the keys.

        The cursor is on the highlighted row.
        """
        title = self._title(size)
        hint = screen.parts_rows(self._hint().split(BETWEEN), size.columns)
        keys = key_row(
            tuple(command for command in self._offered if command not in self._below), size.columns
        )
        message = self._said(size)
        drawn = [
            self._row(place, size, highlighted=place == self._at) for place in range(self._rows)
        ]
        listed, cursor = _window(
            drawn, self._at, size.rows - len(title) - len(hint) - 1 - len(message)
        )
        cursor += len(title)
        steady = self._steady(size) - len(listed)
        helped = self._helped(size) if self._help.is_open else []
        others = len(title) + len(listed) + len(hint) + 1 + len(message)
        if (
            helped and others + len(helped) > size.rows
        ):  # the help replaces the list if both do not fit
            window = self._help.window(helped, size.rows - len(title) - 1 - len(message))
            return screen.Frame(screen.joined(title, window, [keys], message), (len(title) - 1, 0))
        self._help.window(helped, len(helped))
        blank: list[screen.Row] = [()] * max(0, min(steady, size.rows - others - len(helped)))
        left = size.rows - others - len(helped) - len(blank)
        preview = [] if helped else self._previews.rows(self._at, size.columns, left)
        return screen.Frame(
            screen.joined(title, listed, blank, preview, hint, [keys], helped, message), (cursor, 2)
        )

    def kept(self, size: screen.Size) -> list[screen.Row]:
        """Return the question and the options, one row each, to display above another view."""
        return [
            *self._title(size),
            *(
                drawn
                for place in range(self._rows)
                for drawn in self._row(place, size, highlighted=False)
            ),
        ]

    @property
    def _rows(self) -> int:
        return len(self._options) + len(self._below)

    def _start(self) -> int:
        """Return the row that is highlighted at the start, which Enter submits."""
        keys = [command.key for command in self._below]
        if "-" in keys and skipped(self._prompt):
            return len(self._options) + keys.index("-")
        if "o" in keys and self.other is not None and not marked(self._prompt):
            return len(self._options) + keys.index("o")
        return min(marked(self._prompt), default=0)

    def _below_at(self) -> Command | None:
        """Return the command of the highlighted row, or None if it is an option."""
        place = self._at - len(self._options)
        return self._below[place] if place >= 0 else None

    def _row(self, place: int, size: screen.Size, *, highlighted: bool) -> list[screen.Row]:
        if place < len(self._options):
            return self._drawn.rows(place, self._mark(place), size, highlighted=highlighted)
        return self._row_below(
            self._below[place - len(self._options)], size, highlighted=highlighted
        )

    def _row_below(
        self, command: Command, size: screen.Size, *, highlighted: bool
    ) -> list[screen.Row]:
        chosen = command.key == "o" and self.other is not None
        mark = screen.OptionMark(
            command.key, chosen=chosen if self._several and command.key == "o" else None
        ).text
        text = choice_text({"other": self.other}) if chosen else _IN_WORDS[command.key]
        first, *more = hang(text, max(1, size.columns - 2 - cells(mark)), "")
        pointer = screen.Span(screen.POINTER if highlighted else "  ", "pointer")
        style = "chosen" if chosen else "strong" if highlighted else "dim"
        return [
            (pointer, screen.Span(mark, "key"), screen.Span(first, style)),
            *(screen.row(" " * (2 + cells(mark)) + text, style) for text in more),
        ]

    def _move(self, key: str) -> bool:
        match key:
            case "pageup" | "pagedown":
                self._at = max(
                    0, min(self._rows - 1, self._at + (_PAGE if key == "pagedown" else -_PAGE))
                )
            case "home" | "end":
                self._at = 0 if key == "home" else self._rows - 1
            case _ if key in _STEPS:
                self._at = (self._at + _STEPS[key]) % self._rows
            case _:
                return False
        return True

    def _goes_to(self, letter: str) -> bool:
        """Move to the next option that begins with the letter."""
        count = len(self._options)
        ahead = (
            [(self._at + by) % count for by in range(1, count + 1)]
            if self._at < count
            else range(count)
        )
        place = next(
            (place for place in ahead if letter and self._initials[place] == _initial(letter)), None
        )
        if place is None:
            return False
        self._at = place
        return True

    def _steady(self, size: screen.Size) -> int:
        """Return the height of the list while its longest option is highlighted.

        If there is room, the list always has this height, so that it does not move.
        """
        if self._tallest[:2] != (size.columns, self.other):
            low = [len(self._row(place, size, highlighted=False)) for place in range(self._rows)]
            more = max(
                len(self._row(place, size, highlighted=True)) - low[place]
                for place in range(self._rows)
            )
            self._tallest = (size.columns, self.other, sum(low) + more)
        return self._tallest[2]

    def _mark(self, place: int) -> screen.OptionMark:
        return screen.OptionMark(screen.KEYS[place])

    def _helped(self, size: screen.Size) -> list[screen.Row]:
        """Return the help: the keys that move and select, then the keys that leave."""
        lines = [*self._help_lines(), *([] if self._previews.is_empty else [_SCROLLS])]
        return [
            *help_rows((), lines, size),
            *help_rows(self._offered, [f"Ctrl-C - {leaves(self._prompt)}"], size),
        ]

    @property
    def _escape_help(self) -> str:
        return leaves(self._prompt) if self._prompt.exit_leaves_open else "cancel menu"

    @abstractmethod
    def _pick(self) -> screen.Pressed:
        """Select the highlighted option, or return the command of the highlighted row."""

    @abstractmethod
    def _other_key(self, key: str) -> screen.Pressed:
        """Handle a key that is specific to this kind of list."""

    @abstractmethod
    def _hint(self) -> str:
        """Return a hint on one row: how to select, and how many options to select."""

    @abstractmethod
    def _help_lines(self) -> list[str]:
        """Return the help for the keys that move and select."""


_IN_WORDS = {"o": "something else, in your own words", "-": "none of this: skip the question"}


_SCROLLS = "← → - scroll the preview of the highlighted option"


def _window(drawn: list[list[screen.Row]], at: int, room: int) -> tuple[list[screen.Row], int]:
    """Return the rows of the options that fit around the highlighted option, and its offset in
    these rows.
    """
    if sum(map(len, drawn)) <= room:
        return [found for rows in drawn for found in rows], sum(map(len, drawn[:at]))
    room = max(1, room - 1)
    first = last = at
    used = len(drawn[at])
    while True:
        if last + 1 < len(drawn) and used + len(drawn[last + 1]) <= room:
            last += 1
            used += len(drawn[last])
        elif first > 0 and used + len(drawn[first - 1]) <= room:
            first -= 1
            used += len(drawn[first])
        else:
            break
    shown = [found for rows in drawn[first : last + 1] for found in rows][:room]
    hidden = len(drawn) - (last + 1 - first)
    more = [screen.row(f"  … {hidden} more", "dim")] if hidden else []
    return [*shown, *more], sum(map(len, drawn[first:at]))


def _initial(text: str) -> str:
    return folded(text)[:1]


# --------------------------------------------------------------------------------------------------
# Single choice and multiple choice of up to 20 options


_MOVES = (
    "↑↓, j/k, Tab, PgUp/PgDn - move",
    "a letter - go to the next option that begins with it; if the letter is a key, with Shift",
)


class PickOne(Listing):
    """Single choice: an option's key submits that option, and Enter submits the highlighted one."""

    def press(self, key: Key) -> screen.Pressed:
        """Handle a key. After a move, the highlighted option counts as selected."""
        before = self._at
        pressed = super().press(key)
        if self._at != before:
            self._moved()
        return pressed

    def _pick(self) -> screen.Pressed:
        below = self._below_at()
        if below is None:
            return self._answer(self._options[self._at].value)
        if below.key == "o" and self.other is not None:
            return self._answer({"other": self.other})
        return below

    def _other_key(self, key: str) -> screen.Pressed:
        if key not in ENTER:
            return self._complain(_no_option(key))
        return self._take(self._at) if self._below_at() is None else self._pick()

    def _hint(self) -> str:
        return f"{screen.key_names(len(self._options))} or Enter picks"

    def _help_lines(self) -> list[str]:
        return [
            *_MOVES,
            (
                "an option's key - pick it at once; Enter - pick the highlighted one; Esc -"
                f" {self._escape_help}"
            ),
        ]


class MarkSeveral(Listing):
    """Multiple choice.

    Space or an option's key selects or deselects, and Enter submits. Free text can be part of the
    answer.
    """

    def _pick(self) -> screen.Pressed:
        below = self._below_at()
        if below is not None:
            return below
        self._chosen ^= {self._at}
        return None

    def _other_key(self, key: str) -> screen.Pressed:
        everything = set(range(len(self._options)))
        if key in ENTER:
            below = self._below_at()
            return below if below is not None and below.key == "-" else self._submit()
        if key in {" ", "c-space"}:
            return self._pick()
        if key == "c-a":
            self._chosen = set[int]() if self._chosen == everything else everything
            return None
        return self._complain(_no_option(key))

    def _mark(self, place: int) -> screen.OptionMark:
        return screen.OptionMark(screen.KEYS[place], chosen=place in self._chosen)

    def _hint(self) -> str:
        return f"{self._marked} · Space marks, Enter submits"

    def _help_lines(self) -> list[str]:
        return [
            *_MOVES,
            (
                "Space or an option's key - select or deselect it; Ctrl-A - all or none; Enter - submit;"
                f" Esc - {self._escape_help}"
            ),
        ]


def _no_option(key: str) -> str:
    return (
        f"{key} is not an option; press ? for help"
        if len(key) == 1
        else "that key does nothing here; press ? for help"
    )
