"""Confining a process with what this system offers."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

from midturn.sandbox import bubblewrap, landlock, seatbelt
from midturn.sandbox.profile import SandboxProfile

Means: TypeAlias = Literal["landlock", "bubblewrap", "sandbox-exec", "none"]

_LAUNCHER: Final = Path(__file__).with_name("landlock.py")


class Offer(Struct, frozen=True):
    """The confinement that this system offers: the means, and its gaps (sentences). `is_whole`: it does all that the means can."""

    means: Means
    lacks: tuple[str, ...] = ()
    is_whole: bool = True


@functools.cache
def offer() -> Offer:
    """Find out what there is."""
    version = landlock.abi()
    if version:
        if not landlock.limits_network(version):
            return Offer("landlock", ("The sandbox of tools does not limit the network: the kernel is too old for that.",), is_whole=False)
        return Offer("landlock", ("It does not cover UDP, nor sockets in the file system that other programs of yours listen on.",))
    if bubblewrap.program():
        return Offer("bubblewrap")
    if seatbelt.works():
        return Offer("sandbox-exec", ("Nobody has tried this profile on a Mac yet: check that your tools do what they should.",))
    missing = "There is no sandbox for tools here (Linux with Landlock or bubblewrap, or `sandbox-exec` of macOS):"
    missing += " one that you let run can do whatever you can."
    return Offer("none", (missing,), is_whole=False)


class Confined(Struct, frozen=True):
    """The start of a confined process: the command line, and what the thread that starts it must do first, and never undo."""

    argv: tuple[str, ...]
    enter: Callable[[], None] | None = None


def confined(argv: Sequence[str], profile: SandboxProfile, *, cwd: str, masked: Sequence[str] = ()) -> Confined:
    """Prepare the start of a confined process from a thread of its own, which costs the least.

    Raises:
        OSError: The kernel refuses.
    """
    match offer().means:
        case "landlock":
            return Confined(tuple(argv), functools.partial(_enter, profile))
        case "bubblewrap":
            return Confined(bubblewrap.wrapped(argv, profile, masked, cwd))
        case "sandbox-exec":
            return Confined(seatbelt.wrapped(argv, profile, masked))
        case "none":
            return Confined(tuple(argv))


def confine(argv: Sequence[str], profile: SandboxProfile, *, cwd: str | None = None, masked: Sequence[str] = ()) -> tuple[str, ...]:
    """Return a command line that confines itself, for programs that start processes without us (an MCP client)."""
    match offer().means:
        case "landlock":
            grants = msgspec.json.encode(profile).decode()
            return (sys.executable, "-I", "-S", str(_LAUNCHER), grants, *argv)
        case "bubblewrap":
            return bubblewrap.wrapped(argv, profile, masked, cwd)
        case "sandbox-exec":
            return seatbelt.wrapped(argv, profile, masked)
        case "none":
            return tuple(argv)


def _enter(profile: SandboxProfile) -> None:
    rules = landlock.ruleset(profile.read, profile.write, network=profile.network)
    try:
        landlock.restrict(rules)
    finally:
        os.close(rules)
