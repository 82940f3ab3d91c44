"""Commands that decide for a person: not one that a tool has started."""

from __future__ import annotations

import os
from typing import Final

from midturn.errors import PersonNeeded
from midturn.sandbox.marks import tool_above

_AFTER: Final = "A person has to do it, at a terminal of their own."


def for_people_only(what: str) -> None:
    """Refuse to do `what` (`answer questions`) for a tool.

    Raises:
        PersonNeeded: This process was started by one.
    """
    if why := tool_above(os.environ):
        raise PersonNeeded(f"This process may not {what}: {why}. {_AFTER}")
