"""Options of one run of a turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from midturn.events.types import Parent
from midturn.ports import Display
from midturn.prompter import Prompter
from midturn.runtime.displays import NullDisplay

if TYPE_CHECKING:
    from midturn.runtime.nesting import NestingContext, ParentTurn


class RunOptions(Struct, frozen=True, kw_only=True):
    """Options of one run.

    Args:
        prompter: Asks the user. None if nobody is attached.
        display: Shows the progress of the run.
        deps: The dependencies that the program passes to its tools.
        no_deps: The error for a tool that needs `deps`, if the turn began with dependencies but was
            resumed without them.
        attached: Whether a person is attached. True by default if there is a prompter.
        key: The caller's id for a new turn. Empty for none.
        nesting: The settings that nested agents inherit.
        host: The outer turn, if this turn runs inside a tool.
        parent: The outer call, as recorded in the first event of this turn.
    """

    prompter: Prompter | None = None
    display: Display = NullDisplay()
    deps: object = None
    no_deps: str = ""
    attached: bool | None = None
    key: str = ""
    nesting: NestingContext | None = None
    host: ParentTurn | None = None
    parent: Parent | None = None

    @property
    def is_attached(self) -> bool:
        """Whether a person is attached."""
        return self.prompter is not None if self.attached is None else self.attached
