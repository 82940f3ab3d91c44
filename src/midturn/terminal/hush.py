"""What is typed while a turn writes is not echoed into its words; a prompt, and whoever comes after us, finds the terminal as it was."""

from __future__ import annotations

import atexit
from collections.abc import Generator
from contextlib import contextmanager, suppress

from midturn.errors import TerminalGone
from midturn.terminal.attributes import Attributes, without_echo
from midturn.terminal.device import NoTerminal, open_device


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
