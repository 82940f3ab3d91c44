"""Turns that are over, as they were read: decoded only where somebody looks, and then once."""

from __future__ import annotations

from functools import cached_property
from typing import Final

from midturn.core.codec import clean, decode_event, decode_stream, decode_visible
from midturn.core.events import Event, VisibleEvent
from midturn.core.stream.provider_view import provider_view, whole_view
from midturn.core.stream.window import begins

_BEFORE: Final = (b"\n\n", b" \n", b"\t\n", b"\r\n", b"\v\n", b"\f\n", b"\xbf\n")
"""How a blank line may end: without these there is none."""


class Past:
    """The whole lines before the last turn of `file`."""

    def __init__(self, lines: bytes, file: str, before: Past | None = None) -> None:
        """Keep lines; `before` is what is known of their beginning."""
        self._lines = lines
        self._file = file
        self._before = before

    def __bool__(self) -> bool:
        return bool(self._lines)

    @property
    def size(self) -> int:
        """How many bytes this keeps."""
        return len(self._lines)

    def grown(self, lines: bytes, file: str) -> Past:
        """Return the past that is in a file by now: this one, or one that begins like this, so that what is known of it stays known."""
        if file == self._file and lines == self._lines:
            return self
        return Past(lines, file, self if file == self._file and lines.startswith(self._lines) else None)

    @cached_property
    def events(self) -> list[Event]:
        """All events."""
        return decode_stream(self._lines, self._file)

    @cached_property
    def view(self) -> list[VisibleEvent]:
        """What a provider sees of them."""
        before, self._before = self._before, None
        known = before.view if before and "view" in vars(before) else []
        rest = self._lines[before.size :] if before and known else self._lines
        decoded = decode_visible(rest.split(b"\n")[:-1])
        view = None if decoded is None else whole_view(decoded)
        return provider_view(self.events) if view is None else [*known, *view]

    @cached_property
    def length(self) -> int:
        """How many events there are."""
        may_have_blanks = self._lines.startswith(b"\n") or any(end in self._lines for end in _BEFORE)
        return len(self.events) if may_have_blanks else self._lines.count(b"\n")

    @cached_property
    def has_begun(self) -> bool:
        """Whether anybody says or does something in it."""
        position = 0
        while position < len(self._lines):
            end = self._lines.index(b"\n", position)
            line = clean(self._lines[position:end])
            if line and begins(decode_event(line, "")):
                return True
            position = end + 1
        return False
