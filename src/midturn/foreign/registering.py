"""How each agent is told of our MCP server, with time-outs that fit: what `midturn mcp --print-config` prints."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

_SECONDS: Final = 3_600  # what a call may take where an agent lets us say so: a dialog may be open for long
_MS: Final = _SECONDS * 1000
_HOMES: Final = ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
"""Where the inbox is to be found: Codex gives a server nothing of its environment that is not named."""
SERVER: Final = "midturn"
"""What our server is called in the settings of an agent."""


class Registration(Struct, frozen=True):
    """Where it goes, what it says, and what is to be known."""

    where: str
    text: str
    advice: str = ""


def registration(agent: str, program: Sequence[str]) -> Registration:
    """Return what goes into an agent's settings; `program` starts the server."""
    command, arguments = program[0], [*program[1:]]
    plain: dict[str, Any] = {"command": command, "args": arguments}
    match agent:
        case "claude":
            advice = "Without a terminal, add --allowedTools mcp__midturn."
            return Registration(".mcp.json of a project", _servers("mcpServers", {"type": "stdio", **plain, "timeout": _MS}), advice)
        case "codex":
            return Registration(
                "~/.codex/config.toml", _toml(command, arguments), "`required` has Codex wait until the server has started."
            )
        case "gemini":
            advice = "Its model calls the tool ask_person: Gemini CLI hides every tool that is called ask_user where there is no terminal."
            return Registration("~/.gemini/settings.json", _servers("mcpServers", {**plain, "timeout": _MS, "trust": True}), advice)
        case "qwen":
            return Registration("~/.qwen/settings.json", _servers("mcpServers", {**plain, "timeout": _MS, "trust": True}))
        case "copilot":
            advice = "Without a terminal, add --allow-tool midturn."
            server = {"type": "local", **plain, "tools": ["*"], "timeout": _MS}
            return Registration("~/.copilot/mcp-config.json", _servers("mcpServers", server), advice)
        case _:
            server = {"type": "local", "command": [command, *arguments], "enabled": True, "timeout": _MS}
            return Registration("opencode.json", _servers("mcp", server))


AGENTS: Final[tuple[str, ...]] = ("claude", "codex", "gemini", "qwen", "copilot", "opencode")


def _servers(key: str, server: Mapping[str, Any]) -> str:
    return json.dumps({key: {SERVER: server}}, indent=2)


def _toml(command: str, arguments: Sequence[str]) -> str:
    lines = [
        f"[mcp_servers.{SERVER}]",
        f"command = {json.dumps(command)}",
        f"args = {json.dumps(list(arguments))}",
        "required = true",
        f"env_vars = {json.dumps(_HOMES)}",
        "startup_timeout_sec = 20",
        f"tool_timeout_sec = {_SECONDS}",
    ]
    return "\n".join(lines)
