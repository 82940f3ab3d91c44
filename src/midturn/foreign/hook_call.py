"""The call of a tool in what an agent says to its hook."""

from __future__ import annotations

from msgspec import Struct

from midturn.core.json_value import JsonObject
from midturn.core.loose_json import members, text

_NAMELESS = "tool"  # one of which an agent does not say the name


class HookCall(Struct, frozen=True):
    """Which tool is called, with what, and the agent's own id for the call; empty where it gives none."""

    tool: str
    arguments: JsonObject
    id: str


def call_in(document: JsonObject, tool: str = "tool_name", arguments: str = "tool_input") -> HookCall:
    """Read the call; most agents give its parts the names that Claude Code does."""
    return HookCall(text(document.get(tool)) or _NAMELESS, members(document.get(arguments)), text(document.get("tool_use_id")))
