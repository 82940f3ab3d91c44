"""A command that stays until Ctrl-C, and is looked at meanwhile."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from midturn.cli.output import is_terminal


@contextmanager
def without_echo() -> Generator[None]:
    """Keep what is typed, `^C` included, out of what is shown; where another program shows it, the terminal is that one's."""
    if not is_terminal():
        yield
        return
    from midturn.terminal.restore import HUSH  # nobody else stays so long

    with HUSH.during_turn():
        yield
