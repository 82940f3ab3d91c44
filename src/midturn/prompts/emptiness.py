"""What nobody chose (an empty text, no option, the first one) is sent only when Enter says so twice."""

from __future__ import annotations

from msgspec import UNSET

from midturn.core.prompt import Prompt
from midturn.core.question.answer_type import MultiSelectType
from midturn.prompts.content import initial

EMPTY_TEXT = "that is an empty text: press Enter again to send it"
EMPTY_SECRET = "nothing was typed: press Enter again to send an empty secret"  # noqa: S105 (it is none)


class Empty:
    """Refuses an empty answer once, unless the question may be skipped, or starts from an empty text."""

    def __init__(self, prompt: Prompt) -> None:
        self._refuses = not prompt.question.optional and initial(prompt) != ""

    def refuses(self) -> bool:
        """Tell whether to ask again; the second time it is meant."""
        refuses, self._refuses = self._refuses, False
        return refuses


class Unchosen:
    """Refuses once the option that is highlighted from the start, unless the question starts from an answer."""

    def __init__(self, prompt: Prompt) -> None:
        self._refuses = initial(prompt) is UNSET

    def touched(self) -> None:
        """Take note that somebody moved: what is highlighted from now on is their choice."""
        self._refuses = False

    def refuses(self) -> bool:
        """Tell whether to ask again; the second time it is meant."""
        refuses, self._refuses = self._refuses, False
        return refuses


class Unmarked(Unchosen):
    """Refuses once that nothing is marked, where it may be so, but nobody said that the question may be skipped."""

    def __init__(self, prompt: Prompt) -> None:
        super().__init__(prompt)
        kind = prompt.question.answer_type
        self._refuses = self._refuses and not prompt.question.optional and isinstance(kind, MultiSelectType) and kind.min == 0


def unchosen(name: str) -> str:
    """Say that nobody has chosen the option with this name."""
    return f"nothing was chosen yet: press Enter again to pick {name}"


def unmarked(key: str) -> str:
    """Say that nothing is marked, and which key marks."""
    return f"nothing is marked: {key} marks; press Enter again to send none"
