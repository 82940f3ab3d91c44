"""Settings that register midturn's MCP server with each agent, with suitable timeouts. `midturn
mcp --print-config` prints them.
"""

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
from midturn.integrations.hooks.installing import InstalledHook
from midturn.security.private_files import read_first_line

# timeout of a call in seconds, for agents with such a setting; long, because people may be slow
_CALL_TIMEOUT: Final = 3_600
_CALL_TIMEOUT_MS: Final = _CALL_TIMEOUT * 1000
_DIRECTORY_VARIABLES: Final = (
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "XDG_CACHE_HOME",
)
"""Environment variables that determine the location of the inbox. They must be listed in the entry,
because Codex passes only listed variables to a server.
"""


class Registration(Struct, frozen=True):
    """An entry for an agent's settings: the file, the text to add, and notes for the user."""

    where: str
    text: str
    advice: str = ""


def registration(agent: str, program: Sequence[str]) -> Registration:
    """Return the entry for an agent's settings. `program` is the command that starts the server."""
    command, arguments = program[0], [*program[1:]]
    plain: dict[str, Any] = {"command": command, "args": arguments}
    match agent:
        case "claude":
            advice = "Without a terminal, add --allowedTools mcp__midturn."
            return Registration(
                ".mcp.json of a project",
                _servers("mcpServers", {"type": "stdio", **plain, "timeout": _CALL_TIMEOUT_MS}),
                advice,
            )
        case "codex":
            return Registration(
                "~/.codex/config.toml",
                _toml(command, arguments),
                "With `required`, Codex waits until the server has started.",
            )
        case "gemini":
            advice = (
                "Its model calls the tool ask_person, because Gemini CLI hides tools named ask_user"
                " if there is no terminal."
            )
            return Registration(
                "~/.gemini/settings.json",
                _servers("mcpServers", {**plain, "timeout": _CALL_TIMEOUT_MS, "trust": True}),
                advice,
            )
        case "qwen":
            return Registration(
                "~/.qwen/settings.json",
                _servers("mcpServers", {**plain, "timeout": _CALL_TIMEOUT_MS, "trust": True}),
            )
        case "copilot":
            advice = "Without a terminal, add --allow-tool midturn."
            server = {"type": "local", **plain, "tools": ["*"], "timeout": _CALL_TIMEOUT_MS}
            return Registration(
                "~/.copilot/mcp-config.json", _servers("mcpServers", server), advice
            )
        case _:
            server = {
                "type": "local",
                "command": [command, *arguments],
                "enabled": True,
                "timeout": _CALL_TIMEOUT_MS,
            }
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
        f"env_vars = {json.dumps(_DIRECTORY_VARIABLES)}",
        "startup_timeout_sec = 20",
        f"tool_timeout_sec = {_CALL_TIMEOUT}",
    ]
    return "\n".join(lines)


# --------------------------------------------------------------------------------------------------
# Differences between the installed hooks and the hooks that `install` would write now


_SHEBANG = b"#!"
_WAIT_OPTION = re.compile(r" --wait [0-9.]+$")
"""Option that users can add to the command. It sets how many seconds the hook waits."""
_MAX_FIRST_LINE = 4096  # maximum length of a script's first line, in bytes


def faults(found: Sequence[InstalledHook], wanted: Sequence[InstalledHook]) -> Sequence[str]:
    """Return a phrase for each difference between the installed hooks and the wanted hooks."""
    expected = {hook.entry.event: hook for hook in wanted}
    events = {hook.entry.event for hook in found}
    twice = {event for event in events if [hook.entry.event for hook in found].count(event) > 1}
    faults_found = [f"{event} is missing" for event in expected if event not in events]
    faults_found += [
        f"{event} is no longer used by midturn" for event in sorted(events - expected.keys())
    ]
    faults_found += [f"{event} is installed twice" for event in sorted(twice)]
    faults_found += [
        f"{hook.entry.event} has a different matcher or timeout"
        for hook in found
        if hook.entry.event in expected and hook.entry != expected[hook.entry.event].entry
    ]
    commands = dict.fromkeys(hook.command for hook in found)
    return [
        *faults_found,
        *(why for command in commands for why in _command_faults(command, wanted[0].command)),
    ]


def _command_faults(command: str, wanted: str) -> Sequence[str]:
    missing = missing_program(command)
    if missing:
        return [f"they run {missing}, which no longer exists"]
    return (
        []
        if _WAIT_OPTION.sub("", command) == wanted
        else [f"they run `{command}` instead of `{wanted}`"]
    )


def missing_program(command: str) -> str:
    """Return a command's program, or the interpreter of its script, if it is missing or not
    executable. Return an empty string otherwise.
    """
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
        first = read_first_line(
            os.path.realpath(program), _MAX_FIRST_LINE
        )  # the path may come from a repository and is untrusted
    except OSError:  # the file is executable, but not readable
        return ""
    words = os.fsdecode(first.removeprefix(_SHEBANG)).split() if first.startswith(_SHEBANG) else []
    return words[0] if words else ""
