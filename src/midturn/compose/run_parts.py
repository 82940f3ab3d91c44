"""What differs from turn to turn, whoever composes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from midturn.core.events import Parent
from midturn.ports import Display, Happening
from midturn.prompter import Prompter

if TYPE_CHECKING:
    from midturn.runtime.nesting import Host, Nest

_UNBOUNDED = 1_000_000


class Silence:
    """A display that shows nothing."""

    def show(self, happening: Happening) -> None:
        """Show nothing."""


class RunParts(Struct, frozen=True, kw_only=True):
    """Who answers for the user, who watches, and what the program hands to its tools.

    `nest` is what agents inside of those tools inherit; `host` and `parent` are the call around the turn, where it is of such an agent.
    """

    prompter: Prompter | None = None
    display: Display = Silence()
    deps: object = None
    nest: Nest | None = None
    host: Host | None = None
    parent: Parent | None = None

    @property
    def prompts_at_once(self) -> int:
        """How many prompts may be open: a terminal shows one, a chat or a web page any number."""
        return _UNBOUNDED if getattr(self.prompter, "concurrent", False) else 1
