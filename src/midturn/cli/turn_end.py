"""How the end of a run is told, in the format of stdout: its result, what it waits for, or what keeps it open."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from midturn.agent.result import RunResult, checked, recorded_schema, result_of
from midturn.agent.turn_usage import turn_usage
from midturn.cli.exit_status import ExitStatus
from midturn.cli.output import note, say_json
from midturn.cli.shown import line, spoken
from midturn.cli.turn_display import OutputFormat
from midturn.cli.turn_report import print_result, report, report_left_open, report_waiting, status_of
from midturn.core.events import Event
from midturn.models.wrapper import Spent
from midturn.runtime.driver import RunEnding

_MISSHAPEN = "the answer does not have the shape that was asked for"


class Ended(Struct, frozen=True):
    """A run that is over: the turn's events, and what models have counted."""

    conversation: str
    ending: RunEnding
    turn: Sequence[Event]
    spent: Sequence[Spent]


class EndReport(Struct, frozen=True, kw_only=True):
    """What the flags say about the end: `shaped`: the answer is JSON of a wanted shape; with `waits`, a suspended turn is not left.

    `option` is what commands that are advised need to act on the same store.
    """

    output: OutputFormat
    shaped: bool
    waits: bool
    attached: bool
    option: str

    def tell(self, ended: Ended) -> ExitStatus:
        """Say how a run ended; return the exit status that says the same."""
        if ended.ending.status == "open":
            return self._left_open(ended)
        result = result_of(ended.conversation, ended.turn, ended.ending, ended.spent)
        status = status_of(result)
        waits = status == ExitStatus.SUSPENDED and self.waits
        misfit = _misfit(result, ended.turn) if self.shaped and result.status == "completed" else None
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
            report_waiting(result.pending, line("Waiting. Ctrl-C leaves the turn as it is."), self.option)
        else:
            report(result, ended.turn, attached=self.attached, option=self.option)
        return status

    def _left_open(self, ended: Ended) -> ExitStatus:
        ending = ended.ending
        result = RunResult[Any](conversation=ended.conversation, status="failed", error=ending.error, usage=turn_usage(ended.spent))
        if self.output == "json":
            print_result(result, status="open")
        failure = ending.failure.failure if ending.failure else None
        report_left_open(ended.conversation, ending.error or "", failure, self.option)
        return ExitStatus.ERROR

    def _misshapen(self, result: RunResult[Any], misfit: str) -> ExitStatus:
        """Say that an answer has another shape than the one asked for: an error, and no answer for whoever reads stdout."""
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
