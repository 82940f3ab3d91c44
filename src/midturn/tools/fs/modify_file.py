"""What `fs_modify_file` does."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from midturn.core.question import Question
from midturn.tools.context import ToolContext
from midturn.tools.fs.arguments import Replacement
from midturn.tools.fs.asking import SHOWN, about_change, repeated
from midturn.tools.fs.beneath import Beneath
from midturn.tools.fs.diff import Change
from midturn.tools.fs.edits import edited
from midturn.tools.fs.paths import relative, shown
from midturn.tools.fs.text import text_of
from midturn.tools.fs.writing import read_to_change, replace
from midturn.tools.returned import Rejected

REJECTED = "The proposed file changes were reviewed and rejected. Changes were not applied. You may retry with different changes."


def modify_file(ctx: ToolContext, path: str, edits: Sequence[Replacement]) -> str | Question[bool]:
    """Change a file, once the change was approved."""
    target = relative(path, ctx.root)
    with Beneath(ctx.root) as beneath:
        return repeated(target, lambda: _modify(beneath, target, edits, ctx))


def _modify(beneath: Beneath, target: PurePosixPath, edits: Sequence[Replacement], ctx: ToolContext) -> str | Question[bool]:
    name = shown(str(target))
    content = read_to_change(beneath, target)
    old = text_of(content, str(target))
    new = edited(old.text, edits)
    if new == old.text:
        raise Rejected(f"The edits leave {name} as it is.")
    change = Change(str(target), old.text, new)
    question = about_change("apply_changes", f"Apply the changes to {name}?", change, ctx, default=True)
    answer = SHOWN.answer(ctx, question)
    if answer is None:
        return question
    if not answer:
        raise Rejected(REJECTED)
    replace(beneath, target, old.encoded(new), content)
    return f"{name} was changed."
