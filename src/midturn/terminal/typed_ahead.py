"""Input typed while a turn runs: the bottom row, folded pastes, and queued messages."""

from __future__ import annotations

import asyncio
import codecs
import re
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager, suppress

from msgspec import Struct

from midturn.errors import TerminalGone
from midturn.terminal.ascii import as_ascii
from midturn.terminal.device import Device, NoTerminal, open_device, watched
from midturn.terminal.live import DeviceStream
from midturn.terminal.output_pair import Gate, StatusLine
from midturn.terminal.prompts.cells import cells, clip, clip_start
from midturn.terminal.prompts.keys import one_line, split_lines
from midturn.terminal.prompts.rich.buffer import Buffer
from midturn.terminal.prompts.rich.burst import HOLD, Bursts, KeyMode, TimedKey
from midturn.terminal.prompts.rich.keyboard import Key, Keyboard, Paste
from midturn.terminal.prompts.rich.screen import POINTER

# --------------------------------------------------------------------------------------------------
# Long pastes: displayed as `[200 lines]`, and sent in full


FOLDED = 8
"""Maximum number of lines of a paste that is displayed in full. Longer pastes are folded."""
# placeholders for pastes are lone surrogates, which cannot be typed or pasted
_FIRST_PLACEHOLDER = 0xDC80
_MAX_FOLDS = 128
_PLACEHOLDER = re.compile(
    f"([{chr(_FIRST_PLACEHOLDER)}-{chr(_FIRST_PLACEHOLDER + _MAX_FOLDS - 1)}])"
)


class Folds:
    """The long pastes in an edited line.

    Each paste is represented by one placeholder character in the line.
    """

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def fold(self, text: str) -> str:
        """Return the text, or a placeholder character if it has many lines."""
        if len(split_lines(text)) <= FOLDED or len(self._texts) == _MAX_FOLDS:
            return text
        sign = chr(_FIRST_PLACEHOLDER + len(self._texts))
        self._texts[sign] = text
        return sign

    def unfold(self, text: str) -> str:
        """Return the text with each placeholder replaced by its paste."""
        return "".join(self._texts.get(sign, sign) for sign in text) if self._texts else text

    def parts(self, text: str) -> list[str]:
        """Split a line into placeholders and the text between them."""
        return [part for part in re.split(_PLACEHOLDER, text) if part]

    def shown(self, sign: str) -> str | None:
        """Return the displayed form of a placeholder, or None for any other character."""
        text = self._texts.get(sign)
        return None if text is None else f"[{len(split_lines(text.rstrip()))} lines]"

    def forget(self) -> None:
        """Delete all pastes, because no line contains placeholders any more."""
        self._texts.clear()


# --------------------------------------------------------------------------------------------------
# The row


MARK_PASTES, LEAVE_PASTES = "\x1b[?2004h", "\x1b[?2004l"
LEAVES = "/quit"
"""Message that Ctrl-D queues on an empty line."""
_ESCAPE_TIMEOUT = 0.05
_PASTE_TIMEOUT = 1.0  # seconds without further input after which a paste counts as complete
_NEW_LINE = frozenset({"c-j", "m-enter", "s-enter"})
_ENTRY = KeyMode(writes=True, decides=frozenset({"enter"}))
# minimum width in cells for the full text of the row; narrower rows are abbreviated
_WIDE_COLUMNS = 60


class Message(Struct, frozen=True):
    """A message that was sent while a turn was running, and its displayed form."""

    text: str
    shown: str


class TypedAhead:
    """An input line in the bottom row.

    Enter queues the line as a message. Up moves the last queued message back into the line for
    editing.

    The line never answers a prompt: while a prompt is open, the line does not read keys.
    """

    def __init__(self, folds: Folds, clock: Callable[[], float] = time.monotonic) -> None:
        self._folds = folds
        self._clock = clock
        self._bursts = Bursts()
        self._timer: asyncio.TimerHandle | None = None
        self._line = Buffer()
        self._messages: list[str] = []
        self._keyboard = Keyboard()
        self._read_at = float("-inf")
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._device: Device | None = None
        self._gate: Gate | None = None
        self._reads = ExitStack()

    def take_messages(self) -> list[Message]:
        """Remove and return the queued messages. The current line is kept."""
        messages, self._messages = self._messages, []
        return [Message(self._folds.unfold(text), self._shown(text)) for text in messages]

    def take_line(self) -> str:
        """Remove and return the current line."""
        line, self._line = self._line, Buffer()
        return self._folds.unfold(line.text)

    @contextmanager
    def reading(self, gate: Gate) -> Generator[None]:
        """Read and display typed input while the block runs, inside a running loop."""
        with ExitStack() as stack:
            with suppress(NoTerminal):
                self._device = stack.enter_context(open_device())
                self._gate = gate
                stack.enter_context(gate.above(self, DeviceStream(self._device)))
            try:
                yield
            finally:
                stack.close()
                self._device = self._gate = None

    @property
    def is_pasting(self) -> bool:
        """Whether a paste is still arriving.

        After a second without further input, a paste counts as complete.
        """
        return self._keyboard.pasting and self._clock() - self._read_at < _PASTE_TIMEOUT

    def resume(self) -> None:
        """Start reading."""
        self._say(MARK_PASTES)
        if self._device is not None:
            self._reads.enter_context(watched(self._device.fd, self._readable))

    def pause(self) -> None:
        """Stop reading, so that a prompt or the next reader gets the keys."""
        if self._bursts.holds:
            self._release()
        self._reads.close()
        self.leave()

    def leave(self) -> None:
        """Restore the terminal's modes."""
        self._say(LEAVE_PASTES)

    def again(self) -> None:
        """Read and display again after the job was stopped and continued."""
        if self._gate is not None and not self._gate.closed:
            self._say(MARK_PASTES)
            self._gate.repaint()

    def _say(self, sequence: str) -> None:
        if self._device is not None and self._device.in_foreground:
            with suppress(TerminalGone):
                self._device.write_drawn(sequence)

    def footing(self, doing: str) -> StatusLine:
        """Return the row: the end of the typed text, and the number of queued messages.

        The current activity is added if there is room.
        """
        columns = self._device.size.columns if self._device else 0
        waits = self._waits(columns)
        if not self._line.text:
            return StatusLine(self._fit(" · ".join(filter(None, (doing, waits))), columns - 1))
        head = f"{waits} · {POINTER}" if waits else POINTER
        room = max(4, columns - 1 - cells(self._fit(head, columns)))
        before, after = (
            self._shown(self._line.text[: self._line.cursor]),
            self._shown(self._line.text[self._line.cursor :]),
        )
        left = clip_start(before, room)
        right = clip(after, room - cells(left)) if after and room > cells(left) else ""
        return StatusLine(self._fit(f"{head}{left}{right}", columns - 1), cells(right))

    def _waits(self, columns: int) -> str:
        count = len(self._messages)
        if not count:
            return ""
        if columns < _WIDE_COLUMNS:
            return f"{count} queued"
        return f"{count} message{'' if count == 1 else 's'} queued" + (
            "" if self._line.text else ", Up edits the last"
        )

    def _shown(self, text: str) -> str:
        """Return typed text on one line, displayable on this terminal."""
        shown = "".join(
            self._folds.shown(part) or one_line(part) for part in self._folds.parts(text)
        )
        return shown if self._device is None or self._device.unicode else as_ascii(f" {shown}")[1:]

    def _fit(self, row: str, width: int) -> str:
        return clip(row, max(1, width))

    def _readable(self) -> None:
        if self._device is None or not self._device.in_foreground:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        try:
            data = self._device.read()
        except TerminalGone:
            data = b""
        if not data:
            self._reads.close()  # the terminal is closed; the hangup signal ends the chat
            return
        self._read_at = self._clock()
        keys = self._keyboard.feed(self._decoder.decode(data))
        if keys:
            self._take(self._bursts.feed(keys, self._clock(), _ENTRY))
        loop = asyncio.get_running_loop()
        loop.call_later(_ESCAPE_TIMEOUT, self._keyboard.flush)
        if self._bursts.holds:
            self._timer = loop.call_later(HOLD, self._release)

    def _release(self) -> None:
        """Handle a key that was held back, because no input followed the key."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._take(self._bursts.release(_ENTRY))

    def _take(self, keys: Sequence[TimedKey]) -> None:
        for key, _ in keys:
            self._press(key)
        if self._gate is not None:
            self._gate.repaint()

    def _press(self, key: Key) -> None:
        line = self._line
        if isinstance(key, Paste):
            line.insert(self._folds.fold(key.text))
        elif key.key == "enter":
            if line.text.strip():
                self._messages.append(line.text)
                self._line = Buffer()
        elif key.key in _NEW_LINE:
            line.insert("\n")
        elif key.key == "up" and self._messages and not line.text:
            line.replace(self._messages.pop())
        elif key.key == "c-d" and not line.text:
            self._messages += [LEAVES] if LEAVES not in self._messages[-1:] else []
        elif key.character:
            line.type(key.character)
        else:
            line.press(key.key)
