"""What this process keeps conversations in, and reads its configuration from: no tool writes there, however it is reached."""

from __future__ import annotations

import os
from pathlib import Path

_KNOWN: set[str] = set()


def keep(path: str | os.PathLike[str]) -> None:
    """Count a file or a directory, there or not, among what is our own from now on."""
    _KNOWN.add(os.path.realpath(path))


def kept() -> tuple[Path, ...]:
    """Return what is our own, as it really is."""
    return tuple(map(Path, sorted(_KNOWN)))


def is_within(path: Path, *folders: Path) -> bool:
    """Say whether a path is, or lies in, one of these: by where it leads, and by what is there (device and inode).

    What is not there is known by the directory that it would be in.
    """
    real = Path(os.path.realpath(path))
    ours = [Path(os.path.realpath(folder)) for folder in folders]
    if any(real.is_relative_to(one) for one in ours):
        return True
    there = {identity for one in ours if (identity := _identity(one))}
    return any(_identity(place) in there for place in (real, *real.parents))


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
