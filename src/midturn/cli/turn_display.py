"""What a turn shows on the command line: the assistant's words on stdout, everything else on stderr (spec 5.1)."""

from __future__ import annotations

import sys
from typing import Literal, TypeAlias

from midturn.cli.output import cell, note, say_json_line
from midturn.core.visible import prose
from midturn.ports import Display, Happening, Notice, Recorded, TextShown, ToolEnded, ToolStarted

OutputFormat: TypeAlias = Literal["text", "json", "jsonl"]


class TextDisplay:
    """Prints the assistant's words as they come; tools and notices go to stderr. `hidden` tools are not mentioned."""

    def __init__(self, hidden: frozenset[str] = frozenset()) -> None:
        self._hidden = hidden
        self._in_line = False
        self._terminal = sys.stdout.isatty()

    def show(self, happening: Happening) -> None:
        """Print what belongs on a screen."""
        match happening:
            case TextShown(text):
                self._print(text)
            case ToolStarted(call, again=False) if call.name not in self._hidden:
                self.end_line()
                note(f"· {cell(call.name)}")
            case ToolEnded(call, content, is_error=True) if call.name not in self._hidden:
                self.end_line()
                note(f"· {cell(call.name)} failed: {cell(content.splitlines()[0] if content else '')}")
            case Notice(text):
                self.end_line()
                note(f"midturn: {text}")
            case Recorded():
                self.end_line()
            case _:
                pass  # nothing to see

    def end_line(self) -> None:
        """Finish a line that was begun."""
        if self._in_line:
            self._print("\n")

    def _print(self, text: str) -> None:
        sys.stdout.write(prose(text) if self._terminal else text)
        sys.stdout.flush()
        self._in_line = not text.endswith("\n")


class JsonLinesDisplay:
    """Prints each event when it is durable (`--output jsonl`)."""

    def show(self, happening: Happening) -> None:
        """Print an event."""
        match happening:
            case Recorded(event):
                say_json_line(event.to_json())
            case Notice(text):
                note(f"midturn: {text}")
            case _:
                pass  # not an event


class QuietDisplay:
    """Prints notices only (`--output json`: the result comes at the end)."""

    def show(self, happening: Happening) -> None:
        """Print a notice."""
        if isinstance(happening, Notice):
            note(f"midturn: {happening.text}")


def display_for(output: OutputFormat, hidden: frozenset[str]) -> Display:
    """Return the display of an output format."""
    match output:
        case "text":
            return TextDisplay(hidden)
        case "json":
            return QuietDisplay()
        case "jsonl":
            return JsonLinesDisplay()
