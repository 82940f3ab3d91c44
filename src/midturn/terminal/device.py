"""The controlling terminal, opened by path with a descriptor of our own, and left as it was found on every way out of a prompt or a turn.

Piped stdin never answers a question.
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
from midturn.terminal.attributes import Attributes, edited_meanwhile, kept_for_later, open_by_path, terminal_path, without_echo
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
        self.unicode = locale.getpreferredencoding(do_setlocale=False).replace("-", "").lower() == "utf8"

    @property
    def in_foreground(self) -> bool:
        """Whether our job may read and write it now; a background job would be stopped instead."""
        try:
            return os.tcgetpgrp(self.fd) == os.getpgrp()
        except OSError:
            return False

    @property
    def size(self) -> Size:
        """Size in cells; 80 by 24 where it does not say."""
        try:
            columns, rows = os.get_terminal_size(self.fd)
        except OSError:
            columns, rows = 0, 0
        return Size(columns or _DEFAULT_COLUMNS, rows or _DEFAULT_ROWS)

    def write(self, text: str) -> None:
        """Write text; where the locale knows only ASCII, our own signs become letters of it and everything else its code.

        Raises:
            TerminalGone: It was closed.
        """
        self.write_drawn(text if self.unicode else as_ascii(text))

    def write_drawn(self, text: str) -> None:
        """Write what is drawn as it can be shown already.

        Raises:
            TerminalGone: It was closed.
        """
        data = text.encode("utf-8", "backslashreplace")
        try:
            while data:
                data = data[os.write(self.fd, data) :]
        except OSError as error:
            raise self._gone() from error

    def read(self, most: int = _CHUNK) -> bytes:
        """Read what was typed, at most so many bytes; nothing where the user ended the input (Ctrl-D).

        Raises:
            TerminalGone: It was closed: that is the end of input, too, but not the user's doing.
        """
        try:
            data = os.read(self.fd, most)
        except OSError as error:
            raise self._gone() from error
        if not data:
            self.check()
        return data

    def check(self) -> None:
        """Find out whether it is still there.

        Raises:
            TerminalGone: It was closed.
        """
        self.settings()

    def settings(self) -> Attributes:
        """Return its settings, as `tcgetattr` does.

        Raises:
            TerminalGone: It was closed.
        """
        try:
            return termios.tcgetattr(self.fd)
        except termios.error as error:
            raise self._gone() from error

    def set(self, settings: Attributes) -> None:
        """Change its settings.

        Raises:
            TerminalGone: It was closed.
        """
        try:
            termios.tcsetattr(self.fd, termios.TCSANOW, settings)
        except termios.error as error:
            raise self._gone() from error

    def put_back(self, settings: Attributes, farewell: str) -> None:
        """Put settings back, and write what switches our modes off. A job in the background leaves the terminal to its present owner."""
        if self.in_foreground:
            with suppress(TerminalGone):  # there is nothing left to put back
                self.set(settings)
                self.write(farewell)

    def read_typed(self) -> bytes:
        """Read everything that was typed and not read yet.

        Raises:
            TerminalGone: It was closed.
        """
        typed = b""
        while readable_now(self.fd) and (data := self.read()):
            typed += data
        return typed

    def forget_typed(self) -> None:
        """Throw away what was typed and not read yet.

        Raises:
            TerminalGone: It was closed.
        """
        try:
            termios.tcflush(self.fd, termios.TCIFLUSH)
        except termios.error as error:
            raise self._gone() from error

    def _gone(self) -> TerminalGone:
        return TerminalGone(f"The terminal {self.path} is gone, and with it whoever was asked there.")


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
        raise NoTerminal(f"No terminal to ask at: {path}: {error.strerror}.") from error
    try:
        yield Device(fd, path)
    finally:
        os.close(fd)


# ----------------------------------------------------------------------------------------------------------------------
# Waiting for a descriptor inside an asyncio loop, also where the loop's selector refuses terminals


@contextmanager
def watched(fd: int, readable: Callable[[], None]) -> Generator[None]:
    """Call `readable` in the running loop whenever `fd` can be read, while the block runs."""
    loop = asyncio.get_running_loop()
    try:
        loop.add_reader(fd, readable)
    except (OSError, NotImplementedError):  # kqueue cannot poll every terminal, and a proactor has no readers
        with _watched_by_thread(fd, readable, loop):
            yield
        return
    try:
        yield
    finally:
        loop.remove_reader(fd)


def readable_now(fd: int) -> bool:
    """Tell whether input is waiting."""
    return bool(select.select([fd], [], [], 0)[0])


@contextmanager
def _watched_by_thread(fd: int, readable: Callable[[], None], loop: asyncio.AbstractEventLoop) -> Generator[None]:
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
            taken.acquire()  # until it was read, it stays readable

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


# ----------------------------------------------------------------------------------------------------------------------
# Settings that are put back: after a prompt, after a turn, when a signal ends the process


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
        # By `vfork`, Ctrl-Z would stop a program that is just being started before it is one, and us not at all: we wait for it.
        setattr(subprocess, "_USE_VFORK", False)  # noqa: B010  Python documents it, and types it as final
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


class LineAhead(Protocol):
    """A line that is edited while a turn runs."""

    def reading(self, gate: Gate) -> AbstractContextManager[None]:
        """Take keys, and draw the row below what goes through a gate, while the block runs."""
        ...

    def leave(self) -> None:
        """Take its row away, and no keys: the terminal is needed."""
        ...

    def again(self) -> None:
        """Take keys as before, and draw the row."""
        ...


class Hush:
    """The echo of this process's terminal: off while a turn runs, but for the prompts in it."""

    def __init__(self) -> None:
        self._found: Attributes | None = None
        self._quiet: Callable[[Attributes], Attributes] = without_echo
        self._ahead: LineAhead | None = None

    @contextmanager
    def during_turn(self) -> Generator[None]:
        """Echo nothing while the block runs. A job in the background leaves the terminal to its present owner."""
        if self._found is not None:  # a turn of a chat
            yield
            return
        with self._kept(without_echo):
            yield

    @contextmanager
    def during_chat(self, ahead: LineAhead | None = None) -> Generator[None]:
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

    def __init__(self, hush: Hush, ahead: LineAhead) -> None:
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
