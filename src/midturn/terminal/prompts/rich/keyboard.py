"""Decodes the bytes of a terminal's keyboard into keys.

Unknown sequences are discarded completely. The last character of an unknown sequence, or of a late
report from the terminal, must never count as a key such as `y`.
"""

from __future__ import annotations

import re
from typing import TypeAlias

from msgspec import Struct

# --------------------------------------------------------------------------------------------------
# Key presses


class Press(Struct, frozen=True):
    """One key.

    A character, or a name (`enter`, `escape`, `up`, `c-a` with Ctrl, `m-b` with Alt, `s-tab` with
    Shift).
    """

    key: str

    @property
    def character(self) -> str:
        """The typed character, or an empty string for other keys."""
        return self.key if len(self.key) == 1 else ""


class Paste(Struct, frozen=True):
    """Pasted text with newlines as line ends. `marked` is true if the terminal marked the paste."""

    text: str
    marked: bool = True


Key: TypeAlias = Press | Paste

ENTER = frozenset({"enter", "c-j"})
"""Keys that submit outside text fields. Programs send Ctrl-J as the line break."""


_ESCAPE = "\x1b"
_PASTE_BEGINS = "\x1b[200~"
_PASTE_ENDS = "\x1b[201~"
_LINUX_F1 = "\x1b[[A"
_INTERRUPT = "\x03"
_MAX_SEQUENCE = 4_096  # maximum length of an unterminated sequence, in characters

_SEQUENCE = re.compile(
    r"\x1b(?:"
    r"\[\[.|"  # function keys of the Linux console
    # mouse. This sequence and the one above can arrive in pieces, so the next rule excludes their
    # beginnings
    r"\[M...|"
    r"\[(?![\[M])(?P<parameters>[0-?]*)[ -/]*(?P<final>[@-~])|"
    r"O(?P<keypad>[ -~])|"
    # responses from the terminal: title, colours, settings
    r"[\]PX^_](?:[^\x07\x1b]|\x1b(?!\\))*(?:\x07|\x1b\\)|"
    r"(?P<alt>[^\[\]OPX^_\x1b]))",
    re.DOTALL,
)

_CONTROLS = {
    "\r": "enter",
    "\n": "c-j",
    "\t": "tab",
    "\x7f": "backspace",
    "\x08": "backspace",
    "\x00": "c-space",
    "\x1f": "c-_",
}
_FINALS = {
    "A": "up",
    "B": "down",
    "C": "right",
    "D": "left",
    "H": "home",
    "F": "end",
    "M": "enter",
    "P": "f1",
}
_NUMBERS = {
    "1": "home",
    "2": "insert",
    "3": "delete",
    "4": "end",
    "5": "pageup",
    "6": "pagedown",
    "7": "home",
    "8": "end",
    "11": "f1",
}
_CODES = {"9": "tab", "13": "enter", "27": "escape", "127": "backspace"}


class Keyboard:
    """Decodes each key as soon as its bytes are complete.

    Call `flush` after a pause: it completes a single Esc.
    """

    def __init__(self) -> None:
        self._pending = ""
        self._pasting = False

    @property
    def pasting(self) -> bool:
        """Whether a paste is still arriving."""
        return self._pasting

    def begin_anew(self, typed: str) -> None:
        """Discard the keys that were typed before a prompt. `typed` is input that is not decoded
        yet.

        An unfinished paste continues, so that the rest of it does not count as keys.
        """
        self.feed(typed)
        begins = len(self._pending) > 1 and _PASTE_BEGINS.startswith(self._pending)
        if not typed or not (self._pasting or begins):
            self._pending, self._pasting = "", False

    @property
    def undecided(self) -> bool:
        """Whether an Esc byte is pending."""
        return not self._pasting and self._pending.startswith(_ESCAPE)

    def feed(self, data: str) -> list[Key]:
        """Decode input."""
        if self._pasting and data == _INTERRUPT:  # Ctrl-C works even if the end of a paste was lost
            self._pasting, self._pending = False, ""
        self._pending += data
        keys: list[Key] = []
        while self._pending and self._next(keys):
            pass
        return keys

    def flush(self) -> list[Key]:
        """Complete a pending Esc key. Discard an incomplete sequence."""
        if not self.undecided:
            return []
        waiting, self._pending = self._pending, ""
        return [Press("escape")] if waiting == _ESCAPE else []

    def _next(self, keys: list[Key]) -> bool:
        """Decode one key. Return False if more input is needed."""
        if self._pasting:
            return self._paste(keys)
        if self._pending[0] != _ESCAPE:
            keys.extend(_typed(self._pending[0]))
            self._pending = self._pending[1:]
            return True
        if self._pending.startswith(_ESCAPE * 2):
            keys.append(Press("escape"))
            self._pending = self._pending[1:]
            return True
        return self._sequence(keys)

    def _sequence(self, keys: list[Key]) -> bool:
        found = _SEQUENCE.match(self._pending)
        if found is None:
            if len(self._pending) > _MAX_SEQUENCE:
                self._pending = ""
            return False
        self._pending = self._pending[found.end() :]
        if found[0] == _PASTE_BEGINS:
            self._pasting = True
        elif found[0] == _LINUX_F1:
            keys.append(Press("f1"))
        elif found["alt"]:
            keys.extend(Press(f"m-{press.key}") for press in _typed(found["alt"]))
        elif found["keypad"]:
            keys.extend(_named(_FINALS.get(found["keypad"]), ""))
        elif found["final"]:
            keys.extend(_csi(found["parameters"], found["final"]))
        return True

    def _paste(self, keys: list[Key]) -> bool:
        text, ends, rest = self._pending.partition(_PASTE_ENDS)
        if not ends:
            return False
        self._pasting, self._pending = False, rest
        keys.append(Paste(text.replace("\r\n", "\n").replace("\r", "\n")))
        return True


def _typed(char: str) -> list[Press]:
    """Decode one character that is not part of a sequence."""
    if char in _CONTROLS:
        return [Press(_CONTROLS[char])]
    if char < " ":
        return [Press(f"c-{chr(ord(char) + 0x60)}")] if char <= "\x1a" else []
    return [] if "\x80" <= char <= "\x9f" else [Press(char)]


def _csi(parameters: str, final: str) -> list[Press]:
    """Decode `ESC [ parameters final`: cursor keys, and keys with a number or a code, with their
    modifiers.
    """
    numbers = parameters.split(";")
    match final:
        case "Z":
            return [Press("s-tab")]
        case "~" if numbers[0] == "27" and len(numbers) == 3:  # noqa: PLR2004 (27;modifier;code)
            return _named(_CODES.get(numbers[2]), numbers[1])
        case "~":
            return _named(_NUMBERS.get(numbers[0]), numbers[1] if len(numbers) > 1 else "")
        case "u":
            return _named(_CODES.get(numbers[0]), numbers[1] if len(numbers) > 1 else "")
        case "A" | "B" | "C" | "D" | "H" | "F":
            return _named(_FINALS[final], numbers[1] if len(numbers) > 1 else "")
        case _:
            return []


def _named(name: str | None, modifiers: str) -> list[Press]:
    """Add the modifiers to the name of a key.

    The terminal encodes modifiers as 1 plus the sum of Shift 1, Alt 2 and Ctrl 4.
    """
    if name is None:
        return []
    digits = modifiers.partition(":")[0]
    held = int(digits) - 1 if digits.isdecimal() and len(digits) <= 3 else 0  # noqa: PLR2004 (no modifier is larger than 255)
    prefix = "".join(letter for bit, letter in ((4, "c-"), (2, "m-"), (1, "s-")) if held & bit)
    return [Press(prefix + name)]
