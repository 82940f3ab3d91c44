"""Report the end of a run in the selected output format.

The report contains the result, the open questions or the error. It also determines the exit status.
"""

from __future__ import annotations

import errno
import sys
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Literal, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from midturn.agent.result import RunResult, checked, recorded_schema, result_of, turn_usage
from midturn.cli.output import (
    ExitStatus,
    Shown,
    block,
    forget_stdout,
    joined,
    json_line,
    line,
    note,
    say_json,
    spoken,
    table,
)
from midturn.cli.question_rows import question_rows
from midturn.cli.turn_flags import unused_answers
from midturn.config.settings import Settings
from midturn.events.open_question import OpenQuestion
from midturn.events.types import AnsweredBy, Event
from midturn.exchange import Spent
from midturn.ports import Display, Happening, Notice, Recorded, TextShown
from midturn.runtime.driver import RunEnding
from midturn.terminal.output import OutputSettings, TerminalDisplay
from midturn.terminal.output_pair import Gate
from midturn.turn.view import TurnView

# --------------------------------------------------------------------------------------------------
# Reports and exit statuses


TURN_ENDED: Final = "midturn: the turn was ended."
"""Message printed after the user ended the turn."""
_ANSWERED_BY = {
    "assistant": "by a model",
    "cached": "remembered",
    "static": "by the configuration",
    "configuration": "by a rule",
    "policy": "by a policy",
    "default": "by default",
}
_ADVICE = {
    "quota": " To use another model: `-m PROVIDER/MODEL`",
    "unknown_model": " To list models: `midturn models`",
    "unreachable": " To check the connection: `midturn doctor`. `midturn demo` works without one.",
}
"""Advice for each kind of model failure."""
_DETACHED_ANSWERED_BY = {
    "assistant": "by a model",
    "default": "by default",
    "static": "by the configuration",
}


def status_of(result: RunResult[Any]) -> ExitStatus:
    """Return the exit status for a result."""
    match result.status:
        case "completed":
            return ExitStatus.REFUSED if result.refused else ExitStatus.DONE
        case "suspended":
            return ExitStatus.SUSPENDED
        case "ended_by_user":
            return ExitStatus.ENDED_BY_USER
        case "failed":
            return ExitStatus.ERROR


def report(
    result: RunResult[Any], turn: Sequence[Event], *, attached: bool, option: str = ""
) -> None:
    """Print on stderr how the run ended.

    `option` selects the same store in suggested commands.
    """
    if result.status == "failed":
        note(line("midturn: the turn failed: {}", block(result.error or "")))
    if result.status == "completed" and not result.text and result.structured is None:
        note("midturn: the model ended the turn without a response.")
    if result.status == "ended_by_user":
        note(TURN_ENDED)
    if result.refused:
        note("midturn: refused because no one was there to ask: {}.", joined(", ", result.refused))
    if result.status == "suspended":
        report_waiting(result.pending, option)
    if unused := unused_answers(turn):
        so_far = " so far" if result.status == "suspended" else ""
        note("midturn: no question used the --answer for {}{}.", joined(", ", unused), so_far)
    if attached:
        _report_automatic_answers(turn)
    else:
        _report_detached_answers(turn)


def report_waiting(pending: Sequence[OpenQuestion], option: str = "") -> None:
    """Print the open questions with their IDs, and the commands that answer and continue."""
    note(
        "midturn: the turn waits for {}:",
        "an answer" if len(pending) == 1 else f"{len(pending)} answers",
    )
    rows = [
        (line("  {}", name), text)
        for question in pending
        for name, text in question_rows(question, sys.stderr)
    ]
    for row in table(rows, sys.stderr):
        note(row)
    if pending:
        note("To answer:   midturn answer {} [VALUE]{}", pending[0].id, option)
        note("To continue: midturn resume {}{}", pending[0].conversation, option)


def report_left_open(error: str, failure: str | None, again: str) -> None:
    """Print that the model failed, with advice for this kind of failure and the command that
    continues the turn.
    """
    message = f"{error}{_ADVICE.get(failure or '', '')}"
    note(line("midturn: {}\nThe turn is still open. To continue it: `{}`", block(message), again))


def print_result(result: RunResult[Any], status: str = "") -> None:
    """Print a result as one JSON object (`--output json`)."""
    say_json(
        {
            "conversation": result.conversation,
            "status": status or result.status,
            "text": result.text,
            "structured": result.structured,
            "pending": [question.to_json() for question in result.pending],
            "refused": list(result.refused),
            "usage": result.usage.to_json(),
        }
    )


def _report_detached_answers(turn: Sequence[Event]) -> None:
    """Print how many questions were answered without a person, if any."""
    view = TurnView.last(turn)
    answers = Counter(map(_by, view.answerers))
    approved = sum(
        approval.state == "approved" and _by(approval.answered_by) == "default"
        for approval in view.record.approvals
    )
    counted = [f"{answers[by]} {what}" for by, what in _DETACHED_ANSWERED_BY.items() if answers[by]]
    if approved:
        counted.append(f"{approved} call{'s' if approved > 1 else ''} approved by default")
    if counted:
        note("midturn: answered without a person: {}.", ", ".join(counted))


def _report_automatic_answers(turn: Sequence[Event]) -> None:
    """Print how many questions were answered automatically, if any."""
    view = TurnView.last(turn)
    answers = Counter(map(_by, view.answerers))
    approved = Counter(
        _by(approval.answered_by)
        for approval in view.record.approvals
        if approval.state in ("approved", "edited")
    )
    counted = {by: answers[by] + approved[by] for by in _ANSWERED_BY}
    if parts := ", ".join(f"{count} {_ANSWERED_BY[by]}" for by, count in counted.items() if count):
        note("midturn: answered for you: {}.", parts)


def _by(who: AnsweredBy | None) -> str:
    return who.by if who else ""


# --------------------------------------------------------------------------------------------------
# Display of a turn: the assistant's text on stdout, everything else on stderr


OutputFormat: TypeAlias = Literal["text", "json", "jsonl"]
_CLOSED_PIPE = {errno.EPIPE, errno.EIO}


class TurnDisplay(Display, Protocol):
    """A display that is notified when the turn ends."""

    def end(self) -> None:
        """Complete the output."""
        ...


class Screen(Struct, frozen=True, kw_only=True):
    """Options of the display.

    Args:
        output: Output format.
        shaped: Whether the response must match a JSON Schema.
        gate: Holds back output while a prompt is open.
    """

    output: OutputFormat
    shaped: bool
    gate: Gate


class JsonLinesDisplay:
    """Prints each event as soon as it is stored (`--output jsonl`)."""

    marks_cuts = True  # this display shows no partial text

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def show(self, happening: Happening) -> None:
        """Print an event."""
        match happening:
            case Recorded(event):
                with _ignore_closed_pipe():
                    self._gate.write(sys.stdout, json_line(event.to_json(), sys.stdout))
            case Notice(text):
                _notice(self._gate, text)
            case _:
                pass  # only events are printed

    def end(self) -> None:
        """Do nothing: all lines are complete."""


class QuietDisplay:
    """Prints only notices; the result is printed at the end (`--output json`)."""

    marks_cuts = True  # this display shows no partial text

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def show(self, happening: Happening) -> None:
        """Print a notice."""
        if isinstance(happening, Notice):
            _notice(self._gate, happening.text)

    def end(self) -> None:
        """Do nothing."""


class TextlessDisplay:
    """Hides the assistant's text.

    With a schema, the response is JSON, which is printed at the end.
    """

    marks_cuts = True  # this display shows no partial text

    def __init__(self, display: TurnDisplay) -> None:
        self._display = display

    def show(self, happening: Happening) -> None:
        """Forward everything except text."""
        if not isinstance(happening, TextShown):
            self._display.show(happening)

    def end(self) -> None:
        """Complete the output."""
        self._display.end()


def display_for(screen: Screen, settings: Settings) -> TurnDisplay:
    """Return the display of an output format."""
    match screen.output:
        case "text":
            display = _terminal_display(screen.gate, settings)
            return TextlessDisplay(display) if screen.shaped else display
        case "json":
            return QuietDisplay(screen.gate)
        case "jsonl":
            return JsonLinesDisplay(screen.gate)


def _terminal_display(gate: Gate, settings: Settings) -> TurnDisplay:
    hidden = frozenset(name for name, tool in settings.tools.items() if tool.hidden)
    shown = OutputSettings(
        hidden=hidden, reasoning=settings.display.reasoning, mode=settings.prompt.mode
    )
    return TerminalDisplay(shown, gate, nobody_reads=forget_stdout)


def _notice(gate: Gate, text: str) -> None:
    row: Shown = line("midturn: {}\n", spoken(text))
    with _ignore_closed_pipe():
        gate.write(sys.stderr, row)


@contextmanager
def _ignore_closed_pipe() -> Generator[None]:
    """Continue the turn after the reader closed the pipe. Events are still recorded."""
    try:
        yield
    except OSError as error:
        if error.errno not in _CLOSED_PIPE:
            raise
        forget_stdout()


_INVALID_RESPONSE = "the response does not match the requested schema"


class Ended(Struct, frozen=True):
    """A finished run: the turn, and the token usage."""

    conversation: str
    ending: RunEnding
    turn: TurnView
    spent: Sequence[Spent]


class EndReport(Struct, frozen=True, kw_only=True):
    """Options of the report.

    Args:
        output: Output format.
        shaped: Whether the response must match a JSON Schema.
        waits: Whether the command waits for answers if the turn is suspended.
        attached: Whether a user is at the terminal.
        option: Option that selects the same store in suggested commands.
        again: Chat command that continues a turn that stays open. Default: `midturn resume`.
    """

    output: OutputFormat
    shaped: bool
    waits: bool
    attached: bool
    option: str
    again: str | None = None

    def tell(self, ended: Ended) -> ExitStatus:
        """Report how a run ended, and return the exit status."""
        if ended.ending.status == "open":
            return self._left_open(ended)
        result = result_of(ended.conversation, ended.turn, ended.ending, ended.spent)
        status = status_of(result)
        waits = status == ExitStatus.SUSPENDED and self.waits
        problem = (
            _response_problem(result, ended.turn.events)
            if self.shaped and result.status == "completed"
            else None
        )
        match self.output:
            case _ if problem is not None:
                status = self._report_invalid(result, problem)
            case "json" if not waits:
                print_result(result)
            case "text" if self.shaped and result.status == "completed":
                say_json(result.structured)
            case _:
                pass
        if waits:
            report_waiting(result.pending, self.option)
        else:
            report(result, ended.turn.events, attached=self.attached, option=self.option)
        return status

    def _left_open(self, ended: Ended) -> ExitStatus:
        ending = ended.ending
        result = RunResult[Any](
            conversation=ended.conversation,
            status="failed",
            error=ending.error,
            usage=turn_usage(ended.spent),
        )
        if self.output == "json":
            print_result(result, status="open")
        failure = ending.failure.failure if ending.failure else None
        report_left_open(
            ending.error or "",
            failure,
            self.again or f"midturn resume {ended.conversation}{self.option}",
        )
        return ExitStatus.ERROR

    def _report_invalid(self, result: RunResult[Any], problem: str) -> ExitStatus:
        """Report a response that does not match the schema.

        The response is not printed on stdout.
        """
        if self.output == "json":
            print_result(replace(result, structured=None), status="failed")
        note(line("midturn: {}:\n{}", _INVALID_RESPONSE, spoken(problem)))
        return ExitStatus.ERROR


def _response_problem(result: RunResult[Any], turn: Sequence[Event]) -> str | None:
    """Return why the response is invalid, or None if it is valid.

    This is the text that was returned instead of JSON, or the error in the JSON.
    """
    if result.structured is None:
        return result.text
    schema = recorded_schema(turn)
    return None if schema is None else checked(result, schema).error
