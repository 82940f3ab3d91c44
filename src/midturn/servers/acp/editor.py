"""Who is at the other end: an editor, or another client of the Agent Client Protocol."""

from __future__ import annotations

from typing import Final

from acp import schema
from msgspec import Struct

from midturn.foreign.naming import asker_name

BELIEVED: Final = ("zed", "codecompanion")
"""Clients, by the beginning of the name that they give themselves, in which only a person refuses.

Others refuse by themselves when nobody is there: what they refuse stays open.
"""


class Editor(Struct, frozen=True, kw_only=True):
    """A client: its `name` is recorded with what is answered there.

    Args:
        name: What people call it.
        shows_forms: It says that it can show a form.
        can_refuse: Its no is a person's.
    """

    name: str
    shows_forms: bool = False
    can_refuse: bool = False

    @classmethod
    def of(cls, capabilities: schema.ClientCapabilities | None, info: schema.Implementation | None) -> Editor:
        """Read what a client says of itself."""
        elicitation = capabilities.elicitation if capabilities else None
        name = info.name if info else ""
        return cls(
            name=asker_name((info.title or name) if info else "", "ACP client"),
            shows_forms=elicitation is not None and elicitation.form is not None,
            can_refuse=name.strip().casefold().startswith(BELIEVED),
        )
