"""The prompter of the person at this terminal: one prompt at a time, in plain lines, or with live rows that answer to single keys.

Of a rich prompt, rows are printed above, live rows are drawn below, and one row of a transcript stays when it is done.
"""

from __future__ import annotations

import asyncio
import gc
import os
import re
import sys
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator
from concurrent.futures import Future
from contextlib import asynccontextmanager, closing, suppress
from functools import cache, partial
from typing import Protocol

from msgspec.structs import replace

from midturn.clock import pause
from midturn.errors import MidturnError, TerminalGone
from midturn.events.open_question import OpenQuestion
from midturn.events.prompt import Prompt, RuleDraft
from midturn.prompter import Prompter
from midturn.question.json_value import JsonObject
from midturn.question.reply import DEFAULT_SCOPE, Answered, Deferred, EndedTurn, Reply, Scope, Unavailable, WentBack
from midturn.question.text import exact
from midturn.terminal.above import Above
from midturn.terminal.attributes import can_open_terminal, key_mode
from midturn.terminal.capabilities import TerminalSettings, choose_mode
from midturn.terminal.device import HUSH, Device, NoTerminal, Restored, open_device, readable_now
from midturn.terminal.editor import NoEdit, edit
from midturn.terminal.lines import LineInterrupted, LineReader
from midturn.terminal.live import Canvas, LiveRows
from midturn.terminal.markdown.context import context_rows
from midturn.terminal.markdown.layout import ASCII, UNICODE
from midturn.terminal.notify import NotifyCommand, called_off, calling, question_of
from midturn.terminal.output_pair import Gate
from midturn.terminal.prompts.body import own_context
from midturn.terminal.prompts.field_walk import field_walk
from midturn.terminal.prompts.keys import BackTo, Jump, OwnWords, Ruled, about, exit_reply, loses_answers
from midturn.terminal.prompts.plain_prompt import plain_dialog
from midturn.terminal.prompts.plain_scene import Dialog, Edit, Say, Saying, Scene
from midturn.terminal.prompts.rich.keyboard import Keyboard
from midturn.terminal.prompts.rich.pager import ContextRows, plain_context
from midturn.terminal.prompts.rich.prompt import RichScene, Settle
from midturn.terminal.prompts.rich.screen import Sign, row

_PASTE_POLL = 0.02  # seconds
_HANGING_UP = 0.05  # seconds: some terminal programs send the end of input before they close it


class OwnRules(Protocol):
    """Rules that a person writes at a prompt."""

    def draft(self, prompt: Prompt) -> RuleDraft | None:
        """Return the rule that is offered at a prompt."""
        ...

    def table(self, prompt: Prompt, rule: str) -> JsonObject:
        """Return a rule that was typed, as a table that is bound to the tool of the call."""
        ...

    def keep(self, prompt: Prompt, rule: str, scope: Scope) -> str:
        """Write a rule down; return what is said of that.

        Raises:
            MidturnError: It cannot be written.
        """
        ...


class TerminalPrompter(Prompter):
    """Asks on the controlling terminal, whatever stdin, stdout and stderr are; one prompt at a time.

    `gate` holds back what others write to the same screen while a prompt is open; `rules` offers a rule with a permission, and writes it.

    Args:
        settings: How prompts look and sound; the usual way where none are given.
    """

    concurrent = False
    via = "terminal"

    def __init__(self, settings: TerminalSettings | None = None, gate: Gate | None = None, rules: OwnRules | None = None) -> None:
        self._rules = rules
        self._settings = settings or TerminalSettings()
        self._gate = gate or Gate()
        self._notify = NotifyCommand(self._settings.notify_command, self._tell)
        self._waiting: OpenQuestion | None = None
        self._had_terminal = can_open_terminal()
        self._jump = Jump()
        self._kept = _Kept()

    async def prompt(self, prompt: Prompt) -> Reply:
        """Ask, and return what the person did; `Unavailable` where no terminal opens or our job is in the background.

        Cancelling takes the prompt away at once and leaves the terminal as it was found.

        Args:
            prompt: What to ask.

        Raises:
            TerminalGone: There was a terminal, and it was closed without an answer.
        """
        if self._jump.passes(prompt):
            return WentBack()
        async with TERMINAL.pass_through():
            while self._gate.is_pasting:  # the rest of it is for the line that it began in
                await pause(_PASTE_POLL)
            try:
                with HUSH.lifted(), open_device() as device:
                    return await self._reply(prompt, device)
            except NoTerminal as error:
                if self._had_terminal:
                    raise TerminalGone(str(error)) from error
                return Unavailable()
            finally:
                if self._settings.tidies:
                    _tidy()

    def about_to_ask(self, question: OpenQuestion) -> None:
        """Take note of what the next prompt asks, as everybody outside the turn sees it.

        Args:
            question: The question.
        """
        self._waiting = question

    def withdrawn(self, id: str, by: str) -> None:
        """Say who answered a prompt that was taken away.

        Args:
            id: The question, as `prompt.id`.
            by: Who answered.
        """
        del id
        if not self._settings.announces:
            return
        with suppress(NoTerminal, TerminalGone), open_device() as device:
            if device.in_foreground:
                self._gate.clear_status()
                device.write(f"The question was answered by {exact(by)}.\n")

    async def _reply(self, prompt: Prompt, device: Device) -> Reply:
        """Ask the person at the terminal; to leave the turn is a person's word only while the terminal is there."""
        if not device.in_foreground:
            device.check()
            return Unavailable()
        if self._settings.exit_leaves_open:
            prompt = replace(prompt, exit_leaves_open=True)
        if self._rules and prompt.kind == "run":
            prompt = replace(prompt, rule=self._rules.draft(prompt))
        self._gate.asked.add(prompt.event)
        while isinstance(reply := await self._ask(prompt, device), Ruled) and self._rules:
            if reply.scope == "conversation":
                reply = Answered(value=True, scope=reply.scope, rule=self._rules.table(prompt, reply.written))
                break
            try:
                device.write(f"{exact(self._rules.keep(prompt, reply.written, reply.scope or DEFAULT_SCOPE))}\n")
            except MidturnError as error:
                prompt = replace(prompt, error=str(error))
            else:
                reply = Answered(value=True)
                break
        if not isinstance(reply, Deferred):
            self._gate.answered.add(prompt.event)
        if isinstance(reply, EndedTurn | Deferred):
            await asyncio.sleep(_HANGING_UP)
            device.check()
        return self._jump.begin(prompt, reply) if isinstance(reply, BackTo) else reply

    async def _ask(self, prompt: Prompt, device: Device) -> Reply:
        with self._gate.shut() as at_line_start:
            if not at_line_start:
                device.write("\n")
            if problem := self._call(prompt):
                device.write(f"{exact(problem)}\n")
            walk = field_walk(prompt)
            if walk is None:
                return await self._asked(prompt, device)
            while (reply := walk.take(await self._asked(walk.prompt, device))) is None:
                pass
            return reply

    async def _asked(self, prompt: Prompt, device: Device) -> Reply:
        if choose_mode(self._settings.mode, os.environ) == "plain":
            return await ask_plain(prompt, device, self._settings)
        return await ask_rich(prompt, device, self._settings, self._kept)

    def _call(self, prompt: Prompt) -> str | None:
        """Let the user's program know; a person whose answer did not fit is there already."""
        if prompt.error is not None:
            return None
        waiting = self._waiting
        return self._notify.run(waiting.to_json() if waiting is not None and waiting.id == prompt.id else question_of(prompt))

    def _tell(self, problem: str) -> None:
        if sys.stderr is not None:
            with suppress(OSError):  # it is not read
                self._gate.write(sys.stderr, f"midturn: {exact(problem)}\n")


# ----------------------------------------------------------------------------------------------------------------------
# The one terminal of a process


class Turnstile:
    """One prompt at a time on the one terminal of a process, first come first served: a lock that several event loops and threads share."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._waiting: deque[Future[None]] = deque()
        self._inside: Future[None] | None = None

    @asynccontextmanager
    async def pass_through(self) -> AsyncGenerator[None]:
        """Wait for everybody who came before, and keep those who come later waiting while the block runs."""
        ticket: Future[None] = Future()
        with self._guard:
            self._waiting.append(ticket)
            self._admit()
        try:
            await asyncio.wrap_future(ticket)
            yield
        finally:
            with self._guard:
                self._leave(ticket)

    def _leave(self, ticket: Future[None]) -> None:
        if ticket is self._inside:
            self._inside = None
            self._admit()
        elif ticket in self._waiting:
            self._waiting.remove(ticket)

    def _admit(self) -> None:
        """Let the first in who still waits, if the gate is free."""
        while self._waiting and self._inside is None:
            ticket = self._waiting.popleft()
            if ticket.set_running_or_notify_cancel():
                self._inside = ticket
                ticket.set_result(None)


TERMINAL = Turnstile()


def _tidy() -> None:
    """Collect what a prompt leaves behind now, while no one waits: else the collector stops a later prompt, to look at everything."""
    gc.collect()
    _put_aside()


@cache
def _put_aside() -> None:
    """Put aside what the first prompt of a process has loaded. Once: of the turn that is under way, nothing would ever be collected."""
    gc.freeze()


# ----------------------------------------------------------------------------------------------------------------------
# A prompt in plain lines: no escape byte, no bell, nothing that moves


_LEAVES = "The form has answers. Ctrl-C again ends the turn, Enter goes on: "
TAKEN_AWAY = "(the question was taken away)"


async def ask_plain(prompt: Prompt, device: Device, settings: TerminalSettings) -> Reply:
    """Ask on `device` and return what the person did; the terminal is left as it was found."""
    scene = Scene(prompt, device.size.columns, device.size.rows)
    with Restored(device) as restored, closing(plain_dialog(scene)) as dialog:
        reader = LineReader(device, restored, settings.settle)
        try:
            reply = await _converse(dialog, scene, reader, restored)
        except LineInterrupted:
            device.write("\n")
            reply = exit_reply(scene.prompt)
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
            if scene.prompt.exit_leaves_open or not loses_answers(scene.prompt):
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


# ----------------------------------------------------------------------------------------------------------------------
# A prompt that answers to single keys


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


class _Kept:
    """What a prompter keeps from one prompt to the next: own words at lists, and a paste that is still arriving."""

    def __init__(self) -> None:
        self.words = OwnWords()
        self.keyboard = Keyboard()


async def ask_rich(prompt: Prompt, device: Device, settings: TerminalSettings, kept: _Kept) -> Reply:
    """Ask on `device` and return what the person did; the terminal is left as it was found."""
    with Restored(device, f"{FAREWELL}{called_off(settings, os.environ)}") as restored:
        restored.set(key_mode(restored.found))
        if readable_now(device.fd):
            device.write("\n")  # what was typed ahead was echoed: no header begins behind it
        kept.keyboard.begin_anew(device.read_typed().decode(errors="replace"))
        device.write(calling(prompt, settings, os.environ))
        settle = Settle(settings.settle, time.monotonic())
        size = device.size
        asked = RichScene(
            prompt,
            size.columns,
            settle,
            height=size.rows,
            menu_first=settings.text_menu,
            context=layout_of(prompt, device),
        )
        asked.restore_own_words(kept.words.of(prompt))
        canvas = Canvas(device, kept.keyboard)
        canvas.stream.takes_drawn()
        above = Above(asked, device, canvas)
        above.draw()
        try:
            reply = await _until_answered(asked, above, restored, bell=settings.bell)
        except asyncio.CancelledError:
            if settings.announces:
                with suppress(TerminalGone):
                    canvas.print([row(TAKEN_AWAY, "dim")])
            raise
        kept.words.keep(prompt, asked.own_words(reply))
        columns = device.size.columns
        if prompt.kind == "review" and isinstance(reply, WentBack):  # it comes again: once in the scrollback is enough
            above.take_away()
        canvas.print(asked.settled(reply, columns))
    return reply


def layout_of(prompt: Prompt, device: Device) -> ContextRows:
    """Return what lays the context out. What draws Markdown takes a moment to load, and most contexts are a diff or a few words."""
    if MARKDOWN.search(own_context(prompt)) is None:
        return plain_context

    return partial(context_rows, UNICODE if device.unicode else ASCII)


async def _until_answered(asked: RichScene, above: Above, restored: Restored, *, bell: bool) -> Reply:
    device, canvas = above.device, above.canvas
    while True:
        above.fit()
        live = LiveRows(asked, device, canvas, restored, every=_A_SECOND if asked.counts_down else None)
        left = await live.run(bell=bell)
        above.make_room(live.height)
        match left:
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
            case Sign.RESIZED:
                pass  # what is above is fitted to the new width first
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
