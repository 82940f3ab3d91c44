"""Messages beside the assistant's words: tools that run and end, notices for the user, and the row that says what goes on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import cycle

from msgspec import Struct

from midturn.events.types import Event, ToolCall
from midturn.question.json_text import compact
from midturn.question.text import ASK_USER, exact
from midturn.routing.messages import INPUT_CANCELLED, TURN_ENDED, switched_off, withheld
from midturn.terminal.answer_notice import Ledger, Told, label
from midturn.terminal.output_pair import Gate, Outlet, Page
from midturn.terminal.prompts.cells import clip, continued_rows, hang
from midturn.terminal.prompts.keys import one_line, split_lines

_SIGN = "·"
_LONGEST_ARGUMENTS = 160
_LONGEST_LABEL = 60
_LONGEST_ERROR = 400
_MOST_LET_THROUGH = 40
_MORE = "…"
_HANG = "  "
_REASON = "- "
_DIM, _RED, _PLAIN = "\x1b[90m", "\x1b[31m", "\x1b[0m"


class Asides:
    """Prints lines; each is one line, wrapped where a terminal shows it. `answered_here` and `asked_here` are the `Ledger`'s."""

    def __init__(self, page: Page, answered_here: Collection[str] = (), asked_here: Collection[str] = ()) -> None:
        self._page = page
        self._ledger = Ledger(answered_here, asked_here)

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
            self._say([f"{name} failed: {clip(exact(_first_of(call, error)), _LONGEST_ERROR)}"], _RED)

    def is_news(self, call: ToolCall, error: str) -> bool:
        """Return whether the person does not know yet why a call failed: they neither ended the turn nor decided about it."""
        return _for_the_person(call, error) is None and not self._ledger.has_fate(call)

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
        """Width of the terminal in columns; 0 where lines go elsewhere."""
        return self._page.err.columns - 1 if self._page.err.is_terminal else 0


def _first_of(call: ToolCall, error: str) -> str:
    """Return the first line of an error without the name of its tool; if a question could not be asked, the first reason."""
    lines = [line for line in split_lines(error) if line.strip()] or ["it does not say why"]
    reasons = [line.removeprefix(_REASON) for line in lines[1:] if line.startswith(_REASON)]
    if call.name != ASK_USER or not reasons:
        return lines[0].removeprefix(f"{call.name}: ")
    return f"nothing was asked: {reasons[0]}{f' (and {len(reasons) - 1} more)' if len(reasons) > 1 else ''}"


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


FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_ASCII = "|/-\\"
_QUIET = 0.4  # seconds without news before the row appears: what is quicker needs none
_LONGEST = 60
_MINUTE = 60


class _Activity(Struct, frozen=True):
    doing: str
    since: float


class Spinner:
    """Draws through the gate, so that a prompt or a line of output takes its place. `paint` is called at every heartbeat."""

    def __init__(self, gate: Gate, outlet: Outlet, clock: Callable[[], float] = time.monotonic) -> None:
        self._gate = gate
        self._outlet = outlet
        self._clock = clock
        self._frames = cycle(FRAMES if outlet.unicode else _ASCII)
        self._activities: dict[str, _Activity] = {}
        self._resumes = 0.0
        self._news = 0.0

    @property
    def is_busy(self) -> bool:
        """Whether anything goes on, or is waited for."""
        return bool(self._activities) or self._clock() < self._resumes

    def begin(self, id: str, doing: str) -> None:
        """Begin to count; `doing` is fit to be shown."""
        self._activities[id] = _Activity(doing, self._clock())

    def finish(self, id: str) -> None:
        """Stop counting; nothing is left of the row when this was the last."""
        self._activities.pop(id, None)
        self._resumes = 0.0
        if not self._activities:
            self._gate.clear_status()

    def wait(self, seconds: float) -> None:
        """Count down before an attempt."""
        self._resumes = self._clock() + seconds

    def heard(self) -> None:
        """Note that something was shown: the row is not needed for a while."""
        self._news, self._resumes = self._clock(), 0.0

    def clear(self) -> None:
        """Forget everything, and take the row away."""
        self._activities.clear()
        self._resumes = 0.0
        self._gate.clear_status()

    def paint(self) -> None:
        """Draw the row as it is now."""
        now = self._clock()
        if not self._outlet.in_foreground:
            return
        if now < self._resumes:
            self._draw(f"trying again in {_span(self._resumes - now + 1)}")
        elif self._activities:
            since = min(activity.since for activity in self._activities.values())
            if now - max(since, self._news) >= _QUIET:
                names = dict.fromkeys(activity.doing for activity in self._activities.values())
                self._draw(f"{clip(', '.join(names), _LONGEST)} {_span(now - since)}")
        else:
            self._gate.clear_status()

    def _draw(self, text: str) -> None:
        self._gate.show_status(self._outlet, clip(f"{next(self._frames)} {text}", self._outlet.columns - 1))


def _span(seconds: float) -> str:
    whole = int(seconds)
    return f"{whole} s" if whole < _MINUTE else f"{whole // _MINUTE} min {whole % _MINUTE} s"


# ----------------------------------------------------------------------------------------------------------------------
# The beat of a display: ten times a second


STEP = 0.1
"""Seconds between two beats."""


class Heartbeat:
    """Calls `beat` ten times a second between `start` and `stop`; not at all where no loop runs."""

    def __init__(self, beat: Callable[[], None]) -> None:
        self._beat = beat
        self._next: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin, unless it beats already."""
        if self._next is None:
            try:
                self._next = asyncio.get_running_loop().call_later(STEP, self._run)
            except RuntimeError:
                return  # no loop: output is the only clock

    def stop(self) -> None:
        """Stop at once."""
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def _run(self) -> None:
        self._next = None
        self.start()
        self._beat()
