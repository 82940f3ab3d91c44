"""Reads lines in the terminal's line mode.

Ctrl-C and Ctrl-Z arrive as characters, so the host program receives no signal.
"""

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
    """Wait until `fd` has input. Cancellation ends the wait immediately."""
    ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def resolve() -> None:
        if not ready.done():
            ready.set_result(None)

    with watched(fd, resolve):
        await ready


async def readable_within(fd: int, seconds: float) -> bool:
    """Wait at most `seconds` for input. Return whether input is available."""
    try:
        async with asyncio.timeout(seconds):
            await until_readable(fd)
    except TimeoutError:
        return False
    return True


# --------------------------------------------------------------------------------------------------
# A line whose first keys were typed before the program asked for it. They are no longer in the
# terminal's line buffer, so the terminal cannot erase them, and midturn edits such a line itself.


ERASE = (b"\x7f", b"\b")
ERASE_LINE = b"\x15"
ERASE_WORD = b"\x17"

_LAST_WORD = re.compile(r"\S*\s*\Z")


class BegunLine:
    """An unfinished line. `press` handles each key and returns the text to echo."""

    def __init__(self, typed: bytes) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.text = self._decoder.decode(typed)

    def press(self, key: bytes) -> str:
        """Handle one byte: a byte of a character, or an erase key such as Backspace."""
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
        """Return the index at which the last character starts, including its combining marks."""
        at = len(self.text) - 1
        while at > 0 and not cells(echoed(self.text[at])):
            at -= 1
        return max(0, at)

    def _erase(self, start: int) -> str:
        gone = cells(echoed(self.text[start:]))
        self.text = self.text[:start]
        return "\b" * gone + " " * gone + "\b" * gone


def echoed(text: str) -> str:
    """Return typed text in the form that terminals echo, with control characters as `^A`."""
    return "".join(
        f"^{chr(ord(char) ^ 0x40)}" if char < " " or char == "\x7f" else char for char in text
    )


MAX_LINE_BYTES = 4_094 if sys.platform == "linux" else 1_022
"""Maximum length of a line in bytes. The system silently cuts longer lines."""


_SEQUENCES = re.compile(
    r"\x1b(?:"
    r"\[\[[A-E]|"  # function keys of the Linux console
    r"\[[0-?]+[ -/]*[@-~]|"  # numbered keys, paste markers, responses from the terminal
    # Arrows and similar keys. Other final letters are not removed: if Backspace erases the last
    # byte of an arrow key, `\x1b[` remains, and the next letter that is typed is text.
    r"\[[A-HPQRSZ]|"
    r"O[A-HM-S]|"
    r"[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|"  # responses from the terminal: title, colours, settings
    r")"  # Esc alone
)
"""Escape sequences of keys that have no effect in a line. Only the sequence is removed."""


_BLANK = b" \t\r\n"
_END = b"\x04"
_LINE_ENDS = (b"\n", b"\r")


class LineInterrupted(Exception):  # noqa: N818 (it says what happened)
    """Ctrl-C was pressed, or the input ended."""


class InputEnded(LineInterrupted):
    """The input ended with Ctrl-D."""


class LineReader:
    """Asks questions line by line on one device.

    When a question appears, keys are ignored until none has arrived for `settle` seconds. In free
    text, only Enter is ignored.
    """

    def __init__(
        self,
        device: Device,
        restored: Restored,
        settle: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._device = device
        self._restored = restored
        self._settle = settle
        self._clock = clock
        self._armed_at: float | None = None
        self._held = b""
        self._lines = line_mode(restored.found, hidden=False)
        self._question: Sequence[str] = ()

    async def ask(self, say: Say) -> str:
        """Print a message and return the typed line, or all lines if several were pasted.

        Raises:
            LineInterrupted: The person pressed Ctrl-C or Ctrl-D.
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
        self._print("".join(f"{row}\n" for row in say.rows), say)
        if silent:
            await self._discard_keys(self._settle)
            self._listen()
        while True:
            line = await self._line(say)
            if say.entry == "hidden":
                self._device.write("\n")
            if not (refusal := await self._rejection(say, line)):
                return typed_text(line + await self._pasted(say))
            self._listen()
            self._print(f"{refusal}\n", say)

    async def read_line(self, ask: str) -> str:
        """Read one line of a chat, or several pasted lines.

        Text typed ahead becomes the start of the line. An Enter typed ahead does not submit it.

        Raises:
            InputEnded: Ctrl-D.
            LineInterrupted: Ctrl-C.
        """
        self._armed_at = self._clock()
        if readable_now(self._device.fd):
            self._held = typed_text(typed_before(self._device.read())).encode()
        return await self.ask(Say(ask=ask, entry="text"))

    def _listen(self) -> None:
        """Let the terminal edit the line.

        If the line was begun before the question, `BegunLine` edits the line instead.
        """
        self._restored.set(silent_mode(self._lines) if self._held else self._lines)

    def _print(self, text: str, say: Say) -> None:
        """Print the text and the question, then the text typed so far."""
        typed = "" if say.entry == "hidden" else echoed(self._held.decode("utf-8", "replace"))
        self._device.write(f"{text}{say.ask}{typed}")

    async def _discard_keys(self, seconds: float) -> None:
        """Discard keys until none arrives for `seconds`."""
        while await readable_within(self._device.fd, seconds):
            if INTERRUPT in self._device.read():
                raise LineInterrupted

    async def _line(self, say: Say) -> bytes:
        """Return one line without its line break, including text typed earlier."""
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
        """Read the rest of a line that the user began to type earlier.

        It is read one key at a time, so that the user can erase the whole line.
        """
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
        """Stop the job. When it continues, print the question and the text typed so far again."""
        self._restored.suspend()
        self._listen()
        rows = self._question if say.rows is self._question else [*self._question, *say.rows]
        self._print("".join(f"{row}\n" for row in ("", *rows)), say)

    async def _rejection(self, say: Say, line: bytes) -> str:
        """Return why a line is rejected, or an empty string.

        A line is rejected if the system cut it, if several lines arrived at once, or if it was
        submitted too soon.
        """
        if len(line) > MAX_LINE_BYTES:
            return (
                f"This line is longer than the terminal accepts ({MAX_LINE_BYTES} bytes): type"
                " less, or use the editor."
            )
        if say.entry == "choice":
            if not await readable_within(self._device.fd, HOLD):
                return ""
            await self._discard_keys(PAUSE)
            self._device.forget_typed()
            return "Several lines arrived at once and were ignored: type one answer."
        if self._armed_at is None or self._clock() >= self._armed_at:
            return ""
        self._held = line
        return "Enter came too soon and was ignored: press it again to send what you typed."

    async def _pasted(self, say: Say) -> bytes:
        """Return the remaining lines of a paste, which may arrive in pieces."""
        more = b""
        while say.entry != "choice" and await readable_within(self._device.fd, HOLD):
            data = self._device.read()
            if not data or data.endswith(INTERRUPT):
                raise LineInterrupted
            more += b"\n" + data.rstrip(b"\n")
        return more


def typed_text(line: bytes) -> str:
    """Return typed text without the escape sequences of arrow keys, function keys and Esc."""
    return _SEQUENCES.sub("", line.decode("utf-8", "replace"))


def typed_before(data: bytes) -> bytes:
    """Return the line that results from keys typed ahead.

    Raises:
        InputEnded: Ctrl-D was typed on an empty line.
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
