"""Asking before a file is changed or lost: about exactly what is there, and anew when that changes under one's hands."""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import TypeVar

from midturn.core.question import Question
from midturn.tools.context import ToolContext
from midturn.tools.fs.diff import Change
from midturn.tools.fs.git import uncommitted
from midturn.tools.fs.paths import shown
from midturn.tools.fs.text import readable
from midturn.tools.fs.writing import Changed
from midturn.tools.returned import Rejected, keep

_ROOM = 15 * 1024  # bytes; the limit of a context is 16 KiB, and what was left out is said, too
_FENCE = re.compile(r"`{3,}")


def about_change(id: str, text: str, change: Change, context: ToolContext, *, default: bool | None = None) -> Question[bool]:
    """Ask a yes/no question about a change to a file: its context is the unified diff, or its size where one side is not text."""
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


_CALLS = 1_000


class LastShown:
    """Remembers, for each call of this process, the last question that was shown under an id.

    The file tools return a question and are run again with its answer. By then the file may have changed, and so may the question: the
    answer is then none to it. After a restart the call runs from its beginning, so that nothing need be kept longer.
    """

    def __init__(self) -> None:
        self._questions: OrderedDict[tuple[str, str], bytes] = OrderedDict()

    def answer(self, context: ToolContext, question: Question[bool]) -> bool | None:
        """Return the answer to this very question; None means that it must be asked (and is from now on what was shown)."""
        key = (context.idempotency_key, question.id)
        digest = hashlib.sha256(question.persisted().key).digest()
        if question.id in context.answers and self._questions.get(key) == digest:
            return context.answers[question.id] is True
        self._questions[key] = digest
        self._questions.move_to_end(key)
        if len(self._questions) > _CALLS:
            self._questions.popitem(last=False)
        return None


SHOWN = LastShown()


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


T = TypeVar("T")
_TRIES = 5


def repeated(path: PurePosixPath, attempt: Callable[[], T]) -> T:
    """Return what an attempt returns; one that finds the file changed is repeated, and then asks about the new content.

    Raises:
        Rejected: The file changes every time.
    """
    for _ in range(_TRIES):
        try:
            return attempt()
        except Changed:
            continue
    raise Rejected(f"{shown(str(path))} is being changed by somebody else; nothing was done.")
