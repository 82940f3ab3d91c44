"""Access to the controlling terminal.

The terminal is opened by path with a separate descriptor, so a piped stdin never answers a
question. The terminal's settings are restored after a prompt, after a turn, and when a signal ends
the process.
"""

from __future__ import annotations

import asyncio
import atexit
import locale
import os
import select
import signal
import subprocess
import termios
import threading
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, suppress
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from midturn.errors import TerminalGone
from midturn.terminal.ascii import as_ascii
from midturn.terminal.attributes import (
    Attributes,
    edited_meanwhile,
    kept_for_later,
    open_by_path,
    terminal_path,
    without_echo,
)
from midturn.terminal.prompts.rich.screen import Size

if TYPE_CHECKING:
    from midturn.terminal.output_pair import Gate


_DEFAULT_COLUMNS = 80
_DEFAULT_ROWS = 24
_CHUNK = 65_536


class NoTerminal(Exception):  # noqa: N818 (it says what is the case)
    """There is no controlling terminal, or it cannot be opened."""


class Device:
    """An open controlling terminal."""

    def __init__(self, fd: int, path: str) -> None:
        self.fd = fd
        self.path = path
        self.unicode = (
            locale.getpreferredencoding(do_setlocale=False).replace("-", "").lower() == "utf8"
        )

    @property
    def in_foreground(self) -> bool:
        """Whether this process is in the foreground job.

        A background job that reads from the terminal would be stopped by the system.
        """
        try:
            return os.tcgetpgrp(self.fd) == os.getpgrp()
        except OSError:
            return False

    @property
    def size(self) -> Size:
        """Size in cells, or 80 by 24 if the terminal does not report one."""
        try:
            columns, rows = os.get_terminal_size(self.fd)
        except OSError:
            columns, rows = 0, 0
        return Size(columns or _DEFAULT_COLUMNS, rows or _DEFAULT_ROWS)

    def write(self, text: str) -> None:
        """Write text.

        In an ASCII locale, the symbols that midturn draws become similar ASCII characters, and
        other characters become their code points.

        Raises:
            TerminalGone: The terminal was closed.
        """
        self.write_drawn(text if self.unicode else as_ascii(text))

    def write_drawn(self, text: str) -> None:
        """Write text that contains only displayable characters.

        Raises:
            TerminalGone: The terminal was closed.
        """
        data = text.encode("utf-8", "backslashreplace")
        try:
            while data:
                data = data[os.write(self.fd, data) :]
        except OSError as error:
            raise self._gone() from error

    def read(self, most: int = _CHUNK) -> bytes:
        """Read at most `most` bytes of input. An empty result means Ctrl-D.

        Raises:
            TerminalGone: The terminal was closed.
        """
        try:
            data = os.read(self.fd, most)
        except OSError as error:
            raise self._gone() from error
        if not data:
            self.check()
        return data

    def check(self) -> None:
        """Check that the terminal is still open.

        Raises:
            TerminalGone: The terminal was closed.
        """
        self.settings()

    def settings(self) -> Attributes:
        """Return the settings in the format of `tcgetattr`.

        Raises:
            TerminalGone: The terminal was closed.
        """
        try:
            return termios.tcgetattr(self.fd)
        except termios.error as error:
            raise self._gone() from error

    def set(self, settings: Attributes) -> None:
        """Change the settings.

        Raises:
            TerminalGone: The terminal was closed.
        """
        try:
            termios.tcsetattr(self.fd, termios.TCSANOW, settings)
        except termios.error as error:
            raise self._gone() from error

    def put_back(self, settings: Attributes, farewell: str) -> None:
        """Restore the settings, and write `farewell`, the sequence that resets the modes of a
        prompt.

        In a background job, do nothing, because the terminal belongs to another job.
        """
        if self.in_foreground:
            with suppress(TerminalGone):  # a closed terminal has no settings to restore
                self.set(settings)
                self.write(farewell)

    def read_typed(self) -> bytes:
        """Read all pending input.

        Raises:
            TerminalGone: The terminal was closed.
        """
        typed = b""
        while readable_now(self.fd) and (data := self.read()):
            typed += data
        return typed

    def forget_typed(self) -> None:
        """Discard all pending input.

        Raises:
            TerminalGone: The terminal was closed.
        """
        try:
            termios.tcflush(self.fd, termios.TCIFLUSH)
        except termios.error as error:
            raise self._gone() from error

    def _gone(self) -> TerminalGone:
        return TerminalGone(f"The terminal {self.path} was closed while a question was open.")


@contextmanager
def open_device() -> Generator[Device]:
    """Open the terminal for one prompt.

    Raises:
        NoTerminal: There is no terminal.
    """
    path = terminal_path()
    try:
        fd = open_by_path(path)
    except OSError as error:
        raise NoTerminal(f"Cannot open the terminal {path}: {error.strerror}.") from error
    try:
        yield Device(fd, path)
    finally:
        os.close(fd)


# --------------------------------------------------------------------------------------------------
# Waiting for input in an asyncio loop, including loops whose selector does not support terminals


@contextmanager
def watched(fd: int, readable: Callable[[], None]) -> Generator[None]:
    """Call `readable` in the running loop whenever `fd` has input, while the block runs."""
    loop = asyncio.get_running_loop()
    try:
        loop.add_reader(fd, readable)
    except (
        OSError,
        NotImplementedError,
    ):  # kqueue cannot poll every terminal, and a proactor loop has no readers
        with _watched_by_thread(fd, readable, loop):
            yield
        return
    try:
        yield
    finally:
        loop.remove_reader(fd)


def readable_now(fd: int) -> bool:
    """Return whether input is available."""
    return bool(select.select([fd], [], [], 0)[0])


@contextmanager
def _watched_by_thread(
    fd: int, readable: Callable[[], None], loop: asyncio.AbstractEventLoop
) -> Generator[None]:
    wake_up, waker = os.pipe()
    taken = threading.Semaphore(0)

    def call() -> None:
        try:
            readable()
        finally:
            taken.release()

    def watch() -> None:
        while wake_up not in select.select([fd, wake_up], [], [])[0]:
            loop.call_soon_threadsafe(call)
            taken.acquire()  # until `readable()` reads the input, the descriptor stays readable

    thread = threading.Thread(target=watch, name="midturn-terminal", daemon=True)
    thread.start()
    try:
        yield
    finally:
        os.write(waker, b"\0")
        taken.release()
        thread.join()
        os.close(wake_up)
        os.close(waker)


# --------------------------------------------------------------------------------------------------
# Restoring settings: after a prompt, after a turn, when a signal ends the
# process


_ENDING = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Restorer(Protocol):
    """An object that changed the terminal's settings and can restore them."""

    def restore(self) -> None:
        """Restore the original settings."""
        ...

    def again(self) -> None:
        """Apply the changed settings again, after the job was stopped and continued.

        The shell may have changed the settings in the meantime.
        """
        ...


_HOLDERS: list[Restorer] = []  # stack: the last entry controls the terminal


def hold(holder: Restorer) -> None:
    """Register `holder`, so that the terminal is also restored if a signal ends the process."""
    _HOLDERS.append(holder)
    atexit.register(holder.restore)


def let_go(holder: Restorer) -> None:
    """Unregister `holder` after it has restored the terminal."""
    atexit.unregister(holder.restore)
    _HOLDERS.remove(holder)


class Restored:
    """Context manager that restores the terminal's settings and writes `farewell`, the sequence
    that switches off the modes of a prompt.

    It also does so if a signal ends the process by its default action.
    """

    def __init__(self, device: Device, farewell: str = "") -> None:
        self.device = device
        self.farewell = farewell
        self.found: Attributes = device.settings()
        self._wanted = self.found
        self._taken: list[signal.Signals] = []

    def __enter__(self) -> Self:
        hold(self)
        # With `vfork`, Ctrl-Z could stop a child before its program runs. midturn would then wait
        # for the child without being stopped itself.
        setattr(subprocess, "_USE_VFORK", False)  # noqa: B010  Python documents it, and types it as final
        if threading.current_thread() is threading.main_thread():
            self._taken = [
                number
                for number in (*_ENDING, signal.SIGCONT)
                if signal.getsignal(number) is signal.SIG_DFL
            ]
            for number in self._taken:
                signal.signal(number, _go_on if number is signal.SIGCONT else _end)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.restore()
        let_go(self)
        for number in self._taken:
            signal.signal(number, signal.SIG_DFL)

    @contextmanager
    def saying(self, farewell: str) -> Generator[None]:
        """Use another `farewell` while the block runs, because the block switches on other modes."""
        before, self.farewell = self.farewell, farewell
        try:
            yield
        finally:
            self.farewell = before

    def set(self, attributes: Attributes) -> None:
        """Change the settings until the block ends."""
        self._wanted = attributes
        self.device.set(attributes)

    def restore(self) -> None:
        """Restore the settings if this process is in the foreground."""
        self.device.put_back(self.found, self.farewell)

    def suspend(self) -> None:
        """Restore the terminal and stop the job, as Ctrl-Z does.

        Return when the job continues.
        """
        self.restore()
        os.kill(0, signal.SIGTSTP)

    def again(self) -> None:
        """Apply the changed settings again after the job was stopped and continued."""
        if self.device.in_foreground:
            with suppress(TerminalGone):  # the job also continues if the terminal is closed
                self.set(self._wanted)


def _go_on(number: int, frame: FrameType | None) -> None:
    del number, frame
    if _HOLDERS:
        _HOLDERS[-1].again()


def _end(number: int, frame: FrameType | None) -> None:
    """Restore the terminal, then let the signal's default action end the process."""
    del frame
    for holder in reversed(_HOLDERS):
        holder.restore()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


class SavedInput(Protocol):
    """An input line that can be edited while a turn runs."""

    def reading(self, gate: Gate) -> AbstractContextManager[None]:
        """Read keys and draw the line below the output of `gate`, while the block runs."""
        ...

    def leave(self) -> None:
        """Remove the line and stop reading keys, because a prompt needs the terminal."""
        ...

    def again(self) -> None:
        """Read keys and draw the line again."""
        ...


class EchoSuppressor:
    """Switches off the terminal's echo during a turn, except in prompts."""

    def __init__(self) -> None:
        self._found: Attributes | None = None
        self._quiet: Callable[[Attributes], Attributes] = without_echo
        self._ahead: SavedInput | None = None

    @contextmanager
    def during_turn(self) -> Generator[None]:
        """Switch off echo while the block runs. In a background job, do nothing."""
        if self._found is not None:  # a turn inside a chat: echo is off already
            yield
            return
        with self._kept(without_echo):
            yield

    @contextmanager
    def during_chat(self, ahead: SavedInput | None = None) -> Generator[None]:
        """Switch off echo for a chat, and keep every key, including Ctrl-D, for the next input
        line.

        If the terminal supports it, `ahead` displays and edits the text that is typed during a
        turn.
        """
        self._ahead = ahead
        try:
            with self._kept(kept_for_later):
                yield
        finally:
            self._ahead = None

    @contextmanager
    def typing(self, gate: Gate) -> Generator[None]:
        """Display the text that is typed while the block runs, below the output of `gate`.

        Outside a chat, or if the terminal does not support it, do nothing.
        """
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
        """Restore the original settings for a prompt."""
        was_quiet = self._found is not None
        self.restore()
        try:
            yield
        finally:
            if was_quiet:
                self._quieten()

    def restore(self) -> None:
        """Switch on echo."""
        found, self._found = self._found, None
        if found is not None:
            with suppress(NoTerminal, TerminalGone), open_device() as device:
                if device.in_foreground:
                    device.set(found)

    def again(self) -> None:
        """Switch off echo again, if it was off before the job was stopped."""
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
        """Change the attributes that apply while echo is off."""
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
    """Restores the terminal from the input line that is edited while a turn runs."""

    def __init__(self, hush: EchoSuppressor, ahead: SavedInput) -> None:
        self._hush = hush
        self._ahead = ahead

    def restore(self) -> None:
        """Remove the line. The terminal settings are restored by the objects that were registered
        earlier.
        """
        self._ahead.leave()

    def again(self) -> None:
        """Read keys and draw the line again."""
        self._hush.again()
        self._ahead.again()


HUSH = EchoSuppressor()
"""The echo suppressor of this process. A process has one controlling terminal."""
