"""A list of options in pages of 20, with a filter; the numbers stay what they are."""

from __future__ import annotations

from midturn.core.question.answer_type import MultiSelectType, SelectType
from midturn.prompts.cells import hang
from midturn.prompts.content import description, label, one_line
from midturn.prompts.finding import Finder
from midturn.prompts.keys import OTHER

PAGE = 20


class PrintedOptions:
    """Which options have been printed, and which come next; `other` are the words of the person's own that are chosen."""

    def __init__(self, answer_type: SelectType | MultiSelectType, width: int, other: str | None = None) -> None:
        self.options = answer_type.options
        self.other = other
        self._allows_other = answer_type.allow_other
        self._width = width
        self._places = list(range(len(self.options)))
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
        return [*(row for place in places for row in self._rows(place, marks)), *self._own_words(marks), *more]

    def filter(self, words: str, marks: frozenset[int] | None = None) -> list[str]:
        """Keep the options that have all words; none brings all of them back."""
        found = [hit.place for hit in Finder(self.options).find(words)]
        self._places, self._next = found, 0
        return [f"  {len(found)} match", *self.page(marks)]

    def again(self, marks: frozenset[int] | None = None) -> list[str]:
        """Return the first page of all options."""
        self._places, self._next = list(range(len(self.options))), 0
        return self.page(marks)

    def _own_words(self, marks: frozenset[int] | None) -> list[str]:
        """Return the row for words of the person's own: below the options, with the words that there are."""
        if not self._allows_other:
            return []
        box = "" if marks is None else "[ ] " if self.other is None else "[x] "
        text = OTHER.help if self.other is None else one_line(self.other)
        return hang(f"  {OTHER.key}. {box}{text}", self._width, "     ")

    def _rows(self, place: int, marks: frozenset[int] | None) -> list[str]:
        option = self.options[place]
        box = "" if marks is None else "[x] " if place in marks else "[ ] "
        meaning = description(option)
        return hang(f"  {place + 1}. {box}{label(option)}{f' - {meaning}' if meaning else ''}", self._width, "     ")
