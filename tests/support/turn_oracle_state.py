"""What the calls of a turn share, as the oracle sees it, and how a call or a turn comes to an end there."""

from __future__ import annotations

from collections import Counter

from support.turn_script import Script, Value


class CallOver(Exception):  # noqa: N818  no error: this is how a call ends
    """The call has its response."""

    def __init__(self, content: str, *, is_error: bool = True) -> None:
        super().__init__(content)
        self.content = content
        self.is_error = is_error


class TurnOver(Exception):  # noqa: N818  no error: this is how a turn ends
    """The user ended the turn; `asked`: at a question of this very call."""

    def __init__(self, how: str, *, asked: bool = True) -> None:
        super().__init__(how)
        self.how = how
        self.asked = asked


class Refused(Exception):  # noqa: N818  no error of the oracle
    """Nobody may or can answer."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.given: dict[str, Value] = {}
        """What was answered by then, of a form that is past its deadline."""


class TurnState:
    """What people have remembered, and how often a model said no."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.answers: dict[tuple[str, str], Value] = {}
        self.permissions: dict[str, str] = {}
        self.refused = Counter[str]()
        """How often people have refused the call of each tool: a script makes all calls of a tool with equal arguments."""
        self.refused_before = Counter[str]()
        """The same at the beginning of the cycle, which is what a call of the cycle goes by."""
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
        """Take note of an answer."""
        if by == "assistant" and value is False:
            self._rejected = True
        elif by in ("assistant", "user"):
            self._otherwise = True

    def begin_cycle(self) -> None:
        """Begin with a model's calls."""
        self._rejected = self._otherwise = False
        self.refused_before = self.refused.copy()

    def end_cycle(self) -> None:
        """All calls have their responses."""
        self._in_a_row = self._in_a_row + 1 if self._rejected and not self._otherwise else 0
