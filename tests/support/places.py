"""Where the conversations of a workspace are."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path


def workspace_store(root: Path, data: Path) -> Path:
    """Return the folder of a workspace's conversations in a user's data directory (`XDG_DATA_HOME`): it is named after the real path."""
    real = os.path.realpath(root)
    name = "".join(letter if letter.isascii() and letter.isalnum() else "-" for letter in Path(real).name)
    return data / "midturn" / "workspaces" / f"{name}-{hashlib.sha256(os.fsencode(real)).hexdigest()[:16]}"
