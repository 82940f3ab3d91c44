"""Golden files: approved screens."""

from __future__ import annotations

import os
from pathlib import Path

SCREENS = Path(__file__).parents[1] / "terminal" / "screens"


def golden(name: str) -> str:
    """Return the content of `screens/<name>.txt`, or an empty string if it does not exist yet."""
    path = SCREENS / f"{name}.txt"
    return path.read_text(encoding="utf-8") if path.exists() else ""


def assert_golden(name: str, drawn: str) -> None:
    """Compare with `screens/<name>.txt`. With `UPDATE_SCREENS=1` in the environment, write the
    file first.
    """
    path = SCREENS / f"{name}.txt"
    if os.environ.get("UPDATE_SCREENS"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(drawn, encoding="utf-8")
    assert drawn == path.read_text(encoding="utf-8"), (
        f"{path.name} differs; look at it, and if it is right set UPDATE_SCREENS=1"
    )
