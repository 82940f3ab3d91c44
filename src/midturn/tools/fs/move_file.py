"""`fs_move_file`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from midturn.core.question import Question
from midturn.tools.context import ToolContext
from midturn.tools.fs.arguments import FilePath
from midturn.tools.fs.asking import agreed
from midturn.tools.fs.beneath import Beneath
from midturn.tools.fs.paths import relative, shown
from midturn.tools.fs.writing import check_free, move, read_to_change
from midturn.tools.function import tool
from midturn.tools.returned import Rejected

Destination = Annotated[str, Meta(description="Its new path, relative to the workspace root. There must be no file yet.")]


@tool(run="ask")
def fs_move_file(source: FilePath, destination: Destination, ctx: ToolContext) -> str | Question[bool]:
    """Move or rename a file. If it has uncommitted changes, the user is asked first."""
    here, there = relative(source, ctx.root), relative(destination, ctx.root)
    names = shown(str(here)), shown(str(there))
    with Beneath(ctx.root) as beneath:
        content = read_to_change(beneath, here)
        check_free(beneath, there)
        answer = agreed(here, content, f"Move {names[0]} to {names[1]}? It has uncommitted changes.", ctx)
        if isinstance(answer, Question):
            return answer
        if not answer:
            raise Rejected(f"{names[0]} has uncommitted changes and was not moved.")
        move(beneath, here, there)
    return f"{names[0]} was moved to {names[1]}."
