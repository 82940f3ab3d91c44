"""The garbage collector: idle during bulk loads, and blind for what stays as long as the process."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final


@contextmanager
def loading() -> Generator[None]:
    """Let what is imported in this block be: nothing of it becomes garbage, so there is none to look for meanwhile."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


_ASIDE: Final[set[str]] = set()
"""What this process has put aside. `gc.get_freeze_count` would tell, once it has counted every object: milliseconds for each prompt."""


def put_aside(what: str = "loaded") -> None:
    """Have the collector look no more at what there is now, in a process that needs it to its end."""
    gc.freeze()
    _ASIDE.add(what)


def tidy_after_prompt() -> None:
    """Collect what a prompt leaves behind now, while no one waits: else the collector stops a later prompt, to look at everything.

    Only where what was loaded is put aside, as the command line does, so that this takes a moment. What the first prompt has loaded is put
    aside, too. Once: of the turn that is under way, nothing would ever be collected.
    """
    if "loaded" in _ASIDE:
        gc.collect()
        if "prompted" not in _ASIDE:
            put_aside("prompted")
