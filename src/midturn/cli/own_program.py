"""How another program starts this one."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path


def own_program() -> Sequence[str]:
    """Return the words that start midturn wherever they are run: our own script, where the one on the path is that of this Python."""
    found = shutil.which("midturn")
    return [found] if found and Path(found).parent == Path(sys.executable).parent else [sys.executable, "-m", "midturn"]
