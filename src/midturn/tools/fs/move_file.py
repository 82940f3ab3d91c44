"""What `fs_move_file` does."""

from __future__ import annotations

from midturn.core.question import Question
from midturn.tools.context import ToolContext
from midturn.tools.fs.asking import agreed
from midturn.tools.fs.beneath import Beneath
from midturn.tools.fs.paths import relative, shown
from midturn.tools.fs.writing import check_free, move, read_to_change
from midturn.tools.returned import Rejected


def move_file(ctx: ToolContext, source: str, destination: str) -> str | Question[bool]:
    """Move a file; ask where it has uncommitted changes."""
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
