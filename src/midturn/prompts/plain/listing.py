"""A list of options in pages of 20, with a filter; the numbers stay what they are."""

from __future__ import annotations

from midturn.core.question.answer_type import SelectOption
from midturn.prompts.cells import hang
from midturn.prompts.content import description, label
from midturn.prompts.finding import Finder

PAGE = 20


class PrintedOptions:
    """Which options have been printed, and which come next."""

    def __init__(self, options: tuple[SelectOption, ...], width: int) -> None:
        self.options = options
        self._width = width
        self._places = list(range(len(options)))
        self._next = 0

    @property
    def pages(self) -> bool:
        """Whether there are more options than one page holds."""
        return len(self.options) > PAGE

    def page(self, marks: frozenset[int] | None = None) -> list[str]:
        """Return the next page, from the beginning again after the last; `marks` draws boxes."""
        start = self._next if self._next < len(self._places) else 0
        places = self._places[start : start + PAGE]
        self._next = start + PAGE
        rest = max(0, len(self._places) - self._next)
        more = [f"  ({rest} more: press m; filter with /text)"] if rest else []
        return [*(row for place in places for row in self._rows(place, marks)), *more]

    def filter(self, words: str, marks: frozenset[int] | None = None) -> list[str]:
        """Keep the options that have all words; none brings all of them back."""
        found = [hit.place for hit in Finder(self.options).find(words)]
        self._places, self._next = found, 0
        return [f"  {len(found)} match", *self.page(marks)]

    def again(self, marks: frozenset[int] | None = None) -> list[str]:
        """Return the first page of all options."""
        self._places, self._next = list(range(len(self.options))), 0
        return self.page(marks)

    def _rows(self, place: int, marks: frozenset[int] | None) -> list[str]:
        option = self.options[place]
        box = "" if marks is None else "[x] " if place in marks else "[ ] "
        meaning = description(option)
        return hang(f"  {place + 1}. {box}{label(option)}{f' - {meaning}' if meaning else ''}", self._width, "     ")
