"""The questions of the file tools."""

from __future__ import annotations

import hashlib
import re

from midturn.core.question import Question
from midturn.tools.context import ToolContext
from midturn.tools.fs.diff import Change
from midturn.tools.output import keep

_ROOM = 15 * 1024  # bytes; the limit of a context is 16 KiB, and what was left out is said, too
_FENCE = re.compile(r"`{3,}")


def about_change(id: str, text: str, change: Change, context: ToolContext, *, default: bool | None = None) -> Question[bool]:
    """Ask a yes/no question about a change to a file: its context is the unified diff, or its size where one side is no text."""
    return Question.boolean(id, text, default=default, context=_fenced(change, context))


def _fenced(change: Change, context: ToolContext) -> str:
    diff = change.diff()
    body, note = _cut(diff, context)
    hidden = change.hidden()
    warning = f"\n\nWhat is added contains {hidden} invisible characters." if hidden else ""
    fence = "`" * max([3, *(len(run) + 1 for run in _FENCE.findall(body))])
    return f"{fence}diff\n{body}{fence}{note}{warning}"


def _cut(diff: str, context: ToolContext) -> tuple[str, str]:
    """Cut a long diff between two lines; say how much is missing and bind the answer to the whole of it."""
    data = diff.encode("utf-8", "replace")
    if len(data) <= _ROOM:
        return diff, ""
    body = data[:_ROOM].decode(errors="ignore").rpartition("\n")[0] + "\n"
    missing = diff.count("\n") - body.count("\n")
    kept = keep(data, context.root)
    digest = hashlib.sha256(data).hexdigest()
    where = f"; the whole diff is in {kept}" if kept else ""
    return body, f"\n\n**{missing} more lines are not shown here**{where} (SHA-256 {digest})."
