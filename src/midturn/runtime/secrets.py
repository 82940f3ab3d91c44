"""The secrets that the calls of a turn were given: known from when they are given until the turn is let go."""

from __future__ import annotations

from collections.abc import Iterable

from midturn.core.secret import SecretValue
from midturn.core.turn.effects import GivenAnswer
from midturn.tools.scrub import scrub


class CallSecrets:
    """Every secret that one call was ever given: of each attempt, of forms, before and after it ran again.

    Calling it replaces them all in a text; it is false while there are none.
    """

    def __init__(self) -> None:
        self._given: list[SecretValue] = []

    def __bool__(self) -> bool:
        return bool(self._given)

    def learn(self, answers: Iterable[object]) -> None:
        """Take note of the secrets among answers that are about to be given to the tool."""
        for answer in answers:
            value = answer.value if isinstance(answer, GivenAnswer) else answer
            if isinstance(value, SecretValue) and value not in self._given:
                self._given.append(value)

    def __call__(self, text: str) -> str:
        """Replace every secret of the call, in every form in which a program may write it."""
        return scrub(text, self._given) if self._given else text


class TurnSecrets:
    """The secrets of all calls of a turn, by the call's event. They outlive a driver: a call may be made again in this process."""

    def __init__(self) -> None:
        self._of: dict[str, CallSecrets] = {}

    def of(self, call: str) -> CallSecrets:
        """Return those of one call."""
        return self._of.setdefault(call, CallSecrets())
