"""What other writers want on the terminal while a prompt is open: held, bounded, and written when it is answered (spec 5.1)."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Protocol

_MOST_HELD = 1_000_000


class Stream(Protocol):
    """What the gate writes to."""

    def write(self, text: str, /) -> object:
        """Take text."""
        ...

    def flush(self) -> object:
        """Send it on."""
        ...

    def isatty(self) -> bool:
        """Tell whether a person reads it on a terminal."""
        ...


class Gate:
    """Everything of ours that goes to the screen passes here; what goes to a file or a pipe is never held."""

    def __init__(self, most_held: int = _MOST_HELD) -> None:
        self._most_held = most_held
        self._held: deque[tuple[Stream, str]] = deque()
        self._size = 0
        self._dropped = 0
        self._loser: Stream | None = None
        self._closed = False
        self.at_line_start = True

    @property
    def closed(self) -> bool:
        """Whether a prompt is open."""
        return self._closed

    def write(self, stream: Stream, text: str) -> None:
        """Write now, or when the prompt that is open has been answered."""
        if not text:
            return
        if not stream.isatty():
            _send(stream, text)
        elif self._closed:
            self._hold(stream, text)
        else:
            _send(stream, text)
            self.at_line_start = text.endswith("\n")

    @contextmanager
    def shut(self) -> Generator[bool]:
        """Hold everything back while the block runs; yield whether the screen stands at the start of a line."""
        self._closed = True
        try:
            yield self.at_line_start
        finally:
            self._closed = False
            self.at_line_start = True
            self._release()

    def _hold(self, stream: Stream, text: str) -> None:
        self._held.append((stream, text))
        self._size += len(text)
        while self._size > self._most_held:
            _, lost = self._held.popleft()
            self._size -= len(lost)
            self._dropped += lost.count("\n") or 1
        if self._dropped:
            self._loser = stream

    def _release(self) -> None:
        held, dropped, loser = self._held, self._dropped, self._loser
        self._held, self._size, self._dropped, self._loser = deque(), 0, 0, None
        if loser is not None:
            held.appendleft((loser, f"... {dropped} lines of output were dropped while the question was open\n"))
        for stream, text in held:
            with suppress(OSError):  # the terminal is gone: whoever writes to it next is told
                self.write(stream, text)


def _send(stream: Stream, text: str) -> None:
    stream.write(text)
    stream.flush()
