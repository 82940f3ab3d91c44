"""What a command says of an error: its message, and where a command helps, which one."""

from __future__ import annotations

from midturn.errors import MidturnError, NeedsAdoption


def told(error: MidturnError) -> str:
    """Return the message, with the command that goes on from there."""
    if isinstance(error, NeedsAdoption):
        place = error.conversation
        return f"{error} `midturn resume --adopt {place}` shows what is open and asks you; `midturn resume {place} --discard` ends it."
    return str(error)
