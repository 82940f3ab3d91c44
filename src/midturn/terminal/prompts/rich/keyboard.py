"""The bytes of a terminal's keyboard, read as keys.

What is not a known key is dropped whole: the end of an unknown sequence, or of a terminal's late report, must never count as a `y`.
"""

from __future__ import annotations

import re
from typing import TypeAlias

from msgspec import Struct

# ----------------------------------------------------------------------------------------------------------------------
# Key presses


class Press(Struct, frozen=True):
    """One key: the character itself, or a name (`enter`, `escape`, `up`, `c-a` with Ctrl, `m-b` with Alt, `s-tab` with Shift)."""

    key: str

    @property
    def character(self) -> str:
        """The character that is typed, empty for every other key."""
        return self.key if len(self.key) == 1 else ""


class Paste(Struct, frozen=True):
    """Text from the clipboard, line ends as newlines. `marked`: the terminal said that it is a paste."""

    text: str
    marked: bool = True


Key: TypeAlias = Press | Paste

ENTER = frozenset({"enter", "c-j"})
"""Keys that submit where no text is typed: programs that send lines send Ctrl-J."""


_ESCAPE = "\x1b"
_PASTE_BEGINS = "\x1b[200~"
_PASTE_ENDS = "\x1b[201~"
_LINUX_F1 = "\x1b[[A"
_INTERRUPT = "\x03"
_LONGEST = 4_096  # of a sequence that never ends

_SEQUENCE = re.compile(
    r"\x1b(?:"
    r"\[\[.|"  # function keys of the Linux console
    r"\[M...|"  # a mouse; both may arrive in pieces, so that what begins like them is nothing else
    r"\[(?![\[M])(?P<parameters>[0-?]*)[ -/]*(?P<final>[@-~])|"
    r"O(?P<keypad>[ -~])|"
    r"[\]PX^_](?:[^\x07\x1b]|\x1b(?!\\))*(?:\x07|\x1b\\)|"  # reports: titles, colours, settings
    r"(?P<alt>[^\[\]OPX^_\x1b]))",
    re.DOTALL,
)

_CONTROLS = {"\r": "enter", "\n": "c-j", "\t": "tab", "\x7f": "backspace", "\x08": "backspace", "\x00": "c-space", "\x1f": "c-_"}
_FINALS = {"A": "up", "B": "down", "C": "right", "D": "left", "H": "home", "F": "end", "M": "enter", "P": "f1"}
_NUMBERS = {"1": "home", "2": "insert", "3": "delete", "4": "end", "5": "pageup", "6": "pagedown", "7": "home", "8": "end", "11": "f1"}
_CODES = {"9": "tab", "13": "enter", "27": "escape", "127": "backspace"}


class Keyboard:
    """Keys come out as soon as they are whole; `flush` says that nothing followed for a while, so that Escape was just Escape."""

    def __init__(self) -> None:
        self._waiting = ""
        self._pasting = False

    @property
    def pasting(self) -> bool:
        """Whether a paste has begun and is still arriving."""
        return self._pasting

    def begin_anew(self, typed: str) -> None:
        """Forget what was typed up to now, at last `typed`. Only a paste that is still arriving goes on: the rest of it is no keys."""
        self.feed(typed)
        begins = len(self._waiting) > 1 and _PASTE_BEGINS.startswith(self._waiting)
        if not typed or not (self._pasting or begins):
            self._waiting, self._pasting = "", False

    @property
    def undecided(self) -> bool:
        """Whether an Escape waits for what may follow it."""
        return not self._pasting and self._waiting.startswith(_ESCAPE)

    def feed(self, data: str) -> list[Key]:
        """Take what was read."""
        if self._pasting and data == _INTERRUPT:  # the end of a paste got lost: Ctrl-C still works
            self._pasting, self._waiting = False, ""
        self._waiting += data
        keys: list[Key] = []
        while self._waiting and self._next(keys):
            pass
        return keys

    def flush(self) -> list[Key]:
        """Decide: an Escape that nothing followed is the key; a sequence that stays incomplete is dropped."""
        if not self.undecided:
            return []
        waiting, self._waiting = self._waiting, ""
        return [Press("escape")] if waiting == _ESCAPE else []

    def _next(self, keys: list[Key]) -> bool:
        """Take one key off; False where more must be read first."""
        if self._pasting:
            return self._paste(keys)
        if self._waiting[0] != _ESCAPE:
            keys.extend(_typed(self._waiting[0]))
            self._waiting = self._waiting[1:]
            return True
        if self._waiting.startswith(_ESCAPE * 2):
            keys.append(Press("escape"))
            self._waiting = self._waiting[1:]
            return True
        return self._sequence(keys)

    def _sequence(self, keys: list[Key]) -> bool:
        found = _SEQUENCE.match(self._waiting)
        if found is None:
            if len(self._waiting) > _LONGEST:
                self._waiting = ""
            return False
        self._waiting = self._waiting[found.end() :]
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
        text, ends, rest = self._waiting.partition(_PASTE_ENDS)
        if not ends:
            return False
        self._pasting, self._waiting = False, rest
        keys.append(Paste(text.replace("\r\n", "\n").replace("\r", "\n")))
        return True


def _typed(char: str) -> list[Press]:
    """Read one character outside of a sequence."""
    if char in _CONTROLS:
        return [Press(_CONTROLS[char])]
    if char < " ":
        return [Press(f"c-{chr(ord(char) + 0x60)}")] if char <= "\x1a" else []
    return [] if "\x80" <= char <= "\x9f" else [Press(char)]


def _csi(parameters: str, final: str) -> list[Press]:
    """Read `ESC [ parameters final`: cursor keys, and keys by number or code, with modifiers."""
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
    """Put the modifiers before a key's name: one more than a sum of Shift 1, Alt 2, Ctrl 4."""
    if name is None:
        return []
    digits = modifiers.partition(":")[0]
    held = int(digits) - 1 if digits.isdecimal() and len(digits) <= 3 else 0  # noqa: PLR2004 (no modifier is larger than 255)
    prefix = "".join(letter for bit, letter in ((4, "c-"), (2, "m-"), (1, "s-")) if held & bit)
    return [Press(prefix + name)]
