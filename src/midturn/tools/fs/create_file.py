"""What `fs_create_file` does."""

from __future__ import annotations

from pathlib import PurePosixPath

from midturn.core.question import Question
from midturn.tools.context import ToolContext
from midturn.tools.fs.asking import SHOWN, about_change, repeated
from midturn.tools.fs.beneath import Beneath
from midturn.tools.fs.diff import Change
from midturn.tools.fs.paths import check_name, relative, shown
from midturn.tools.fs.problems import Missing
from midturn.tools.fs.text import readable
from midturn.tools.fs.writing import create, read_to_change, replace
from midturn.tools.returned import Rejected


def create_file(ctx: ToolContext, path: str, content: str) -> str | Question[bool]:
    """Create a file; ask where there is one."""
    target = relative(path, ctx.root)
    check_name(target)
    with Beneath(ctx.root) as beneath:
        return repeated(target, lambda: _create(beneath, target, content.encode(), ctx))


def _create(beneath: Beneath, target: PurePosixPath, content: bytes, ctx: ToolContext) -> str | Question[bool]:
    name = shown(str(target))
    try:
        old = read_to_change(beneath, target)
    except Missing:
        create(beneath, target, content)
        return f"{name} was created."
    if old == content:
        return f"{name} exists and has this content already."
    question = _overwriting(target, old, content, ctx)
    answer = SHOWN.answer(ctx, question)
    if answer is None:
        return question
    if not answer:
        raise Rejected(f"{name} exists and was not overwritten.")
    replace(beneath, target, content, old)
    return f"{name} was overwritten."


def _overwriting(target: PurePosixPath, old: bytes, content: bytes, ctx: ToolContext) -> Question[bool]:
    change = Change(str(target), readable(old), readable(content))
    return about_change("overwrite_file", f"Overwrite {shown(str(target))}?", change, ctx)


def foretold_overwriting(ctx: ToolContext, path: str, content: str) -> Question[bool] | None:
    """Return the question about a file that exists; a new one needs its permission only."""
    target = relative(path, ctx.root)
    check_name(target)
    with Beneath(ctx.root) as beneath:
        try:
            old = read_to_change(beneath, target)
        except Missing:
            return None
    return None if old == content.encode() else _overwriting(target, old, content.encode(), ctx)
