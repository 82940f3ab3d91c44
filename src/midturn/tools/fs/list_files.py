"""What `fs_list_files` does."""

from __future__ import annotations

from itertools import islice

from midturn.tools.context import ToolContext
from midturn.tools.fs.beneath import Beneath
from midturn.tools.fs.globs import Glob
from midturn.tools.fs.paths import relative, shown
from midturn.tools.fs.walk import TreeWalk

_MOST = 1_000


def list_files(ctx: ToolContext, path: str, glob: str | None, max_depth: int | None) -> str:
    """List files, one path a line."""
    start = relative(path, ctx.root)
    pattern = Glob(glob) if glob else None
    with Beneath(ctx.root) as beneath:
        walk = TreeWalk(beneath, start, max_depth)
        found = (entry for entry in walk if pattern is None or entry.is_folder or pattern.matches(entry.path))
        lines = [shown(str(start / entry.path)) + ("/" if entry.is_folder else "") for entry in islice(found, _MOST + 1)]
    notes = [f"(there are more than {_MOST}: look into one folder, or give a `glob` or `max_depth`)"] if len(lines) > _MOST else []
    if walk.unreadable:
        notes.append(f"({walk.unreadable} folders could not be read)")
    return "\n".join([*lines[:_MOST], *notes]) or "(no files)"
