"""The workspaces that the user has worked in: where `midturn inbox --all` looks. Each is noted once, in the user's own state directory."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from midturn.config.places import state_directory
from midturn.errors import StoreError
from midturn.files.private import create_private, ensure_private, read_private
from midturn.store.workspace import Workspace


def note_use(workspace: Workspace | None) -> None:
    """Remember a workspace. Where that fails nothing but the list of all workspaces lacks it."""
    if workspace is None:
        return
    root = os.fsencode(workspace.root.resolve())
    note = _notes() / hashlib.sha256(root).hexdigest()[:32]
    if not note.exists():
        with suppress(OSError):
            ensure_private(note.parent)
            create_private(note, root)


def used_workspaces() -> list[Workspace]:
    """Return the workspaces that are still there, in the order of their paths."""
    found = [_workspace(note) for note in _notes().glob("*")] if _notes().is_dir() else []
    return sorted((workspace for workspace in found if workspace), key=lambda workspace: workspace.root)


def _workspace(note: Path) -> Workspace | None:
    written = read_private(note)
    root = Path(os.fsdecode(written)) if written else None
    try:
        workspace = Workspace.find(root) if root and root.is_absolute() else None
    except StoreError:  # `.midturn` became a link
        return None
    return workspace if workspace and workspace.root == root else None


def _notes() -> Path:
    return state_directory() / "workspaces"
