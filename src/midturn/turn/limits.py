"""Limits of a turn: repeated questions, questions shown, model calls and consecutive rejections."""

from __future__ import annotations

from typing import TYPE_CHECKING

from midturn.events.types import InquiryRequest
from midturn.question.json_value import Limits
from midturn.turn.record import TurnRecord
from midturn.turn.settings import TurnSettings

if TYPE_CHECKING:
    from midturn.routing.messages import LimitName


def exceeds_repeats(emissions: int, limits: Limits) -> bool:
    """Return whether a tool asked the same question in one call more often than allowed."""
    return emissions > limits.repeats


def exceeds_shown(request: InquiryRequest, turn: TurnRecord, settings: TurnSettings) -> bool:
    """Return whether the turn reached its limit of questions shown.

    The limit applies only while nobody is attached, because an attached person can end the turn. A
    question that was shown before may be shown again.
    """
    shown = len(turn.shown)
    if settings.family:
        shown += sum(len(other.shown) for other in _others(turn, settings))
    if shown < settings.limits.shown:
        return False
    return (request.call, request.question_id, request.question.key) not in turn.shown


def limit_value(limit: LimitName, limits: Limits) -> int:
    """Return the value of a limit."""
    match limit:
        case "repeats":
            return limits.repeats
        case "shown":
            return limits.shown
        case "rejected_cycles":
            return limits.rejected_cycles


def reached_model_limit(turn: TurnRecord, settings: TurnSettings) -> tuple[str, str] | None:
    """Return the limit that ends the turn before the next model call, with the error for the user.
    None if no limit is reached.
    """
    limits = settings.limits
    if turn.stopped_by_breaker:
        return (
            "rejected_cycles",
            (
                f"stopped after {limits.rejected_cycles} rejections in a row: nobody was attached"
                " to review them"
            ),
        )
    if turn.cycles + sum(other.cycles for other in _others(turn, settings)) >= limits.cycles:
        return (
            "cycles",
            f"stopped after {limits.cycles} model calls; raise limits.cycles to allow more",
        )
    return None


def _others(turn: TurnRecord, settings: TurnSettings) -> list[TurnRecord]:
    """Return the outer and nested turns, which share the limits of this turn."""
    return [other for other in settings.family.values() if other is not turn]
