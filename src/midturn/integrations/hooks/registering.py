"""Registration of our MCP server with each agent, with time-outs that fit: the text of `midturn mcp --print-config`."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from midturn.integrations.hooks.hook_agent import SERVER
from midturn.integrations.hooks.installing import HookFound
from midturn.security.private_files import read_first_line

_SECONDS: Final = 3_600  # what a call may take where an agent lets us say so: a dialog may be open for long
_MS: Final = _SECONDS * 1000
_HOMES: Final = ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
"""Variables by which the server finds the inbox: Codex gives a server nothing of its environment that is not named."""


class Registration(Struct, frozen=True):
    """An entry for an agent's settings: its file, its text, and notes for the user."""

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


# ----------------------------------------------------------------------------------------------------------------------
# What is wrong with hooks that are installed: they are compared with those that `install` would write now


_SCRIPT = b"#!"
_CHANGED = re.compile(r" --wait [0-9.]+$")
"""The option that a user may have added: how long the hook waits."""
_LONGEST = 4096  # bytes of a script's first line


def faults(found: Sequence[HookFound], wanted: Sequence[HookFound]) -> Sequence[str]:
    """Return what is wrong with the hooks that were found, a phrase for each; nothing where they are those that are wanted."""
    expected = {hook.entry.event: hook for hook in wanted}
    there = {hook.entry.event for hook in found}
    twice = {event for event in there if [hook.entry.event for hook in found].count(event) > 1}
    said = [f"{event} is missing" for event in expected if event not in there]
    said += [f"{event} is not ours any more" for event in sorted(there - expected.keys())]
    said += [f"{event} is there twice" for event in sorted(twice)]
    said += [
        f"{hook.entry.event} has another matcher or time-out"
        for hook in found
        if hook.entry.event in expected and hook.entry != expected[hook.entry.event].entry
    ]
    commands = dict.fromkeys(hook.command for hook in found)
    return [*said, *(why for command in commands for why in _about(command, wanted[0].command))]


def _about(command: str, wanted: str) -> Sequence[str]:
    """Say what is wrong with a command."""
    gone = gone_of(command)
    if gone:
        return [f"they run {gone}, which is gone"]
    return [] if _CHANGED.sub("", command) == wanted else [f"they run `{command}`, and not this midturn's `{wanted}`"]


def gone_of(command: str) -> str:
    """Return the program of a command that cannot be run any more: it, or what its script is run by; an empty text where it can."""
    try:
        program = next(iter(shlex.split(command)), "")
    except ValueError:
        return command
    found = shutil.which(program)
    if found is None:
        return program
    interpreter = _interpreter(Path(found))
    return interpreter if interpreter and not os.access(interpreter, os.X_OK) else ""


def _interpreter(program: Path) -> str:
    try:
        first = read_first_line(os.path.realpath(program), _LONGEST)  # a project's settings name whatever its repository likes
    except OSError:  # it may be run, and not read
        return ""
    words = os.fsdecode(first.removeprefix(_SCRIPT)).split() if first.startswith(_SCRIPT) else []
    return words[0] if words else ""
