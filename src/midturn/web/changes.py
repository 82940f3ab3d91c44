"""Reads diffs that tools stored in the workspace because they are too long for the context of a
question.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

MAX_BYTES: Final = 16 * 1024 * 1024  # maximum size of a stored diff


def stored_diff(root: Path | None) -> Callable[[str], str | None]:
    """Return a function that reads a diff from the workspace at `root`. Its argument is the digest
    of the diff. It returns None if there is no such diff.
    """
    return lambda digest: (
        None if root is None else _read(root / ".midturn" / "output" / f"{digest[:16]}.txt", digest)
    )


def _read(path: Path, digest: str) -> str | None:
    """Return the content of a file if its digest is `digest`. Symbolic links are not followed."""
    try:
        with os.fdopen(
            os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb"
        ) as file:
            data = file.read(MAX_BYTES + 1)
    except OSError:
        return None
    return data.decode("utf-8", "replace") if hashlib.sha256(data).hexdigest() == digest else None
