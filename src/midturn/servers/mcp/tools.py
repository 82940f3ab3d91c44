"""The tools that a client sees. Their descriptions stand alone: not every client passes a server's instructions on."""

from __future__ import annotations

from typing import Any, Final

from mcp import types

from midturn.core.names import ASK_USER
from midturn.tools.ask_user_schema import DESCRIPTION, PARAMETERS

ASK: Final = (ASK_USER, "ask_person")
"""One tool under two names: a client hides every tool that is called `ask_user`, and a model takes either."""
CHECK: Final = "check_answer"
PERMIT: Final = "permission_prompt"

_WAITING = """

The user may be away: they are asked where they are, and may answer at a terminal, on a page or in an inbox. If nobody has answered after \
a while, the result says so, with an `id` and a `ticket`. That is not a no. Call `check_answer` with both then, or end your turn if it \
says so."""
_CHECK = """\
Find out whether the user has answered by now. Use it only with an `id` and a `ticket` that an earlier result gave you; every result gives \
a new ticket. If nobody has answered, it says so: that is not a no."""
_PERMIT = """\
Ask the user whether a call of a tool may run. Agents call it by themselves; a model has no use for it."""
_HINTS = types.ToolAnnotations(read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False)
_ALWAYS: dict[str, Any] = {"anthropic/alwaysLoad": True}


def tools() -> list[types.Tool]:
    """Return all tools."""
    asking = [_tool(name, DESCRIPTION + _WAITING, dict(PARAMETERS)) for name in ASK]
    check = {
        "id": {"type": "string", "description": "The id of the question."},
        "ticket": {"type": "integer", "description": "The newest."},
    }
    permit = {"tool_name": {"type": "string"}, "input": {"type": "object"}, "tool_use_id": {"type": "string"}}
    return [
        *asking,
        _tool(CHECK, _CHECK, {"type": "object", "properties": check, "required": ["id", "ticket"]}),
        _tool(PERMIT, _PERMIT, {"type": "object", "properties": permit, "required": ["tool_name", "input"]}, always=False),
    ]


def _tool(name: str, description: str, schema: dict[str, Any], *, always: bool = True) -> types.Tool:
    meta: dict[str, Any] = {"_meta": _ALWAYS} if always else {}
    return types.Tool(name=name, description=description, input_schema=schema, annotations=_HINTS, **meta)
