"""One press answers: yes or no, approvals, menus, the review step."""

from __future__ import annotations

from msgspec import Struct

from midturn.prompts.cells import cells, hang, wrap
from midturn.prompts.command import Command, Commands, Step, find
from midturn.prompts.rich.face import Outcome, Sign
from midturn.prompts.rich.key import ENTER, Key, Paste
from midturn.prompts.rich.screen import Frame, Row, Size, Span, joined, row


class Keys(Struct, frozen=True):
    """Which keys a choice offers, what Enter does and how that is shown, and what Escape does."""

    offered: Commands
    enter: Command | None = None
    enter_shown: str = ""
    escape: Sign | None = None


class Choice:
    """A line and its keys."""

    submits = None
    empty = True

    def __init__(self, text: str, keys: Keys) -> None:
        self._text = text
        self._keys = keys
        self._help = False
        self._message = ""

    def press(self, key: Key) -> Outcome:
        """Answer with one key; help and messages come and go below."""
        self._message = ""
        if isinstance(key, Paste):
            return self._complain("a paste goes into a text only; press ? for help")
        if key.key in ENTER:
            return self._enter()
        if key.key == "escape":
            return self._keys.escape
        command = find(self._keys.offered, key.key)
        if command is None:
            name = f"{key.key} is not an option" if key.character else "that key does nothing here"
            return self._complain(f"{name}; press ? for help")
        if command.does is Step.HELP:
            self._help = not self._help
            return None
        return command

    def frame(self, size: Size) -> Frame:
        """Draw the line, its keys and the default, then help or a message; the cursor stands behind the keys."""
        keys = (
            f"[{','.join(command.key for command in self._keys.offered)}]{f' ({self._keys.enter_shown})' if self._keys.enter_shown else ''}"
        )
        rows = _line(self._text, keys, size.columns)
        cursor = (len(rows) - 1, sum(cells(span.text) for span in rows[-1]))
        rows[-1] = (*rows[-1], Span(" "))
        return Frame(joined(rows, self._help_rows(size), self._message_rows(size)), cursor)

    def _enter(self) -> Outcome:
        if self._keys.enter is not None:
            return self._keys.enter
        return self._complain(f"no default: press one of {','.join(command.key for command in self._keys.offered)}")

    def _complain(self, message: str) -> Sign:
        self._message = message
        return Sign.RING

    def _help_rows(self, size: Size) -> list[Row]:
        return (
            help_rows(self._keys.offered, [f"Enter - {self._enter_help()}; Ctrl-C - cancel and end the turn"], size) if self._help else []
        )

    def _enter_help(self) -> str:
        enter = self._keys.enter
        if enter is None:
            return "nothing: no default here"
        return f"same as {enter.key}" if enter in self._keys.offered else enter.help

    def _message_rows(self, size: Size) -> list[Row]:
        return [row(text, "error") for text in wrap(self._message, size.columns)] if self._message else []


def help_rows(offered: Commands, more: list[str], size: Size) -> list[Row]:
    """Say what every key does."""
    lines = [f"{command.key} - {'hide this help' if command.does is Step.HELP else command.help}" for command in offered]
    return [
        *(row(f"  {text}", "dim") for line in lines for text in hang(line, size.columns - 2, "    ")),
        *(row(f"  {text}", "dim") for line in more for text in hang(line, size.columns - 2, "  ")),
    ]


def _line(text: str, keys: str, columns: int) -> list[Row]:
    """Put the keys behind the text where there is room, else below."""
    *above, last = hang(text, columns, "  ")
    if cells(last) + 1 + cells(keys) < columns:
        return [*map(row, above), (Span(f"{last} "), Span(keys, "key"), Span(" "))]
    return [*map(row, above), row(last), *((Span(part, "key"), Span(" ")) for part in wrap(keys, columns - 1))]
