"""What a turn shows: the assistant's words on stdout, everything else on stderr, nothing over an open prompt (spec 5.1)."""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Callable
from typing import TextIO

from msgspec import Struct

from midturn.core.visible import exact, prose
from midturn.ports import Happening, ModelFinished, ModelStarted, Notice, ReasoningShown, Recorded, TextShown, ToolEnded, ToolStarted
from midturn.prompts.body import PLAIN_GUTTER
from midturn.prompts.rich.prompt import GUTTER
from midturn.terminal.gate import Gate
from midturn.terminal.markdown_blocks import MarkdownBlocks
from midturn.terminal.mode import ModeSetting, choose_mode
from midturn.terminal.spinner import Spinner

_NOBODY_READS = frozenset({errno.EPIPE, errno.EIO})
_DEFAULT_COLUMNS = 80
_BEGINS_LIKE_A_PROMPT = re.compile(rf"^((?:\x1b\[[0-9;]*m)*)(?={re.escape(GUTTER.text[0])})", re.MULTILINE)


class DisplaySettings(Struct, frozen=True, kw_only=True):
    """`hidden` names tools that are not mentioned, `reasoning` shows the model's, `mode` is `prompt.mode`."""

    hidden: frozenset[str] = frozenset()
    reasoning: bool = False
    mode: ModeSetting = "auto"


class TerminalDisplay:
    """Draws Markdown where stdout is a terminal that can, and hands text on untouched where it is not.

    `gate` is the prompter's, so that nothing is written over its prompts. `nobody_reads` is called once when stdout is closed by whoever
    read it; the turn goes on. Streams are those of the process unless others are given.
    """

    def __init__(
        self,
        settings: DisplaySettings | None = None,
        gate: Gate | None = None,
        nobody_reads: Callable[[], None] = lambda: None,
        streams: tuple[TextIO, TextIO] | None = None,
    ) -> None:
        self._settings = settings or DisplaySettings()
        self._gate = gate or Gate()
        self._nobody_reads = nobody_reads
        self._stdout, self._stderr = streams or (sys.stdout, sys.stderr)
        rich = choose_mode(self._settings.mode, os.environ) == "rich"
        self._draws = rich and self._stdout.isatty()
        self._colours = rich and self._stderr.isatty()
        self._spinner = Spinner(self._gate, self._stderr) if self._colours else None
        self._blocks = MarkdownBlocks()
        self._in_line: TextIO | None = None
        self._drew_block = False

    def show(self, happening: Happening) -> None:
        """Show what belongs on a screen. Never blocks for a person: what an open prompt holds back is written later."""
        match happening:
            case TextShown(text):
                self._show_text(text)
            case ReasoningShown(text) if self._settings.reasoning:
                self._show_reasoning(text)
            case ModelStarted():
                self._spin("thinking")
            case ModelFinished():
                self.end()
            case ToolStarted() | ToolEnded() if happening.call.name not in self._settings.hidden:
                self.end()
                self._show_tool(happening)
            case Notice(text):
                self.end()
                self._say(f"midturn: {exact(text)}")
            case Recorded():
                self._finish_line()
            case _:
                pass  # reasoning that is not asked for, and tools that are not mentioned

    def end(self) -> None:
        """Finish what was begun: a block, a line, the row that counts seconds."""
        if self._spinner is not None:
            self._spinner.stop()
        for block in self._blocks.flush():
            self._draw(block)
        self._drew_block = False
        self._finish_line()

    def _show_text(self, text: str) -> None:
        if self._draws:
            for block in self._blocks.feed(text):
                self._draw(block)
            return
        self._begin(self._stdout)
        if self._stdout.isatty():
            text = _unlike_a_prompt(prose(text), at_line_start=self._in_line is None)
        self._write(self._stdout, text)
        self._in_line = None if text.endswith("\n") else self._stdout

    def _show_tool(self, happening: ToolStarted | ToolEnded) -> None:
        name = exact(happening.call.name)
        match happening:
            case ToolStarted(again=again):
                if not again:
                    self._say(f"· {name}")
                self._spin(name)
            case ToolEnded(content=content, is_error=True):
                first, _, _ = content.partition("\n")
                self._say(f"· {name} failed: {exact(first)}")
            case ToolEnded():
                pass  # what it returned is for the model

    def _draw(self, block: str) -> None:
        from midturn.terminal.markdown_drawing import drawn_markdown  # loaded with the first words that are drawn

        self._begin(self._stdout)
        rows = drawn_markdown(block, _columns(self._stdout) - 1, colour=not os.environ.get("NO_COLOR"))
        between = "\n" if self._drew_block else ""
        self._write(self._stdout, between + _BEGINS_LIKE_A_PROMPT.sub(r"\1 ", rows))
        self._drew_block = True

    def _show_reasoning(self, text: str) -> None:
        self._begin(self._stderr)
        shown = _unlike_a_prompt(prose(text), at_line_start=self._in_line is None)
        self._write(self._stderr, f"\x1b[2m{shown}\x1b[22m" if self._colours else shown)
        self._in_line = None if text.endswith("\n") else self._stderr

    def _say(self, line: str) -> None:
        self._write(self._stderr, f"{line}\n")

    def _spin(self, doing: str) -> None:
        if self._spinner is not None:
            self._spinner.start(doing)

    def _begin(self, stream: TextIO) -> None:
        """Finish a line that another kind of text has begun."""
        if self._in_line is not stream:
            self._finish_line()

    def _finish_line(self) -> None:
        if self._in_line is not None:
            stream, self._in_line = self._in_line, None
            self._write(stream, "\n")

    def _write(self, stream: TextIO, text: str) -> None:
        """Write through the gate; when nobody reads any more, go on with the turn: everything is recorded."""
        encoding = stream.encoding or "utf-8"
        try:
            self._gate.write(stream, text.encode(encoding, "backslashreplace").decode(encoding))
        except OSError as error:
            if error.errno not in _NOBODY_READS:
                raise
            if stream is self._stdout:
                self._nobody_reads()


def _unlike_a_prompt(text: str, *, at_line_start: bool) -> str:
    """Keep lines from beginning like the rows of a prompt: a space goes before the gutter (spec 9.2)."""
    gutters = (GUTTER.text[0], PLAIN_GUTTER[0])
    lines = text.split("\n")
    shown = [f" {line}" if line.startswith(gutters) and (number or at_line_start) else line for number, line in enumerate(lines)]
    return "\n".join(shown)


def _columns(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns or _DEFAULT_COLUMNS
    except OSError:
        return _DEFAULT_COLUMNS
