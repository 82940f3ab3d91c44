"""Trying again when a file changes under one's hands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePosixPath
from typing import TypeVar

from midturn.tools.fs.paths import shown
from midturn.tools.fs.writing import Changed
from midturn.tools.returned import Rejected

T = TypeVar("T")
_TRIES = 5


def settled(path: PurePosixPath, attempt: Callable[[], T]) -> T:
    """Return what an attempt returns; one that finds the file changed is repeated, and then asks about the new content.

    Raises:
        Rejected: The file changes every time.
    """
    for _ in range(_TRIES):
        try:
            return attempt()
        except Changed:
            continue
    raise Rejected(f"{shown(str(path))} is being changed by somebody else; nothing was done.")
