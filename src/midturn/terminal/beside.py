"""What is said beside the assistant's words: tools that run and end, and what the user should know."""

from __future__ import annotations

from collections.abc import Iterable

from midturn.core.prompt import ToolCall
from midturn.core.visible import exact
from midturn.prompts.cells import clip, hang
from midturn.prompts.content import compact, split_lines
from midturn.terminal.page import Page

_SIGN = "·"
_LONGEST_ARGUMENTS = 160
_LONGEST_ERROR = 400
_HANG = "  "
_DIM, _RED, _PLAIN = "\x1b[90m", "\x1b[31m", "\x1b[0m"


class Beside:
    """Prints lines; each is one line, wrapped where a terminal shows it."""

    def __init__(self, page: Page) -> None:
        self._page = page

    def tool_started(self, call: ToolCall) -> None:
        """Name a tool that runs, with as much of its arguments as one row holds."""
        arguments = f" {exact(compact(call.arguments))}" if call.arguments else ""
        self._say([clip(f"{self._sign} {exact(call.name)}{arguments}", self._width or _LONGEST_ARGUMENTS)], _DIM)

    def tool_ended(self, call: ToolCall, error: str | None) -> None:
        """Say that a tool is done, or the first line of what went wrong."""
        if error is None:
            self._say([f"{self._sign} {exact(call.name)}: ok"], _DIM)
        else:
            first = next((line for line in split_lines(error) if line.strip()), "it does not say why")
            self._say([f"{self._sign} {exact(call.name)} failed: {clip(exact(first), _LONGEST_ERROR)}"], _RED)

    def notice(self, text: str) -> None:
        """Say what the user should know."""
        first, *more = map(exact, split_lines(text.rstrip("\n")))
        self._say([f"midturn: {first}", *(f"{_HANG}{line}" for line in more)], "")

    def _say(self, lines: Iterable[str], colour: str) -> None:
        width = self._width
        rows = [row for line in lines for row in (hang(line, width, _HANG) if width else [line])]
        end = _PLAIN if colour and width and self._page.look.colours else ""
        self._page.put("beside", "".join(f"{colour if end else ''}{row}{end}\n" for row in rows))

    @property
    def _sign(self) -> str:
        return _SIGN if self._page.err.unicode else "*"

    @property
    def _width(self) -> int:
        """How wide the terminal is; 0 where lines go elsewhere."""
        return self._page.err.columns - 1 if self._page.err.is_terminal else 0
