"""Configuration of an MCP server: how to reach it, and whether it may ask questions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from midturn.routing.policy import RunPolicy

Protocol: TypeAlias = Literal["auto", "2025-11-25", "2026-07-28"]
"""A version of the Model Context Protocol, or `auto`."""

SILENCE = 60.0
"""Default maximum number of seconds without a message from the server during a call."""
ALL_TOOLS = "*"
"""Key that matches all tools of a server that have no key of their own."""
_INVALID_CHARACTERS = re.compile(r"[^A-Za-z0-9_-]")
_MAX_NAME_LENGTH = 64


def registered_name(server: str, tool: str) -> str:
    """Return the name of a server's tool for the model, such as `files_read`."""
    return _INVALID_CHARACTERS.sub("_", f"{server}_{tool}")[:_MAX_NAME_LENGTH]


class McpServer(Struct, frozen=True, kw_only=True):
    """An MCP server whose tools an agent offers: a `command` to start, or a `url`. See
    `Agent(mcp=…)`.

    The arguments have the same names and rules as the keys of `providers.mcp.<name>` in the
    configuration. For the model, the tools are named `<name>_<tool>`.

    Args:
        name: Name of the server. At most 64 of the characters A-Z a-z 0-9 _ and -.
        command: Program and arguments: a list such as `["npx",
            "@modelcontextprotocol/server-everything"]`, or a string.
        url: Address of a running server (streamable HTTP).
        headers: HTTP headers sent with every request to `url`.
        environment: Environment variables of the program, in addition to `PATH`, `HOME`, `LANG`
            and similar ones: a mapping with their values (True passes on the value of this
            process), or a list of names to pass on.
        sandbox: Whether the program runs in a sandbox, if the system supports sandboxes. Or a
            table with `read`, `write`, `network` and `enable`.
        protocol: Protocol version. `auto` is the newest version that both sides support.
        cwd: Working directory of the program. The program may write to it.
        run: Whether a person is asked before a tool runs: `ask`, `unattended` or `skip`. Or a
            mapping by the tool's name at the server; the key `*` matches all other tools.
        rename: New names for tools, by their names at the server.
        timeout: Maximum time without an answer, question or progress message from the server during
            a call. Seconds, or a duration such as `2m`.
    """

    name: str
    command: Sequence[str] | str = ()
    url: str | None = None
    headers: Mapping[str, str] = {}
    environment: Mapping[str, str | bool] | Sequence[str] = {}
    sandbox: bool | Mapping[str, object] = True
    protocol: Protocol = "auto"
    cwd: str | Path = "."
    run: RunPolicy | Mapping[str, RunPolicy] = "ask"
    rename: Mapping[str, str] = {}
    timeout: float | str = SILENCE


def no_advice(said: str) -> str:  # noqa: ARG001  required by the type
    """Return an empty string."""
    return ""


class ServerSpec(Struct, frozen=True, kw_only=True):
    """The command that starts one server, or the address of the server.

    Args:
        name: Name of the server. It is the prefix of the tools' names.
        command: Program and arguments to start.
        url: Address of a running server (streamable HTTP), instead of `command`.
        headers: HTTP headers sent with every request to `url`.
        environment: Complete environment of `command`.
        cwd: Working directory of `command`.
        protocol: Protocol version. `auto` is the newest version that both sides support, or the
            older version if the server cannot ask questions over the newest one.
        asks: Whether a person can be asked. If false, the server is informed that it cannot ask
            questions.
        silence: Maximum number of seconds without a message from the server during a call.
        advice: Receives the text from the server's standard error. Returns advice to add to an
            error message, or an empty string.
    """

    name: str
    command: tuple[str, ...] = ()
    url: str | None = None
    headers: Mapping[str, str] = {}
    environment: Mapping[str, str] = {}
    cwd: str = "."
    protocol: Protocol = "auto"
    asks: bool = True
    silence: float = SILENCE
    advice: Callable[[str], str] = no_advice
