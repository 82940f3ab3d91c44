"""What differs from turn to turn, whoever composes it."""

from __future__ import annotations

from msgspec import Struct

from midturn.ports import Display, Happening
from midturn.prompter import Prompter

_UNBOUNDED = 1_000_000


class Silence:
    """A display that shows nothing."""

    def show(self, happening: Happening) -> None:
        """Show nothing."""


class RunParts(Struct, frozen=True, kw_only=True):
    """Who answers for the user, who watches, and what the program hands to its tools."""

    prompter: Prompter | None = None
    display: Display = Silence()
    deps: object = None

    @property
    def prompts_at_once(self) -> int:
        """How many prompts may be open: a terminal shows one, a chat or a web page any number."""
        return _UNBOUNDED if getattr(self.prompter, "concurrent", False) else 1
