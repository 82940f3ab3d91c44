"""Status messages of a turn: tools that start and end, notices, and the status row."""

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
from midturn.terminal.answer_notice import AnswerNotice, AnswerNotices, label
from midturn.terminal.output_pair import Gate, OutputPair, OutputSink
from midturn.terminal.prompts.cells import clip, continued_rows, hang
from midturn.terminal.prompts.keys import one_line, split_lines

_SIGN = "·"
_MAX_ARGUMENTS = 160
_MAX_LABEL = 60
_MAX_ERROR = 400
_MAX_SUBJECT_ROWS = 40
_MORE = "…"
_HANG = "  "
_REASON = "- "
_DIM, _RED, _PLAIN = "\x1b[90m", "\x1b[31m", "\x1b[0m"


class StatusOutput:
    """Prints status messages, one line each, wrapped on terminals.

    `answered_here` and `asked_here` are passed to `AnswerNotices`.
    """

    def __init__(
        self,
        page: OutputPair,
        answered_here: Collection[str] = (),
        asked_here: Collection[str] = (),
    ) -> None:
        self._page = page
        self._ledger = AnswerNotices(answered_here, asked_here)

    def tool_started(self, call: ToolCall) -> None:
        """Print the name of a started tool and as much of its arguments as fit on one row."""
        self._say(
            [
                clip(
                    f"{self._sign} {label(call)}{_other_arguments(call)}",
                    self._width or _MAX_ARGUMENTS,
                )
            ],
            _DIM,
        )

    def tool_ended(self, call: ToolCall, error: str | None) -> None:
        """Print the outcome of a call: the decision about the call, success, or the first line of
        the error.
        """
        fate = self._ledger.fate(call, is_error=error is not None)
        name = f"{self._sign} {clip(label(call), _MAX_LABEL)}"
        if fate is not None:
            self._say([f"{name}: {clip(fate, _MAX_ERROR)}"], _DIM)
        elif error is not None and (said := _error_for_user(call, error)):
            self._say([f"{name}: {said}"], _DIM)
        elif error is None:
            self._say([f"{name}: ok"], _DIM)
        else:
            self._say([f"{name} failed: {clip(exact(_first_line(call, error)), _MAX_ERROR)}"], _RED)

    def is_news(self, call: ToolCall, error: str) -> bool:
        """Return whether a call's error is new to the person.

        It is not new if the person ended the turn or refused the call.
        """
        return _error_for_user(call, error) is None and not self._ledger.has_fate(call)

    def note(self, event: Event) -> AnswerNotice | None:
        """Process an event; return the notice to print, if any."""
        return self._ledger.note(event)

    def told(self, told: AnswerNotice) -> None:
        """Print the responder of a question that was answered elsewhere.

        After an approval, also print the lines of the approved call or context.
        """
        self._say([f"{told.question} {told.answer}  {told.who}"], "")
        shown = told.let_through[:_MAX_SUBJECT_ROWS]
        left = len(told.let_through) - len(shown)
        more = [f"{_MORE} {left} more rows"] if left else []
        self._say_exactly([*shown, *more])

    def notice(self, text: str) -> None:
        """Print a notice for the user."""
        first, *more = map(exact, split_lines(text.rstrip("\n")))
        self._say([f"midturn: {first}", *(f"{_HANG}{line}" for line in more)], "")

    def _say(self, lines: Iterable[str], colour: str) -> None:
        width = self._width
        rows = [row for line in lines for row in (hang(line, width, _HANG) if width else [line])]
        end = _PLAIN if colour and width and self._page.look.colours else ""
        self._page.put("beside", "".join(f"{colour if end else ''}{row}{end}\n" for row in rows))

    def _say_exactly(self, lines: Sequence[str]) -> None:
        """Print dimmed lines after a gutter, with every character visible."""
        width = self._width
        bar = "│ " if self._page.err.unicode else "| "
        rows = [
            bar + row
            for line in lines
            for row in (continued_rows(line, width - len(bar)) if width else [line])
        ]
        end = _PLAIN if width and self._page.look.colours else ""
        self._page.put(
            "beside", "".join(f"{_DIM if end else ''}{row.rstrip()}{end}\n" for row in rows)
        )

    @property
    def _sign(self) -> str:
        return _SIGN if self._page.err.unicode else "*"

    @property
    def _width(self) -> int:
        """Width of the terminal in columns, or 0 if the output is not a terminal."""
        return self._page.err.columns - 1 if self._page.err.is_terminal else 0


def _first_line(call: ToolCall, error: str) -> str:
    """Return the first line of an error without the tool's name.

    If a question could not be asked, return the first reason.
    """
    lines = [line for line in split_lines(error) if line.strip()] or ["no reason given"]
    reasons = [line.removeprefix(_REASON) for line in lines[1:] if line.startswith(_REASON)]
    if call.name != ASK_USER or not reasons:
        return lines[0].removeprefix(f"{call.name}: ")
    return (
        "nothing was asked:"
        f" {reasons[0]}{f' (and {len(reasons) - 1} more)' if len(reasons) > 1 else ''}"
    )


def _error_for_user(call: ToolCall, error: str) -> str | None:
    """Return the user's text for one of midturn's own errors, which are written for the model.

    Return None for other errors.
    """
    if error in (INPUT_CANCELLED, TURN_ENDED):
        return "not finished: the turn was ended"
    if error == withheld(call.name):
        return "ran; result withheld"
    return "not run: switched off by configuration" if error == switched_off(call.name) else None


def _other_arguments(call: ToolCall) -> str:
    """Return the arguments after the first one, if they are short.

    Long arguments are shown in the prompt that approves the call.
    """
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
_STATUS_DELAY = 0.4  # seconds without output before the status row appears
_MAX_ACTIVITIES = 60
_MINUTE = 60


class _Activity(Struct, frozen=True):
    doing: str
    since: float


class Spinner:
    """Draws the status row through the gate, until a prompt or other output replaces it.

    Call `paint` regularly.
    """

    def __init__(
        self, gate: Gate, outlet: OutputSink, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._gate = gate
        self._outlet = outlet
        self._clock = clock
        self._frames = cycle(FRAMES if outlet.unicode else _ASCII)
        self._activities: dict[str, _Activity] = {}
        self._resumes = 0.0
        self._news = 0.0

    @property
    def is_busy(self) -> bool:
        """Whether an activity runs, or a retry is pending."""
        return bool(self._activities) or self._clock() < self._resumes

    def begin(self, id: str, doing: str) -> None:
        """Start an activity; `doing` is displayable text."""
        self._activities[id] = _Activity(doing, self._clock())

    def finish(self, id: str) -> None:
        """End an activity. The row disappears after the last activity ends."""
        self._activities.pop(id, None)
        self._resumes = 0.0
        if not self._activities:
            self._gate.clear_status()

    def wait(self, seconds: float) -> None:
        """Show the seconds that remain until a retry."""
        self._resumes = self._clock() + seconds

    def heard(self) -> None:
        """Record that output was shown, which hides the row for a while."""
        self._news, self._resumes = self._clock(), 0.0

    def clear(self) -> None:
        """End all activities and remove the row."""
        self._activities.clear()
        self._resumes = 0.0
        self._gate.clear_status()

    def paint(self) -> None:
        """Draw the current row."""
        now = self._clock()
        if not self._outlet.in_foreground:
            return
        if now < self._resumes:
            self._draw(f"trying again in {_span(self._resumes - now + 1)}")
        elif self._activities:
            since = min(activity.since for activity in self._activities.values())
            if now - max(since, self._news) >= _STATUS_DELAY:
                names = dict.fromkeys(activity.doing for activity in self._activities.values())
                self._draw(f"{clip(', '.join(names), _MAX_ACTIVITIES)} {_span(now - since)}")
        else:
            self._gate.clear_status()

    def _draw(self, text: str) -> None:
        self._gate.show_status(
            self._outlet, clip(f"{next(self._frames)} {text}", self._outlet.columns - 1)
        )


def _span(seconds: float) -> str:
    whole = int(seconds)
    return f"{whole} s" if whole < _MINUTE else f"{whole // _MINUTE} min {whole % _MINUTE} s"


# --------------------------------------------------------------------------------------------------
# The timer of a display


STEP = 0.1
"""Seconds between two calls of `beat`."""


class Heartbeat:
    """Calls `beat` ten times per second between `start` and `stop`, if an event loop is running."""

    def __init__(self, beat: Callable[[], None]) -> None:
        self._beat = beat
        self._next: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start the timer, unless it is already running."""
        if self._next is None:
            try:
                self._next = asyncio.get_running_loop().call_later(STEP, self._run)
            except RuntimeError:
                return  # without an event loop, only output triggers a redraw

    def stop(self) -> None:
        """Stop the timer immediately."""
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def _run(self) -> None:
        self._next = None
        self.start()
        self._beat()
