"""Final report of a run, in the format of stdout: its result, its open questions, or its error, and the exit status."""

from __future__ import annotations

import errno
import sys
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from midturn.agent.result import RunResult, checked, recorded_schema, result_of, turn_usage
from midturn.cli.output import ExitStatus, Shown, block, forget_stdout, joined, json_line, line, note, say_json, spoken, table
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

# ----------------------------------------------------------------------------------------------------------------------
# Final report of a run: the result, the open questions, and the exit status


_OTHERS = {
    "assistant": "by a model",
    "cached": "remembered",
    "static": "by configuration",
    "configuration": "by a rule",
    "policy": "by a policy",
    "default": "by default",
}
_HELPS = {
    "quota": " `-m PROVIDER/MODEL` takes another one.",
    "unknown_model": " `midturn models` lists what is reachable.",
    "unreachable": " `midturn doctor` checks the connection, `midturn demo` needs none.",
}
"""Command that helps when a model has failed in this way."""
_WHO = {"assistant": "by a model", "default": "by default", "static": "by configuration"}


def status_of(result: RunResult[Any]) -> ExitStatus:
    """Return what the exit status says about a result."""
    match result.status:
        case "completed":
            return ExitStatus.REFUSED if result.refused else ExitStatus.DONE
        case "suspended":
            return ExitStatus.SUSPENDED
        case "ended_by_user":
            return ExitStatus.ENDED_BY_USER
        case "failed":
            return ExitStatus.ERROR


def report(result: RunResult[Any], turn: Sequence[Event], *, attached: bool, option: str = "") -> None:
    """Say on stderr how the run ended; `option` is what commands that are advised need to act on the same store."""
    if result.status == "failed":
        note(line("midturn: the turn failed: {}", block(result.error or "")))
    if result.status == "completed" and not result.text and result.structured is None:
        note("midturn: the model ended the turn without a word.")
    if result.status == "ended_by_user":
        note("midturn: the turn was ended.")
    if result.refused:
        note("midturn: refused, because no one was there to ask: {}.", joined(", ", result.refused))
    if result.status == "suspended":
        report_waiting(result.pending, option)
    if unused := unused_answers(turn):
        so_far = " so far" if result.status == "suspended" else ""
        note("midturn: no question used the --answer for {}{}.", joined(", ", unused), so_far)
    if attached:
        _count_others(turn)
    else:
        _count_answers(turn)


def report_waiting(pending: Sequence[OpenQuestion], option: str = "") -> None:
    """Print the open questions with their ids, and the command that answers them."""
    note("midturn: the turn waits for {}:", "an answer" if len(pending) == 1 else f"{len(pending)} answers")
    rows = [(line("  {}", name), text) for question in pending for name, text in question_rows(question, sys.stderr)]
    for row in table(rows, sys.stderr):
        note(row)
    if pending:
        note("To answer:  midturn answer {} [VALUE]{}", pending[0].id, option)
        note("To go on:   midturn resume {}{}", pending[0].conversation, option)


def report_left_open(error: str, failure: str | None, again: str) -> None:
    """Say that the model stayed down, what helps against this kind of failure, and what goes on with the turn."""
    said = f"{error}{_HELPS.get(failure or '', '')}"
    note(line("midturn: {}\nThe turn is open: `{}` goes on with it.", block(said), again))


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


def _count_answers(turn: Sequence[Event]) -> None:
    """Say in one line who answered without a person, if anything was answered so."""
    view = TurnView.last(turn)
    answers = Counter(map(_by, view.answerers))
    approved = sum(each.state == "approved" and _by(each.answered_by) == "default" for each in view.record.approvals)
    counted = [f"{answers[by]} {what}" for by, what in _WHO.items() if answers[by]]
    if approved:
        counted.append(f"{approved} call{'s' if approved > 1 else ''} approved by default")
    if counted:
        note("midturn: answered without a person: {}.", ", ".join(counted))


def _count_others(turn: Sequence[Event]) -> None:
    """Say in one line how many questions were answered elsewhere while a person was here."""
    view = TurnView.last(turn)
    answers = Counter(map(_by, view.answerers))
    approved = Counter(_by(each.answered_by) for each in view.record.approvals if each.state in ("approved", "edited"))
    counted = {by: answers[by] + approved[by] for by in _OTHERS}
    if parts := ", ".join(f"{count} {_OTHERS[by]}" for by, count in counted.items() if count):
        note("midturn: answered for you: {}.", parts)


def _by(who: AnsweredBy | None) -> str:
    return who.by if who else ""


# ----------------------------------------------------------------------------------------------------------------------
# Display of a turn on the command line: the assistant's words on stdout, everything else on stderr


OutputFormat: TypeAlias = Literal["text", "json", "jsonl"]
_READER_GONE = {errno.EPIPE, errno.EIO}


class TurnDisplay(Display, Protocol):
    """A display that is told when the turn is over."""

    def end(self) -> None:
        """Finish what was begun."""
        ...


class Screen(Struct, frozen=True, kw_only=True):
    """The display of a turn: the format of stdout, whether the answer has a shape of its own, and the gate that prompts shut."""

    output: OutputFormat
    shaped: bool
    gate: Gate


class JsonLinesDisplay:
    """Prints each event when it is durable (`--output jsonl`)."""

    marks_cuts = True  # no piece of an answer is shown

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    def show(self, happening: Happening) -> None:
        """Print an event."""
        match happening:
            case Recorded(event):
                with _reader_may_go():
                    self._gate.write(sys.stdout, json_line(event.to_json(), sys.stdout))
            case Notice(text):
                _notice(self._gate, text)
            case _:
                pass  # not an event

    def end(self) -> None:
        """Every line is finished."""


class QuietDisplay:
    """Prints notices only (`--output json`: the result comes at the end)."""

    marks_cuts = True  # no piece of an answer is shown

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

    marks_cuts = True  # no piece of an answer is shown

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
    hidden = frozenset(name for name, tool in settings.tools.items() if tool.hidden)
    shown = OutputSettings(hidden=hidden, reasoning=settings.display.reasoning, mode=settings.prompt.mode)
    return TerminalDisplay(shown, gate, nobody_reads=forget_stdout)


def _notice(gate: Gate, text: str) -> None:
    row: Shown = line("midturn: {}\n", spoken(text))
    with _reader_may_go():
        gate.write(sys.stderr, row)


@contextmanager
def _reader_may_go() -> Generator[None]:
    """Go on with the turn when the reader is gone: everything is recorded, and may be needed."""
    try:
        yield
    except OSError as error:
        if error.errno not in _READER_GONE:
            raise
        forget_stdout()


_MISSHAPEN = "the answer does not have the shape that was asked for"


class Ended(Struct, frozen=True):
    """A run that is over: the turn, and what models have counted."""

    conversation: str
    ending: RunEnding
    turn: TurnView
    spent: Sequence[Spent]


class EndReport(Struct, frozen=True, kw_only=True):
    """Flags about the end of a turn: `shaped`: the answer is JSON of a wanted shape; with `waits`, a suspended turn is not left.

    `option` is what commands that are advised need to act on the same store; `again` is what the user types to go on with a turn that was
    left open, where that is no command of a shell.
    """

    output: OutputFormat
    shaped: bool
    waits: bool
    attached: bool
    option: str
    again: str | None = None

    def tell(self, ended: Ended) -> ExitStatus:
        """Say how a run ended; return the exit status that says the same."""
        if ended.ending.status == "open":
            return self._left_open(ended)
        result = result_of(ended.conversation, ended.turn, ended.ending, ended.spent)
        status = status_of(result)
        waits = status == ExitStatus.SUSPENDED and self.waits
        misfit = _misfit(result, ended.turn.events) if self.shaped and result.status == "completed" else None
        match self.output:
            case _ if misfit is not None:
                status = self._misshapen(result, misfit)
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
        result = RunResult[Any](conversation=ended.conversation, status="failed", error=ending.error, usage=turn_usage(ended.spent))
        if self.output == "json":
            print_result(result, status="open")
        failure = ending.failure.failure if ending.failure else None
        report_left_open(ending.error or "", failure, self.again or f"midturn resume {ended.conversation}{self.option}")
        return ExitStatus.ERROR

    def _misshapen(self, result: RunResult[Any], misfit: str) -> ExitStatus:
        """Say that an answer has another shape than the one asked for: an error, and no answer on stdout."""
        if self.output == "json":
            print_result(replace(result, structured=None), status="failed")
        note(line("midturn: {}:\n{}", _MISSHAPEN, spoken(misfit)))
        return ExitStatus.ERROR


def _misfit(result: RunResult[Any], turn: Sequence[Event]) -> str | None:
    """Return what was said in place of JSON, or how the JSON does not fit its schema; None where it fits."""
    if result.structured is None:
        return result.text
    schema = recorded_schema(turn)
    return None if schema is None else checked(result, schema).error
