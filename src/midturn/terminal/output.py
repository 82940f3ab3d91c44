"""Display of a turn: the assistant's words on stdout, everything else on stderr, nothing over an open prompt."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from functools import cached_property
from typing import TextIO

from msgspec import Struct

from midturn import ports
from midturn.events.types import ChatRequest, ChatResponse, ConfigDelta, ToolCall, TurnEnd, TurnStart
from midturn.question.text import ASK_USER, exact
from midturn.terminal.capabilities import choose_look
from midturn.terminal.flow import Flow, PlainFlow, Untouched
from midturn.terminal.output_pair import Gate, Outlet, Page, PartKind
from midturn.terminal.prompts.settings import Mode
from midturn.terminal.status_output import Asides, Heartbeat, Spinner

# ----------------------------------------------------------------------------------------------------------------------
# One message of the model as it arrives: its words, or its reasoning


_REASONING_MARK = "~ "
_UNLIMITED = sys.maxsize  # cells: what is not read on a terminal is not wrapped
_DIM, _UNDIM = "\x1b[90m", "\x1b[0m"


class StreamedMessage:
    """Puts on the page what is final of a text that arrives in pieces."""

    def __init__(self, page: Page, kind: PartKind) -> None:
        self._page = page
        self._kind: PartKind = kind
        self._flow: Flow | None = None
        self._is_prepared = False

    @property
    def is_open(self) -> bool:
        """Whether it has begun."""
        return self._flow is not None

    def prepare(self) -> None:
        """Load what draws it while nothing comes, so that its first piece need not wait for that."""
        if not self._is_prepared:
            self._is_prepared = True
            self._new_flow()

    def feed(self, text: str) -> bool:
        """Take the next piece; tell whether something new can be seen."""
        if self._flow is None:
            self._flow = self._new_flow()
        return self._put(self._flow.feed(text))

    def tick(self) -> bool:
        """Put down what has waited long enough."""
        return self._flow is not None and self._put(self._flow.tick())

    def finish(self) -> None:
        """Put down the rest: the message is complete, or it was cut off."""
        if self._flow is not None:
            flow, self._flow = self._flow, None
            self._put(flow.finish())
            self._page.end_message()

    def _new_flow(self) -> Flow:
        return _words_flow(self._page) if self._kind == "words" else _reasoning_flow(self._page)

    def _put(self, text: str) -> bool:
        self._page.put(self._kind, text)
        return bool(text)


def _words_flow(page: Page) -> Flow:
    out = page.out
    if not out.is_terminal:
        return Untouched()
    if not page.look.colours:
        return PlainFlow(lambda: out.columns)
    from midturn.terminal.markdown import flow, layout  # loaded with the first words that are drawn

    return flow.MarkdownFlow(lambda: out.columns, layout.UNICODE if out.unicode else layout.ASCII)


def _reasoning_flow(page: Page) -> Flow:
    err = page.err
    if not err.is_terminal:
        return PlainFlow(lambda: _UNLIMITED)
    return PlainFlow(lambda: err.columns, _REASONING_MARK, _dim if page.look.colours else str)


def _dim(row: str) -> str:
    return f"{_DIM}{row}{_UNDIM}"


# ----------------------------------------------------------------------------------------------------------------------
# A whole turn


_MODEL = "the model"
_OF_NO_CALL = (TurnStart, ConfigDelta, ChatRequest, ChatResponse, TurnEnd)
"""Events of a turn that only talks: nothing is shown of them beside the words."""


class OutputSettings(Struct, frozen=True, kw_only=True):
    """`hidden` names tools that are not mentioned (a failed `ask_user` is), `reasoning` shows the model's, `mode` is `prompt.mode`."""

    hidden: frozenset[str] = frozenset()
    reasoning: bool = False
    mode: Mode = "auto"


class TerminalDisplay:
    """Draws Markdown where stdout is a terminal that can, and hands text on untouched everywhere else.

    `gate` is the prompter's, so that nothing is written over its prompts. `nobody_reads` is called once when the reader of stdout
    is gone; the turn goes on. Streams are those of the process unless others are given. Call `end` when the run is over, however it ends.
    """

    def __init__(
        self,
        settings: OutputSettings | None = None,
        gate: Gate | None = None,
        nobody_reads: Callable[[], None] = lambda: None,
        streams: tuple[TextIO | None, TextIO | None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings or OutputSettings()
        gate = gate or Gate()
        out, err = streams or (sys.stdout, sys.stderr)
        page = Page(Outlet(out, gate, nobody_reads), Outlet(err, gate), choose_look(self._settings.mode, os.environ))
        self.marks_cuts = page.out.is_terminal
        """Whether words that turn out not to count are told from those that do: in a file or a pipe nothing could say so."""
        self._words = StreamedMessage(page, "words")
        self._reasoning = StreamedMessage(page, "reasoning")
        self._spinner = _spinner(gate, page, clock)
        self._page = page
        self._answered_here, self._asked_here = gate.answered, gate.asked
        self._heartbeat = Heartbeat(self._beat)

    def show(self, happening: ports.Happening) -> None:
        """Show what belongs on a screen. Never blocks for a person: what an open prompt holds back is written later."""
        match happening:
            case ports.TextShown(text):
                self._reasoning.finish()
                self._heard(self._words.feed(text))
                self._heartbeat.start()
            case ports.ReasoningShown(text) if self._settings.reasoning:
                self._heard(self._reasoning.feed(text))
            case ports.ModelStarted() | ports.ModelFinished() | ports.ConsultStarted() | ports.ConsultFinished():
                self._finish_message()
                self._show_model(happening)
            case ports.ToolBegan() | ports.ToolEnded() if happening.call.name not in self._settings.hidden:
                self._finish_message()
                self._show_tool(happening)
            case ports.ToolEnded(call=call, content=content, is_error=True) if call.name == ASK_USER:
                self._show_failed_ask(call, content)
            case ports.Recorded(event) if "_asides" in self.__dict__ or not isinstance(
                event, _OF_NO_CALL
            ):  # once there, they hear of each turn
                if (told := self._asides.note(event)) is not None:
                    self._finish_message()
                    self._asides.told(told)
            case ports.Notice(text, seconds):
                self._asides.notice(text)
                self._wait(seconds)
            case _:
                pass  # reasoning that is not asked for, tools that are not mentioned, and what is shown already

    def end(self) -> None:
        """Finish what was begun: a block, a line, the row that counts seconds."""
        self._heartbeat.stop()
        if self._spinner is not None:
            self._spinner.clear()
        self._finish_message()

    def _show_model(self, happening: ports.ModelStarted | ports.ModelFinished | ports.ConsultStarted | ports.ConsultFinished) -> None:
        match happening:
            case ports.ModelStarted():
                self._begin(_MODEL, "thinking")
            case ports.ModelFinished():
                self._finish(_MODEL)
            case ports.ConsultStarted(id, model):
                self._begin(id, f"{exact(model or 'a model')} is asked")
            case ports.ConsultFinished(id):
                self._finish(id)

    def _show_tool(self, happening: ports.ToolBegan | ports.ToolEnded) -> None:
        call = happening.call
        match happening:
            case ports.ToolBegan(again=again):
                if not again:
                    self._asides.tool_started(call)
                self._begin(call.event, exact(call.name))
            case ports.ToolEnded(content=content, is_error=is_error):
                self._finish(call.event)
                self._asides.tool_ended(call, content if is_error else None)

    def _show_failed_ask(self, call: ToolCall, error: str) -> None:
        """Show a failed call of `ask_user`, which is hidden because its prompt shows it: this one may have had none."""
        if self._asides.is_news(call, error):
            self._finish_message()
            self._asides.tool_ended(call, error)

    @cached_property
    def _asides(self) -> Asides:
        return Asides(self._page, self._answered_here, self._asked_here)

    def _finish_message(self) -> None:
        self._reasoning.finish()
        self._words.finish()

    def _begin(self, id: str, doing: str) -> None:
        if self._spinner is not None:
            self._spinner.begin(id, doing)
            self._heartbeat.start()

    def _finish(self, id: str) -> None:
        if self._spinner is not None:
            self._spinner.finish(id)

    def _wait(self, seconds: float) -> None:
        if self._spinner is not None:
            self._spinner.heard()
            self._spinner.wait(seconds)
            self._heartbeat.start()

    def _heard(self, news: bool) -> None:  # noqa: FBT001 (whether there was any)
        if news and self._spinner is not None:
            self._spinner.heard()

    def _beat(self) -> None:
        self._heard(self._words.tick())
        if self._spinner is not None:
            self._spinner.paint()
            self._words.prepare()  # the model thinks, and loading goes unnoticed
        if not self._words.is_open and (self._spinner is None or not self._spinner.is_busy):
            self._heartbeat.stop()


def _spinner(gate: Gate, page: Page, clock: Callable[[], float]) -> Spinner | None:
    if not (page.look.moves and page.err.is_terminal):
        return None

    return Spinner(gate, page.err, clock)
