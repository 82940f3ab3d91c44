"""Lines from the terminal in its own line mode, with Ctrl-C and Ctrl-Z as characters: no signal reaches the host."""

from __future__ import annotations

import asyncio
import codecs
import re
import sys
import time
from collections.abc import Callable, Sequence

from midturn.terminal.attributes import INTERRUPT, SUSPEND, line_mode, silent_mode
from midturn.terminal.device import Device, Restored, readable_now, watched
from midturn.terminal.prompts.cells import cells
from midturn.terminal.prompts.plain_scene import Say
from midturn.terminal.prompts.rich.burst import HOLD, PAUSE


async def until_readable(fd: int) -> None:
    """Wait until `fd` can be read; cancelling stops the waiting at once."""
    ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def resolve() -> None:
        if not ready.done():
            ready.set_result(None)

    with watched(fd, resolve):
        await ready


async def readable_within(fd: int, seconds: float) -> bool:
    """Wait for input, but not longer than `seconds`; tell whether there is any."""
    try:
        async with asyncio.timeout(seconds):
            await until_readable(fd)
    except TimeoutError:
        return False
    return True


# ----------------------------------------------------------------------------------------------------------------------
# A line that was begun before it was asked for: the terminal knows nothing of it, so that it is edited here


ERASE = (b"\x7f", b"\b")
ERASE_LINE = b"\x15"
ERASE_WORD = b"\x17"

_LAST_WORD = re.compile(r"\S*\s*\Z")


class BegunLine:
    """Text typed so far. Each key returns what is to be shown of it, as terminals echo."""

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


LONGEST = 4_094 if sys.platform == "linux" else 1_022
"""Bytes of a line that the system keeps whole; longer lines are cut without a word."""


_SEQUENCES = re.compile(
    r"\x1b(?:"
    r"\[\[[A-E]|"  # function keys of the Linux console
    r"\[[0-?]+[ -/]*[@-~]|"  # keys by number, marks of a paste, reports
    r"\[[A-HPQRSZ]|"  # arrows and their neighbours; a letter that no key sends was typed behind an arrow that was half erased
    r"O[A-HM-S]|"
    r"[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|"  # reports: titles, colours, settings
    r")"  # Escape alone
)
"""Keys that mean nothing in a line: all that they sent is dropped, and nothing that was typed behind them."""


_BLANK = b" \t\r\n"
_END = b"\x04"
_LINE_ENDS = (b"\n", b"\r")


class LineInterrupted(Exception):  # noqa: N818 (it says what happened)
    """Ctrl-C, or the end of input."""


class InputEnded(LineInterrupted):
    """The end of input: Ctrl-D."""


class LineReader:
    """Asks line by line on one device. Keys are dead until `settle` seconds have passed without one; in text, only Enter is."""

    def __init__(self, device: Device, restored: Restored, settle: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._device = device
        self._restored = restored
        self._settle = settle
        self._clock = clock
        self._armed_at: float | None = None
        self._held = b""
        self._lines = line_mode(restored.found, hidden=False)
        self._question: Sequence[str] = ()

    async def ask(self, say: Say) -> str:
        """Print what is to be said and return the line that is typed (several, where several were pasted into a text).

        Raises:
            LineInterrupted: The person leaves.
        """
        first = self._armed_at is None
        if first:
            self._question = say.rows
            self._device.forget_typed()
            self._armed_at = self._clock() + self._settle
        self._lines = line_mode(self._restored.found, hidden=say.entry == "hidden")
        silent = first and self._settle > 0 and say.entry == "choice"
        if silent:
            self._restored.set(silent_mode(self._lines))
        else:
            self._listen()
        self._say("".join(f"{row}\n" for row in say.rows), say)
        if silent:
            await self._swallow(self._settle)
            self._listen()
        while True:
            line = await self._line(say)
            if say.entry == "hidden":
                self._device.write("\n")
            if not (refusal := await self._refusal(say, line)):
                return typed_text(line + await self._pasted(say))
            self._listen()
            self._say(f"{refusal}\n", say)

    async def read_line(self, ask: str) -> str:
        """Read one line of a conversation (several, where several were pasted).

        What was typed before stands in it, and is sent with the next Enter: an Enter from before it was asked for sends nothing.

        Raises:
            InputEnded: Ctrl-D.
            LineInterrupted: Ctrl-C.
        """
        self._armed_at = self._clock()
        if readable_now(self._device.fd):
            self._held = typed_text(typed_before(self._device.read())).encode()
        return await self.ask(Say(ask=ask, entry="text"))

    def _listen(self) -> None:
        """Let the terminal edit the line, unless it was begun: then every key comes here, before any of it is shown."""
        self._restored.set(silent_mode(self._lines) if self._held else self._lines)

    def _say(self, text: str, say: Say) -> None:
        """Print, and ask; what was typed already stands behind it."""
        typed = "" if say.entry == "hidden" else echoed(self._held.decode("utf-8", "replace"))
        self._device.write(f"{text}{say.ask}{typed}")

    async def _swallow(self, seconds: float) -> None:
        """Drop every key until none has come for so many seconds."""
        while await readable_within(self._device.fd, seconds):
            if INTERRUPT in self._device.read():
                raise LineInterrupted

    async def _line(self, say: Say) -> bytes:
        """Return one line without its end, what was held before it included."""
        while True:
            if self._held:
                return await self._begun_line(say)
            await until_readable(self._device.fd)
            data = self._device.read()
            self._held += data.rstrip(b"\n\x03\x1a")
            if data.endswith(INTERRUPT):
                raise LineInterrupted
            if data.endswith(b"\n"):
                line, self._held = self._held, b""
                return line
            if data.endswith(SUSPEND):
                self._suspend(say)
            elif not data and not self._held:
                raise InputEnded

    async def _begun_line(self, say: Say) -> bytes:
        """Return one line of which the terminal does not know the beginning: key by key, so that all of it can be erased."""
        self._listen()
        begun = BegunLine(self._held)
        while True:
            await until_readable(self._device.fd)
            key = self._device.read(1)
            shown = ""
            if key == INTERRUPT:
                raise LineInterrupted
            if key == SUSPEND:
                self._held = begun.text.encode()
                self._suspend(say)
            elif key == _END:
                if not begun.text:
                    raise InputEnded
            elif key in _LINE_ENDS:
                break
            else:
                shown = begun.press(key)
            if shown and say.entry != "hidden":
                self._device.write(shown)
        if say.entry != "hidden":
            self._device.write("\n")
        self._held = b""
        self._listen()
        return begun.text.encode()

    def _suspend(self, say: Say) -> None:
        """Stop the job; when it goes on, show again what is asked and where we are, with what was typed so far."""
        self._restored.suspend()
        self._listen()
        rows = self._question if say.rows is self._question else [*self._question, *say.rows]
        self._say("".join(f"{row}\n" for row in ("", *rows)), say)

    async def _refusal(self, say: Say, line: bytes) -> str:
        """Say why a line is not taken: cut by the system, one of several that came at once, or sent too soon to be meant."""
        if len(line) > LONGEST:
            return f"That line is longer than a terminal keeps ({LONGEST} bytes): type less, or use the editor."
        if say.entry == "choice":
            if not await readable_within(self._device.fd, HOLD):
                return ""
            await self._swallow(PAUSE)
            self._device.forget_typed()
            return "Several lines arrived at once, and none was taken: type one answer."
        if self._armed_at is None or self._clock() >= self._armed_at:
            return ""
        self._held = line
        return "Enter came too soon and was not taken: press it again to send what you typed."

    async def _pasted(self, say: Say) -> bytes:
        """Return the further lines of a paste into a text; they may arrive in pieces."""
        more = b""
        while say.entry != "choice" and await readable_within(self._device.fd, HOLD):
            data = self._device.read()
            if not data or data.endswith(INTERRUPT):
                raise LineInterrupted
            more += b"\n" + data.rstrip(b"\n")
        return more


def typed_text(line: bytes) -> str:
    """Return what was typed, without the keys that mean nothing in a line: arrows, function keys, Escape."""
    return _SEQUENCES.sub("", line.decode("utf-8", "replace"))


def typed_before(data: bytes) -> bytes:
    """Return the line that keys which were typed before a line was asked for have made.

    Raises:
        InputEnded: Ctrl-D was among them, with nothing before it.
    """
    line = b""
    for key in (data[at : at + 1] for at in range(len(data))):
        if key in ERASE:
            line = line.decode("utf-8", "replace")[:-1].encode()
        elif key == ERASE_LINE:
            line = b""
        elif key == ERASE_WORD:
            line = line.rstrip().rpartition(b" ")[0]
        elif key == _END and not line:
            raise InputEnded
        elif key in _BLANK:
            line += b" " if line and not line.endswith(b" ") else b""
        elif key >= b" " or key == b"\x1b":
            line += key
    return line
