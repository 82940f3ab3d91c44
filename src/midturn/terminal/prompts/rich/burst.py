"""Pasted text that the terminal does not mark: several keys in one read, or keys that arrive faster than hands type.

A key of such a burst decides nothing. Where text is written, a burst is text, its line ends included.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from msgspec import Struct

from midturn.terminal.prompts.rich.keyboard import ENTER, Key, Paste, Press

HOLD: Final = 0.05
"""Seconds for which a key that can decide is held, because a paste may arrive in pieces."""
_FASTEST: Final = 0.02
"""Seconds between two keys of a hand, at least. A key that is held down repeats after 0.03."""
PAUSE: Final = 0.3
"""Seconds without a key that end a paste at a choice."""
_ENTER_PAUSE: Final = 0.1
"""Seconds without a key after which Enter submits a text of which several characters arrived at once."""

NOTHING_CHOSEN: Final = "That looked like pasted text; nothing was chosen."
NOT_SUBMITTED: Final = "That looked like pasted text; it was not submitted: press Enter to submit it."

TimedKey: TypeAlias = tuple[Key, float]
"""A key, and when it was pressed."""


class KeyMode(Struct, frozen=True):
    """What keys do now. `writes`: characters are text, and only the keys in `decides` decide. Else every key decides except `moves`."""

    writes: bool = False
    moves: frozenset[str] = frozenset()
    decides: frozenset[str] = frozenset()


_LINE_ENDS = {"enter": "\n", "c-j": "\n", "tab": "\t"}
_LEAVES = frozenset({"c-c", "c-d", "c-z", "c-x", "escape", "f1"})
"""Keys that leave a text or open something: not in a burst."""


class TypingSpeed:
    """Tells whether keys arrive faster than hands type; the caller gives the time of each read in seconds."""

    def __init__(self) -> None:
        self._last = float("-inf")
        self._several = False

    def is_paste(self, count: int, now: float) -> bool:
        """Return whether `count` keys in one read, or the time since the read before, show a paste."""
        was_fast = now - self._last < (_ENTER_PAUSE if self._several else _FASTEST)
        self._last, self._several = now, count > 1 or (self._several and was_fast)
        return count > 1 or was_fast


class Bursts:
    """Tells keys that a hand has pressed from those of a paste; the caller gives the time of each read in seconds.

    Also keys right behind a paste that the terminal has marked belong to it: its text may contain the mark of its end.
    """

    def __init__(self) -> None:
        self._held: list[Key] = []
        self._held_at = 0.0
        self._last = float("-inf")
        self._several = False
        self._pasting = False

    @property
    def holds(self) -> bool:
        """Whether a key is held: call `release` after `HOLD` seconds without another one."""
        return bool(self._held)

    def feed(self, keys: Sequence[Key], now: float, entry: KeyMode) -> list[TimedKey]:
        """Return the keys of one read that count; a paste comes as one `Paste`."""
        typed = [key for key in keys if _is_text(key)]
        late = self.release(entry) if not typed or now - self._held_at >= HOLD else []
        if not typed:
            return [*late, *((key, now) for key in keys)]
        found = [*(self._written if entry.writes else self._chosen)(keys, typed, now, entry)]
        self._last = now
        return [*late, *((key, now) for key in found)]

    def release(self, entry: KeyMode) -> list[TimedKey]:
        """Return the keys that were held: nothing followed them. A line end at the end of a paste submits nothing."""
        held, self._held = self._held, []
        if not held:
            return []
        if entry.writes and self._pasting:
            return [(Paste("", marked=False), self._held_at)]
        return [(key, self._held_at) for key in held]

    def _chosen(self, keys: Sequence[Key], typed: Sequence[Key], now: float, entry: KeyMode) -> Iterator[Key]:
        """Yield the keys at a choice."""
        after = now - self._last
        if self._pasting and after < PAUSE:
            return
        self._pasting = False
        if not self._held and all(_name(key) in entry.moves for key in typed):
            yield from keys
        elif self._held or len(typed) > 1 or isinstance(typed[0], Paste) or after < _FASTEST:
            self._pasting, self._held = True, []
            yield Paste(_text(typed), marked=False)
        else:
            yield from self._hold(keys, typed[0], now)

    def _written(self, keys: Sequence[Key], typed: Sequence[Key], now: float, entry: KeyMode) -> Iterator[Key]:
        """Yield the keys where text is written."""
        was_fast = now - self._last < (_ENTER_PAUSE if self._several or self._pasting else _FASTEST)
        self._several = len(typed) > 1
        held, self._held = self._held, []
        decides = next((key for key in typed if _name(key) in entry.decides), None)
        if held or (decides and (len(typed) > 1 or was_fast)):
            self._pasting = True
            run = held + [key for key in keys if _name(key) not in _LEAVES]
            if _name(run[-1]) in ENTER:
                self._held, self._held_at = [run.pop()], now
                if run and _name(run[-1]) == "enter" and _name(self._held[0]) == "c-j":
                    run.pop()
            yield from _runs(run)
            return
        self._pasting = (self._pasting and was_fast) or any(isinstance(key, Paste) for key in typed)
        yield from self._hold(keys, decides, now) if decides else keys

    def _hold(self, keys: Sequence[Key], first: Key, now: float) -> Sequence[Key]:
        """Hold the keys from `first` on; return those before."""
        place = keys.index(first)
        self._held, self._held_at = list(keys[place:]), now
        return keys[:place]


def _name(key: Key) -> str:
    return key.key if isinstance(key, Press) else ""


def _is_text(key: Key) -> bool:
    return isinstance(key, Paste) or bool(key.character) or key.key in _LINE_ENDS


def _runs(keys: Sequence[Key]) -> Iterator[Key]:
    """Yield text as pastes, and the keys between."""
    run: list[Key] = []
    for key in keys:
        if isinstance(key, Press) and _is_text(key):
            run.append(key)
            continue
        if run:
            yield Paste(_text(run), marked=False)
            run = []
        yield key
    if run:
        yield Paste(_text(run), marked=False)


def _text(keys: Sequence[Key]) -> str:
    """Return what keys write; Enter and Ctrl-J together are one line end."""
    found = ""
    for at, key in enumerate(keys):
        if isinstance(key, Paste):
            found += key.text
        elif key.key != "c-j" or not at or _name(keys[at - 1]) != "enter":
            found += _LINE_ENDS.get(key.key, key.character)
    return found
