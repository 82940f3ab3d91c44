"""Unified diffs for people to judge."""

from __future__ import annotations

import difflib
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct

from midturn.question.text import exact

_AROUND = 3  # unchanged lines around a change
_COMPARED = 2_000  # lines on either side up to which those are matched that are there several times; beyond, the old go and the new come
_TRIED_AT_LEAST = 50
_TRIED = 600  # changed lines up to which the shortest way is looked for; of more, lines that are there once show the way
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
    """List what differs, as little as can be found."""
    numbers: dict[str, int] = {}
    before, after = ([numbers.setdefault(line, len(numbers)) for line in lines] for lines in (old, new))
    found: list[_Edit] = []
    tries = _TRIED
    left = [_Edit(0, len(before), 0, len(after))]
    while left:  # the last one is the first in the file
        part = _between(before, after, left.pop())
        if part.start == part.end or part.new_start == part.new_end:
            found += [part] if part.start < part.end or part.new_start < part.new_end else []
        elif shortest := _shortest(before[part.start : part.end], after[part.new_start : part.new_end], tries):
            found += [_Edit(a + part.start, b + part.start, c + part.new_start, d + part.new_start) for a, b, c, d in shortest]
        else:
            tries = max(_TRIED_AT_LEAST, tries // 2)  # what was rewritten takes no more time than what was changed
            parts = _split(before, after, part)
            left += reversed(parts)
            found += [] if parts else _matched(before, after, part)
    return _joined(found)


def _between(old: Sequence[int], new: Sequence[int], part: _Edit) -> _Edit:
    """Set aside what is equal at both ends: a small change in a large file is cheap."""
    room = min(part.end - part.start, part.new_end - part.new_start)
    head = next((at for at in range(room) if old[part.start + at] != new[part.new_start + at]), room)
    tail = next((at for at in range(room - head) if old[part.end - 1 - at] != new[part.new_end - 1 - at]), room - head)
    return _Edit(part.start + head, part.end - tail, part.new_start + head, part.new_end - tail)


def _shortest(old: Sequence[int], new: Sequence[int], tries: int) -> list[tuple[int, int, int, int]]:
    """Find the fewest lines that go and come (Myers' search); nothing where there are more than `tries` of them.

    Returns (start, end, new start, new end) of each place that differs.
    """
    furthest = {1: 0}
    rounds: list[dict[int, int]] = []
    for changed in range(min(len(old) + len(new), tries) + 1):
        rounds.append(furthest.copy())
        for diagonal in range(-changed, changed + 1, 2):
            comes = diagonal == -changed or (diagonal != changed and furthest[diagonal - 1] < furthest[diagonal + 1])
            x = furthest[diagonal + 1] if comes else furthest[diagonal - 1] + 1
            while x < len(old) and 0 <= x - diagonal < len(new) and old[x] == new[x - diagonal]:
                x += 1
            furthest[diagonal] = x
            if x >= len(old) and x - diagonal >= len(new):
                return _walked_back(rounds, len(old), len(new))
    return []


def _walked_back(rounds: Sequence[dict[int, int]], x: int, y: int) -> list[tuple[int, int, int, int]]:
    """Return the steps that led to the end, in order: each takes a line away, or brings one."""
    steps: list[tuple[int, int, int, int]] = []
    for changed in range(len(rounds) - 1, 0, -1):
        furthest, diagonal = rounds[changed], x - y
        comes = diagonal == -changed or (diagonal != changed and furthest[diagonal - 1] < furthest[diagonal + 1])
        before = diagonal + 1 if comes else diagonal - 1
        x = furthest[before]
        y = x - before
        steps.append((x, x, y, y + 1) if comes else (x, x + 1, y, y))
    return steps[::-1]


def _split(old: Sequence[int], new: Sequence[int], part: _Edit) -> list[_Edit]:
    """Split at lines that are there once on either side, in the same order; nothing where there is none."""
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
    """Match lines of which each is there several times; of very many, the old ones go and the new ones come."""
    if max(part.end - part.start, part.new_end - part.new_start) > _COMPARED:
        return [part]
    matcher = difflib.SequenceMatcher(None, old[part.start : part.end], new[part.new_start : part.new_end])
    found = [(a, b, c, d) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal"]
    return [_Edit(a + part.start, b + part.start, c + part.new_start, d + part.new_start) for a, b, c, d in found]


def _once(lines: Sequence[int], start: int, end: int) -> dict[int, int]:
    """Return where the lines stand that are there once, in order."""
    counted = Counter(lines[start:end])
    return {lines[at]: at for at in range(start, end) if counted[lines[at]] == 1}


def _rising(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the longest run of pairs, which are sorted by the first number, whose second numbers rise, too."""
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
    """Join edits with nothing in between."""
    joined: list[_Edit] = []
    for edit in edits:
        if joined and (joined[-1].end, joined[-1].new_end) == (edit.start, edit.new_start):
            joined[-1] = _Edit(joined[-1].start, edit.end, joined[-1].new_start, edit.new_end)
        else:
            joined.append(edit)
    return joined


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
