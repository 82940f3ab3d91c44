"""Detection of pasted text that the terminal does not mark.

Several keys in one read, or keys faster than a person can type, are a burst. A key in a burst never
answers a prompt. In a text field, a burst is inserted as text, including its line ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from msgspec import Struct

from midturn.terminal.prompts.rich.keyboard import ENTER, Key, Paste, Press

HOLD: Final = 0.05
"""Seconds for which a key that would submit an answer is held back, because a paste can arrive in
pieces.
"""
_MIN_KEY_INTERVAL: Final = 0.02
"""Minimum time in seconds between two keys that a person presses. A key that is held down repeats
every 0.03 seconds.
"""
PAUSE: Final = 0.3
"""Seconds without a key after which a paste at a choice has ended."""
_ENTER_PAUSE: Final = 0.1
"""Seconds without a key after which Enter submits text that arrived in a burst."""

NOTHING_CHOSEN: Final = "That looked like pasted text; nothing was chosen."
NOT_SUBMITTED: Final = (
    "That looked like pasted text; it was not submitted: press Enter to submit it."
)

TimedKey: TypeAlias = tuple[Key, float]
"""A key and the time when it was pressed, in seconds."""


class KeyMode(Struct, frozen=True):
    """How keys are interpreted.

    If `writes` is true, characters are text, and only the keys in `decides` submit an answer.
    Otherwise all keys except `moves` do.
    """

    writes: bool = False
    moves: frozenset[str] = frozenset()
    decides: frozenset[str] = frozenset()


_LINE_ENDS = {"enter": "\n", "c-j": "\n", "tab": "\t"}
_LEAVES = frozenset({"c-c", "c-d", "c-z", "c-x", "escape", "f1"})
"""Keys that leave a text field or open another view. They have no effect in a burst."""


class TypingSpeed:
    """Detects keys that arrive faster than a person can type.

    The caller passes the time of each read, in seconds.
    """

    def __init__(self) -> None:
        self._last = float("-inf")
        self._several = False

    def is_paste(self, count: int, now: float) -> bool:
        """Return whether a read is part of a paste, judging by its number of keys and the time
        since the last read.
        """
        was_fast = now - self._last < (_ENTER_PAUSE if self._several else _MIN_KEY_INTERVAL)
        self._last, self._several = now, count > 1 or (self._several and was_fast)
        return count > 1 or was_fast


class Bursts:
    """Separates typed keys from pasted keys. The caller passes the time of each read, in seconds.

    Keys right after a paste that the terminal marked are treated as part of the paste, because the
    pasted text can contain the end marker.
    """

    def __init__(self) -> None:
        self._held: list[Key] = []
        self._held_at = 0.0
        self._last = float("-inf")
        self._several = False
        self._pasting = False

    @property
    def holds(self) -> bool:
        """Whether a key is held back. Call `release` after `HOLD` seconds without another key."""
        return bool(self._held)

    def feed(self, keys: Sequence[Key], now: float, entry: KeyMode) -> list[TimedKey]:
        """Return the keys from one read that take effect. A paste is returned as one `Paste`.

        At a choice, a held key is combined with the keys from this read, however much time passed,
        because a busy program may have read both late. A pasted key must not answer.
        """
        typed = [key for key in keys if _is_text(key)]
        late = (
            self.release(entry)
            if not typed or (entry.writes and now - self._held_at >= HOLD)
            else []
        )
        if not typed:
            return [*late, *((key, now) for key in keys)]
        found = [*(self._written if entry.writes else self._chosen)(keys, typed, now, entry)]
        self._last = now
        return [*late, *((key, now) for key in found)]

    def release(self, entry: KeyMode) -> list[TimedKey]:
        """Return the keys that were held back, because no key followed them.

        A line break at the end of a paste does not submit the text.
        """
        held, self._held = self._held, []
        if not held:
            return []
        if entry.writes and self._pasting:
            return [(Paste("", marked=False), self._held_at)]
        return [(key, self._held_at) for key in held]

    def _chosen(
        self, keys: Sequence[Key], typed: Sequence[Key], now: float, entry: KeyMode
    ) -> Iterator[Key]:
        """Yield the keys to handle at a choice."""
        after = now - self._last
        if self._pasting and after < PAUSE:
            return
        self._pasting = False
        if not self._held and all(_name(key) in entry.moves for key in typed):
            yield from keys
        elif (
            self._held or len(typed) > 1 or isinstance(typed[0], Paste) or after < _MIN_KEY_INTERVAL
        ):
            self._pasting, self._held = True, []
            yield Paste(_text(typed), marked=False)
        else:
            yield from self._hold(keys, typed[0], now)

    def _written(
        self, keys: Sequence[Key], typed: Sequence[Key], now: float, entry: KeyMode
    ) -> Iterator[Key]:
        """Yield the keys to handle in a text field."""
        was_fast = now - self._last < (
            _ENTER_PAUSE if self._several or self._pasting else _MIN_KEY_INTERVAL
        )
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
        """Hold back `first` and the keys after it. Return the earlier keys."""
        place = keys.index(first)
        self._held, self._held_at = list(keys[place:]), now
        return keys[:place]


def _name(key: Key) -> str:
    return key.key if isinstance(key, Press) else ""


def _is_text(key: Key) -> bool:
    return isinstance(key, Paste) or bool(key.character) or key.key in _LINE_ENDS


def _runs(keys: Sequence[Key]) -> Iterator[Key]:
    """Yield runs of text as pastes, and the keys between them."""
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
    """Return the text of the keys. Enter followed by Ctrl-J is one line break."""
    found = ""
    for at, key in enumerate(keys):
        if isinstance(key, Paste):
            found += key.text
        elif key.key != "c-j" or not at or _name(keys[at - 1]) != "enter":
            found += _LINE_ENDS.get(key.key, key.character)
    return found
