"""What is said when a run of a turn is over: the result, what it waits for, and the exit status."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from midturn.agent.result import RunResult
from midturn.cli.answer_flags import unused_answers
from midturn.cli.exit_status import ExitStatus
from midturn.cli.layout import table
from midturn.cli.output import note, say_json
from midturn.cli.shown import Shown, block, joined, line
from midturn.core.events import AnsweredBy, Approval, Event, InquiryAnswered, InquiryRedacted, InquiryRequest
from midturn.core.stream import OpenQuestion

_OTHERS = {
    "assistant": "by a model",
    "cached": "remembered",
    "static": "by configuration",
    "policy": "by a policy",
    "default": "by default",
}
_HELPS = {
    "quota": " `-m PROVIDER/MODEL` takes another one.",
    "unknown_model": " `midturn models` lists what is reachable.",
    "unreachable": " `midturn doctor` checks the connection, `midturn demo` needs none.",
}
"""Which command helps when a model has failed in this way."""
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
    if result.status == "ended_by_user":
        note("midturn: the turn was ended.")
    if result.refused:
        note("midturn: refused, because nobody was there to ask: {}.", joined(", ", result.refused))
    if result.status == "suspended":
        report_waiting(result.pending, option=option)
    if unused := unused_answers(turn):
        so_far = " so far" if result.status == "suspended" else ""
        note("midturn: no question used the --answer for {}{}.", joined(", ", unused), so_far)
    if attached:
        _count_others(turn)
    else:
        _count_answers(turn, waits=result.status == "suspended")


def report_waiting(pending: Sequence[OpenQuestion], then: Shown | None = None, option: str = "") -> None:
    """Print the open questions with their ids, and the command that answers them."""
    from midturn.cli.question_rows import question_rows  # most turns end with nothing open

    note("midturn: the turn waits for {}:", "an answer" if len(pending) == 1 else f"{len(pending)} answers")
    rows = [(line("  {}", name), text) for question in pending for name, text in question_rows(question)]
    for row in table(rows, sys.stderr):
        note(row)
    if pending:
        note("To answer:  midturn answer {} [VALUE]{}", pending[0].id, option)
        note("To go on:   midturn resume {}{}", pending[0].conversation, option)
    if then:
        note(then)


def report_left_open(conversation: str, error: str, failure: str | None = None, option: str = "") -> None:
    """Say that the model stayed down, what helps against this kind of failure, and how to go on."""
    said = f"{error}{_HELPS.get(failure or '', '')}"
    note(line("midturn: {}\nThe turn is open: `midturn resume {}{}` goes on with it.", block(said), conversation, option))


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


def _count_answers(turn: Sequence[Event], *, waits: bool) -> None:
    """Say in one line who answered while nobody was there, if anything was asked."""
    answers = Counter(_answerers(turn))
    approved = sum(isinstance(event, Approval) and event.state == "approved" and _by(event.answered_by) == "default" for event in turn)
    asked = any(isinstance(event, InquiryRequest | Approval) for event in turn)
    if not asked or (waits and not approved and not any(answers[by] for by in _WHO)):
        return
    parts = ", ".join(f"{answers[by]} {what}" for by, what in _WHO.items())
    went_ahead = f"; {approved} call{'s' if approved > 1 else ''} approved by default" if approved else ""
    note("midturn: answered without a person: {}{}.", parts, went_ahead)


def _count_others(turn: Sequence[Event]) -> None:
    """Say in one line how many questions somebody else answered while a person was here."""
    answers = Counter(by for by in _answerers(turn) if by in _OTHERS)
    approved = Counter(_by(event.answered_by) for event in turn if isinstance(event, Approval) and event.state in ("approved", "edited"))
    counted = {by: answers[by] + approved[by] for by in _OTHERS}
    if parts := ", ".join(f"{count} {_OTHERS[by]}" for by, count in counted.items() if count):
        note("midturn: answered for you: {}.", parts)


def _answerers(turn: Sequence[Event]) -> Iterator[str]:
    return (_by(event.answered_by) for event in turn if isinstance(event, InquiryAnswered | InquiryRedacted))


def _by(who: AnsweredBy | None) -> str:
    return who.by if who else ""
