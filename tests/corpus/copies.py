"""Copies of the corpus that tests may change."""

from __future__ import annotations

import shutil
from pathlib import Path

HERE = Path(__file__).parent


def copied_files(target: Path) -> Path:
    """Copy the file store with the file modes of a store, which a clone of the repository does
    not keep.
    """
    shutil.copytree(HERE / "files", target)
    for found in (target, *target.rglob("*")):
        found.chmod(0o700 if found.is_dir() else 0o600)
    return target
