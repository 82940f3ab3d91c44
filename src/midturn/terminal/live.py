"""Draws prompts with prompt_toolkit: live rows, which respond to single keys, and printed rows.

No input is read ahead, and unknown escape sequences are never treated as keys.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any, Protocol, TypeAlias, cast

from prompt_toolkit.application import application
from prompt_toolkit.data_structures import Point, Size as PtkSize
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.key_binding.bindings.page_navigation import load_page_navigation_bindings
from prompt_toolkit.key_binding.defaults import load_key_bindings
from prompt_toolkit.layout import FormattedTextControl, Layout, Window
from prompt_toolkit.output.color_depth import ColorDepth
from prompt_toolkit.renderer import print_formatted_text
from prompt_toolkit.styles import Style as PtkStyle

from midturn.errors import TerminalGone
from midturn.question.reply import Reply
from midturn.terminal.ascii import ascii_frame, ascii_row
from midturn.terminal.attributes import key_mode
from midturn.terminal.capabilities import STYLES
from midturn.terminal.device import Device, Restored, watched
from midturn.terminal.prompts.plain_scene import Edit
from midturn.terminal.prompts.rich.burst import HOLD, Bursts, KeyMode, TimedKey
from midturn.terminal.prompts.rich.keyboard import Key, Keyboard
from midturn.terminal.prompts.rich.screen import Frame, Row, Sign, Size
from midturn.terminal.resizing import SteadyApplication, SteadyOutput, reflowed

# --------------------------------------------------------------------------------------------------
# Output: the 16 colours of the terminal's theme, or none if `NO_COLOR` is set


class DeviceStream:
    """Text stream through which prompt_toolkit writes to the device.

    After the terminal is closed, `on_gone` is called and output is discarded.

    The stream has no descriptor, because prompt_toolkit would only use it to make writes blocking,
    and writes to the device already block.
    """

    encoding = "utf-8"

    def __init__(self, device: Device) -> None:
        self._device = device
        self._write = device.write
        self._gone = False
        self.on_gone: Callable[[TerminalGone], None] = _raise

    def write(self, text: str) -> int:
        """Write immediately."""
        if not self._gone:
            try:
                self._write(text)
            except TerminalGone as error:
                self._gone = True
                self.on_gone(error)
        return len(text)

    def takes_drawn(self) -> None:
        """Stop converting text, because from now on all rows are displayable."""
        self._write = self._device.write_drawn

    def flush(self) -> None:
        """Do nothing, because every write is sent immediately."""

    def isatty(self) -> bool:
        return True


def _raise(error: TerminalGone) -> None:
    raise error


LOOKS = PtkStyle.from_dict({name: look for name, look in STYLES.items() if name})


class Canvas:
    """A prompt_toolkit output that writes to the device, without cursor position requests.

    Rows are converted to displayable characters before they are drawn, because the renderer must
    know the width of the converted text.
    """

    def __init__(self, device: Device, keyboard: Keyboard | None = None) -> None:
        self._device = device
        self.keyboard = keyboard or Keyboard()
        self.stream = DeviceStream(device)
        self.held_keys: list[TimedKey] = []
        self.bursts = Bursts()
        self.depth = (
            ColorDepth.DEPTH_1_BIT if os.environ.get("NO_COLOR") else ColorDepth.DEPTH_4_BIT
        )

        def size() -> PtkSize:
            return PtkSize(rows=device.size.rows, columns=device.size.columns)

        self.output = SteadyOutput(
            self.stream,  # type: ignore[arg-type]
            size,
            term=os.environ.get("TERM"),
            default_color_depth=self.depth,
            enable_cpr=False,
        )

    def clear(self) -> None:
        """Clear the screen, but not the scrollback."""
        self.output.erase_screen()
        self.output.cursor_goto(0, 0)
        self.output.flush()

    def erase_above(self, rows: int) -> None:
        """Erase the last printed rows. Rows in the scrollback are not changed."""
        self.output.cursor_up(rows)
        self.output.erase_down()
        self.output.flush()

    def print(self, rows: Iterable[Row]) -> Sequence[Row]:
        """Print rows permanently. Return them as displayed."""
        shown = [*rows] if self._device.unicode else [*map(ascii_row, rows)]
        print_formatted_text(self.output, fragments(shown, end="\n"), LOOKS, color_depth=self.depth)
        return shown


def fragments(rows: Iterable[Row], end: str = "") -> StyleAndTextTuples:
    """Return rows as styled fragments separated by line breaks."""
    found: StyleAndTextTuples = []
    for number, spans in enumerate(rows):
        found += [("", "\n")] if number else []
        found += [(f"class:{span.style}" if span.style else "", span.text) for span in spans]
    return [*found, ("", end)] if found else found


# --------------------------------------------------------------------------------------------------
# Live rows and their keys


ESCAPE_TIMEOUT = 0.05
"""Seconds without further input after which an Escape byte is the Esc key."""

Leaving: TypeAlias = Reply | Edit | Sign
"""Why the live rows are removed: a reply, or an action that needs the terminal."""


class Presenter(Protocol):
    """Receives each key with the time when it was pressed, and draws frames."""

    @property
    def entry(self) -> KeyMode:
        """How keys are interpreted now."""
        ...

    def press(self, key: Key, now: float) -> object:
        """Handle a key.

        Return a reason to remove the live rows, `Sign.RING`, or None. Other values are ignored.
        """
        ...

    def frame(self, size: Size) -> Frame:
        """Return the frame for this size."""
        ...


class LiveRows:
    """Draws live rows and reads keys until a key ends the run. Then, or after an error, the rows are
    erased.
    """

    def __init__(
        self,
        presenter: Presenter,
        device: Device,
        canvas: Canvas,
        restored: Restored,
        *,
        full_screen: bool = False,
        every: float | None = None,
    ) -> None:
        """Prepare the rows.

        `every` is the redraw interval in seconds for content that changes without a key.
        """
        self._presenter = presenter
        self._device = device
        self._canvas = canvas
        self._tallest = 0
        self._clock: Callable[[], float] = time.monotonic
        self._keys = KeyInput(
            device, restored, canvas, lambda: presenter.entry, self._pressed, self._clock
        )
        control = FormattedTextControl(
            self._drawn, get_cursor_position=self._cursor, focusable=True
        )
        with bindings_made_once():
            self._app: SteadyApplication[Leaving] = SteadyApplication(
                self._clock,
                lambda: device.size.columns,
                layout=Layout(Window(control, dont_extend_height=True)),
                input=self._keys,
                output=canvas.output,
                style=LOOKS,
                color_depth=canvas.depth,
                include_default_pygments_style=False,
                enable_page_navigation_bindings=False,
                erase_when_done=True,
                full_screen=full_screen,
                refresh_interval=every,
            )
        self._app.ttimeoutlen = ESCAPE_TIMEOUT
        self._app.on_new_width = None if full_screen else self._leave_for_new_width

    @property
    def height(self) -> int:
        """Maximum number of screen rows in use: the rows of the tallest frame, or the rows of the
        last frame as wrapped by the terminal, whichever is larger.
        """
        return max(self._tallest, sum(reflowed(self._app.shown.rows, self._device.size.columns)))

    async def run(self, *, bell: bool) -> Leaving:
        """Draw until a key ends the run.

        Raises:
            TerminalGone: The terminal was closed.
        """
        self._bell = bell
        self._canvas.stream.on_gone = self._leave_with
        try:
            return await self._app.run_async(
                pre_run=self._press_held, handle_sigint=False, set_exception_handler=False
            )
        except EOFError as error:
            self._device.check()
            raise TerminalGone(str(error) or "The terminal closed its input.") from error
        finally:
            self._keys.stop()

    def _pressed(self, key: Key, when: float) -> None:
        if self._app.future is None or self._app.future.done():
            if self._is_coming_back:
                self._canvas.held_keys.append(
                    (key, when)
                )  # the live rows are drawn again later and receive the key then
            return  # keys after the answer were not meant for this prompt
        match self._presenter.press(key, when):
            case Sign.RING:
                if self._bell:
                    self._app.output.bell()
            case (
                Sign.LEAVE
                | Sign.SUSPEND
                | Sign.VIEW
                | Sign.REDRAW
                | Sign.RESIZED
                | Edit() as leaving
            ):
                self._app.exit(result=leaving)
            case None | Sign.MENU:
                pass
            case reply:
                self._app.exit(result=cast("Reply", reply))
        self._app.invalidate()

    @property
    def _is_coming_back(self) -> bool:
        """Whether the live rows are removed only for a moment, and are drawn again later."""
        future = self._app.future
        return (
            future is not None
            and future.done()
            and not future.cancelled()
            and not future.exception()
            and isinstance(future.result(), Sign)
        )

    def _press_held(self) -> None:
        """Handle the keys that were pressed while the rows were removed."""
        held, self._canvas.held_keys = self._canvas.held_keys, []
        for key, when in held:
            self._pressed(key, when)
        self._keys.start()

    def _drawn(self) -> StyleAndTextTuples:
        """Draw the frame for the current size of the terminal."""
        size = self._device.size
        try:
            frame = self._presenter.frame(size)
            self._app.shown = frame if self._device.unicode else ascii_frame(frame, size)
        except Exception as error:  # noqa: BLE001 (prompt_toolkit would wait for ever; it is raised by `run`)
            self._leave_with(error)
        self._tallest = max(self._tallest, len(self._app.shown.rows))
        return fragments(self._app.shown.rows)

    def _leave_for_new_width(self) -> None:
        """End the run, because all rows, including the rows printed above, must be redrawn for the
        new width.
        """
        future = self._app.future
        if future is not None and not future.done():
            future.set_result(Sign.RESIZED)

    def _cursor(self) -> Point:
        at, column = self._app.shown.cursor
        return Point(x=column, y=at)

    def _leave_with(self, error: Exception) -> None:
        future = self._app.future
        if future is not None and not future.done():
            asyncio.get_running_loop().call_soon(_fail, future, error)


def _fail(future: asyncio.Future[Leaving], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


class KeyInput(Input):
    """Passes every key with its time to `pressed`. prompt_toolkit receives no keys."""

    def __init__(
        self,
        device: Device,
        restored: Restored,
        canvas: Canvas,
        entry: Callable[[], KeyMode],
        pressed: Callable[[Key, float], None],
        clock: Callable[[], float],
    ) -> None:
        self._device = device
        self._restored = restored
        self._bursts = canvas.bursts
        self._entry = entry
        self._pressed = pressed
        self._clock = clock
        self._timer: asyncio.TimerHandle | None = None
        self._keyboard = canvas.keyboard
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._closed = False

    def fileno(self) -> int:
        """Return the terminal's descriptor."""
        return self._device.fd

    def typeahead_hash(self) -> str:
        """Return an ID for prompt_toolkit's type-ahead buffer, which stays empty."""
        return f"midturn-{self._device.fd}"

    @property
    def closed(self) -> bool:
        """Whether the terminal is closed."""
        return self._closed

    def read_keys(self) -> list[KeyPress]:
        """Read the available input and handle its keys."""
        try:
            data = self._device.read()
        except TerminalGone:
            data = b""
        self._closed = not data
        self._feed(self._keyboard.feed(self._decoder.decode(data)))
        return []

    def flush_keys(self) -> list[KeyPress]:
        """Handle a pending Escape byte as the Esc key, because no input followed it."""
        self._feed(self._keyboard.flush())
        return []

    def start(self) -> None:
        """Start the timer that releases a held key."""
        self.stop()
        if self._bursts.holds:
            self._timer = asyncio.get_running_loop().call_later(HOLD, self._release)

    def stop(self) -> None:
        """Stop the timer. A held key stays available to the next reader."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _feed(self, keys: Sequence[Key]) -> None:
        if keys:
            for key, when in self._bursts.feed(keys, self._clock(), self._entry()):
                self._pressed(key, when)
            self.start()

    def _release(self) -> None:
        for key, when in self._bursts.release(self._entry()):
            self._pressed(key, when)

    @contextmanager
    def raw_mode(self) -> Generator[None]:
        """Switch to single-key input without echo. The caller restores the settings."""
        self._restored.set(key_mode(self._restored.found))
        yield

    def cooked_mode(self) -> AbstractContextManager[None]:
        """Do nothing, because no other program reads the terminal at this time."""
        return nullcontext()

    def attach(self, input_ready_callback: Callable[[], None]) -> AbstractContextManager[None]:
        """Call `input_ready_callback` whenever input is available."""
        return watched(self._device.fd, input_ready_callback)

    def detach(self) -> AbstractContextManager[None]:
        """Do nothing, because no other program reads the terminal at this time."""
        return nullcontext()

    def close(self) -> None:
        """Do nothing: the device is closed by the caller that opened it."""


_MAKER: Any = application  # the module with the functions that create key bindings
_KEYS = cache(load_key_bindings)
_PAGES = cache(load_page_navigation_bindings)


@contextmanager
def bindings_made_once() -> Generator[None]:
    """Create key bindings only once for all applications that are created in the block.

    prompt_toolkit creates about six hundred bindings for every application, which takes longer than
    drawing a prompt. Live rows use none of them, because `KeyInput` handles all keys. Bindings have
    no state, so an application that the host creates at the same moment can share them safely.
    """
    before = _MAKER.load_key_bindings, _MAKER.load_page_navigation_bindings
    _MAKER.load_key_bindings, _MAKER.load_page_navigation_bindings = _KEYS, _PAGES
    try:
        yield
    finally:
        _MAKER.load_key_bindings, _MAKER.load_page_navigation_bindings = before
