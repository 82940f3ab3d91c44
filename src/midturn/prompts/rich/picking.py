"""Picking one of up to 20 options, and marking several of them."""

from __future__ import annotations

from midturn.core.prompt import Prompt
from midturn.prompts.command import Commands
from midturn.prompts.content import first_other, marked
from midturn.prompts.rich.face import Outcome
from midturn.prompts.rich.key import ENTER
from midturn.prompts.rich.listing import Listing, chosen_values, other_rows
from midturn.prompts.rich.options import KEYS, Mark, key_names
from midturn.prompts.rich.screen import Row, Size

_DIRECT = frozenset("o-v?")
"""The keys that a list to mark several in takes itself; those that leave it stand in its menu."""


class PickOne(Listing):
    """Exactly one: its key answers at once, Enter takes the highlighted one."""

    def _pick(self) -> Outcome:
        return self._answer(self._options[self._at].value)

    def _other_key(self, key: str) -> Outcome:
        if key in ENTER:
            return self._pick()
        return self._complain(_no_option(key))

    def _hint(self) -> str:
        return f"[{','.join((key_names(len(self._options)), *(command.key for command in self._offered)))}] Enter picks"

    def _help_lines(self) -> list[str]:
        return [
            "↑↓, j/k, Tab, PgUp/PgDn - move",
            "an option's key - pick it at once; Enter - pick the highlighted one; Esc - cancel menu",
        ]


class MarkSeveral(Listing):
    """Any number: Space or an option's key toggles, Enter submits; words of the person's own may join them."""

    def __init__(self, prompt: Prompt, tail: str, offered: Commands) -> None:
        super().__init__(prompt, tail, tuple(command for command in offered if command.key in _DIRECT))
        self._chosen: set[int] = set(marked(prompt))
        self.other = first_other(prompt)

    def _pick(self) -> Outcome:
        self._chosen ^= {self._at}
        return None

    def _other_key(self, key: str) -> Outcome:
        everything = set(range(len(self._options)))
        if key in ENTER:
            return self._answer(chosen_values(self._prompt, self._chosen, self.other))
        if key in {" ", "c-space"}:
            return self._pick()
        if key == "c-a":
            self._chosen = set[int]() if self._chosen == everything else everything
            return None
        return self._complain(_no_option(key))

    def _mark(self, place: int) -> Mark:
        return Mark(KEYS[place], chosen=place in self._chosen)

    def _extra(self, size: Size) -> list[Row]:
        return other_rows(self.other, size)

    def _hint(self) -> str:
        keys = ",".join((key_names(len(self._options)), *(command.key for command in self._offered)))
        return f"{len(self._chosen) + (self.other is not None)} chosen · [{keys}] Space toggles, Enter submits, Esc cancels"

    def _help_lines(self) -> list[str]:
        return [
            "↑↓, j/k, Tab, PgUp/PgDn - move",
            "Space or an option's key - mark it or not; Ctrl-A - all or none; Enter - submit; Esc - cancel menu",
        ]


def _no_option(key: str) -> str:
    return f"{key} is not an option; press ? for help" if len(key) == 1 else "that key does nothing here; press ? for help"
