"""Runs a program on a pseudo terminal: sends keys and reads the screen through a terminal
emulator.
"""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import sys
import termios
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

import pexpect
import pyte

from support.warm_commands import Command, can_be_warm, exit_status, start_on_terminal

TESTS = Path(__file__).parents[1]
ASK_ONCE = Path(__file__).with_name("ask_once.py")


_PARTS = re.compile(
    r"\x1b\[200~.*?\x1b\[201~|\x1b\[\[.|\x1b\[[0-?]*["
    r" -/]*[@-~]|\x1bO.|\x1b\].*?(?:\x07|\x1b\\)|\x1b.?|[\x00-\x1f\x7f]|[^\x00-\x1f\x7f]+",
    re.DOTALL,
)
"""Matches a paste, a key that sends several characters, a control character, or text."""
_NO_TEXT = "".join(chr(code) for code in range(32) if chr(code) not in "\r\n\t") + "\x7f"
_PASTE = "\x1b[200~"
_ECHO = 1.0
"""Maximum number of seconds in which a program echoes typed text, if it does."""
_PAUSE = 0.15
"""Seconds between text and Enter: longer than any pause in a paste."""


class _Screen(pyte.Screen):
    """A terminal emulator that ignores the private sequences of newer terminals, which pyte does
    not support.
    """

    def select_graphic_rendition(self, *attrs: int, private: bool = False, **_: Any) -> None:
        if not private:
            super().select_graphic_rendition(*attrs)

    def report_device_status(self, mode: int, **_: Any) -> None:
        super().report_device_status(mode)

    @property
    def display(self) -> list[str]:
        """The rows. They are read after each piece of output, and pyte's own property measures
        every character each time.
        """
        return [self.row(number) for number in range(self.lines)]

    def row(self, number: int) -> str:
        """Return one row. The cell after a wide character is empty."""
        cells = self.buffer.get(number)
        return (
            "".join([cells[column].data for column in range(self.columns)])
            if cells
            else " " * self.columns
        )


class _WarmChild:
    """A command on a pseudo terminal, forked from a loaded process. It has the methods of
    `pexpect.spawn` that this module needs.
    """

    def __init__(self, command: Command, rows: int, columns: int) -> None:
        self.child_fd, terminal = pty.openpty()
        self.setwinsize(rows, columns)
        self.settings = termios.tcgetattr(self.child_fd)
        try:
            self.pid, self._ended = start_on_terminal(command, terminal)
        finally:
            os.close(terminal)
        self._status: int | None = None
        self._is_open = True

    def send(self, keys: str | bytes) -> None:
        os.write(self.child_fd, keys.encode() if isinstance(keys, str) else keys)

    def read_nonblocking(self, size: int, timeout: float) -> bytes:
        """Return the output of the next `timeout` seconds."""
        if not self._is_open:
            raise pexpect.EOF("the window is closed")
        if not select.select([self.child_fd], [], [], timeout)[0]:
            raise pexpect.TIMEOUT("nothing was written")
        try:
            data = os.read(self.child_fd, size)
        except OSError:  # Linux reports the end of a terminal this way
            data = b""
        if not data:
            raise pexpect.EOF("the command has ended")
        return data

    def setwinsize(self, rows: int, columns: int) -> None:
        """Change the size of the window."""
        termios.tcsetwinsize(self.child_fd, (rows, columns))

    def hang_up(self) -> None:
        if self._is_open:
            self._is_open = False
            os.close(self.child_fd)

    def kill(self, number: int) -> None:
        if self.isalive():
            with suppress(ProcessLookupError):  # it has ended, which has not been reported yet
                os.kill(self.pid, number)

    def isalive(self) -> bool:
        if self._status is None and select.select([self._ended], [], [], 0)[0]:
            self.wait()
        return self._status is None

    def wait(self) -> int | None:
        """Wait for its end; return the exit status."""
        if self._status is None:
            self._status = exit_status(self._ended)
        return self.exitstatus

    def close(self, force: bool = True) -> None:  # noqa: FBT001, FBT002  signature of pexpect
        """Close the terminal, and kill the command."""
        self.hang_up()
        if force:
            self.kill(signal.SIGKILL)
        self.wait()

    @property
    def exitstatus(self) -> int | None:
        """The exit status, or None if a signal ended the command."""
        return self._status if self._status is not None and self._status >= 0 else None

    @property
    def signalstatus(self) -> int | None:
        """The signal that ended the command."""
        return -self._status if self._status is not None and self._status < 0 else None


class _Spawned(pexpect.spawn):  # type: ignore[type-arg]  # it is not generic at run time
    """A program that was started."""

    @property
    def settings(self) -> list[Any]:
        """The terminal's settings. They are read before the program can change them, because
        starting takes longer.
        """
        return termios.tcgetattr(self.child_fd)

    def hang_up(self) -> None:
        cast("Any", self).ptyproc.fileobj.close()


class PtySession:
    """A process on its own pseudo terminal. Wait for text on the screen, never for a time."""

    def __init__(
        self,
        command: list[str] | Command,
        *,
        size: tuple[int, int] = (80, 30),
        environment: dict[str, str] | None = None,
    ) -> None:
        """Start a program with the environment of the tests and `environment`, or fork a command,
        which has its own environment.
        """
        columns, rows = size
        if isinstance(command, Command):
            self.child: _Spawned | _WarmChild = _WarmChild(command, rows, columns)
        else:
            env = terminal_environment(environment or {})
            self.child = _Spawned(
                command[0],
                command[1:],
                dimensions=(rows, columns),
                env=cast("Any", env),
                timeout=120,
            )
            self.child.delaybeforesend = None
        self.raw = b""
        self._typed = self._heard = 0.0
        self._before_typed = 0
        self.screen = _Screen(columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        self.settings = self.child.settings

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.child.close(force=True)
        except (
            pexpect.ExceptionPexpect
        ):  # it was killed, but a busy machine takes longer than pexpect's timeout of 0.1 s
            with suppress(ChildProcessError):
                os.waitpid(cast("int", self.child.pid), 0)

    def read_settings(self) -> list[Any]:
        """Return the terminal settings, like `stty -g`."""
        return termios.tcgetattr(self.child.child_fd)

    def send(self, keys: str | bytes) -> None:
        """Send keys like a person types them: text at once, and Enter after a pause, so that the
        input does not look like a paste. Bytes are sent as they are.
        """
        for part in _PARTS.findall(keys) if isinstance(keys, str) else [keys]:
            is_typed = isinstance(part, str) and (
                part[0] not in _NO_TEXT or part.startswith(_PASTE)
            )
            if is_typed:
                self._wait_after_typing()
            self.child.send(part)
            if is_typed:
                self._typed, self._before_typed = time.monotonic(), len(self.raw)

    def _wait_after_typing(self) -> None:
        """Pause after text until the program has echoed it (a secret is not echoed), and for the
        length of a typing pause.
        """
        shown_until = self._typed + _ECHO
        while (
            len(self.raw) == self._before_typed and time.monotonic() < shown_until and self.read()
        ):
            pass
        time.sleep(max(0.0, max(self._typed, self._heard) + _PAUSE - time.monotonic()))

    def press(self, keys: str) -> None:
        """Send one key after the other, with pauses, for prompts in which each key has an
        effect.
        """
        for part in _PARTS.findall(keys):
            for key in part if part[0] not in _NO_TEXT else [part]:
                self.send(key)

    def send_in_pieces(self, pieces: Iterable[bytes], *, pause: float, longest: float) -> bool:
        """Send pieces with pauses of `pause` seconds. Return whether all pauses were shorter than
        `longest`, which a busy machine can prevent.
        """
        sent, is_in_time = time.monotonic(), True
        for number, piece in enumerate(pieces):
            self.send(piece)
            now = time.monotonic()
            is_in_time = is_in_time and (not number or now - sent < longest)
            sent = now
            time.sleep(pause)
        return is_in_time

    def wait_for(self, text: str, *, seconds: float = 120) -> None:
        """Wait until `text` is on the screen."""
        self._wait(lambda: text in self.text, f"{text!r} on the screen", seconds)

    def wait_at(self, text: str, *, seconds: float = 120) -> None:
        """Wait until the cursor is directly after `text`, which means that a prompt can be
        answered.
        """
        self._wait(lambda: self._before_cursor().endswith(text), f"cursor behind {text!r}", seconds)

    def wait_until(self, arrived: Callable[[], bool], what: str, *, seconds: float = 120) -> None:
        """Wait until `arrived` returns true."""
        self._wait(arrived, what, seconds)

    def wait_until_heard(self) -> None:
        """Wait until a plain prompt accepts lines. At first it drops all keys and disables the
        terminal's echo.
        """
        self._wait(
            lambda: bool(self.read_settings()[3] & termios.ECHO), "prompt that takes lines", 120
        )

    def wait_for_quiet(self, seconds: float) -> None:
        """Let time pass without keys, like a person who reads."""
        until = time.monotonic() + seconds
        self._wait(lambda: time.monotonic() >= until, "quiet", seconds + 60)

    def wait_for_raw(self, data: bytes, *, count: int = 1, seconds: float = 120) -> None:
        """Wait until the program has written `data` at least `count` times."""
        self._wait(lambda: self.raw.count(data) >= count, f"{data!r} in the output", seconds)

    def wait_for_end(self, seconds: float = 120) -> int:
        """Wait for the end of the process; return its exit status, or minus the number of the
        signal that ended it.
        """
        self._wait(lambda: False, "", seconds)
        self.child.wait() if self.child.isalive() else None
        return -self.child.signalstatus if self.child.signalstatus else self.child.exitstatus or 0

    def resize(self, columns: int, rows: int) -> None:
        self.screen.resize(rows, columns)
        self.child.setwinsize(rows, columns)

    def hang_up(self) -> None:
        self.child.hang_up()

    @property
    def text(self) -> str:
        """The screen's rows, without trailing spaces."""
        return "\n".join(self.rows)

    @property
    def rows(self) -> list[str]:
        """The rows down to the last one that is not empty."""
        rows = [row.rstrip() for row in self.screen.display]
        while rows and not rows[-1]:
            rows.pop()
        return rows

    def framed(self, title: str) -> str:
        """Draw the screen with a frame and the cursor position, as in golden screens."""
        width = self.screen.columns
        edge = f"+{'-' * width}+"
        shown = self.screen.display[: max(self._last_row(), self.screen.cursor.y)]
        body = "".join(f"|{row}|\n" for row in shown)
        return (
            f"{edge} {title}\n{body}{edge} cursor column {self.screen.cursor.x}, row"
            f" {self.screen.cursor.y}\n"
        )

    def framed_as(self, expected: str, title: str, *, seconds: float = 120) -> str:
        """Draw the screen as soon as it is a part of `expected`, because a repaint arrives in
        pieces. After the timeout, draw it as it is.

        With `UPDATE_SCREENS` in the environment, wait at most 5 seconds: an outdated golden
        screen never appears.
        """
        deadline = time.monotonic() + (
            min(seconds, 5) if os.environ.get("UPDATE_SCREENS") else seconds
        )
        while self.framed(title) not in expected and time.monotonic() < deadline and self.read():
            pass
        return self.framed(title)

    def _before_cursor(self) -> str:
        return self.screen.row(self.screen.cursor.y)[: self.screen.cursor.x]

    def _last_row(self) -> int:
        filled = [number for number, row in enumerate(self.screen.display, 1) if row.strip()]
        return max(filled, default=0)

    def _wait(self, arrived: Callable[[], bool], what: str, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not arrived():
            if not self.read():
                if not what:
                    return
                raise AssertionError(f"the program ended before {what}; the screen:\n{self.text}")
            if time.monotonic() > deadline and not arrived():
                raise AssertionError(
                    f"no {what or 'end'} within {seconds} s; the screen:\n{self.text}"
                )

    def read(self, seconds: float = 0.05) -> bool:
        """Read available output; return False at the end of the program."""
        try:
            data = cast("bytes", self.child.read_nonblocking(65_536, timeout=seconds))
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        self.raw += data
        self._heard = time.monotonic()
        self._stream.feed(data)
        return True


def ask_once(
    name: str,
    result: Path,
    *,
    case: str = "",
    size: tuple[int, int] = (80, 30),
    environment: dict[str, str] | None = None,
) -> PtySession:
    """Show one prompt of the catalogue on a terminal; the reply is written to `result`."""
    return on_a_terminal(ASK_ONCE, [name, str(result), case], size=size, environment=environment)


def on_a_terminal(
    program: Path,
    arguments: Sequence[str],
    *,
    size: tuple[int, int] = (80, 30),
    environment: Mapping[str, str] | None = None,
) -> PtySession:
    """Run a Python program of the tests on a terminal."""
    given = environment or {}
    if can_be_warm(given):
        return PtySession(
            Command(arguments, Path.cwd(), terminal_environment(given), program=program), size=size
        )
    return PtySession([sys.executable, str(program), *arguments], size=size, environment={**given})


def terminal_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of this process with `environment`, but without variables that
    change the look of prompts.
    """
    looks = {"ACCESSIBLE", "NO_COLOR", "COLORTERM", "EDITOR", "VISUAL"}
    ours = {name: value for name, value in os.environ.items() if name not in looks}
    path = os.pathsep.join((str(TESTS), environment.get("PYTHONPATH", ours.get("PYTHONPATH", ""))))
    return {**ours, "LC_ALL": "C.UTF-8", **environment, "PYTHONPATH": path}


def release_program(result: Path) -> None:
    """Let the program of `ask_once` continue, if its case waits for a signal."""
    result.with_name("go").touch()
