"""Unified diffs for people to review."""

from __future__ import annotations

import difflib
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct

from midturn.question.text import exact

_CONTEXT_LINES = 3  # unchanged lines shown around a change
# maximum number of old or new lines in a part whose repeated lines are matched; in a larger part,
# all old lines are replaced by the new ones
_MAX_MATCHED_LINES = 2_000
# lower limit for `_MAX_SEARCHED_CHANGES`, which is halved for each part that exceeds it
_MIN_SEARCHED_CHANGES = 50
# maximum number of changed lines for which the shortest diff is computed; for larger changes, unique
# lines are matched first
_MAX_SEARCHED_CHANGES = 600
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


class Change(Struct, frozen=True):
    """A change of a file. `old` is None for a new file, `new` is None for a deleted file."""

    path: str
    old: str | None
    new: str | None

    def diff(self) -> str:
        """Return the unified diff with headers, or an empty string if nothing changes."""
        old, new = _lines(self.old), _lines(self.new)
        hunks = [line for group in _grouped(_edits(old, new)) for line in _hunk(group, old, new)]
        if not hunks:
            return ""
        before = "/dev/null" if self.old is None else f"a/{self.path}"
        after = "/dev/null" if self.new is None else f"b/{self.path}"
        return "".join([f"--- {before}\n", f"+++ {after}\n", *hunks])

    def hidden(self) -> int:
        """Count the added characters that are invisible or ambiguous. CRLF line ends do not
        count if the old file has them.
        """
        added = "".join(line for line in self.diff().split("\n")[2:] if line.startswith("+"))
        known = "\t⟨\r" if "\r\n" in (self.old or "") else "\t⟨"
        return sum(
            exact(f"a{character}") != f"a{character}"
            for character in added
            if character not in known
        )


class _Edit(Struct, frozen=True):
    """Lines `start` to `end` of the old file are replaced by lines `new_start` to `new_end` of
    the new file.
    """

    start: int
    end: int
    new_start: int
    new_end: int


def _lines(text: str | None) -> list[str]:
    """Split only at newlines, as patch programs do. A form feed or U+2028 does not end a line."""
    return _LINE.findall(text or "")


def _edits(old: Sequence[str], new: Sequence[str]) -> list[_Edit]:
    """Return the changes from old to new. The list is not always the shortest possible one."""
    numbers: dict[str, int] = {}
    before, after = (
        [numbers.setdefault(line, len(numbers)) for line in lines] for lines in (old, new)
    )
    found: list[_Edit] = []
    search_limit = _MAX_SEARCHED_CHANGES
    stack = [_Edit(0, len(before), 0, len(after))]
    while stack:  # the last part of the stack comes first in the file
        part = _between(before, after, stack.pop())
        if part.start == part.end or part.new_start == part.new_end:
            found += [part] if part.start < part.end or part.new_start < part.new_end else []
        elif shortest := _shortest(
            before[part.start : part.end], after[part.new_start : part.new_end], search_limit
        ):
            found += [
                _Edit(a + part.start, b + part.start, c + part.new_start, d + part.new_start)
                for a, b, c, d in shortest
            ]
        else:
            # limit the total time for a file with many rewritten parts
            search_limit = max(_MIN_SEARCHED_CHANGES, search_limit // 2)
            parts = _split(before, after, part)
            stack += reversed(parts)
            found += [] if parts else _matched(before, after, part)
    return _joined(found)


def _between(old: Sequence[int], new: Sequence[int], part: _Edit) -> _Edit:
    """Remove equal lines at both ends, so that a small change in a large file is found quickly."""
    room = min(part.end - part.start, part.new_end - part.new_start)
    head = next(
        (at for at in range(room) if old[part.start + at] != new[part.new_start + at]), room
    )
    tail = next(
        (at for at in range(room - head) if old[part.end - 1 - at] != new[part.new_end - 1 - at]),
        room - head,
    )
    return _Edit(part.start + head, part.end - tail, part.new_start + head, part.new_end - tail)


def _shortest(
    old: Sequence[int], new: Sequence[int], search_limit: int
) -> list[tuple[int, int, int, int]]:
    """Return the shortest list of changes (Myers' algorithm), or an empty list if it has more than
    `search_limit` lines.

    Each change is (start, end, new start, new end).
    """
    furthest = {1: 0}
    rounds: list[dict[int, int]] = []
    for changed in range(min(len(old) + len(new), search_limit) + 1):
        rounds.append(furthest.copy())
        for diagonal in range(-changed, changed + 1, 2):
            is_insertion = diagonal == -changed or (
                diagonal != changed and furthest[diagonal - 1] < furthest[diagonal + 1]
            )
            x = furthest[diagonal + 1] if is_insertion else furthest[diagonal - 1] + 1
            while x < len(old) and 0 <= x - diagonal < len(new) and old[x] == new[x - diagonal]:
                x += 1
            furthest[diagonal] = x
            if x >= len(old) and x - diagonal >= len(new):
                return _walked_back(rounds, len(old), len(new))
    return []


def _walked_back(
    rounds: Sequence[dict[int, int]], x: int, y: int
) -> list[tuple[int, int, int, int]]:
    """Return the changes found by the search, in file order. Each change removes or adds one line."""
    steps: list[tuple[int, int, int, int]] = []
    for changed in range(len(rounds) - 1, 0, -1):
        furthest, diagonal = rounds[changed], x - y
        is_insertion = diagonal == -changed or (
            diagonal != changed and furthest[diagonal - 1] < furthest[diagonal + 1]
        )
        before = diagonal + 1 if is_insertion else diagonal - 1
        x = furthest[before]
        y = x - before
        steps.append((x, x, y, y + 1) if is_insertion else (x, x + 1, y, y))
    return steps[::-1]


def _split(old: Sequence[int], new: Sequence[int], part: _Edit) -> list[_Edit]:
    """Split at lines that are unique in both files and have the same order in both. Empty if there
    are none.
    """
    places = _once(old, part.start, part.end)
    others = _once(new, part.new_start, part.new_end)
    anchors = _rising([(at, places[line]) for line, at in others.items() if line in places])
    parts: list[_Edit] = []
    start, new_start = part.start, part.new_start
    for new_at, at in anchors:
        parts.append(_Edit(start, at, new_start, new_at))
        start, new_start = at + 1, new_at + 1
    return [*parts, _Edit(start, part.end, new_start, part.new_end)] if anchors else []


def _matched(old: Sequence[int], new: Sequence[int], part: _Edit) -> list[_Edit]:
    """Match repeated lines. If there are too many, replace all old lines by the new ones."""
    if max(part.end - part.start, part.new_end - part.new_start) > _MAX_MATCHED_LINES:
        return [part]
    matcher = difflib.SequenceMatcher(
        None, old[part.start : part.end], new[part.new_start : part.new_end]
    )
    found = [(a, b, c, d) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal"]
    return [
        _Edit(a + part.start, b + part.start, c + part.new_start, d + part.new_start)
        for a, b, c, d in found
    ]


def _once(lines: Sequence[int], start: int, end: int) -> dict[int, int]:
    """Return the index of each unique line, in order."""
    counted = Counter(lines[start:end])
    return {lines[at]: at for at in range(start, end) if counted[lines[at]] == 1}


def _rising(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest subsequence of `pairs`, sorted by first number, whose second numbers
    increase.
    """
    ends: list[int] = []
    at_end: list[int] = []
    before: list[int] = []
    for place, (_, second) in enumerate(pairs):
        at = bisect_left(ends, second)
        before.append(at_end[at - 1] if at else -1)
        ends[at : at + 1] = [second]
        at_end[at : at + 1] = [place]
    run: list[tuple[int, int]] = []
    place = at_end[-1] if at_end else -1
    while place >= 0:
        run.append(pairs[place])
        place = before[place]
    return run[::-1]


def _joined(edits: Sequence[_Edit]) -> list[_Edit]:
    """Merge adjacent edits."""
    joined: list[_Edit] = []
    for edit in edits:
        if joined and (joined[-1].end, joined[-1].new_end) == (edit.start, edit.new_start):
            joined[-1] = _Edit(joined[-1].start, edit.end, joined[-1].new_start, edit.new_end)
        else:
            joined.append(edit)
    return joined


def _grouped(edits: Sequence[_Edit]) -> Iterator[list[_Edit]]:
    """Group the edits of one hunk: edits whose context lines touch or overlap."""
    group: list[_Edit] = []
    for edit in edits:
        if group and edit.start - group[-1].end > 2 * _CONTEXT_LINES:
            yield group
            group = []
        group.append(edit)
    if group:
        yield group


def _hunk(group: Sequence[_Edit], old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    first, last = group[0], group[-1]
    above = min(first.start, _CONTEXT_LINES)
    start, end = first.start - above, min(last.end + _CONTEXT_LINES, len(old))
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
    """Format a range for a hunk header. Lines are numbered from 1, and a length of 1 is omitted.
    An empty range has the number of the line before it.
    """
    length = end - start
    return str(start + 1) if length == 1 else f"{start + 1 if length else start},{length}"


def _marked(mark: str, lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        yield (
            mark + line if line.endswith("\n") else f"{mark}{line}\n\\ No newline at end of file\n"
        )
