"""`fs_delete_file`."""

from __future__ import annotations

from pathlib import PurePosixPath

from midturn.core.question import Question
from midturn.tools.context import ToolContext
from midturn.tools.fs.arguments import FilePath
from midturn.tools.fs.asking import agreed, repeated
from midturn.tools.fs.beneath import Beneath
from midturn.tools.fs.paths import relative, shown
from midturn.tools.fs.writing import read_to_change, remove
from midturn.tools.function import tool
from midturn.tools.returned import Rejected


@tool(run="ask")
def fs_delete_file(path: FilePath, ctx: ToolContext) -> str | Question[bool]:
    """Delete a file. If it has uncommitted changes, the user is asked first."""
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
