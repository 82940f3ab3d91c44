"""What styled text is made of: rich's `Text`, in the 16 colours of the terminal's own theme."""

from __future__ import annotations

from pygments import token as kinds
from rich.color import ColorSystem
from rich.console import Console
from rich.style import Style
from rich.syntax import ANSISyntaxTheme
from rich.text import Text

from midturn.prompts.cells import cut_ranges, wrap_ranges

PLAIN = Style()
STRONG = Style(bold=True)
EMPHASIS = Style(italic=True)
HEADING = Style(bold=True, underline=True)
CODE = Style(color="yellow")
LINK = Style(color="cyan", underline=True)
MARKER = Style(color="cyan")
DIM = Style(color="bright_black")

HIGHLIGHTS = ANSISyntaxTheme(
    {
        kinds.Comment: DIM,
        kinds.Keyword: Style(color="magenta"),
        kinds.Name.Function: Style(color="cyan"),
        kinds.Name.Class: Style(color="cyan"),
        kinds.Name.Tag: Style(color="cyan"),
        kinds.Name.Decorator: Style(color="cyan"),
        kinds.String: Style(color="green"),
        kinds.Number: Style(color="yellow"),
        kinds.Generic.Heading: STRONG,
        kinds.Generic.Subheading: Style(color="cyan"),
        kinds.Generic.Inserted: Style(color="green"),
        kinds.Generic.Deleted: Style(color="red"),
        kinds.Generic.Emph: EMPHASIS,
        kinds.Generic.Strong: STRONG,
    }
)

CONSOLE = Console(force_terminal=True, color_system="standard", legacy_windows=False, markup=False, emoji=False, highlight=False)
"""Only for turning renderables into segments: it prints nothing."""


def wrapped(text: Text, width: int) -> list[Text]:
    """Break a text at its line breaks and at spaces."""
    return [line[start:end] for line in text.split("\n", allow_blank=True) for start, end in wrap_ranges(line.plain, width)]


def cut(text: Text, width: int) -> list[Text]:
    """Break a line with every character kept."""
    return [text[start:end] for start, end in cut_ranges(text.plain, width)]


def ansi(text: Text) -> str:
    """Write a row out for the terminal, without spaces at its end."""
    text = text.copy()
    text.rstrip()
    return "".join(
        segment.style.render(segment.text, color_system=ColorSystem.STANDARD) if segment.style else segment.text
        for segment in text.render(CONSOLE)
    )
