"""The keyboard as an input of prompt_toolkit's that reads keys itself: no type-ahead, no keys made of unknown sequences."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext

from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyPress

from midturn.errors import TerminalGone
from midturn.prompts.rich.key import Key
from midturn.prompts.rich.keyboard import Keyboard
from midturn.terminal.attributes import key_mode
from midturn.terminal.device import Device
from midturn.terminal.readiness import watched
from midturn.terminal.restore import Restored


class KeyInput(Input):
    """Hands every key to `pressed`; prompt_toolkit itself gets none."""

    def __init__(self, device: Device, restored: Restored, pressed: Callable[[Key], None]) -> None:
        self._device = device
        self._restored = restored
        self._pressed = pressed
        self._keyboard = Keyboard()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._closed = False

    def fileno(self) -> int:
        """Return the terminal's descriptor."""
        return self._device.fd

    def typeahead_hash(self) -> str:
        """Name the input; there is never anything typed ahead."""
        return f"midturn-{self._device.fd}"

    @property
    def closed(self) -> bool:
        """Whether the terminal is gone."""
        return self._closed

    def read_keys(self) -> list[KeyPress]:
        """Read what was typed and hand it on."""
        try:
            data = self._device.read()
        except TerminalGone:
            data = b""
        self._closed = not data
        for key in self._keyboard.feed(self._decoder.decode(data)):
            self._pressed(key)
        return []

    def flush_keys(self) -> list[KeyPress]:
        """Nothing followed for a while: Escape was Escape."""
        for key in self._keyboard.flush():
            self._pressed(key)
        return []

    @contextmanager
    def raw_mode(self) -> Generator[None]:
        """Let every key arrive at once, unseen; whoever asks restores."""
        self._restored.set(key_mode(self._restored.found))
        yield

    def cooked_mode(self) -> AbstractContextManager[None]:
        """Do nothing: no other program runs while this one reads."""
        return nullcontext()

    def attach(self, input_ready_callback: Callable[[], None]) -> AbstractContextManager[None]:
        """Call back whenever there is something to read."""
        return watched(self._device.fd, input_ready_callback)

    def detach(self) -> AbstractContextManager[None]:
        """Do nothing: no other program runs while this one reads."""
        return nullcontext()

    def close(self) -> None:
        """Do nothing: the device is closed by whoever opened it."""
