"""Picking one of up to 20 options, and marking several of them."""

from __future__ import annotations

from typing import cast

from midturn.core.prompt import Prompt
from midturn.core.question.answer_type import MultiSelectType
from midturn.prompts.choosing import bounds
from midturn.prompts.content import label, marked
from midturn.prompts.emptiness import Unchosen, Unmarked, unchosen, unmarked
from midturn.prompts.keys import Commands
from midturn.prompts.rich.face import Pressed
from midturn.prompts.rich.key import ENTER, Key
from midturn.prompts.rich.listing import Listing, chosen_values
from midturn.prompts.rich.options import KEYS, OptionMark, key_names

_MOVES = (
    "↑↓, j/k, Tab, PgUp/PgDn - move",
    "a letter - go to the next option that begins with it; where it is a key, with Shift",
)


class PickOne(Listing):
    """Exactly one: its key answers at once, Enter takes the highlighted one."""

    boxes = False

    def __init__(self, prompt: Prompt, tail: str, offered: Commands) -> None:
        super().__init__(prompt, tail, offered)
        self._unchosen = Unchosen(prompt)

    def press(self, key: Key) -> Pressed:
        """Take a key; whoever moves has chosen what Enter picks then."""
        before = self._at
        pressed = super().press(key)
        if self._at != before:
            self._unchosen.touched()
        return pressed

    def _pick(self) -> Pressed:
        below = self._below_at()
        if below is None:
            return self._answer(self._options[self._at].value)
        if below.key == "o" and self.other is not None:
            return self._answer({"other": self.other})
        return below

    def _other_key(self, key: str) -> Pressed:
        if key in ENTER and self._below_at() is None and self._unchosen.refuses():
            return self._complain(unchosen(label(self._options[self._at])))
        if key in ENTER:
            return self._pick()
        return self._complain(_no_option(key))

    def _hint(self) -> str:
        return f"{key_names(len(self._options))} or Enter picks"

    def _help_lines(self) -> list[str]:
        return [*_MOVES, "an option's key - pick it at once; Enter - pick the highlighted one; Esc - cancel menu"]


class MarkSeveral(Listing):
    """Any number: Space or an option's key toggles, Enter submits; words of the person's own may join them."""

    boxes = True

    def __init__(self, prompt: Prompt, tail: str, offered: Commands) -> None:
        super().__init__(prompt, tail, offered)
        self._chosen: set[int] = set(marked(prompt))
        self._bounds = bounds(cast("MultiSelectType", prompt.question.answer_type))
        self._unmarked = Unmarked(prompt)

    def _pick(self) -> Pressed:
        below = self._below_at()
        if below is not None:
            return below
        self._chosen ^= {self._at}
        return None

    def _other_key(self, key: str) -> Pressed:
        everything = set(range(len(self._options)))
        if key in ENTER:
            below = self._below_at()
            if below is not None and below.key == "-":
                return below
            values = chosen_values(self._prompt, self._chosen, self.other)
            if not values and self._unmarked.refuses():
                return self._complain(unmarked("Space"))
            return self._answer(values)
        if key in {" ", "c-space"}:
            return self._pick()
        if key == "c-a":
            self._chosen = set[int]() if self._chosen == everything else everything
            return None
        return self._complain(_no_option(key))

    def _mark(self, place: int) -> OptionMark:
        return OptionMark(KEYS[place], chosen=place in self._chosen)

    def _hint(self) -> str:
        limits = f" ({self._bounds})" if self._bounds else ""
        return f"{len(self._chosen) + (self.other is not None)} chosen{limits} · Space marks, Enter submits"

    def _help_lines(self) -> list[str]:
        return [
            *_MOVES,
            "Space or an option's key - mark it or not; Ctrl-A - all or none; Enter - submit; Esc - cancel menu",
        ]


def _no_option(key: str) -> str:
    return f"{key} is not an option; press ? for help" if len(key) == 1 else "that key does nothing here; press ? for help"
