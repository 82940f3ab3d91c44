"""Which values of a workspace file weaken a guarantee or run code: without `midturn trust` they have no effect."""

from __future__ import annotations

from midturn.config.nodes import Claim, Gate
from midturn.config.tree import Tree, entry
from midturn.core.json_value import Json


def always(why: str) -> Gate:
    """Gate every value."""
    return Gate(why, lambda _: True)


def values(why: str, *weak: Json) -> Gate:
    """Gate these values."""
    return Gate(why, lambda claim: claim.value in weak)


def below(why: str, least: float) -> Gate:
    """Gate numbers smaller than `least`."""
    return Gate(why, lambda claim: isinstance(claim.value, int | float) and claim.value < least)


def _asks_a_model(claim: Claim) -> bool:
    kind = entry(claim.subtree, "")
    return kind is None or kind.value != "user"


def _unlocks(claim: Claim) -> bool:
    return _for_tool(claim, ("enable", "allow_toggle")) == "never"


def _delivers_unseen(claim: Claim) -> bool:
    return claim.value == "unattended" and _for_tool(claim, ("result",)) not in {None, "unattended"}


def _for_tool(claim: Claim, field: tuple[str, ...]) -> Json:
    tool = claim.path[:3]
    own: Tree = claim.below
    found = entry(own, *tool, *field) or entry(own, *tool[:2], "*", *field)
    return found.value if found else None


MODEL_ANSWERS = Gate("lets a model answer", _asks_a_model)
UNLOCKS = Gate("changes a tool that is locked", _unlocks)
DELIVERS_UNSEEN = Gate("delivers results unseen", _delivers_unseen)
