"""The terminal prompter: one prompt at a time, in plain lines or with single-key input.

A rich prompt prints its context above, redraws its live rows below, and leaves one transcript row
when the question is closed.
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
from midturn.question.reply import (
    DEFAULT_SCOPE,
    Answered,
    Deferred,
    EndedTurn,
    Reply,
    Scope,
    Unavailable,
    WentBack,
)
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
from midturn.terminal.prompts.keys import (
    BackTo,
    Jump,
    OwnWords,
    Ruled,
    about,
    exit_reply,
    loses_answers,
)
from midturn.terminal.prompts.plain_prompt import plain_dialog
from midturn.terminal.prompts.plain_scene import Dialog, Edit, PromptBase, Say, Saying
from midturn.terminal.prompts.rich.keyboard import Keyboard
from midturn.terminal.prompts.rich.pager import ContextRows, plain_context
from midturn.terminal.prompts.rich.prompt import Debounce, RichScene
from midturn.terminal.prompts.rich.screen import Sign, row

_PASTE_POLL = 0.02  # seconds between two checks whether a paste has arrived completely
# seconds to wait after the end of input, because some terminal programs end the input just before
# they close the terminal
_HANGUP_DELAY = 0.05


class OwnRules(Protocol):
    """Drafts, checks and stores rules that a person writes at a prompt."""

    def draft(self, prompt: Prompt) -> RuleDraft | None:
        """Return the rule to offer at a prompt, or None."""
        ...

    def table(self, prompt: Prompt, rule: str) -> JsonObject:
        """Return a rule that the person typed, as a table that is bound to the call's tool."""
        ...

    def keep(self, prompt: Prompt, rule: str, scope: Scope) -> str:
        """Store a rule and return a message about it.

        Raises:
            MidturnError: The rule cannot be stored.
        """
        ...


class TerminalPrompter(Prompter):
    """Asks on the controlling terminal, one prompt at a time. stdin, stdout and stderr are not
    used.

    Args:
        settings: Appearance and sound of prompts. Default: `TerminalSettings()`.
        gate: Holds back other output to the same terminal while a prompt is open.
        rules: Offers and stores standing permissions at prompts. Default: none are offered.
    """

    concurrent = False
    via = "terminal"

    def __init__(
        self,
        settings: TerminalSettings | None = None,
        gate: Gate | None = None,
        rules: OwnRules | None = None,
    ) -> None:
        self._rules = rules
        self._settings = settings or TerminalSettings()
        self._gate = gate or Gate()
        self._notify = NotifyCommand(self._settings.notify_command, self._report_problem)
        self._waiting: OpenQuestion | None = None
        self._had_terminal = can_open_terminal()
        self._jump = Jump()
        self._kept = _PromptState()

    async def prompt(self, prompt: Prompt) -> Reply:
        """Show a prompt, and return the person's reply.

        Return `Unavailable` if there is no terminal or if the job is in the background. If the task
        is cancelled, the prompt is removed immediately and the terminal is restored.

        Args:
            prompt: The prompt to display.

        Raises:
            TerminalGone: The terminal was closed before the answer.
        """
        if self._jump.passes(prompt):
            return WentBack()
        async with TERMINAL.pass_through():
            while self._gate.is_pasting:  # wait for the end of a paste that began in the input line
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
                    _collect_garbage()

    def about_to_ask(self, question: OpenQuestion) -> None:
        """Set the open question of the next prompt, which is passed to the notify command.

        Args:
            question: The open question.
        """
        self._waiting = question

    def withdrawn(self, id: str, by: str) -> None:
        """Print the responder after a prompt was removed because its question was answered
        elsewhere.

        Args:
            id: The question's ID, as in `prompt.id`.
            by: The responder.
        """
        del id
        if not self._settings.announces:
            return
        with suppress(NoTerminal, TerminalGone), open_device() as device:
            if device.in_foreground:
                self._gate.clear_status()
                device.write(f"The question was answered by {exact(by)}.\n")

    async def _reply(self, prompt: Prompt, device: Device) -> Reply:
        """Ask on `device`.

        A reply that ends the turn or defers the question is ignored if the terminal was closed.
        """
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
                reply = Answered(
                    value=True, scope=reply.scope, rule=self._rules.table(prompt, reply.written)
                )
                break
            try:
                device.write(
                    f"{exact(self._rules.keep(prompt, reply.written, reply.scope or DEFAULT_SCOPE))}\n"
                )
            except MidturnError as error:
                prompt = replace(prompt, error=str(error))
            else:
                reply = Answered(value=True)
                break
        if not isinstance(reply, Deferred):
            self._gate.answered.add(prompt.event)
        if isinstance(reply, EndedTurn | Deferred):
            await asyncio.sleep(_HANGUP_DELAY)
            device.check()
        return self._jump.begin(prompt, reply) if isinstance(reply, BackTo) else reply

    async def _ask(self, prompt: Prompt, device: Device) -> Reply:
        with self._gate.shut() as at_line_start:
            if not at_line_start:
                device.write("\n")
            if problem := self._notify_person(prompt):
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

    def _notify_person(self, prompt: Prompt) -> str | None:
        """Run the notify command.

        It is not run again when a prompt is repeated after an invalid answer.
        """
        if prompt.error is not None:
            return None
        waiting = self._waiting
        return self._notify.run(
            waiting.to_json()
            if waiting is not None and waiting.id == prompt.id
            else question_of(prompt)
        )

    def _report_problem(self, problem: str) -> None:
        if sys.stderr is not None:
            with suppress(OSError):  # stderr is closed
                self._gate.write(sys.stderr, f"midturn: {exact(problem)}\n")


# --------------------------------------------------------------------------------------------------
# One prompt at a time for the whole process


class TerminalLock:
    """A fair lock for the terminal, shared by all event loops and threads of the process."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._waiting: deque[Future[None]] = deque()
        self._inside: Future[None] | None = None

    @asynccontextmanager
    async def pass_through(self) -> AsyncGenerator[None]:
        """Acquire the lock in order of arrival, and hold it while the block runs."""
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
        """Give the free lock to the first waiter that is not cancelled."""
        while self._waiting and self._inside is None:
            ticket = self._waiting.popleft()
            if ticket.set_running_or_notify_cancel():
                self._inside = ticket
                ticket.set_result(None)


TERMINAL = TerminalLock()


def _collect_garbage() -> None:
    """Run the garbage collector now, so that it does not delay a later prompt."""
    gc.collect()
    _freeze_loaded_objects()


@cache
def _freeze_loaded_objects() -> None:
    """Exclude the objects that the first prompt loaded from garbage collection.

    This is done only once, because a later call would also keep the objects of a running turn
    forever.
    """
    gc.freeze()


# --------------------------------------------------------------------------------------------------
# Plain prompts: lines only, no escape sequences, no bell


_CONFIRM_LEAVING = "The form has answers. Press Ctrl-C again to end the turn, Enter to continue: "
TAKEN_AWAY = "(the question was closed)"


async def ask_plain(prompt: Prompt, device: Device, settings: TerminalSettings) -> Reply:
    """Ask on `device` in plain lines, restore the terminal, and return the reply."""
    scene = PromptBase(prompt, device.size.columns, device.size.rows)
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


async def _converse(
    dialog: Dialog, scene: PromptBase, reader: LineReader, restored: Restored
) -> Reply:
    saying = next(dialog)
    while True:
        try:
            heard = await _carry_out(saying, scene, reader, restored)
        except LineInterrupted:
            if scene.prompt.exit_leaves_open or not loses_answers(scene.prompt):
                raise
            restored.device.write("\n")
            await reader.ask(Say(ask=_CONFIRM_LEAVING))
            continue
        try:
            saying = dialog.send(heard)
        except StopIteration as stop:
            return stop.value


async def _carry_out(
    saying: Saying, scene: PromptBase, reader: LineReader, restored: Restored
) -> str:
    match saying:
        case Say():
            return await reader.ask(saying)
        case Edit(text):
            try:
                return await edit(saying, about(scene.prompt), restored.device, restored)
            except NoEdit as error:
                restored.device.write(f"{exact(str(error))}\n")
                return text


# --------------------------------------------------------------------------------------------------
# Rich prompts: single keys and live rows


_COUNTDOWN_INTERVAL = 1.0  # seconds between redraws of a countdown
MARKDOWN = re.compile(
    r"^[ ]{0,3}(?:[-*+]|\d{1,9}[.)])[ ]+\S"
    r"|^[ ]{0,3}>"
    r"|^[ ]{0,3}(?:`{3,}|~{3,})[ ]*(?!diff\b|patch\b)[A-Za-z]"
    r"|\|[ ]*:?-+:?[ ]*\||\]\("
    r"|^[ ]{0,3}(?:[-*_][ ]*){3,}$",
    re.MULTILINE,
)
"""Markdown that is drawn differently from plain text: lists, quotes, code, tables, links
and rules.
"""
FAREWELL = "\x1b[0m\x1b[?7h\x1b[?25h\x1b[?2004l"
"""Reset colours, enable line wrap, show the cursor, disable bracketed paste."""
LEAVE_SCREEN = "\x1b[?1049l"
"""Leave the alternate screen. Written only while it is active."""


class _PromptState:
    """State that a prompter keeps between prompts: free text that was typed at lists, and an
    unfinished paste.
    """

    def __init__(self) -> None:
        self.words = OwnWords()
        self.keyboard = Keyboard()


async def ask_rich(
    prompt: Prompt, device: Device, settings: TerminalSettings, kept: _PromptState
) -> Reply:
    """Ask on `device` with single keys, restore the terminal, and return the reply."""
    with Restored(device, f"{FAREWELL}{called_off(settings, os.environ)}") as restored:
        restored.set(key_mode(restored.found))
        if readable_now(device.fd):
            device.write("\n")  # input typed ahead was echoed, so start the header on a new line
        kept.keyboard.begin_anew(device.read_typed().decode(errors="replace"))
        device.write(calling(prompt, settings, os.environ))
        settle = Debounce(settings.settle, time.monotonic())
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
        if prompt.kind == "review" and isinstance(
            reply, WentBack
        ):  # erased, because the review is shown again later
            above.take_away()
        canvas.print(asked.settled(reply, columns))
    return reply


def layout_of(prompt: Prompt, device: Device) -> ContextRows:
    """Return the function that lays out the context.

    The Markdown renderer is slow to import, so it is used only if the context contains Markdown.
    """
    if MARKDOWN.search(own_context(prompt)) is None:
        return plain_context

    return partial(context_rows, UNICODE if device.unicode else ASCII)


async def _until_answered(
    asked: RichScene, above: Above, restored: Restored, *, bell: bool
) -> Reply:
    device, canvas = above.device, above.canvas
    while True:
        above.fit()
        live = LiveRows(
            asked,
            device,
            canvas,
            restored,
            every=_COUNTDOWN_INTERVAL if asked.counts_down else None,
        )
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
                pass  # lay out the rows above for the new width, then draw the prompt again
            case Sign():
                canvas.clear()
                above.draw_anew()
            case reply:
                return reply


async def _page(
    asked: RichScene, device: Device, canvas: Canvas, restored: Restored
) -> Reply | None:
    """Show the full context on the alternate screen.

    Return the reply that the person gave there, or None to return to the prompt.
    """
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
