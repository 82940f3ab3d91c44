"""Which of an agent's own options a decision is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias

from midturn.core.form.elicitation import one_line
from midturn.foreign.errand import Approved, Decided, Refused, RepliedTo

OptionKind: TypeAlias = Literal["allow_once", "allow_always", "reject_once", "reject_always"]


class Option(Protocol):
    """One that an agent offers."""

    @property
    def option_id(self) -> str:
        """What the agent calls it."""
        ...

    @property
    def name(self) -> str:
        """What it says to its user."""
        ...

    @property
    def kind(self) -> OptionKind:
        """What it does."""
        ...


def kept(options: Sequence[Option]) -> Sequence[str]:
    """Return in the agent's own words what it offers to keep of a yes that goes beyond this once, each by itself."""
    return [*dict.fromkeys(_words(option) for option in options if option.kind == "allow_always")]


def choice(outcome: Decided | None, options: Sequence[Option]) -> str | None:
    """Return the option that a decision is; None where there is none: no yes and no no goes further than what was said.

    What is kept is what was shown: where the agent offers something else by now, the yes is for this once. A yes with changed arguments is
    a no to the call as it is: what a person changed is told afterwards.
    """
    match outcome:
        case Approved(arguments=None, always=always):
            named = next((option for option in options if option.kind == "allow_always" and _words(option) == always), None)
            if named:
                return named.option_id
            wanted: OptionKind = "allow_once"
        case Refused() | RepliedTo() | Approved():
            wanted = "reject_once"
        case _:
            return None
    chosen = _first(wanted, options)
    return chosen.option_id if chosen else None


def _words(option: Option) -> str:
    return f'in the words of the agent, "{one_line(option.name)}"'


def _first(kind: OptionKind, options: Sequence[Option]) -> Option | None:
    return next((option for option in options if option.kind == kind), None)
