"""Which folders `jp` has recorded. It is asked of every conversation; what reads one is loaded for those that are."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from midturn.store import event_file

EVENTS: Final = "events.json"


def is_jp(folder: Path) -> bool:
    """Say whether `jp`, and nobody else, recorded what is in this folder."""
    place = os.fspath(folder)  # asked of each conversation that is listed, and nearly always answered by the first look
    return not os.path.exists(f"{place}/{event_file.NAME}") and os.path.isfile(f"{place}/{EVENTS}")  # noqa: PTH110, PTH113
