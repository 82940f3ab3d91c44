"""What `fs_delete_file` does."""

from __future__ import annotations

from pathlib import PurePosixPath

from midturn.core.question import Question
from midturn.tools.context import ToolContext
from midturn.tools.fs.asking import agreed, repeated
from midturn.tools.fs.beneath import Beneath
from midturn.tools.fs.paths import relative, shown
from midturn.tools.fs.writing import read_to_change, remove
from midturn.tools.returned import Rejected


def delete_file(ctx: ToolContext, path: str) -> str | Question[bool]:
    """Delete a file; ask where changes would be lost."""
    target = relative(path, ctx.root)
    with Beneath(ctx.root) as beneath:
        return repeated(target, lambda: _delete(beneath, target, ctx))


def _delete(beneath: Beneath, target: PurePosixPath, ctx: ToolContext) -> str | Question[bool]:
    name = shown(str(target))
    content = read_to_change(beneath, target)
    answer = agreed(target, content, f"Delete {name}? Its uncommitted changes would be lost.", ctx)
    if isinstance(answer, Question):
        return answer
    if not answer:
        raise Rejected(f"{name} has uncommitted changes and was not deleted.")
    remove(beneath, target, content)
    return f"{name} was deleted."
