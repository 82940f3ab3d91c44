"""The way to a server, and the people who can be asked on its behalf."""

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
"""Seconds that a server may be silent during a call, unless its description says otherwise."""
ALL_TOOLS = "*"
"""Stands for every tool of a server that is not named itself."""
_OTHER = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST = 64


def registered_name(server: str, tool: str) -> str:
    """Return the name under which a model calls a tool of a server."""
    return _OTHER.sub("_", f"{server}_{tool}")[:_LONGEST]


class McpServer(Struct, frozen=True, kw_only=True):
    """A server of the Model Context Protocol whose tools an agent offers: a `command` to start, or a `url`. See `Agent(mcp=…)`.

    The keys are those of `providers.mcp.<name>` in the configuration, with the same rules. Its tools are named `<name>_<tool>`.

    Args:
        name: Name of the server, at most 64 of the characters A-Z a-z 0-9 _ and -.
        command: Program and arguments: a list such as `["npx", "@modelcontextprotocol/server-everything"]`, or a string.
        url: Address of a server that runs already (streamable HTTP).
        headers: HTTP headers that are sent with every request to `url`.
        environment: Variables of the program, in addition to `PATH`, `HOME`, `LANG` and the like: a mapping with their values (True
            passes on the value of this process), or a list of names to pass on.
        sandbox: Whether the program runs in a sandbox, where the system has one; or a table with `read`, `write`, `network` and `enable`.
        protocol: Version of the protocol; `auto` is the newest that both sides know.
        cwd: Directory in which the program runs, and which it may write to.
        run: Whether a person is asked before a tool runs: `ask`, `unattended` or `skip`; or by the name of the tool at the server, with `*`
            for every other one.
        rename: Other names for tools, by their names at the server.
        timeout: Seconds, or a duration such as `2m`, during which the server may neither answer a call, ask, nor report progress.
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


def no_advice(said: str) -> str:  # noqa: ARG001  whatever it said
    """Know nothing that helps."""
    return ""


class ServerSpec(Struct, frozen=True, kw_only=True):
    """One server: a command to start, or an address.

    Args:
        name: What its tools' names begin with.
        command: The program and its arguments.
        url: Where it serves streamable HTTP, instead.
        headers: Sent with every request to `url`.
        environment: The whole environment of `command`.
        cwd: Where `command` runs.
        protocol: The version of the protocol: `auto` is the newest that both sides know, and the older one for a server that cannot ask
            over the newest.
        asks: A person can be asked what the server asks; otherwise it is told that no one can.
        silence: Seconds that it may be silent during a call.
        advice: Says what helps where the server failed with these words on its standard error; nothing is an empty string.
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
