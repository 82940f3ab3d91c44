"""A prompt that answers to single keys: printed rows above, live rows below, one transcript row when it is done."""

from __future__ import annotations

import asyncio
import os
import re
import time
from contextlib import closing, suppress
from functools import partial

from midturn.errors import TerminalGone
from midturn.prompts.body import own_context
from midturn.prompts.content import about
from midturn.prompts.plain_prompt import plain_dialog
from midturn.prompts.plain_scene import Dialog, Edit, Say, Saying, Scene
from midturn.prompts.rich.markup import ContextRows, plain_context
from midturn.prompts.rich.prompt import RichScene, Settle
from midturn.prompts.rich.screen import Sign, row
from midturn.question.reply import EndedTurn, Reply, WentBack
from midturn.record.prompt import Prompt
from midturn.terminal.attributes import key_mode
from midturn.terminal.device import Device, readable_now
from midturn.terminal.editor import NoEdit, edit
from midturn.terminal.lines import LineInterrupted, LineReader
from midturn.terminal.live import LiveRows
from midturn.terminal.look import TerminalSettings
from midturn.terminal.markdown.context import context_rows
from midturn.terminal.markdown.layout import ASCII, UNICODE
from midturn.terminal.notify import called_off, calling
from midturn.terminal.paint import Canvas
from midturn.terminal.restore import Restored
from midturn.values.text import exact

# ----------------------------------------------------------------------------------------------------------------------
# A prompt in plain lines: no escape byte, no bell, nothing that moves


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
        heard = await _carry_out(saying, scene, reader, restored)
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
        canvas.print([asked.transcript(reply, columns), *asked.covered(reply, columns)])
    return reply


class _Above:
    """What stands above the live rows, printed once for each width."""

    def __init__(self, asked: RichScene, device: Device, canvas: Canvas) -> None:
        self.device = device
        self.canvas = canvas
        self._asked = asked
        self._drawn = 0
        self._columns = 0

    def draw(self) -> None:
        """Print it."""
        self._columns = self.device.size.columns
        self._drawn = self.canvas.print(self._asked.static())

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
