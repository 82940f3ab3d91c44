"""What a person does with a keyboard."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct


class Press(Struct, frozen=True):
    """One key: the character itself, or a name (`enter`, `escape`, `up`, `c-a` with Ctrl, `m-b` with Alt, `s-tab` with Shift)."""

    key: str

    @property
    def character(self) -> str:
        """The character that is typed, empty for every other key."""
        return self.key if len(self.key) == 1 else ""


class Paste(Struct, frozen=True):
    """Text from the clipboard, line ends as newlines."""

    text: str


Key: TypeAlias = Press | Paste

ENTER = frozenset({"enter", "c-j"})
"""What submits where no text is typed: programs that send lines send Ctrl-J."""
