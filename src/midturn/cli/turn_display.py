"""What a turn shows on the command line: the assistant's words on stdout, everything else on stderr (spec 5.1)."""

from __future__ import annotations

import errno
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Literal, Protocol, TypeAlias

from midturn.cli.output import note, say_json_line
from midturn.cli.shown import spoken
from midturn.cli.stdout import forget_stdout
from midturn.core.visible import prose
from midturn.ports import Display, Happening, Notice, Recorded, TextShown, ToolEnded, ToolStarted

OutputFormat: TypeAlias = Literal["text", "json", "jsonl"]
_NOBODY_READS = {errno.EPIPE, errno.EIO}


class TurnDisplay(Display, Protocol):
    """A display that is told when the turn is over."""

    def end(self) -> None:
        """Finish a line that was begun."""
        ...


class TextDisplay:
    """Prints the assistant's words as they come; tools and notices go to stderr. `hidden` tools are not mentioned."""

    def __init__(self, hidden: frozenset[str] = frozenset()) -> None:
        self._hidden = hidden
        self._in_line = False
        self._terminal = sys.stdout is not None and sys.stdout.isatty()

    def show(self, happening: Happening) -> None:
        """Print what belongs on a screen."""
        match happening:
            case TextShown(text):
                self._print(text)
            case ToolStarted(call, again=False) if call.name not in self._hidden:
                self.end()
                note("· {}", call.name)
            case ToolEnded(call, content, is_error=True) if call.name not in self._hidden:
                self.end()
                note("· {} failed: {}", call.name, content.splitlines()[0] if content else "")
            case Notice(text):
                self.end()
                note("midturn: {}", spoken(text))
            case Recorded():
                self.end()
            case _:
                pass  # nothing to see

    def end(self) -> None:
        """Finish a line that was begun."""
        if self._in_line:
            self._print("\n")

    def _print(self, text: str) -> None:
        with _nobody_reading():
            sys.stdout.write(prose(text) if self._terminal else text)
            sys.stdout.flush()
        self._in_line = not text.endswith("\n")


class JsonLinesDisplay:
    """Prints each event when it is durable (`--output jsonl`)."""

    def show(self, happening: Happening) -> None:
        """Print an event."""
        match happening:
            case Recorded(event):
                with _nobody_reading():
                    say_json_line(event.to_json())
            case Notice(text):
                note("midturn: {}", spoken(text))
            case _:
                pass  # not an event

    def end(self) -> None:
        """Every line is finished."""


class QuietDisplay:
    """Prints notices only (`--output json`: the result comes at the end)."""

    def show(self, happening: Happening) -> None:
        """Print a notice."""
        if isinstance(happening, Notice):
            note("midturn: {}", spoken(happening.text))

    def end(self) -> None:
        """Nothing was begun."""


def display_for(output: OutputFormat, hidden: frozenset[str]) -> TurnDisplay:
    """Return the display of an output format."""
    match output:
        case "text":
            return TextDisplay(hidden)
        case "json":
            return QuietDisplay()
        case "jsonl":
            return JsonLinesDisplay()


@contextmanager
def _nobody_reading() -> Generator[None]:
    """Go on with the turn when whoever read stdout is gone: everything is recorded, and may be what somebody waits for."""
    try:
        yield
    except OSError as error:
        if error.errno not in _NOBODY_READS:
            raise
        forget_stdout()
