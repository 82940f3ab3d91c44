"""The row that names the keys of a prompt in words, as far as the width allows."""

from __future__ import annotations

from midturn.prompts.cells import cells
from midturn.prompts.keys import Command, Commands

BETWEEN = " · "
ENTER = "(Enter)"

_GOES_FIRST = "NYsve-brp"
"""Which keys are left to the help where the row is too narrow, the first of them first."""


def named(command: Command, enter: Command | None = None) -> str:
    """Name a key and what it does; what Enter does as well says so."""
    words = f"{command.key} {command.word or command.title}".rstrip()
    return f"{words} {ENTER}" if command == enter else words


def fitting(offered: Commands, width: int, enter: Command | None = None) -> Commands:
    """Return the keys that a row of `width` cells can name: those that leave the question unanswered go first."""
    kept = list(offered)
    for key in _GOES_FIRST:
        if _width(kept, enter) <= width:
            break
        kept = [command for command in kept if command.key != key or command == enter]
    return tuple(kept)


def _width(offered: list[Command], enter: Command | None) -> int:
    return cells(BETWEEN.join(named(command, enter) for command in offered))
