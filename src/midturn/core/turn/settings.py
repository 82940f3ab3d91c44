"""What a turn is told about the world it runs in."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from midturn.core.events import TurnStart
from midturn.core.limits import DEFAULT_LIMITS, Limits
from midturn.core.routing.policy import ToolPolicy
from midturn.core.turn.record import TurnRecord


class TurnSettings(Struct, frozen=True, kw_only=True):
    """`tools` holds what configuration says about each offered tool; a call of any other name is answered with an error.

    `prompts_at_once` is how many prompts may be open (a terminal shows one). The tools in `foretelling` can say before they run what they
    would ask first. `start` is how a turn begins that is new. `family` are the turns of agents
    inside of tools, and those around them, by the event that names them: they share the limits of what a person is shown, and of how often
    models are asked.
    """

    tools: Mapping[str, ToolPolicy]
    conversation: str = ""
    attached: bool = True
    limits: Limits = DEFAULT_LIMITS
    prompts_at_once: int = 1
    foretelling: frozenset[str] = frozenset()
    start: TurnStart = TurnStart()
    family: dict[str, TurnRecord] = {}
