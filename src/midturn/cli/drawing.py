"""What draws listings on this terminal: only where it can draw, and its person wants it drawn."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from midturn.terminal.drawn import Drawing


def drawing(stream: TextIO | None) -> Drawing | None:
    """Return what draws on the terminal that `stream` goes to; None where it goes elsewhere, or plain lines are wanted."""
    if stream is None or not stream.isatty():
        return None
    from midturn.cli.loading import settings_if_right  # what is printed elsewhere needs no configuration, and loads nothing that draws
    from midturn.terminal.look import choose_mode

    settings = settings_if_right()
    if choose_mode(settings.prompt.mode if settings else "auto", os.environ) == "plain":
        return None
    from midturn.terminal.drawn import Drawing

    return Drawing(stream)
