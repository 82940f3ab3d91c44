"""A program on a real terminal: keys go in, the screen is read as an emulator sees it."""

from __future__ import annotations

import os
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast

import pexpect
import pyte

TESTS = Path(__file__).parents[1]
ASK_ONCE = Path(__file__).with_name("ask_once.py")


class _Screen(pyte.Screen):
    """An emulator that does not stumble over the private sequences of newer terminals: it has none of what they ask for."""

    def select_graphic_rendition(self, *attrs: int, private: bool = False, **_: Any) -> None:
        if not private:
            super().select_graphic_rendition(*attrs)

    def report_device_status(self, mode: int, **_: Any) -> None:
        super().report_device_status(mode)


class PtySession:
    """One child on a pseudo terminal of its own. Wait for what is on the screen, never for a time."""

    def __init__(self, command: list[str], *, size: tuple[int, int] = (80, 30), environment: dict[str, str] | None = None) -> None:
        columns, rows = size
        env = {**_inherited(), "LC_ALL": "C.UTF-8", **(environment or {})}
        env["PYTHONPATH"] = os.pathsep.join((str(TESTS), env.get("PYTHONPATH", "")))
        self.child = pexpect.spawn(command[0], command[1:], dimensions=(rows, columns), env=cast("Any", env), timeout=10)
        self.child.delaybeforesend = None
        self.raw = b""
        self.screen = _Screen(columns, rows)
        self._stream = pyte.ByteStream(self.screen)
        self.settings = self.read_settings()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.child.close(force=True)

    def read_settings(self) -> list[Any]:
        """Return what `stty -g` would say."""
        return termios.tcgetattr(self.child.child_fd)

    def send(self, keys: str | bytes) -> None:
        """Press keys."""
        self.child.send(keys)

    def wait_for(self, text: str, *, seconds: float = 30) -> None:
        """Wait until `text` is on the screen."""
        self._wait(lambda: text in self.text, f"{text!r} on the screen", seconds)

    def wait_at(self, text: str, *, seconds: float = 30) -> None:
        """Wait until the cursor stands right behind `text`: a prompt that can be answered."""
        self._wait(lambda: self._before_cursor().endswith(text), f"cursor behind {text!r}", seconds)

    def wait_until(self, arrived: Callable[[], bool], what: str, *, seconds: float = 30) -> None:
        """Wait for anything else."""
        self._wait(arrived, what, seconds)

    def wait_for_quiet(self, seconds: float) -> None:
        """Let time pass without a key: what a person does who reads."""
        until = time.monotonic() + seconds
        self._wait(lambda: time.monotonic() >= until, "quiet", seconds + 1)

    def wait_for_raw(self, data: bytes, *, count: int = 1, seconds: float = 30) -> None:
        """Wait until the program has written `data` (at least `count` times)."""
        self._wait(lambda: self.raw.count(data) >= count, f"{data!r} in the output", seconds)

    def wait_for_end(self, seconds: float = 30) -> int:
        """Wait for the child's end; return its exit status, or minus the signal that ended it."""
        self._wait(lambda: False, "", seconds)
        self.child.wait() if self.child.isalive() else None
        return -self.child.signalstatus if self.child.signalstatus else self.child.exitstatus or 0

    def resize(self, columns: int, rows: int) -> None:
        """Change the size of the window."""
        self.screen.resize(rows, columns)
        self.child.setwinsize(rows, columns)

    def hang_up(self) -> None:
        """Close the window."""
        cast("Any", self.child).ptyproc.fileobj.close()

    @property
    def text(self) -> str:
        """The screen's rows, without the spaces after them."""
        return "\n".join(self.rows)

    @property
    def rows(self) -> list[str]:
        """The rows down to the last that is not empty."""
        return [row.rstrip() for row in self.screen.display[: self._last_row()]]

    def framed(self, title: str) -> str:
        """Draw the screen with a frame and where the cursor is, as the golden screens are kept."""
        width = self.screen.columns
        edge = f"+{'-' * width}+"
        shown = self.screen.display[: max(self._last_row(), self.screen.cursor.y)]
        body = "".join(f"|{row}|\n" for row in shown)
        return f"{edge} {title}\n{body}{edge} cursor column {self.screen.cursor.x}, row {self.screen.cursor.y}\n"

    def framed_as(self, expected: str, title: str, *, seconds: float = 10) -> str:
        """Draw the screen once it is a part of `expected`: a repaint arrives in pieces. Draw it as it is when it never is."""
        deadline = time.monotonic() + seconds
        while self.framed(title) not in expected and time.monotonic() < deadline and self.read():
            pass
        return self.framed(title)

    def _before_cursor(self) -> str:
        return self.screen.display[self.screen.cursor.y][: self.screen.cursor.x]

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
            if time.monotonic() > deadline:
                raise AssertionError(f"no {what or 'end'} within {seconds} s; the screen:\n{self.text}")

    def read(self, seconds: float = 0.05) -> bool:
        """Take in what the program wrote; False at its end."""
        try:
            data = cast("bytes", self.child.read_nonblocking(65_536, timeout=seconds))
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        self.raw += data
        self._stream.feed(data)
        return True


def ask_once(
    name: str, result: Path, *, case: str = "", size: tuple[int, int] = (80, 30), environment: dict[str, str] | None = None
) -> PtySession:
    """Ask one prompt of the catalogue on a terminal; the reply is written to `result`."""
    return PtySession([sys.executable, str(ASK_ONCE), name, str(result), case], size=size, environment=environment)


def _inherited() -> dict[str, str]:
    """Return our environment without what would change how a prompt looks."""
    looks = {"ACCESSIBLE", "NO_COLOR", "COLORTERM", "EDITOR", "VISUAL"}
    return {name: value for name, value in os.environ.items() if name not in looks}
