"""What an error reads like where the command line is at hand: its message, and where a command helps, which one."""

from __future__ import annotations

from midturn.errors import MidturnError, NeedsAdoption

ADOPT = "`midturn resume --adopt {conversation}` shows what is open and asks you; `midturn resume {conversation} --discard` ends it."
"""What to do about a turn that was not begun here."""


def told(error: MidturnError) -> str:
    """Return the message, with the command that goes on from there."""
    if isinstance(error, NeedsAdoption):
        return f"{error} {ADOPT.format(conversation=error.conversation)}"
    return str(error)
