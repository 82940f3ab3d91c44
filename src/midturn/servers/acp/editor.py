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

YES_OR_NO: Final = ("acpx",)
"""Clients, by the same, that show no options: whoever says yes there takes the first, without having seen it."""


class Editor(Struct, frozen=True, kw_only=True):
    """A client: its `name` is recorded with what is answered there.

    Args:
        name: What people call it.
        shows_forms: It says that it can show a form.
        can_refuse: Its no is a person's.
        shows_options: One of several can be chosen there.
    """

    name: str
    shows_forms: bool = False
    can_refuse: bool = False
    shows_options: bool = True

    @classmethod
    def of(cls, capabilities: schema.ClientCapabilities | None, info: schema.Implementation | None) -> Editor:
        """Read what a client says of itself."""
        elicitation = capabilities.elicitation if capabilities else None
        name = info.name if info else ""
        return cls(
            name=asker_name((info.title or name) if info else "", "ACP client"),
            shows_forms=elicitation is not None and elicitation.form is not None,
            can_refuse=name.strip().casefold().startswith(BELIEVED),
            shows_options=not name.strip().casefold().startswith(YES_OR_NO),
        )
