"""Path of the conversations of a workspace."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path


def workspace_store(root: Path, data: Path) -> Path:
    """Return the directory of a workspace's conversations in a user's data directory
    (`XDG_DATA_HOME`). It is named after the real path of the workspace.
    """
    real = os.path.realpath(root)
    name = re.sub(r"[^A-Za-z0-9]+", "-", Path(real).name)[:40].strip("-") or "workspace"
    return (
        data
        / "midturn"
        / "workspaces"
        / f"{name}-{hashlib.sha256(os.fsencode(real)).hexdigest()[:16]}"
    )
