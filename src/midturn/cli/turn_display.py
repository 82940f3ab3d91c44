"""What a turn shows on the command line: the assistant's words on stdout, everything else on stderr."""

from __future__ import annotations

import errno
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

from midturn.cli.output import forget_stdout, json_line
from midturn.cli.shown import Shown, line, spoken
from midturn.config.settings import Settings
from midturn.ports import Display, Happening, Notice, Recorded, TextShown
from midturn.terminal.gate import Gate

OutputFormat: TypeAlias = Literal["text", "json", "jsonl"]
_NOBODY_READS = {errno.EPIPE, errno.EIO}


class TurnDisplay(Display, Protocol):
    """A display that is told when the turn is over."""

    def end(self) -> None:
        """Finish what was begun."""
        ...


class Screen(Struct, frozen=True, kw_only=True):
    """Where a turn is shown: the format of stdout, whether the answer has a shape of its own, and the gate that prompts shut."""

    output: OutputFormat
    shaped: bool
    gate: Gate


class JsonLinesDisplay:
    """Prints each event when it is durable (`--output jsonl`)."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def show(self, happening: Happening) -> None:
        """Print an event."""
        match happening:
            case Recorded(event):
                with _nobody_reading():
                    self._gate.write(sys.stdout, json_line(event.to_json(), sys.stdout))
            case Notice(text):
                _notice(self._gate, text)
            case _:
                pass  # not an event

    def end(self) -> None:
        """Every line is finished."""


class QuietDisplay:
    """Prints notices only (`--output json`: the result comes at the end)."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def show(self, happening: Happening) -> None:
        """Print a notice."""
        if isinstance(happening, Notice):
            _notice(self._gate, happening.text)

    def end(self) -> None:
        """Nothing was begun."""


class WithoutWords:
    """A display that is not shown the assistant's words: they are the JSON that is printed at the end."""

    def __init__(self, display: TurnDisplay) -> None:
        self._display = display

    def show(self, happening: Happening) -> None:
        """Pass on everything else."""
        if not isinstance(happening, TextShown):
            self._display.show(happening)

    def end(self) -> None:
        """Finish what was begun."""
        self._display.end()


def display_for(screen: Screen, settings: Settings) -> TurnDisplay:
    """Return the display of an output format."""
    match screen.output:
        case "text":
            display = _terminal_display(screen.gate, settings)
            return WithoutWords(display) if screen.shaped else display
        case "json":
            return QuietDisplay(screen.gate)
        case "jsonl":
            return JsonLinesDisplay(screen.gate)


def _terminal_display(gate: Gate, settings: Settings) -> TurnDisplay:
    from midturn.terminal.output import OutputSettings, TerminalDisplay

    hidden = frozenset(name for name, tool in settings.tools.items() if tool.hidden)
    shown = OutputSettings(hidden=hidden, reasoning=settings.display.reasoning, mode=settings.prompt.mode)
    return TerminalDisplay(shown, gate, nobody_reads=forget_stdout)


def _notice(gate: Gate, text: str) -> None:
    row: Shown = line("midturn: {}\n", spoken(text))
    with _nobody_reading():
        gate.write(sys.stderr, row)


@contextmanager
def _nobody_reading() -> Generator[None]:
    """Go on with the turn when whoever read is gone: everything is recorded, and may be what somebody waits for."""
    try:
        yield
    except OSError as error:
        if error.errno not in _NOBODY_READS:
            raise
        forget_stdout()
