"""Asking before uncommitted changes of a file are lost or moved."""

from __future__ import annotations

from pathlib import PurePosixPath

from midturn.core.question import Question
from midturn.tools.context import ToolContext
from midturn.tools.fs.diff import Change
from midturn.tools.fs.git import uncommitted
from midturn.tools.fs.question import about_change
from midturn.tools.fs.shown import SHOWN
from midturn.tools.fs.text import readable


def agreed(path: PurePosixPath, content: bytes, text: str, ctx: ToolContext) -> bool | Question[bool]:
    """Say whether to go on with a file: without a question where git has its content, else by the answer to `confirm`.

    Returns the question where it is still to be asked; its context is what git does not have.
    """
    committed = uncommitted(ctx.root, path, content)
    if committed is None:
        return True
    before = None if committed.content is None else readable(committed.content)
    question = about_change("confirm", text, Change(str(path), before, readable(content)), ctx)
    answer = SHOWN.answer(ctx, question)
    return question if answer is None else answer
