"""A prompt that answers to single keys: printed rows above, live rows below drawn by prompt_toolkit, one transcript row when it is done.

There is no type-ahead, and no key is made of an unknown sequence.
"""

from __future__ import annotations

import asyncio
import codecs
import os
import re
import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext, suppress
from functools import cache, partial
from typing import Any, Protocol, TypeAlias, cast

from prompt_toolkit.application import Application, application
from prompt_toolkit.data_structures import Point
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyPress
from prompt_toolkit.key_binding.bindings.page_navigation import load_page_navigation_bindings
from prompt_toolkit.key_binding.defaults import load_key_bindings
from prompt_toolkit.layout import FormattedTextControl, Layout, Window

from midturn.errors import TerminalGone
from midturn.prompts.body import own_context
from midturn.prompts.keys import about, loses_answers
from midturn.prompts.plain_prompt import plain_dialog
from midturn.prompts.plain_scene import Dialog, Edit, Say, Saying, Scene
from midturn.prompts.rich.keyboard import Key, Keyboard
from midturn.prompts.rich.pager import ContextRows, plain_context
from midturn.prompts.rich.prompt import RichScene, Settle
from midturn.prompts.rich.screen import Frame, Sign, Size, row, row_cells
from midturn.question.answer_type import EndedTurn, Reply, WentBack
from midturn.record.prompt import Prompt
from midturn.terminal.ascii import ascii_frame
from midturn.terminal.attributes import key_mode
from midturn.terminal.device import Device, readable_now, watched
from midturn.terminal.editor import NoEdit, edit
from midturn.terminal.lines import LineInterrupted, LineReader
from midturn.terminal.look import TerminalSettings
from midturn.terminal.markdown.context import context_rows
from midturn.terminal.markdown.layout import ASCII, UNICODE
from midturn.terminal.notify import called_off, calling
from midturn.terminal.paint import LOOKS, Canvas, fragments
from midturn.terminal.restore import Restored
from midturn.values.text import exact

ESCAPE_TIMEOUT = 0.05
"""Seconds after which an Escape that nothing followed is the key."""

Leaving: TypeAlias = Reply | Edit | Sign
"""Why the live rows go away: the reply, or something for which the terminal is needed."""


class Presenter(Protocol):
    """Takes keys with the time at which they were pressed, and draws."""

    def press(self, key: Key, now: float) -> object:
        """Take a key; return why the rows go away, `Sign.RING`, or None (or anything else that is for the presenter alone)."""
        ...

    def frame(self, size: Size) -> Frame:
        """Draw."""
        ...


class LiveRows:
    """One run of the live rows; they are erased when it ends, however it ends."""

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
        """Draw on a terminal; again `every` so many seconds, where what is shown changes by itself."""
        self._presenter = presenter
        self._device = device
        self._columns = device.size.columns
        self._full_screen = full_screen
        self._canvas = canvas
        self._frame = Frame(())
        control = FormattedTextControl(self._drawn, get_cursor_position=self._cursor, focusable=True)
        with bindings_made_once():
            self._app: Application[Leaving] = Application(
                layout=Layout(Window(control, dont_extend_height=True)),
                input=KeyInput(device, restored, self._pressed),
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
        self._clock: Callable[[], float] = time.monotonic

    async def run(self, *, bell: bool) -> Leaving:
        """Draw until a key leaves.

        Raises:
            TerminalGone: The terminal was closed.
        """
        self._bell = bell
        self._canvas.stream.on_gone = self._leave_with
        try:
            return await self._app.run_async(pre_run=self._press_held, handle_sigint=False, set_exception_handler=False)
        except EOFError as error:
            self._device.check()
            raise TerminalGone(str(error) or "The terminal closed its input.") from error

    def _pressed(self, key: Key) -> None:
        if self._app.future is None or self._app.future.done():
            if self._is_coming_back:
                self._canvas.held_keys.append(key)  # the rows come back, and the key is for them
            return  # keys behind the one that answered were not meant for this prompt
        match self._presenter.press(key, self._clock()):
            case Sign.RING:
                if self._bell:
                    self._app.output.bell()
            case Sign.LEAVE | Sign.SUSPEND | Sign.VIEW | Sign.REDRAW | Edit() as leaving:
                self._app.exit(result=leaving)
            case None | Sign.MENU:
                pass
            case reply:
                self._app.exit(result=cast("Reply", reply))
        self._app.invalidate()

    @property
    def _is_coming_back(self) -> bool:
        """Whether the rows go away for something after which they are drawn again."""
        future = self._app.future
        return (
            future is not None and future.done() and not future.cancelled() and not future.exception() and isinstance(future.result(), Sign)
        )

    def _press_held(self) -> None:
        """Take the keys that came while the rows were away."""
        held, self._canvas.held_keys = self._canvas.held_keys, []
        for key in held:
            self._pressed(key)

    def _drawn(self) -> StyleAndTextTuples:
        """Draw the frame for the size that the terminal has now."""
        size = self._device.size
        self._redraw_if_resized(size.columns)
        try:
            frame = self._presenter.frame(size)
            self._frame = frame if self._device.unicode else ascii_frame(frame, size)
        except Exception as error:  # noqa: BLE001 (prompt_toolkit would wait for ever; it is raised by `run`)
            self._leave_with(error)
        return fragments(self._frame.rows)

    def _redraw_if_resized(self, columns: int) -> None:
        """Have everything drawn anew where the width has changed: terminals move rows that were printed as they like."""
        future = self._app.future
        if columns != self._columns and not self._full_screen and future is not None and not future.done():
            self._columns = columns
            asyncio.get_running_loop().call_soon(_leave, future, Sign.REDRAW)

    def _cursor(self) -> Point:
        at, column = self._frame.cursor
        return Point(x=column, y=at)

    def _leave_with(self, error: Exception) -> None:
        future = self._app.future
        if future is not None and not future.done():
            asyncio.get_running_loop().call_soon(_fail, future, error)


def _leave(future: asyncio.Future[Leaving], sign: Sign) -> None:
    if not future.done():
        future.set_result(sign)


def _fail(future: asyncio.Future[Leaving], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


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
        """Let every key arrive at once, unseen; the caller restores."""
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
        """Do nothing: the opener of the device closes it."""


_MAKER: Any = application  # the module in which applications call what makes their bindings
_KEYS = cache(load_key_bindings)
_PAGES = cache(load_page_navigation_bindings)


@contextmanager
def bindings_made_once() -> Generator[None]:
    """Have applications that are made in the block share their bindings.

    prompt_toolkit makes some six hundred of them for every application, which takes longer than drawing a prompt; ours uses none, for
    `KeyInput` keeps all keys. They have no state, so that an application of a host's which is made at the same moment may have the same.
    """
    before = _MAKER.load_key_bindings, _MAKER.load_page_navigation_bindings
    _MAKER.load_key_bindings, _MAKER.load_page_navigation_bindings = _KEYS, _PAGES
    try:
        yield
    finally:
        _MAKER.load_key_bindings, _MAKER.load_page_navigation_bindings = before


# ----------------------------------------------------------------------------------------------------------------------
# A prompt in plain lines: no escape byte, no bell, nothing that moves


_LEAVES = "The form has answers. Ctrl-C again ends the turn, Enter goes on: "
TAKEN_AWAY = "(the question was taken away)"


async def ask_plain(prompt: Prompt, device: Device, settings: TerminalSettings) -> Reply:
    """Ask on `device` and return what the person did; the terminal is left as it was found."""
    scene = Scene(prompt, device.size.columns)
    with Restored(device) as restored, closing(plain_dialog(scene)) as dialog:
        reader = LineReader(device, restored, settings.settle)
        try:
            reply = await _converse(dialog, scene, reader, restored)
        except LineInterrupted:
            device.write("\n")
            reply = EndedTurn()
        except asyncio.CancelledError:
            with suppress(TerminalGone):
                device.write(f"\n{TAKEN_AWAY}\n" if settings.announces else "\n")
            raise
    device.write("".join(f"{row}\n" for row in (scene.transcript(reply), *scene.covered(reply))))
    return reply


async def _converse(dialog: Dialog, scene: Scene, reader: LineReader, restored: Restored) -> Reply:
    saying = next(dialog)
    while True:
        try:
            heard = await _carry_out(saying, scene, reader, restored)
        except LineInterrupted:
            if not loses_answers(scene.prompt):
                raise
            restored.device.write("\n")
            await reader.ask(Say(ask=_LEAVES))
            continue
        try:
            saying = dialog.send(heard)
        except StopIteration as stop:
            return stop.value


async def _carry_out(saying: Saying, scene: Scene, reader: LineReader, restored: Restored) -> str:
    match saying:
        case Say():
            return await reader.ask(saying)
        case Edit(text):
            try:
                return await edit(saying, about(scene.prompt), restored.device, restored)
            except NoEdit as error:
                restored.device.write(f"{exact(str(error))}\n")
                return text


_A_SECOND = 1.0  # between two looks at how long there is left
MARKDOWN = re.compile(
    r"^[ ]{0,3}(?:[-*+]|\d{1,9}[.)])[ ]+\S"
    r"|^[ ]{0,3}>"
    r"|^[ ]{0,3}(?:`{3,}|~{3,})[ ]*(?!diff\b|patch\b)[A-Za-z]"
    r"|\|[ ]*:?-+:?[ ]*\||\]\("
    r"|^[ ]{0,3}(?:[-*_][ ]*){3,}$",
    re.MULTILINE,
)
"""Lists, quotes, code in a language, tables, links and rules: what is drawn differently from words that stand below each other."""
FAREWELL = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?2004l"
"""Plain colours, wrapping on, the cursor seen, pastes unmarked."""
LEAVE_SCREEN = "\x1b[?1049l"
"""From the screen of its own back to the usual one; only where that one is shown."""


async def ask_rich(prompt: Prompt, device: Device, settings: TerminalSettings) -> Reply:
    """Ask on `device` and return what the person did; the terminal is left as it was found."""
    with Restored(device, f"{FAREWELL}{called_off(settings, os.environ)}") as restored:
        restored.set(key_mode(restored.found))
        if readable_now(device.fd):
            device.write("\n")  # what was typed ahead was echoed: no header begins behind it
        device.forget_typed()
        device.write(calling(prompt, settings, os.environ))
        settle = Settle(settings.settle, time.monotonic())
        asked = RichScene(prompt, device.size.columns, settle, menu_first=settings.text_menu, context=layout_of(prompt, device))
        canvas = Canvas(device)
        canvas.stream.takes_drawn()
        above = _Above(asked, device, canvas)
        above.draw()
        try:
            reply = await _until_answered(asked, above, restored, bell=settings.bell)
        except asyncio.CancelledError:
            if settings.announces:
                with suppress(TerminalGone):
                    canvas.print([row(TAKEN_AWAY, "dim")])
            raise
        columns = device.size.columns
        if prompt.kind == "review" and isinstance(reply, WentBack):  # it comes again: once in the scrollback is enough
            above.take_away()
        canvas.print(asked.settled(reply, columns))
    return reply


class _Above:
    """Rows above the live ones, printed once for each width."""

    def __init__(self, asked: RichScene, device: Device, canvas: Canvas) -> None:
        self.device = device
        self.canvas = canvas
        self._asked = asked
        self._drawn = 0
        self._columns = 0

    def draw(self) -> None:
        """Print it."""
        self._columns = columns = self.device.size.columns
        shown = self.canvas.print(self._asked.static())
        self._drawn = sum(max(1, -(-row_cells(spans) // columns)) for spans in shown)

    def draw_anew(self) -> None:
        """Print it again, for the width that there is now."""
        self._asked.refit(self.device.size.columns)
        self.draw()

    def take_away(self) -> None:
        """Erase it where it is still on the screen as it was printed."""
        if self.device.size.columns == self._columns:
            self.canvas.erase_above(self._drawn)


def layout_of(prompt: Prompt, device: Device) -> ContextRows:
    """Return what lays the context out. What draws Markdown takes a moment to load, and most contexts are a diff or a few words."""
    if MARKDOWN.search(own_context(prompt)) is None:
        return plain_context

    return partial(context_rows, UNICODE if device.unicode else ASCII)


async def _until_answered(asked: RichScene, above: _Above, restored: Restored, *, bell: bool) -> Reply:
    device, canvas = above.device, above.canvas
    while True:
        every = _A_SECOND if asked.counts_down else None
        match await LiveRows(asked, device, canvas, restored, every=every).run(bell=bell):
            case Edit() as wanted:
                try:
                    asked.edited(await edit(wanted, asked.about, device, restored))
                except NoEdit as error:
                    asked.say(str(error))
            case Sign.VIEW:
                reply = await _page(asked, device, canvas, restored)
                if reply is not None:
                    return reply
            case Sign.SUSPEND:
                restored.suspend()
                above.draw_anew()
            case Sign():
                canvas.clear()
                above.draw_anew()
            case reply:
                return reply


async def _page(asked: RichScene, device: Device, canvas: Canvas, restored: Restored) -> Reply | None:
    """Show everything on a screen of its own, and come back to the question; return what the person said there, if anything."""
    pager = asked.pager()
    while True:
        with restored.saying(f"{LEAVE_SCREEN}{restored.farewell}"):
            left = await LiveRows(pager, device, canvas, restored, full_screen=True).run(bell=False)
        asked.paged(pager)
        if left is Sign.SUSPEND:
            restored.suspend()
        elif isinstance(left, Sign | Edit):
            return None
        else:
            return left
