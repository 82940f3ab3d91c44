"""Which options typed words find, and where in their labels: as they are, or else letter by letter."""

from __future__ import annotations

from msgspec import Struct

from midturn.core.question.answer_type import SelectOption, folded
from midturn.prompts.content import description, label


class Hit(Struct, frozen=True):
    """An option that was found, and which characters of its label were."""

    place: int
    letters: frozenset[int] = frozenset()


class Finder:
    """Options, folded once: `MAIN` finds `main`, and where nothing has `mn` in it, `mn` finds it, too."""

    def __init__(self, options: tuple[SelectOption, ...]) -> None:
        self._labels = [label(option) for option in options]
        self._folded = [_by_letter(text) for text in self._labels]
        self._meanings = [folded(description(option)) for option in options]

    def find(self, words: str) -> list[Hit]:
        """Return what has all words in its label or description; if nothing has, what has the letters of each, in order, in its label."""
        wanted = folded(words).split()
        places = range(len(self._labels))
        exact = [hit for place in places if (hit := self._exactly(place, wanted)) is not None]
        return exact or [hit for place in places if (hit := self._loosely(place, wanted)) is not None]

    def _exactly(self, place: int, wanted: list[str]) -> Hit | None:
        text, origin = self._folded[place]
        letters: set[int] = set()
        for word in wanted:
            at = text.find(word)
            if at >= 0:
                letters.update(origin[at : at + len(word)])
            elif word not in self._meanings[place]:
                return None
        return Hit(place, frozenset(letters))

    def _loosely(self, place: int, wanted: list[str]) -> Hit | None:
        text, origin = self._folded[place]
        letters: set[int] = set()
        for word in wanted:
            at = -1
            for letter in word:
                at = text.find(letter, at + 1)
                if at < 0:
                    return None
                letters.add(origin[at])
        return Hit(place, frozenset(letters))


def _by_letter(text: str) -> tuple[str, list[int]]:
    """Fold a label letter by letter; return where each folded letter came from, too."""
    parts = [" " if letter == " " else folded(letter) for letter in text]
    return "".join(parts), [place for place, part in enumerate(parts) for _ in part]
