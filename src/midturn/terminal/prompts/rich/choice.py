"""Prompts that are answered with a single key: yes/no, approvals, menus, and the review of a form.

They have a row of keys and a scrollable help text.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from midturn.events.prompt import FormSubject, Prompt, reviewed_places
from midturn.question.reply import Reply, Submitted, WentBack
from midturn.terminal.prompts.cells import BETWEEN, cells, hang, wrap
from midturn.terminal.prompts.keys import BackTo, Command, Commands, KeyStep, is_remembered
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
    clipped,
    joined,
    row,
    row_cells,
)

_KEYS_LEFT_OUT_FIRST = "prb-evsl"
"""Keys that are shown only if there is room, the most important first. The help lists all keys."""
_MIN_KEYS_SHOWN = 2
"""Minimum number of keys in the row, such as yes and no."""
_STEPS = {"up": -1, "k": -1, "c-p": -1, "down": 1, "j": 1, "c-n": 1}
_PAGES = {"pageup": -1, "pagedown": 1, " ": 1}


class Help:
    """State of the help text: open or closed, and its scroll position."""

    def __init__(self) -> None:
        self.is_open = False
        self._first = 0
        self._count = 0
        self._room = 1

    def toggle(self) -> None:
        """Open the help at its start, or close it."""
        self.is_open = not self.is_open
        self._first = 0

    def scrolls(self, key: str) -> bool:
        """Scroll by a row or a page.

        Return False if the key does not scroll the help, or if the whole help is visible.
        """
        by = _STEPS.get(key) or _PAGES.get(key, 0) * max(1, self._room - 1)
        if not self.is_open or not by or self._count <= self._room:
            return False
        self._first = max(0, min(self._first + by, self._count - max(1, self._room - 1)))
        return True

    def window(self, rows: Sequence[Row], room: int, scrolling: str = "↑↓ scrolls") -> list[Row]:
        """Return the rows of the help that fit.

        If some rows do not fit, the last row shows the position.
        """
        self._count, self._room = len(rows), max(1, room)
        if self._count <= self._room:
            return [*rows]
        seen = max(1, self._room - 1)
        self._first = max(0, min(self._first, self._count - seen))
        end = self._first + seen
        more = (
            [row(f"  rows {self._first + 1}-{end} of {self._count} · {scrolling}", "key")]
            if self._room > 1
            else []
        )
        return [*rows[self._first : end], *more]


class Keys(Struct, frozen=True):
    """The keys at a choice.

    Attributes:
        offered: The commands.
        enter: Command that Enter runs.
        escape: Effect of Esc.
        leaves: Description of the effect of Ctrl-C.
        more: Additional rows of the help.
        below: Text below the row of keys.
    """

    offered: Commands
    enter: Command | None = None
    escape: Sign | None = None
    leaves: str = "cancel and end the turn"
    more: tuple[str, ...] = ()
    below: str = ""


class ChoiceView:
    """A line of text with keys."""

    submits = None
    empty = True
    entry = KeyMode(moves=frozenset({"j", "k"}))

    def __init__(self, text: str, keys: Keys) -> None:
        self._text = text
        self._keys = keys
        self._by_key = {command.key: command for command in keys.offered}
        self._help = Help()
        self._message = ""

    def press(self, key: Key) -> Pressed:  # noqa: PLR0911 (one for each thing that a key may do)
        """Handle one key. The help and messages are displayed below."""
        self._message = ""
        if isinstance(key, Paste):
            return self._complain(NOTHING_CHOSEN)
        if self._help.scrolls(key.key):
            return None
        if key.key in ENTER:
            return self._enter()
        if key.key == "escape":
            return self._keys.escape or self._complain("Esc does nothing here; press ? for help")
        command = self._by_key.get(key.key)
        if command is None:
            name = (
                f"{key.key.strip() or 'Space'} is not an option"
                if key.character
                else "that key does nothing here"
            )
            return self._complain(f"{name}; press ? for help")
        if command.does is KeyStep.HELP:
            self._help.toggle()
            return None
        return command

    def frame(self, size: Size) -> Frame:
        """Draw the text, its keys and the default, then the help or a message.

        The cursor is after the keys.
        """
        return self._framed(size, self._message, "error")

    def retitle(self, title: str) -> None:
        """Replace the last row of the question after a resize."""
        self._text = title

    def kept(self, size: Size) -> list[Row]:
        """Return the rows to display above another view."""
        return [row(text) for text in hang(self._text, size.columns, "  ")]

    def _framed(self, size: Size, message: str, style: Style) -> Frame:
        rows = _line(self._text, self._keys, size.columns)
        cursor = (len(rows) - 1, sum(cells(span.text) for span in rows[-1]))
        rows[-1] = (*rows[-1], Span(" "))
        more = (
            [row(text, "dim") for text in hang(self._keys.below, size.columns, "  ")]
            if self._keys.below
            else []
        )
        below = [row(text, style) for text in wrap(message, size.columns)] if message else []
        helped = (
            self._help.window(self._help_rows(size), size.rows - len(rows) - len(more) - len(below))
            if self._help.is_open
            else []
        )
        return Frame(joined(rows, more, helped, below), cursor)

    def _enter(self) -> Pressed:
        if self._keys.enter is not None:
            return self._keys.enter
        keys = [command.key for command in self._keys.offered]
        expected = "y or n, or ? for help" if {"y", "n"} <= {*keys} else f"one of {','.join(keys)}"
        return self._complain(f"no default: press {expected}")

    def _complain(self, message: str) -> Sign:
        self._message = message
        return Sign.RING

    def _help_rows(self, size: Size) -> list[Row]:
        return help_rows(
            self._keys.offered,
            [*self._keys.more, f"Enter - {self._enter_help()}; Ctrl-C - {self._keys.leaves}"],
            size,
        )

    def _enter_help(self) -> str:
        enter = self._keys.enter
        if enter is None:
            return "no effect (there is no default)"
        return f"same as {enter.key}" if enter in self._keys.offered else enter.help


def help_rows(offered: Commands, more: list[str], size: Size) -> list[Row]:
    """Return the rows of the help: one for each key."""
    lines = [
        f"{_KEY_NAMES.get(command.key, command.key)} - {_helped(command)}" for command in offered
    ]
    return [
        *(
            row(f"  {text}", "dim")
            for line in lines
            for text in hang(line, size.columns - 2, "    ")
        ),
        *(row(f"  {text}", "dim") for line in more for text in hang(line, size.columns - 2, "  ")),
    ]


def _helped(command: Command) -> str:
    return "hide this help" if command.does is KeyStep.HELP else command.help


_KEY_NAMES = {"-": "- (minus)"}
"""Display names of keys that could be mistaken for the dash after them."""


def key_row(offered: Commands, width: int, enter: Command | None = None) -> Row:
    """Return the row of keys, with as many keys as fit in `width` cells."""
    spans: list[Span] = []
    for command in _shortened(_fitting(offered, width, enter), width, enter):
        key, _, words = _named(command, enter).partition(" ")
        spans += [Span(BETWEEN, "dim")] if spans else []
        spans += [Span(key, "key"), Span(f" {words}", "dim")] if words else [Span(key, "key")]
    return clipped(tuple(spans), width)


def _line(text: str, keys: Keys, columns: int) -> list[Row]:
    """Return the text and the keys. The keys are on the same row if all of them fit, else below."""
    *above, last = hang(text, columns, "  ")
    enter = keys.enter if keys.enter in keys.offered else None
    named = tuple(command for command in keys.offered if not is_remembered(command))
    everything = (() if enter is not None or keys.enter is None else (keys.enter,)) + named
    whole = key_row(everything, columns * len(everything), enter)
    if cells(last) + 1 + row_cells(whole) < columns:
        return [*map(row, above), (Span(f"{last} "), *whole, Span(" "))]
    return [*map(row, above), row(last), (*key_row(everything, columns - 2, enter), Span(" "))]


def _named(command: Command, enter: Command | None = None) -> str:
    """Return a key with its name. It is marked if Enter has the same effect."""
    words = f"{command.key} {command.word or command.title}".rstrip()
    return f"{words} (Enter)" if command == enter else words


def _fitting(offered: Commands, width: int, enter: Command | None = None) -> Commands:
    """Return the keys that fit in `width` cells. Answers and help have priority over other keys."""
    kept = [
        command
        for command in offered
        if command.key not in _KEYS_LEFT_OUT_FIRST or command == enter
    ]
    for key in _KEYS_LEFT_OUT_FIRST:
        more = [command for command in offered if command in kept or command.key == key]
        kept = more if _width(more, enter) <= width else kept
    return tuple(kept)


def _shortened(offered: Commands, width: int, enter: Command | None) -> Commands:
    """Return the keys for a row that is too narrow for all answers.

    The help key then shows that there are more keys.
    """
    if _width([*offered], enter) <= width:
        return offered
    kept = [command for command in offered if command.does is not KeyStep.HELP]
    help_key = [
        replace(command, word="more") for command in offered if command.does is KeyStep.HELP
    ]
    while len(kept) > _MIN_KEYS_SHOWN and _width([*kept, *help_key], enter) > width:
        kept.pop()
    if _width([*kept, *help_key], enter) > width:
        help_key = [replace(command, word="") for command in help_key]
    return (*kept, *help_key)


def _width(offered: list[Command], enter: Command | None) -> int:
    return cells(BETWEEN.join(_named(command, enter) for command in offered))


# --------------------------------------------------------------------------------------------------
# The review of a form: Enter sends the answers, and a row number goes back to that question


_MAX_SINGLE_DIGIT = 9
_REVIEW_REPLIES: dict[str, Reply] = {"y": Submitted(), "n": WentBack()}
"""Replies of the keys `y` and `n` in a review. They are not displayed, because Enter and `b` have
the same effects.
"""


class ReviewChoice(ChoiceView):
    """A choice that also accepts row numbers, and yes or no.

    If there are ten rows or more, the person types a number and presses Enter.
    """

    def __init__(self, text: str, keys: Keys, prompt: Prompt) -> None:
        super().__init__(text, keys)
        self._places = (
            reviewed_places(prompt.subject) if isinstance(prompt.subject, FormSubject) else []
        )
        self._number = ""
        count = len(self._places)
        self._about = (
            f"1-{count} to change an answer"
            if count > 1
            else "1 to change the answer"
            if count
            else ""
        )

    def press(self, key: Key) -> Pressed:
        """Collect digits. Other keys are handled as at any choice."""
        number, self._number = self._number, ""
        if isinstance(key, Press) and key.key.isdecimal() and self._places:
            self._message = ""
            self._number = number + key.key
            return self._chosen() if len(self._places) <= _MAX_SINGLE_DIGIT else None
        if number and isinstance(key, Press) and key.key in ENTER:
            self._number = number
            return self._chosen()
        if isinstance(key, Press) and key.key in _REVIEW_REPLIES:
            return _REVIEW_REPLIES[key.key]
        return super().press(key)

    def frame(self, size: Size) -> Frame:
        """Draw the question, the keys and the number typed so far."""
        text = self._message or (
            f"row {self._number}: press Enter to change it" if self._number else self._about
        )
        return self._framed(size, text, "error" if self._message else "dim")

    def _chosen(self) -> Pressed:
        number, self._number = int(self._number), ""
        if not 1 <= number <= len(self._places):
            return self._complain(f"there is no row {number}; press ? for help")
        return BackTo(self._places[number - 1] + 1)
