"""Which processes this one descends from, as far as the system tells."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from msgspec import Struct

_PROC = Path("/proc")


class Process(Struct, frozen=True):
    """One process. `started` (clock ticks since the system was) tells it from a later one that has the same number."""

    pid: int
    parent: int
    session: int
    started: int
    name: str


def process(pid: int) -> Process | None:
    """Look a process up; None where it is gone, or the system does not say."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    before, _, after = text.rpartition(")")
    fields = after.split()
    return Process(pid, int(fields[1]), int(fields[3]), int(fields[19]), before.partition("(")[2])


def ancestors(pid: int | None = None) -> Iterator[Process]:
    """Yield the parent of a process (by default this one), its parent, and so on."""
    seen: set[int] = set()
    here = process(os.getpid() if pid is None else pid)
    while here is not None and here.parent > 0 and here.parent not in seen:
        seen.add(here.parent)
        here = process(here.parent)
        if here is not None:
            yield here


@cache
def boot() -> str:
    """Return what tells this run of the machine from any other; empty where that cannot be told."""
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


@cache
def namespace() -> str | None:
    """Return what names the numbers of processes that this one sees; None where the system has one for all."""
    try:
        return str((_PROC / "self/ns/pid").readlink())
    except OSError:
        return None
