"""Terminal output of a turn: the assistant's text on stdout, everything else on stderr.

While a prompt is open, output to its screen is buffered.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from functools import cached_property
from typing import TextIO

from msgspec import Struct

from midturn import ports
from midturn.events.types import (
    ChatRequest,
    ChatResponse,
    ConfigDelta,
    ToolCall,
    TurnEnd,
    TurnStart,
)
from midturn.question.text import ASK_USER, exact
from midturn.terminal.capabilities import choose_look
from midturn.terminal.flow import Flow, PlainFlow, Untouched
from midturn.terminal.output_pair import Gate, OutputPair, OutputSink, PartKind
from midturn.terminal.prompts.settings import Mode
from midturn.terminal.status_output import Heartbeat, Spinner, StatusOutput

# --------------------------------------------------------------------------------------------------
# A streamed message from the model: its text or its reasoning


_REASONING_MARK = "~ "
# width, in cells, of output that is not a terminal; such output is not wrapped
_UNLIMITED = sys.maxsize
_DIM, _UNDIM = "\x1b[90m", "\x1b[0m"


class StreamedMessage:
    """Writes a message that arrives in pieces. Text is written when it can no longer change."""

    def __init__(self, page: OutputPair, kind: PartKind) -> None:
        self._page = page
        self._kind: PartKind = kind
        self._flow: Flow | None = None
        self._is_prepared = False

    @property
    def is_open(self) -> bool:
        """Whether the message has begun."""
        return self._flow is not None

    def prepare(self) -> None:
        """Load the renderer before the first piece arrives."""
        if not self._is_prepared:
            self._is_prepared = True
            self._new_flow()

    def feed(self, text: str) -> bool:
        """Process the next piece. Return whether new text was written."""
        if self._flow is None:
            self._flow = self._new_flow()
        return self._put(self._flow.feed(text))

    def tick(self) -> bool:
        """Write the text that has been pending long enough. Return whether any text was written."""
        return self._flow is not None and self._put(self._flow.tick())

    def finish(self) -> None:
        """Write the rest of the message, which is complete or was cut off."""
        if self._flow is not None:
            flow, self._flow = self._flow, None
            self._put(flow.finish())
            self._page.end_message()

    def _new_flow(self) -> Flow:
        return _words_flow(self._page) if self._kind == "words" else _reasoning_flow(self._page)

    def _put(self, text: str) -> bool:
        self._page.put(self._kind, text)
        return bool(text)


def _words_flow(page: OutputPair) -> Flow:
    out = page.out
    if not out.is_terminal:
        return Untouched()
    if not page.look.colours:
        return PlainFlow(lambda: out.columns)
    from midturn.terminal.markdown import flow, layout  # imported when the first text is drawn

    return flow.MarkdownFlow(lambda: out.columns, layout.UNICODE if out.unicode else layout.ASCII)


def _reasoning_flow(page: OutputPair) -> Flow:
    err = page.err
    if not err.is_terminal:
        return PlainFlow(lambda: _UNLIMITED)
    return PlainFlow(lambda: err.columns, _REASONING_MARK, _dim if page.look.colours else str)


def _dim(row: str) -> str:
    return f"{_DIM}{row}{_UNDIM}"


# --------------------------------------------------------------------------------------------------
# The display of a turn


_MODEL = "the model"
_OF_NO_CALL = (TurnStart, ConfigDelta, ChatRequest, ChatResponse, TurnEnd)
"""Events that do not belong to a tool call. They cause no status output."""


class OutputSettings(Struct, frozen=True, kw_only=True):
    """Settings of the display.

    Attributes:
        hidden: Tools whose calls are not displayed. A failed `ask_user` call is displayed anyway.
        reasoning: Whether to display the model's reasoning.
        mode: The value of `prompt.mode`.
    """

    hidden: frozenset[str] = frozenset()
    reasoning: bool = False
    mode: Mode = "auto"


class TerminalDisplay:
    """Displays a turn. If stdout is a terminal that supports it, Markdown is formatted. Otherwise,
    the text is written unchanged.

    Args:
        settings: Settings of the display.
        gate: The gate that the prompter uses, so that output does not overwrite its prompts.
        nobody_reads: Called once if the program that reads stdout closes it. The turn continues.
        streams: Output streams. Default: stdout and stderr.
        clock: Returns the time in seconds.

    Call `end` when the run is over, even after an error.
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
        page = OutputPair(
            OutputSink(out, gate, nobody_reads),
            OutputSink(err, gate),
            choose_look(self._settings.mode, os.environ),
        )
        self.marks_cuts = page.out.is_terminal
        """Whether the display can mark text that the model discarded. Marks cannot be shown in
        files and pipes.
        """
        self._words = StreamedMessage(page, "words")
        self._reasoning = StreamedMessage(page, "reasoning")
        self._spinner = _spinner(gate, page, clock)
        self._page = page
        self._answered_here, self._asked_here = gate.answered, gate.asked
        self._heartbeat = Heartbeat(self._beat)

    def show(self, happening: ports.Happening) -> None:
        """Display an event of the run.

        The method never waits for a person. Output that arrives during a prompt is written later.
        """
        match happening:
            case ports.TextShown(text):
                self._reasoning.finish()
                self._heard(self._words.feed(text))
                self._heartbeat.start()
            case ports.ReasoningShown(text) if self._settings.reasoning:
                self._heard(self._reasoning.feed(text))
            case (
                ports.ModelStarted()
                | ports.ModelFinished()
                | ports.ConsultStarted()
                | ports.ConsultFinished()
            ):
                self._finish_message()
                self._show_model(happening)
            case ports.ToolBegan() | ports.ToolEnded() if (
                happening.call.name not in self._settings.hidden
            ):
                self._finish_message()
                self._show_tool(happening)
            case ports.ToolEnded(call=call, content=content, is_error=True) if (
                call.name == ASK_USER
            ):
                self._show_failed_ask(call, content)
            case ports.Recorded(event) if "_status_output" in self.__dict__ or not isinstance(
                event, _OF_NO_CALL
            ):  # once the status output exists, it must receive every event
                if (told := self._status_output.note(event)) is not None:
                    self._finish_message()
                    self._status_output.told(told)
            case ports.Notice(text, seconds):
                self._status_output.notice(text)
                self._wait(seconds)
            case _:
                # nothing to display: disabled reasoning, a hidden tool, or text displayed already
                pass

    def end(self) -> None:
        """Finish open messages and remove the status row."""
        self._heartbeat.stop()
        if self._spinner is not None:
            self._spinner.clear()
        self._finish_message()

    def _show_model(
        self,
        happening: ports.ModelStarted
        | ports.ModelFinished
        | ports.ConsultStarted
        | ports.ConsultFinished,
    ) -> None:
        match happening:
            case ports.ModelStarted():
                self._begin(_MODEL, "thinking")
            case ports.ModelFinished():
                self._finish(_MODEL)
            case ports.ConsultStarted(id, model):
                self._begin(id, f"asking {exact(model or 'a model')}")
            case ports.ConsultFinished(id):
                self._finish(id)

    def _show_tool(self, happening: ports.ToolBegan | ports.ToolEnded) -> None:
        call = happening.call
        match happening:
            case ports.ToolBegan(again=again):
                if not again:
                    self._status_output.tool_started(call)
                self._begin(call.event, exact(call.name))
            case ports.ToolEnded(content=content, is_error=is_error):
                self._finish(call.event)
                self._status_output.tool_ended(call, content if is_error else None)

    def _show_failed_ask(self, call: ToolCall, error: str) -> None:
        """Show a failed call to `ask_user`.

        Calls to `ask_user` are usually hidden, because the prompt already shows the question. If a
        call fails, there may have been no prompt.
        """
        if self._status_output.is_news(call, error):
            self._finish_message()
            self._status_output.tool_ended(call, error)

    @cached_property
    def _status_output(self) -> StatusOutput:
        return StatusOutput(self._page, self._answered_here, self._asked_here)

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

    def _heard(self, news: bool) -> None:  # noqa: FBT001 (whether new text was written)
        if news and self._spinner is not None:
            self._spinner.heard()

    def _beat(self) -> None:
        self._heard(self._words.tick())
        if self._spinner is not None:
            self._spinner.paint()
            self._words.prepare()  # load the renderer while the model prepares its answer
        if not self._words.is_open and (self._spinner is None or not self._spinner.is_busy):
            self._heartbeat.stop()


def _spinner(gate: Gate, page: OutputPair, clock: Callable[[], float]) -> Spinner | None:
    if not (page.look.moves and page.err.is_terminal):
        return None

    return Spinner(gate, page.err, clock)
