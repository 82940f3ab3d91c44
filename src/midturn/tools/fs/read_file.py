"""What `fs_read_file` does."""

from __future__ import annotations

import os
from base64 import b64encode

from midturn.core.image import LARGEST as LARGEST_PICTURE, Image, media_type_of
from midturn.core.outcome import Success
from midturn.tools.context import ToolContext
from midturn.tools.fs.beneath import LARGEST, Beneath
from midturn.tools.fs.large import LargeFile
from midturn.tools.fs.paths import relative, shown
from midturn.tools.fs.text import lines_of, text_of
from midturn.tools.returned import Rejected

_MOST = 200 * 1024  # characters, below what a tool's result may have


def read_file(ctx: ToolContext, path: str, start_line: int | None, end_line: int | None) -> str | Success:
    """Read a file, or look at a picture."""
    with Beneath(ctx.root) as beneath, beneath.opened(relative(path, ctx.root)) as file:
        size = os.fstat(file.fileno()).st_size
        if size > LARGEST:
            return LargeFile(file, path, size).excerpt(start_line or 1, end_line)
        content = file.read(LARGEST)
    if media_type := media_type_of(content):
        return _picture(content, media_type, path)
    text = text_of(content, path).text
    if not text:
        return f"({shown(path)} is empty)"
    lines = lines_of(text)
    first, last = start_line or 1, min(end_line or len(lines), len(lines))
    if first > last:
        raise Rejected(f"{shown(path)} has {len(lines)} lines; `start_line` must not lie beyond them or after `end_line`.")
    return _excerpt(lines, first, last)


def _picture(content: bytes, media_type: str, path: str) -> Success:
    if len(content) > LARGEST_PICTURE:
        raise Rejected(
            f"{shown(path)} is a picture ({media_type}) of {len(content):,} bytes; it can be looked at up to {LARGEST_PICTURE:,}."
        )
    return Success(f"[{shown(path)}: {media_type}, {len(content):,} bytes]", (Image(media_type, b64encode(content).decode()),))


def _excerpt(lines: list[str], first: int, last: int) -> str:
    """Return lines as they are, as many as a result may hold, and say where to go on."""
    taken: list[str] = []
    room = _MOST
    for line in lines[first - 1 : last]:
        room -= len(line) + 1
        if room < 0:
            break
        taken.append(line)
    reached = first - 1 + len(taken)
    if reached == last:
        return "\n".join(taken)
    if not taken:
        return f"{lines[first - 1][:_MOST]}\n(line {first} has {len(lines[first - 1])} characters; its rest is not shown)"
    return "\n".join([*taken, f"(lines {first} to {reached} of {len(lines)}; go on with `start_line` {reached + 1})"])
