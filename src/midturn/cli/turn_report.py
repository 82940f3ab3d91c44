"""What is said when a run of a turn is over: the result, what it waits for, and the exit status (spec 8.2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from midturn.agent.result import RunResult
from midturn.cli.exit_status import ExitStatus
from midturn.cli.output import cell, note, say_json
from midturn.core.events import Event, InquiryAnswered, InquiryRedacted
from midturn.core.json_value import Json
from midturn.core.stream import OpenQuestion

_COUNTED = {"assistant": "by a model", "default": "by default", "static": "by configuration"}


def status_of(result: RunResult) -> ExitStatus:
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


def report(result: RunResult, turn: Sequence[Event], *, attached: bool) -> None:
    """Say on stderr how the run ended."""
    if result.status == "failed":
        note(f"midturn: the turn failed: {result.error}")
    if not attached:
        _count_answers(turn)
    if result.refused:
        note(f"midturn: refused, because nobody was there to ask: {', '.join(map(cell, result.refused))}.")
    if result.status == "suspended":
        report_waiting(result.pending)


def report_waiting(pending: Sequence[OpenQuestion]) -> None:
    """Print the open questions with their ids and the command that answers them."""
    note(f"midturn: the turn waits for {len(pending)} answer{'s' if len(pending) != 1 else ''}:")
    for question in pending:
        note(f"  {question.id}  {cell(question.source.header)} asks: {cell(question.question.text)}")
    if pending:
        note(f"Answer with `midturn answer {pending[0].id} [VALUE]`, then go on with `midturn resume {pending[0].conversation}`.")


def result_json(result: RunResult) -> dict[str, Json]:
    """Return the object that `--output json` prints."""
    return {
        "conversation": result.conversation,
        "status": result.status,
        "text": result.text,
        "structured": result.structured,
        "pending": [question.to_json() for question in result.pending],
        "refused": list(result.refused),
        "usage": msgspec.to_builtins(result.usage),
    }


def print_result(result: RunResult) -> None:
    """Print a result as one JSON object."""
    say_json(result_json(result))


def _count_answers(turn: Sequence[Event]) -> None:
    """Say in one line who answered while nobody was there."""
    answers = (event.answered_by for event in turn if isinstance(event, InquiryAnswered | InquiryRedacted))
    counted = Counter(who.by for who in answers if who and who.by in _COUNTED)
    if counted:
        parts = ", ".join(f"{count} {_COUNTED[by]}" for by, count in sorted(counted.items()))
        note(f"midturn: {counted.total()} question{'s were' if counted.total() != 1 else ' was'} answered without a person: {parts}.")
