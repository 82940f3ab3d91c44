"""What a person types while a turn runs: a row below everything, long pastes folded in it, and messages that wait for their turn."""

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
from midturn.terminal.output_pair import Footing, Gate
from midturn.terminal.prompts.cells import cells, clip, clip_start
from midturn.terminal.prompts.keys import one_line, split_lines
from midturn.terminal.prompts.rich.buffer import Buffer
from midturn.terminal.prompts.rich.burst import HOLD, Bursts, KeyMode, TimedKey
from midturn.terminal.prompts.rich.keyboard import Key, Keyboard, Paste
from midturn.terminal.prompts.rich.screen import POINTER

# ----------------------------------------------------------------------------------------------------------------------
# Long pastes: shown as `[200 lines]`, and whole when the line is sent


FOLDED = 8
"""Lines of a paste that are shown; one that has more is folded."""
_FIRST = 0xDC80  # half of a pair that stands for no character: no keyboard and no paste sends one
_MOST = 128
_SIGN = re.compile(f"([{chr(_FIRST)}-{chr(_FIRST + _MOST - 1)}])")


class Folds:
    """The pastes of one person, each by the sign that stands for it in a line that is edited."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def fold(self, text: str) -> str:
        """Return the text, or the sign that stands for it where it has many lines."""
        if len(split_lines(text)) <= FOLDED or len(self._texts) == _MOST:
            return text
        sign = chr(_FIRST + len(self._texts))
        self._texts[sign] = text
        return sign

    def unfold(self, text: str) -> str:
        """Return what is sent."""
        return "".join(self._texts.get(sign, sign) for sign in text) if self._texts else text

    def parts(self, text: str) -> list[str]:
        """Cut a line into folded pastes and what stands between them."""
        return [part for part in re.split(_SIGN, text) if part]

    def shown(self, sign: str) -> str | None:
        """Return what a sign is shown as; None for every other character."""
        text = self._texts.get(sign)
        return None if text is None else f"[{len(split_lines(text.rstrip()))} lines]"

    def forget(self) -> None:
        """Forget all pastes: no line holds any."""
        self._texts.clear()


# ----------------------------------------------------------------------------------------------------------------------
# The row


MARK_PASTES, LEAVE_PASTES = "\x1b[?2004h", "\x1b[?2004l"
LEAVES = "/quit"
"""What Ctrl-D in an empty line queues."""
_ESCAPE_TIMEOUT = 0.05
_LOST_AFTER = 1.0  # seconds without anything more of a paste
_NEW_LINE = frozenset({"c-j", "m-enter", "s-enter"})
_ENTRY = KeyMode(writes=True, decides=frozenset({"enter"}))
_WIDE = 60  # cells; below, fewer words


class Message(Struct, frozen=True):
    """What was sent while a turn ran, and how it is shown in one row."""

    text: str
    shown: str


class TypedAhead:
    """One line that is edited in the bottom row, through the gate; Enter queues it, and Up takes the last message back to edit it.

    Nothing that is typed here answers a prompt: while one is open, this reads nothing.
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
        """Hand over the messages that wait; the line that was begun stays."""
        messages, self._messages = self._messages, []
        return [Message(self._folds.unfold(text), self._shown(text)) for text in messages]

    def take_line(self) -> str:
        """Hand over the line that was begun."""
        line, self._line = self._line, Buffer()
        return self._folds.unfold(line.text)

    @contextmanager
    def reading(self, gate: Gate) -> Generator[None]:
        """Read and show what is typed while the block runs, inside a running loop."""
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
        """Whether a paste has begun and is still arriving; one that nothing followed for a while has lost its end."""
        return self._keyboard.pasting and self._clock() - self._read_at < _LOST_AFTER

    def resume(self) -> None:
        """Read."""
        self._say(MARK_PASTES)
        if self._device is not None:
            self._reads.enter_context(watched(self._device.fd, self._readable))

    def pause(self) -> None:
        """Leave the keys to a prompt, or to the next reader."""
        if self._bursts.holds:
            self._release()
        self._reads.close()
        self.leave()

    def leave(self) -> None:
        """Leave the terminal as it was found."""
        self._say(LEAVE_PASTES)

    def again(self) -> None:
        """Go on after a stop: the shell had the terminal in the meantime."""
        if self._gate is not None and not self._gate.closed:
            self._say(MARK_PASTES)
            self._gate.repaint()

    def _say(self, sequence: str) -> None:
        if self._device is not None and self._device.in_foreground:
            with suppress(TerminalGone):
                self._device.write_drawn(sequence)

    def footing(self, doing: str) -> Footing:
        """Draw the row: the end of what was typed, the messages that wait, and what goes on where there is room."""
        columns = self._device.size.columns if self._device else 0
        waits = self._waits(columns)
        if not self._line.text:
            return Footing(self._fit(" · ".join(filter(None, (doing, waits))), columns - 1))
        head = f"{waits} · {POINTER}" if waits else POINTER
        room = max(4, columns - 1 - cells(self._fit(head, columns)))
        before, after = self._shown(self._line.text[: self._line.cursor]), self._shown(self._line.text[self._line.cursor :])
        left = clip_start(before, room)
        right = clip(after, room - cells(left)) if after and room > cells(left) else ""
        return Footing(self._fit(f"{head}{left}{right}", columns - 1), cells(right))

    def _waits(self, columns: int) -> str:
        count = len(self._messages)
        if not count:
            return ""
        if columns < _WIDE:
            return f"{count} queued"
        return f"{count} message{'' if count == 1 else 's'} queued" + ("" if self._line.text else ", Up edits the last")

    def _shown(self, text: str) -> str:
        """Show what was typed in one line, fit for this terminal."""
        shown = "".join(self._folds.shown(part) or one_line(part) for part in self._folds.parts(text))
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
            self._reads.close()  # the signal that comes with it ends the chat
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
        """Take a key that was held: nothing followed it."""
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
