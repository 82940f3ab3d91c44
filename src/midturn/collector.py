"""Times of the garbage collector: none during bulk loads, and after a prompt, when no one waits."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache


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


def tidy() -> None:
    """Collect what a prompt leaves behind now, while no one waits: else the collector stops a later prompt, to look at everything.

    Only where the program has put aside what it has loaded (`gc.freeze`, as the command line does), so that this takes a moment.
    """
    if gc.get_freeze_count():
        gc.collect()
        _put_aside()


@cache
def _put_aside() -> None:
    """Put aside what the first prompt of a process has loaded. Once: of the turn that is under way, nothing would ever be collected."""
    gc.freeze()
