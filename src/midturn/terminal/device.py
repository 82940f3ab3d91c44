"""The controlling terminal, opened by path with a descriptor of our own: piped stdin never answers a question."""

from __future__ import annotations

import asyncio
import locale
import os
import select
import termios
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress

from midturn.errors import TerminalGone
from midturn.prompts.rich.screen import Size
from midturn.terminal.ascii import as_ascii
from midturn.terminal.attributes import Attributes, open_by_path, terminal_path

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


class DeviceStream:
    """A device as the text stream that the output wants; once the terminal is gone, `on_gone` is called and nothing is written.

    It has no descriptor: the output would only see to it that writing blocks, and ours does.
    """

    encoding = "utf-8"

    def __init__(self, device: Device) -> None:
        self._device = device
        self._write = device.write
        self._gone = False
        self.on_gone: Callable[[TerminalGone], None] = _raise

    def write(self, text: str) -> int:
        """Write at once."""
        if not self._gone:
            try:
                self._write(text)
            except TerminalGone as error:
                self._gone = True
                self.on_gone(error)
        return len(text)

    def takes_drawn(self) -> None:
        """From now on, what is written can be shown as it is."""
        self._write = self._device.write_drawn

    def flush(self) -> None:
        """Do nothing: everything is written at once."""

    def isatty(self) -> bool:
        """Say what it is."""
        return True


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


def _raise(error: TerminalGone) -> None:
    raise error


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
