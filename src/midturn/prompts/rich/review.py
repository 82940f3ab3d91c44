"""The answers of a form before they are sent: Enter sends them, the number of a row goes back to it."""

from __future__ import annotations

from midturn.core.prompt import Prompt
from midturn.core.subject import AnswersSubject, reviewed_places
from midturn.prompts.jump import BackTo
from midturn.prompts.rich.choice import Choice, Keys
from midturn.prompts.rich.face import Pressed
from midturn.prompts.rich.key import ENTER, Key, Press
from midturn.prompts.rich.screen import Frame, Size

_AT_ONCE = 9


class ReviewChoice(Choice):
    """A choice that takes numbers, too; where there are ten rows or more, Enter ends a number."""

    def __init__(self, text: str, keys: Keys, prompt: Prompt) -> None:
        super().__init__(text, keys)
        self._places = reviewed_places(prompt.subject) if isinstance(prompt.subject, AnswersSubject) else []
        self._number = ""
        count = len(self._places)
        self._about = f"1-{count} goes back to that row" if count > 1 else "1 goes back to it" if count else ""

    def press(self, key: Key) -> Pressed:
        """Collect digits; everything else is a choice."""
        number, self._number = self._number, ""
        if isinstance(key, Press) and key.key.isdecimal() and self._places:
            self._message = ""
            self._number = number + key.key
            return self._chosen() if len(self._places) <= _AT_ONCE else None
        if number and isinstance(key, Press) and key.key in ENTER:
            self._number = number
            return self._chosen()
        return super().press(key)

    def frame(self, size: Size) -> Frame:
        """Draw the question, the keys, and the number that is being typed."""
        text = self._message or (f"row {self._number}: Enter goes back to it" if self._number else self._about)
        return self._framed(size, text, "error" if self._message else "dim")

    def _chosen(self) -> Pressed:
        number, self._number = int(self._number), ""
        if not 1 <= number <= len(self._places):
            return self._complain(f"there is no row {number}; press ? for help")
        return BackTo(self._places[number - 1] + 1)
