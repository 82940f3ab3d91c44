"""When a turn has had enough: the same thing asked too often, too much shown to a person, models that keep saying no, too many answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from midturn.core.events import InquiryRequest
from midturn.core.limits import Limits
from midturn.core.turn.record import TurnRecord
from midturn.core.turn.settings import TurnSettings

if TYPE_CHECKING:
    from midturn.core.routing.messages import LimitName


def is_repeated_too_often(emissions: int, limits: Limits) -> bool:
    """Whether a tool has asked the same thing, whole, more often in one call than it may."""
    return emissions > limits.repeats


def is_one_too_many(request: InquiryRequest, turn: TurnRecord, settings: TurnSettings) -> bool:
    """Whether a person has been shown enough in this turn; what they have seen before may be shown again."""
    shown = len(turn.shown)
    if settings.family:
        shown += sum(len(other.shown) for other in _others(turn, settings))
    if shown < settings.limits.shown:
        return False
    return (request.call, request.question_id, request.question.key) not in turn.shown


def allowed(limit: LimitName, limits: Limits) -> int:
    """Return how many a limit allows, to be told."""
    match limit:
        case "repeats":
            return limits.repeats
        case "shown":
            return limits.shown
        case "rejected_cycles":
            return limits.rejected_cycles


def why_the_model_is_not_asked(turn: TurnRecord, settings: TurnSettings) -> tuple[str, str] | None:
    """Return the limit that ends a turn in place of another answer of the model, and what the user is told of it."""
    limits = settings.limits
    if turn.stopped_by_breaker:
        return "rejected_cycles", f"stopped after {limits.rejected_cycles} rejections in a row: nobody was there to review them"
    if turn.cycles + sum(other.cycles for other in _others(turn, settings)) >= limits.cycles:
        return "cycles", f"stopped after {limits.cycles} model calls; raise limits.cycles to allow more"
    return None


def _others(turn: TurnRecord, settings: TurnSettings) -> list[TurnRecord]:
    """Return the turns that share the limits: those inside of tools, and those around them."""
    return [other for other in settings.family.values() if other is not turn]
