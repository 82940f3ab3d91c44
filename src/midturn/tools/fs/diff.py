"""Unified diffs for people to judge."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from midturn.values.text import exact

_AROUND = 3  # unchanged lines around a change
_COMPARED = 2_000  # changed lines on either side up to which lines are matched; beyond, the old ones go and the new ones come
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


class Change(Struct, frozen=True):
    """A change of a file, before and after: None is no file."""

    path: str
    old: str | None
    new: str | None

    def diff(self) -> str:
        """Return the unified diff, headers included; empty when nothing changes."""
        old, new = _lines(self.old), _lines(self.new)
        hunks = [line for group in _grouped(_edits(old, new)) for line in _hunk(group, old, new)]
        if not hunks:
            return ""
        before = "/dev/null" if self.old is None else f"a/{self.path}"
        after = "/dev/null" if self.new is None else f"b/{self.path}"
        return "".join([f"--- {before}\n", f"+++ {after}\n", *hunks])

    def hidden(self) -> int:
        """Count the characters in what is added that are invisible or look like others; line ends of a kind that was there are none."""
        added = "".join(line for line in self.diff().split("\n")[2:] if line.startswith("+"))
        known = "\t⟨\r" if "\r\n" in (self.old or "") else "\t⟨"
        return sum(exact(f"a{character}") != f"a{character}" for character in added if character not in known)


class _Edit(Struct, frozen=True):
    """Lines `start` to `end` of the old file become lines `new_start` to `new_end` of the new one."""

    start: int
    end: int
    new_start: int
    new_end: int


def _lines(text: str | None) -> list[str]:
    """Split at newlines only, as every patch program does: a form feed or U+2028 is part of its line."""
    return _LINE.findall(text or "")


def _edits(old: Sequence[str], new: Sequence[str]) -> list[_Edit]:
    """List what differs. What is equal at both ends is set aside first: a small change in a large file is cheap."""
    shortest = min(len(old), len(new))
    head = next((at for at in range(shortest) if old[at] != new[at]), shortest)
    tail = next((at for at in range(shortest - head) if old[-1 - at] != new[-1 - at]), shortest - head)
    whole = _Edit(head, len(old) - tail, head, len(new) - tail)
    if max(whole.end - head, whole.new_end - head) > _COMPARED:
        return [whole]
    matcher = difflib.SequenceMatcher(None, old[head : whole.end], new[head : whole.new_end])
    return [_Edit(a + head, b + head, c + head, d + head) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal"]


def _grouped(edits: Sequence[_Edit]) -> Iterator[list[_Edit]]:
    """Put edits into one hunk whose surroundings meet."""
    group: list[_Edit] = []
    for edit in edits:
        if group and edit.start - group[-1].end > 2 * _AROUND:
            yield group
            group = []
        group.append(edit)
    if group:
        yield group


def _hunk(group: Sequence[_Edit], old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    first, last = group[0], group[-1]
    above = min(first.start, _AROUND)
    start, end = first.start - above, min(last.end + _AROUND, len(old))
    new_start, new_end = first.new_start - above, last.new_end + (end - last.end)
    yield f"@@ -{_range(start, end)} +{_range(new_start, new_end)} @@\n"
    at = start
    for edit in group:
        yield from _marked(" ", old[at : edit.start])
        yield from _marked("-", old[edit.start : edit.end])
        yield from _marked("+", new[edit.new_start : edit.new_end])
        at = edit.end
    yield from _marked(" ", old[at:end])


def _range(start: int, end: int) -> str:
    """Write a range as patch programs do: counted from 1, the length left out where it is 1, an empty one named by the line before."""
    length = end - start
    return str(start + 1) if length == 1 else f"{start + 1 if length else start},{length}"


def _marked(mark: str, lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield mark + line if line.endswith("\n") else f"{mark}{line}\n\\ No newline at end of file\n"
