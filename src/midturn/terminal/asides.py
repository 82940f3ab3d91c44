"""Messages beside the assistant's words: tools that run and end, and notices for the user."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from midturn.prompts.cells import clip, continued_rows, hang
from midturn.prompts.content import one_line, split_lines
from midturn.record.events import Event
from midturn.record.exchange import ToolCall
from midturn.routing.messages import INPUT_CANCELLED, TURN_ENDED, switched_off, withheld
from midturn.terminal.outlet import Page
from midturn.terminal.told import Ledger, Told, label
from midturn.values.json_value import compact
from midturn.values.text import exact

_SIGN = "·"
_LONGEST_ARGUMENTS = 160
_LONGEST_LABEL = 60
_LONGEST_ERROR = 400
_MOST_LET_THROUGH = 40
_MORE = "…"
_HANG = "  "
_DIM, _RED, _PLAIN = "\x1b[90m", "\x1b[31m", "\x1b[0m"


class Asides:
    """Prints lines; each is one line, wrapped where a terminal shows it. `answered_here` is the `Ledger`'s."""

    def __init__(self, page: Page, answered_here: Collection[str] = ()) -> None:
        self._page = page
        self._ledger = Ledger(answered_here)

    def tool_started(self, call: ToolCall) -> None:
        """Name a tool that runs, with as much of its arguments as one row holds."""
        self._say([clip(f"{self._sign} {label(call)}{_others(call)}", self._width or _LONGEST_ARGUMENTS)], _DIM)

    def tool_ended(self, call: ToolCall, error: str | None) -> None:
        """Say what became of a call: the decision about it, that it is done, or the first line of what went wrong."""
        fate = self._ledger.fate(call, is_error=error is not None)
        name = f"{self._sign} {clip(label(call), _LONGEST_LABEL)}"
        if fate is not None:
            self._say([f"{name}: {clip(fate, _LONGEST_ERROR)}"], _DIM)
        elif error is not None and (said := _for_the_person(call, error)):
            self._say([f"{name}: {said}"], _DIM)
        elif error is None:
            self._say([f"{name}: ok"], _DIM)
        else:
            first = next((line for line in split_lines(error) if line.strip()), "it does not say why")
            self._say([f"{name} failed: {clip(exact(first), _LONGEST_ERROR)}"], _RED)

    def note(self, event: Event) -> Told | None:
        """Follow the turn, event by event; return what `told` is to say of it."""
        return self._ledger.note(event)

    def told(self, told: Told) -> None:
        """Say who answered a question in place of the person here, and show what that let through."""
        self._say([f"{told.question} {told.answer}  {told.who}"], "")
        shown = told.let_through[:_MOST_LET_THROUGH]
        left = len(told.let_through) - len(shown)
        more = [f"{_MORE} {left} more rows"] if left else []
        self._say_exactly([*shown, *more])

    def notice(self, text: str) -> None:
        """Say what the user should know."""
        first, *more = map(exact, split_lines(text.rstrip("\n")))
        self._say([f"midturn: {first}", *(f"{_HANG}{line}" for line in more)], "")

    def _say(self, lines: Iterable[str], colour: str) -> None:
        width = self._width
        rows = [row for line in lines for row in (hang(line, width, _HANG) if width else [line])]
        end = _PLAIN if colour and width and self._page.look.colours else ""
        self._page.put("beside", "".join(f"{colour if end else ''}{row}{end}\n" for row in rows))

    def _say_exactly(self, lines: Sequence[str]) -> None:
        """Print lines behind a gutter, dimly, every character kept."""
        width = self._width
        bar = "│ " if self._page.err.unicode else "| "
        rows = [bar + row for line in lines for row in (continued_rows(line, width - len(bar)) if width else [line])]
        end = _PLAIN if width and self._page.look.colours else ""
        self._page.put("beside", "".join(f"{_DIM if end else ''}{row.rstrip()}{end}\n" for row in rows))

    @property
    def _sign(self) -> str:
        return _SIGN if self._page.err.unicode else "*"

    @property
    def _width(self) -> int:
        """How wide the terminal is; 0 where lines go elsewhere."""
        return self._page.err.columns - 1 if self._page.err.is_terminal else 0


def _for_the_person(call: ToolCall, error: str) -> str | None:
    """Say here what our own sentences tell the model: they call the reader of this terminal "the user"."""
    if error in (INPUT_CANCELLED, TURN_ENDED):
        return "not finished: the turn was ended"
    if error == withheld(call.name):
        return "ran; result withheld"
    return "not run: switched off by configuration" if error == switched_off(call.name) else None


def _others(call: ToolCall) -> str:
    """Name the arguments after the first, as far as they are short; what is long is seen where it is asked about."""
    if not isinstance(call.arguments, dict):
        return f" {exact(compact(call.arguments))}" if call.arguments else ""
    first_shown = label(call) != exact(call.name)
    named = [
        f"{one_line(name)}: {one_line(value) if isinstance(value, str) else compact(value)}"
        for name, value in list(call.arguments.items())[first_shown:]
        if isinstance(value, str | bool | int | float)
    ]
    return f"  {', '.join(named)}" if named else ""
