"""Where long paragraphs were cut, so that their first rows could be shown before their last words were written."""

from __future__ import annotations

from collections.abc import Container, Sequence

from midturn.prompts.cells import cut_ranges
from midturn.terminal.markdown.blocks import Paragraph
from midturn.terminal.markdown.ink import wrapped
from midturn.terminal.markdown.inline import is_whole, styled

_SPACES = " \t\n"
_LONGEST = 2_000  # characters after which a paragraph is cut even in the middle of something
_CANDIDATES = 60  # spaces at which a cut is tried


class Seams:
    """The cuts by the line on which a paragraph begins: where each piece ends, and where the next begins."""

    def __init__(self) -> None:
        self._cuts: dict[int, list[tuple[int, int]]] = {}

    @property
    def lines(self) -> Container[int]:
        """The lines on which a paragraph begins that was cut."""
        return self._cuts.keys()

    def pieces(self, line: int, content: str) -> list[str]:
        """Return the pieces of a paragraph; the last one still grows."""
        found: list[str] = []
        begin = 0
        for end, following in self._cuts.get(line, ()):
            found.append(content[begin:end])
            begin = following
        return [*found, content[begin:]]

    def cut(self, paragraph: Paragraph, width: int, *, overdue: bool) -> bool:
        """Cut off the rows that are full and that nothing can change any more; when overdue, whatever is open in them."""
        line, content = paragraph.lines[0], paragraph.content
        cuts = self._cuts.get(line, [])
        begin = cuts[-1][1] if cuts else 0
        found = _full_rows(content[begin:], width, overdue=overdue)
        if found is None:
            return False
        end, following = found
        self._cuts[line] = [*cuts, (begin + end, begin + following)]
        return True

    def moved(self, lines: int) -> Seams:
        """Return what is left when the first `lines` lines are gone."""
        left = Seams()
        left._cuts = {line - lines: cuts for line, cuts in self._cuts.items() if line >= lines}
        return left


def _full_rows(content: str, width: int, *, overdue: bool) -> tuple[int, int] | None:
    """Return where the last full row ends, and where the row that still grows begins."""
    anyhow = overdue or len(content) > _LONGEST
    spaces = [place for place, character in enumerate(content) if character in _SPACES][-_CANDIDATES:]
    whole = next((place for place in reversed(spaces) if anyhow or is_whole(content[:place])), None)
    if whole is None:
        return _forced(content, width) if len(content) > _LONGEST else None
    rows = _plain_rows(content[:whole], width)
    for place in reversed(spaces[: spaces.index(whole)]) if len(rows) > 1 else ():
        if anyhow or is_whole(content[:place]):
            before = _plain_rows(content[:place], width)
            if len(before) < len(rows) and before == rows[: len(before)]:
                return place, len(content) - len(content[place:].lstrip(_SPACES))
    return None


def _plain_rows(content: str, width: int) -> Sequence[str]:
    return [row.plain for row in wrapped(styled(content), width)]


def _forced(content: str, width: int) -> tuple[int, int]:
    *_, (last, _) = cut_ranges(content, width)
    return last, last
