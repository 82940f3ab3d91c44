"""The way to a server, and the people who can be asked on its behalf."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

Protocol: TypeAlias = Literal["auto", "2025-11-25", "2026-07-28"]
"""A version of the Model Context Protocol, or `auto`."""


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
    advice: Callable[[str], str] = no_advice
