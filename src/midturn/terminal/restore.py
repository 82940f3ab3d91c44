"""The terminal as it was found, on every way out of a prompt or a turn."""

from __future__ import annotations

import atexit
import os
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from midturn.errors import TerminalGone
from midturn.terminal.attributes import Attributes, edited_meanwhile, kept_for_later, without_echo
from midturn.terminal.device import Device, NoTerminal, open_device

if TYPE_CHECKING:
    from midturn.terminal.gate import Gate
    from midturn.terminal.typed_ahead import TypedAhead

_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Restorer(Protocol):
    """Something that has changed the terminal's settings."""

    def restore(self) -> None:
        """Put back what was found."""
        ...

    def again(self) -> None:
        """Set once more what was wanted: our job goes on, and the shell had the terminal in the meantime."""
        ...


_HOLDERS: list[Restorer] = []  # the last one has the terminal now


def hold(holder: Restorer) -> None:
    """Have the terminal put back by `holder` when the process ends, in whatever way."""
    _HOLDERS.append(holder)
    atexit.register(holder.restore)


def let_go(holder: Restorer) -> None:
    """Say that `holder` has put the terminal back."""
    atexit.unregister(holder.restore)
    _HOLDERS.remove(holder)


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
        hold(self)
        if threading.current_thread() is threading.main_thread():
            self._taken = [number for number in (*_ENDING, signal.SIGCONT) if signal.getsignal(number) is signal.SIG_DFL]
            for number in self._taken:
                signal.signal(number, _go_on if number is signal.SIGCONT else _end)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.restore()
        let_go(self)
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
        """Put the settings back, where the terminal is ours."""
        self.device.put_back(self.found, self.farewell)

    def suspend(self) -> None:
        """Stop our job as Ctrl-Z does, with the terminal as it was found; return when it is resumed."""
        self.restore()
        os.kill(0, signal.SIGTSTP)

    def again(self) -> None:
        """Set what was wanted once more: the shell had the terminal in the meantime."""
        if self.device.in_foreground:
            with suppress(TerminalGone):  # hanging up continues a stopped job, too
                self.set(self._wanted)


def _go_on(number: int, frame: FrameType | None) -> None:
    """Go on after a stop."""
    del number, frame
    if _HOLDERS:
        _HOLDERS[-1].again()


def _end(number: int, frame: FrameType | None) -> None:
    """Restore, then end as the signal would have ended us."""
    del frame
    for holder in reversed(_HOLDERS):
        holder.restore()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


class Hush:
    """The echo of this process's terminal: off while a turn runs, but for the prompts in it."""

    def __init__(self) -> None:
        self._found: Attributes | None = None
        self._quiet: Callable[[Attributes], Attributes] = without_echo
        self._ahead: TypedAhead | None = None

    @contextmanager
    def during_turn(self) -> Generator[None]:
        """Echo nothing while the block runs. A job in the background leaves the terminal to its present owner."""
        if self._found is not None:  # a turn of a chat
            yield
            return
        with self._kept(without_echo):
            yield

    @contextmanager
    def during_chat(self, ahead: TypedAhead | None = None) -> Generator[None]:
        """Echo nothing, and keep every key for the line that is read next: Ctrl-D too, which a terminal takes for itself otherwise.

        What is typed while a turn runs is shown and edited `ahead`, where it can be drawn.
        """
        self._ahead = ahead
        try:
            with self._kept(kept_for_later):
                yield
        finally:
            self._ahead = None

    @contextmanager
    def typing(self, gate: Gate) -> Generator[None]:
        """Have what is typed shown below what goes through `gate` while the block runs, in a chat that can draw it."""
        if self._ahead is None or self._found is None:
            yield
            return
        self._keep_quiet(edited_meanwhile)
        line = _Line(self, self._ahead)
        hold(line)
        try:
            with self._ahead.reading(gate):
                yield
        finally:
            let_go(line)
            self._keep_quiet(kept_for_later)

    @contextmanager
    def lifted(self) -> Generator[None]:
        """Have the terminal as it was found, for a prompt."""
        was_quiet = self._found is not None
        self.restore()
        try:
            yield
        finally:
            if was_quiet:
                self._quieten()

    def restore(self) -> None:
        """Echo again what is typed."""
        found, self._found = self._found, None
        if found is not None:
            with suppress(NoTerminal, TerminalGone), open_device() as device:
                if device.in_foreground:
                    device.set(found)

    def again(self) -> None:
        """Echo nothing once more, if that was so: the shell had the terminal in the meantime."""
        if self._found is not None:
            self._quieten()

    @contextmanager
    def _kept(self, quiet: Callable[[Attributes], Attributes]) -> Generator[None]:
        self._quiet = quiet
        self._quieten()
        hold(self)
        try:
            yield
        finally:
            let_go(self)
            self.restore()

    def _keep_quiet(self, quiet: Callable[[Attributes], Attributes]) -> None:
        """Be quiet in another way."""
        self._quiet = quiet
        found = self._found
        if found is not None:
            with suppress(NoTerminal, TerminalGone), open_device() as device:
                if device.in_foreground:
                    device.set(quiet(found))

    def _quieten(self) -> None:
        with suppress(NoTerminal, TerminalGone), open_device() as device:
            if device.in_foreground:
                found = device.settings()
                device.set(self._quiet(found))
                self._found = found


class _Line:
    """The line that is edited while a turn runs, as a holder of the terminal."""

    def __init__(self, hush: Hush, ahead: TypedAhead) -> None:
        self._hush = hush
        self._ahead = ahead

    def restore(self) -> None:
        """Leave the rest to the holders before it."""
        self._ahead.leave()

    def again(self) -> None:
        """Take keys as before, and draw the row."""
        self._hush.again()
        self._ahead.again()


HUSH = Hush()
"""A process has one controlling terminal."""
