"""Which names a tool may have."""

from __future__ import annotations

import re

from midturn.core.names import NAME

RESERVED_NAME = "Assistant"
"""The header of the questions that the model itself asks: no tool may look like it, in whatever case."""


def name_problem(name: str) -> str | None:
    """Say what is wrong with a tool's name, if anything."""
    if not re.fullmatch(NAME, name):
        return f"`{name}` is not a name for a tool; allowed are 1 to 64 of the characters A-Z a-z 0-9 _ and -."
    if name.casefold() == RESERVED_NAME.casefold():
        return f"`{name}` is not a name for a tool: questions that the model asks are headed `{RESERVED_NAME}`; give yours another name."
    return None
