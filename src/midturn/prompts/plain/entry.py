"""Free text, line by line: a backslash at the end continues, `:key` alone is a command, `::` begins a line with a colon."""

from __future__ import annotations

from collections.abc import Generator

from midturn.prompts.keys import Command, Commands, KeyStep, find
from midturn.prompts.plain.dialog import Say, Saying

CONTINUE = "> "

_RETURN = Command("c", "return to the question", KeyStep.HELP)


def read_entry(say: Say, offered: Commands) -> Generator[Saying, str, str | Command]:
    """Collect lines until one does not end in a backslash; return the text, or the command that was typed."""
    lines: list[str] = []
    while True:
        line = yield say
        command = command_in(line, offered)
        if command:
            return command
        text, goes_on = _continued(unescaped(line))
        lines.append(text)
        if not goes_on:
            return "\n".join(lines)
        say = Say(ask=CONTINUE, entry=say.entry)


def command_in(line: str, offered: Commands) -> Command | None:
    """Return the command that a whole line is, else None."""
    return find(offered, line[1:]) if line.startswith(":") else None


def unescaped(line: str) -> str:
    """Return a line as it is meant: `::` at its beginning is one colon."""
    return line[1:] if line.startswith("::") else line


def read_text(say: Say) -> Generator[Saying, str, str | None]:
    """Collect text on the side (a reply, a reason); `:c` returns None: back to the question."""
    typed = yield from read_entry(say, (_RETURN,))
    return typed if isinstance(typed, str) else None


def _continued(line: str) -> tuple[str, bool]:
    """Split off a backslash at the end: one continues the text, two are one that belongs to it."""
    if not line.endswith("\\"):
        return line, False
    return line[:-1], not line.endswith("\\\\")
