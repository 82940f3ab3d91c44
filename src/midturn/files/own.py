"""What this process keeps conversations in, and reads its configuration from: no tool writes there, however it is reached."""

from __future__ import annotations

import os
from pathlib import Path

_KNOWN: set[str] = set()


def keep(path: str | os.PathLike[str]) -> str:
    """Count a file or a directory, there or not, among what is our own from now on; return its real path.

    What is known by its real path is not looked at again: should a link stand there by now, `is_kept` sees where it leads.
    """
    if (given := os.fspath(path)) in _KNOWN:
        return given
    real = os.path.realpath(path)
    _KNOWN.add(real)
    return real


def kept() -> tuple[Path, ...]:
    """Return what is our own, as it really is."""
    return tuple(map(Path, sorted(_KNOWN)))


def is_kept(path: Path, root: Path) -> bool:
    """Say whether a path is, or lies in, what is our own. What the whole workspace `root` lies in does not count: it cannot be meant."""
    workspace = os.path.realpath(root)
    return _leads_into(path, [one for one in _KNOWN if not _is_in(workspace, one)])


def is_within(path: Path, *folders: Path) -> bool:
    """Say whether a path is, or lies in, one of these: by where it leads, and by what is there (device and inode).

    What is not there is known by the directory that it would be in.
    """
    return _leads_into(path, [os.path.realpath(folder) for folder in folders])


def _leads_into(path: Path, ours: list[str]) -> bool:
    """Look at where a path leads, and at what is there. `ours` are free of links: a process may have opened a thousand stores."""
    real = os.path.realpath(path)
    if any(_is_in(real, one) for one in ours):
        return True
    there = {identity for one in ours if (identity := _identity(one))}
    return any(_identity(place) in there for place in (real, *Path(real).parents))


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _identity(path: str | Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)  # noqa: PTH116 - a Path for each of a thousand takes as long as looking
    except OSError:
        return None
    return found.st_dev, found.st_ino
