"""The oracle's state of a turn that its calls share, and the exceptions that end a call or a
turn.
"""

from __future__ import annotations

from collections import Counter

from support.turn_script import Script, Value


class CallOver(Exception):  # noqa: N818  not an error, but the end of a call
    """The call has its response."""

    def __init__(self, content: str, *, is_error: bool = True) -> None:
        super().__init__(content)
        self.content = content
        self.is_error = is_error


class TurnOver(Exception):  # noqa: N818  not an error, but the end of a turn
    """The user ended the turn. `asked`: at a question of this call."""

    def __init__(self, how: str, *, asked: bool = True) -> None:
        super().__init__(how)
        self.how = how
        self.asked = asked


class Refused(Exception):  # noqa: N818  not an error of the oracle
    """Nobody may or can answer."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.given: dict[str, Value] = {}
        """The answers so far, if the form is past its deadline."""


class TurnState:
    """Remembered answers and permissions, and rejections by models."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.answers: dict[tuple[str, str], Value] = {}
        self.permissions: dict[str, str] = {}
        self.refused = Counter[str]()
        """Number of refusals by people for each tool. All calls of a tool in a script have equal
        arguments.
        """
        self.refused_before = Counter[str]()
        """The same number at the beginning of the cycle, which limits the calls of the cycle."""
        self.stopped = False
        self.calls = 0
        self.seen = Counter[str]()
        self._in_a_row = 0
        self._rejected = False
        self._otherwise = False

    @property
    def breaker_is_open(self) -> bool:
        """Whether only a person may answer the next question."""
        return self._in_a_row >= self.script.limits.rejected_cycles

    def answered(self, by: str, value: Value) -> None:
        """Record an answer."""
        if by == "assistant" and value is False:
            self._rejected = True
        elif by in ("assistant", "user"):
            self._otherwise = True

    def begin_cycle(self) -> None:
        """Begin a cycle."""
        self._rejected = self._otherwise = False
        self.refused_before = self.refused.copy()

    def end_cycle(self) -> None:
        """End a cycle: all calls have their responses."""
        self._in_a_row = self._in_a_row + 1 if self._rejected and not self._otherwise else 0
