"""Up to 20 options: a key picks or toggles at once, arrows move."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import cast

from midturn.core.json_value import Json
from midturn.core.prompt import Prompt
from midturn.core.question.answer_type import MultiSelectType, SelectType
from midturn.core.reply import Answered
from midturn.prompts.accept import NotAccepted, accept
from midturn.prompts.answer_text import choice_text
from midturn.prompts.cells import hang, wrap
from midturn.prompts.command import Commands, Step, find
from midturn.prompts.content import marked
from midturn.prompts.rich.choice import help_rows
from midturn.prompts.rich.face import Outcome, Sign
from midturn.prompts.rich.key import Key, Paste
from midturn.prompts.rich.options import KEYS, Mark, Options
from midturn.prompts.rich.screen import Frame, Row, Size, joined, row

_STEPS = {"up": -1, "k": -1, "c-p": -1, "s-tab": -1, "down": 1, "j": 1, "c-n": 1, "tab": 1}
_PAGE = 10


class Listing(ABC):
    """What a list to pick one from and a list to mark several in have in common."""

    submits = None
    empty = True

    def __init__(self, prompt: Prompt, tail: str, offered: Commands) -> None:
        self._prompt = prompt
        self._tail = tail
        self._offered = offered
        self._options = cast("SelectType | MultiSelectType", prompt.question.answer_type).options
        self._drawn = Options(self._options)
        self._at = min(marked(prompt), default=0)
        self._help = False
        self._message: list[str] = []

    def press(self, key: Key) -> Outcome:  # noqa: PLR0911 (one for each thing that a key may do)
        """Move, pick, toggle, or do what a key says."""
        self._message = []
        if isinstance(key, Paste):
            return self._complain("a paste goes into a text only; press ? for help")
        if key.key == "escape":
            return Sign.MENU
        command = find(self._offered, key.key)
        if command is not None and command.does is Step.HELP:
            self._help = not self._help
            return None
        if command is not None:
            return command
        place = KEYS.find(key.character) if key.character else -1
        if 0 <= place < len(self._options):
            self._at = place
            return self._pick()
        if self._move(key.key):
            return None
        return self._other_key(key.key)

    def frame(self, size: Size) -> Frame:
        """Draw the question's last row, the options, the keys; the cursor stands on the highlighted option."""
        title = [row(text) for text in hang(self._tail, size.columns, "  ")]
        options: list[Row] = []
        cursor = 0
        for place in range(len(self._options)):
            if place == self._at:
                cursor = len(title) + len(options)
            options += self._drawn.rows(place, self._mark(place), size, highlighted=place == self._at)
        hint = [row(text, "key") for text in wrap(self._hint(), size.columns)]
        helped = self._helped(size) if self._help else []
        message = [row(text, "error") for line in self._message for text in wrap(line, size.columns)]
        return Frame(joined(title, options, self._extra(size), hint, helped, message), (cursor, 2))

    def _move(self, key: str) -> bool:
        count = len(self._options)
        match key:
            case "pageup" | "pagedown":
                self._at = max(0, min(count - 1, self._at + (_PAGE if key == "pagedown" else -_PAGE)))
            case "home" | "end":
                self._at = 0 if key == "home" else count - 1
            case _ if key in _STEPS:
                self._at = (self._at + _STEPS[key]) % count
            case _:
                return False
        return True

    def _complain(self, *lines: str) -> Sign:
        self._message = list(lines)
        return Sign.RING

    def _answer(self, value: Json) -> Outcome:
        try:
            return Answered(accept(self._prompt, value))
        except NotAccepted as error:
            return self._complain(*error.lines)

    def _mark(self, place: int) -> Mark:
        return Mark(KEYS[place])

    def _helped(self, size: Size) -> list[Row]:
        """Say what the keys do: first those that move and choose, then those that leave."""
        return [*help_rows((), self._help_lines(), size), *help_rows(self._offered, ["Ctrl-C - cancel and end the turn"], size)]

    def _extra(self, size: Size) -> list[Row]:
        del size
        return []

    @abstractmethod
    def _pick(self) -> Outcome:
        """Do what an option's key does."""

    @abstractmethod
    def _other_key(self, key: str) -> Outcome:
        """Do what the keys of this kind of list do."""

    @abstractmethod
    def _hint(self) -> str:
        """Say in one row which keys there are."""

    @abstractmethod
    def _help_lines(self) -> list[str]:
        """Say what the keys that move and choose do."""


def chosen_values(prompt: Prompt, places: set[int], other: str | None) -> list[Json]:
    """Return what is chosen, in the order of the options; own words come last."""
    options = cast("MultiSelectType", prompt.question.answer_type).options
    chosen: list[Json] = [options[place].value for place in sorted(places)]
    return chosen if other is None else [*chosen, {"other": other}]


def other_rows(other: str | None, size: Size) -> list[Row]:
    """Draw the words of the person's own, marked."""
    return (
        []
        if other is None
        else [row(text, "chosen") for text in hang(f"  [x] o {choice_text({'other': other})}", size.columns, "        ")]
    )
