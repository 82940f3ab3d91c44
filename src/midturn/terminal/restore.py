"""The terminal as it was found, on every way out of a prompt or a turn."""

from __future__ import annotations

import atexit
import os
import signal
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import Self

from midturn.errors import TerminalGone
from midturn.terminal.attributes import Attributes, without_echo
from midturn.terminal.device import Device, NoTerminal, open_device

_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Restored:
    """Puts a terminal's settings back when the block ends, and when a signal ends the process that the host does not handle.

    `farewell` is written as well: what a mode of ours needs to be switched off.
    """

    def __init__(self, device: Device, farewell: str = "") -> None:
        self.device = device
        self.farewell = farewell
        self.found: Attributes = device.settings()
        self._wanted = self.found
        self._taken: list[signal.Signals] = []

    def __enter__(self) -> Self:
        atexit.register(self.restore)
        if threading.current_thread() is threading.main_thread():
            self._taken = [number for number in (*_ENDING, signal.SIGCONT) if signal.getsignal(number) is signal.SIG_DFL]
            for number in self._taken:
                signal.signal(number, self._resume if number is signal.SIGCONT else self._end)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.restore()
        atexit.unregister(self.restore)
        for number in self._taken:
            signal.signal(number, signal.SIG_DFL)

    @contextmanager
    def saying(self, farewell: str) -> Generator[None]:
        """Have another farewell while the block runs: what is switched on in it."""
        before, self.farewell = self.farewell, farewell
        try:
            yield
        finally:
            self.farewell = before

    def set(self, attributes: Attributes) -> None:
        """Change the settings for as long as the block lasts."""
        self._wanted = attributes
        self.device.set(attributes)

    def restore(self) -> None:
        """Put the settings back. A job in the background leaves the terminal to whoever has it now."""
        if not self.device.in_foreground:
            return
        try:
            self.device.set(self.found)
            self.device.write(self.farewell)
        except TerminalGone:
            return  # the terminal is gone: there is nothing left to put back

    def suspend(self) -> None:
        """Stop our job as Ctrl-Z does, with the terminal as it was found; return when it is resumed."""
        self.restore()
        os.kill(0, signal.SIGTSTP)

    def _resume(self, number: int, frame: FrameType | None) -> None:
        """Go on after a stop: the shell had the terminal in the meantime."""
        del number, frame
        if self.device.in_foreground:
            with suppress(TerminalGone):  # hanging up continues a stopped job, too
                self.set(self._wanted)

    def _end(self, number: int, frame: FrameType | None) -> None:
        """Restore, then end as the signal would have ended us."""
        del frame
        self.restore()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)


class Hush:
    """The echo of this process's terminal: off while a turn runs, but for the prompts in it."""

    def __init__(self) -> None:
        self._found: Attributes | None = None

    @contextmanager
    def during_turn(self) -> Generator[None]:
        """Echo nothing while the block runs. A job in the background leaves the terminal to whoever has it."""
        self._quieten()
        atexit.register(self._restore)
        try:
            yield
        finally:
            atexit.unregister(self._restore)
            self._restore()

    @contextmanager
    def lifted(self) -> Generator[None]:
        """Have the terminal as it was found, for a prompt."""
        was_quiet = self._found is not None
        self._restore()
        try:
            yield
        finally:
            if was_quiet:
                self._quieten()

    def _quieten(self) -> None:
        with suppress(NoTerminal, TerminalGone), open_device() as device:
            if device.in_foreground:
                found = device.settings()
                device.set(without_echo(found))
                self._found = found

    def _restore(self) -> None:
        found, self._found = self._found, None
        if found is not None:
            with suppress(NoTerminal, TerminalGone), open_device() as device:
                if device.in_foreground:
                    device.set(found)


HUSH = Hush()
"""A process has one controlling terminal."""
