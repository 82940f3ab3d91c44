"""File tools that change files. A question shows a change to the exact current content. If the file
changes in the meantime, the tool asks again.
"""

from __future__ import annotations

import hashlib
import re
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import PurePosixPath
from typing import TypeVar

from midturn.question.diff import Change
from midturn.question.question import Question
from midturn.tools.asking import ToolContext
from midturn.tools.fs.beneath import Beneath, uncommitted
from midturn.tools.fs.paths import Missing, Replacement, check_name, relative, shown
from midturn.tools.fs.reading import readable, text_of
from midturn.tools.fs.writing import (
    Changed,
    check_free,
    create,
    move,
    read_to_change,
    remove,
    replace,
)
from midturn.tools.returned import Rejected, keep

# maximum size of a diff in a question, in bytes. Below the 16 KiB limit of a context, to leave
# space for the note about omitted lines
_MAX_DIFF_BYTES = 15 * 1024
_FENCE = re.compile(r"`{3,}")


def about_change(
    id: str, text: str, change: Change, context: ToolContext, *, default: bool | None = None
) -> Question[bool]:
    """Return a yes/no question about a file change. The context shows the unified diff, or the
    sizes if one version is not text.
    """
    return Question.boolean(id, text, default=default, context=_fenced(change, context))


def _fenced(change: Change, context: ToolContext) -> str:
    diff = change.diff()
    body, note = _cut(diff, context)
    hidden = change.hidden()
    warning = f"\n\nWhat is added contains {hidden} invisible characters." if hidden else ""
    fence = "`" * max([3, *(len(run) + 1 for run in _FENCE.findall(body))])
    return f"{fence}diff\n{body}{fence}{note}{warning}"


def _cut(diff: str, context: ToolContext) -> tuple[str, str]:
    """Shorten a long diff at a line end. The note contains the number of omitted lines and the
    digest of the whole diff.
    """
    data = diff.encode("utf-8", "replace")
    if len(data) <= _MAX_DIFF_BYTES:
        return diff, ""
    body = data[:_MAX_DIFF_BYTES].decode(errors="ignore").rpartition("\n")[0] + "\n"
    missing = diff.count("\n") - body.count("\n")
    kept = keep(data, context.root)
    digest = hashlib.sha256(data).hexdigest()
    where = f"; the whole diff is in {kept}" if kept else ""
    return body, f"\n\n**{missing} more lines are not shown here**{where} (SHA-256 {digest})."


_MAX_REMEMBERED = 1_000


class LastShown:
    """Remembers the last question shown for each call and question id in this process.

    File tools return a question and run again with the answer. If the file changed, the question
    also changed, and the answer does not count for the new question. After a restart, a call runs
    from its start, so this data does not have to be stored.
    """

    def __init__(self) -> None:
        self._questions: OrderedDict[tuple[str, str], bytes] = OrderedDict()

    def answer(self, context: ToolContext, question: Question[bool]) -> bool | None:
        """Return the answer to this exact question. If there is no answer, return None and
        remember the question as shown.
        """
        key = (context.idempotency_key, question.id)
        digest = hashlib.sha256(question.persisted().key).digest()
        if question.id in context.answers and self._questions.get(key) == digest:
            return context.answers[question.id] is True
        self._questions[key] = digest
        self._questions.move_to_end(key)
        if len(self._questions) > _MAX_REMEMBERED:
            self._questions.popitem(last=False)
        return None


SHOWN = LastShown()


def agreed(
    path: PurePosixPath, content: bytes, text: str, ctx: ToolContext
) -> bool | Question[bool]:
    """Return whether to change or delete a file. If its content is committed in git, return True
    without asking. Otherwise, return the answer to the question `confirm`.

    If there is no answer yet, return the question. Its context shows the uncommitted changes.
    """
    committed = uncommitted(ctx.root, path, content)
    if committed is None:
        return True
    before = None if committed.content is None else readable(committed.content)
    question = about_change("confirm", text, Change(str(path), before, readable(content)), ctx)
    answer = SHOWN.answer(ctx, question)
    return question if answer is None else answer


T = TypeVar("T")
_MAX_ATTEMPTS = 5


def repeated(path: PurePosixPath, attempt: Callable[[], T]) -> T:
    """Run an attempt. If the file changed in the meantime, try again, so that the question shows
    the new content.

    Raises:
        Rejected: The file changed during every attempt.
    """
    for _ in range(_MAX_ATTEMPTS):
        try:
            return attempt()
        except Changed:
            continue
    raise Rejected(f"{shown(str(path))} is being changed by another process; nothing was done.")


# --------------------------------------------------------------------------------------------------
# `fs_create_file`


def create_file(ctx: ToolContext, path: str, content: str) -> str | Question[bool]:
    """Create a file. If it exists, ask before overwriting it."""
    target = relative(path, ctx.root)
    check_name(target)
    with Beneath(ctx.root) as beneath:
        return repeated(target, lambda: _create(beneath, target, content.encode(), ctx))


def _create(
    beneath: Beneath, target: PurePosixPath, content: bytes, ctx: ToolContext
) -> str | Question[bool]:
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


def _overwriting(
    target: PurePosixPath, old: bytes, content: bytes, ctx: ToolContext
) -> Question[bool]:
    change = Change(str(target), readable(old), readable(content))
    return about_change("overwrite_file", f"Overwrite {shown(str(target))}?", change, ctx)


def preview_overwriting(ctx: ToolContext, path: str, content: str) -> Question[bool] | None:
    """Preview the question about an existing file. A new file needs only the permission for the
    call.
    """
    target = relative(path, ctx.root)
    check_name(target)
    with Beneath(ctx.root) as beneath:
        try:
            old = read_to_change(beneath, target)
        except Missing:
            return None
    return None if old == content.encode() else _overwriting(target, old, content.encode(), ctx)


# --------------------------------------------------------------------------------------------------
# `fs_delete_file`


def delete_file(ctx: ToolContext, path: str) -> str | Question[bool]:
    """Delete a file. If changes would be lost, ask first."""
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


# --------------------------------------------------------------------------------------------------
# `fs_move_file`


def move_file(ctx: ToolContext, source: str, destination: str) -> str | Question[bool]:
    """Move a file. If the file has uncommitted changes, ask first."""
    source_path, destination_path = relative(source, ctx.root), relative(destination, ctx.root)
    names = shown(str(source_path)), shown(str(destination_path))
    with Beneath(ctx.root) as beneath:
        content = read_to_change(beneath, source_path)
        check_free(beneath, destination_path)
        answer = agreed(
            source_path, content, f"Move {names[0]} to {names[1]}? It has uncommitted changes.", ctx
        )
        if isinstance(answer, Question):
            return answer
        if not answer:
            raise Rejected(f"{names[0]} has uncommitted changes and was not moved.")
        move(beneath, source_path, destination_path)
    return f"{names[0]} was moved to {names[1]}."


# --------------------------------------------------------------------------------------------------
# Replacement of parts of a file


_MAX_LISTED = 5


def edited(text: str, edits: Sequence[Replacement]) -> str:
    """Apply all edits in order.

    Raises:
        Rejected: The `old` text of an edit does not occur, or occurs several times. No edits are
            applied.
    """
    for place, edit in enumerate(edits):
        text = _apply(text, _with_line_ends_of(text, edit), f"/edits/{place}/old")
    return text


def _apply(text: str, edit: Replacement, pointer: str) -> str:
    count = text.count(edit.old)
    if count == 0:
        raise Rejected(
            f"{pointer}: this text does not occur in the file.{_hint(text, edit.old)} No change was"
            " made."
        )
    if count > 1 and not edit.all:
        lines = _places(text, edit.old)
        raise Rejected(
            f"{pointer}: this text occurs {count} times (lines {lines}). Add surrounding lines, or"
            " set `all`. No change was made."
        )
    return text.replace(edit.old, edit.new)


def _with_line_ends_of(text: str, edit: Replacement) -> Replacement:
    """Return an edit with the line endings of the file, because models write LF even if the file
    uses CRLF.
    """
    if edit.old in text or "\r\n" not in text or "\r" in edit.old:
        return edit
    old, new = (piece.replace("\r\n", "\n").replace("\n", "\r\n") for piece in (edit.old, edit.new))
    return Replacement(old, new, edit.all)


def _places(text: str, old: str) -> str:
    at, lines = text.find(old), list[str]()
    while at >= 0 and len(lines) < _MAX_LISTED:
        lines.append(str(text.count("\n", 0, at) + 1))
        at = text.find(old, at + len(old))
    return ", ".join(lines) + (", …" if at >= 0 else "")


def _hint(text: str, old: str) -> str:
    """Return a hint with the line where the text occurs with different whitespace, or advice to
    read the file again.
    """
    wanted = [line.split() for line in old.strip().splitlines()]
    lines = [line.split() for line in text.split("\n")]
    for at in range(len(lines) - len(wanted) + 1):
        if wanted and lines[at : at + len(wanted)] == wanted:
            return f" It occurs with other white space at line {at + 1}."
    return " Read the file again: it may have changed."


# --------------------------------------------------------------------------------------------------
# `fs_modify_file`


REJECTED = (
    "The proposed file changes were reviewed and rejected. Changes were not applied. You may retry"
    " with different changes."
)


def modify_file(ctx: ToolContext, path: str, edits: Sequence[Replacement]) -> str | Question[bool]:
    """Change a file if a person approves the change."""
    target = relative(path, ctx.root)
    with Beneath(ctx.root) as beneath:
        return repeated(target, lambda: _modify(beneath, target, edits, ctx))


def _modify(
    beneath: Beneath, target: PurePosixPath, edits: Sequence[Replacement], ctx: ToolContext
) -> str | Question[bool]:
    name = shown(str(target))
    content = read_to_change(beneath, target)
    old = text_of(content, str(target))
    new = edited(old.text, edits)
    if new == old.text:
        raise Rejected(f"The edits leave {name} as it is.")
    change = Change(str(target), old.text, new)
    question = about_change(
        "apply_changes", f"Apply the changes to {name}?", change, ctx, default=True
    )
    answer = SHOWN.answer(ctx, question)
    if answer is None:
        return question
    if not answer:
        raise Rejected(REJECTED)
    replace(beneath, target, old.encoded(new), content)
    return f"{name} was changed."
