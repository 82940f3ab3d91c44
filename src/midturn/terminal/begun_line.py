"""A line that was begun before it was asked for: the terminal knows nothing of it, so that it is edited here."""

from __future__ import annotations

import codecs
import re

from midturn.prompts.cells import cells

ERASE = (b"\x7f", b"\b")
ERASE_LINE = b"\x15"
ERASE_WORD = b"\x17"

_LAST_WORD = re.compile(r"\S*\s*\Z")


class BegunLine:
    """What was typed so far. Each key returns what is to be shown of it, in the way in which terminals echo."""

    def __init__(self, typed: bytes) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.text = self._decoder.decode(typed)

    def press(self, key: bytes) -> str:
        """Take one byte: of a character, or a key that erases."""
        if key in ERASE:
            return self._erase(self._last_character())
        if key == ERASE_LINE:
            return self._erase(0)
        if key == ERASE_WORD:
            found = _LAST_WORD.search(self.text)
            return self._erase(found.start() if found else 0)
        typed = self._decoder.decode(key)
        self.text += typed
        return echoed(typed)

    def _last_character(self) -> int:
        """Return where the last character begins, marks on it included."""
        at = len(self.text) - 1
        while at > 0 and not cells(echoed(self.text[at])):
            at -= 1
        return max(0, at)

    def _erase(self, start: int) -> str:
        gone = cells(echoed(self.text[start:]))
        self.text = self.text[:start]
        return "\b" * gone + " " * gone + "\b" * gone


def echoed(text: str) -> str:
    """Show what was typed as terminals do: control characters as `^A`."""
    return "".join(f"^{chr(ord(char) ^ 0x40)}" if char < " " or char == "\x7f" else char for char in text)
