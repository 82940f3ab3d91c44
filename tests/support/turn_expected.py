"""The expected outcome of a scripted turn, as the oracle computes it."""

from __future__ import annotations

from collections import Counter
from typing import TypeAlias

import msgspec
from msgspec import Struct

from support.turn_script import Value

REST = "…"  # stands for any text in an expected text

Outcome: TypeAlias = tuple[str, Value, str]
"""The outcome of an inquiry: (`answered`, answer, responder), or (`cancelled`, None, reason)."""


class Pair(Struct, frozen=True):
    """A question and its outcome. `revises`: asked again after Back. `link`: asked because of a
    model's answer.
    """

    question: str
    revises: bool
    link: bool
    outcome: Outcome


class Result(Struct, frozen=True):
    """The result of a call that the model reads."""

    content: str
    is_error: bool

    def admits(self, content: str, *, is_error: bool) -> bool:
        """Return whether this is the expected result."""
        head, rest, tail = self.content.partition(REST)
        same = (
            content.startswith(head) and content.endswith(tail) if rest else content == self.content
        )
        return same and is_error == self.is_error


class CallLog:
    """The expected events of one call. `given` are the answers that its tool receives, run by
    run. `pairs` contain neither secrets nor abandoned questions.

    `votes` are the names of the voters of each answer.
    """

    def __init__(self) -> None:
        self.given: list[tuple[str, dict[str, Value]]] = []
        self.pairs: list[Pair] = []
        self.decisions: list[tuple[str, str, str]] = []
        self.votes: list[list[str]] = []
        self.secrets = 0
        self.result: Result | None = None


class Expected(Struct):
    """The expected outcome of a turn. `calls` are in the order of the model. `cut` are calls that
    may be unfinished when the turn ends.
    """

    calls: list[CallLog] = msgspec.field(default_factory=list[CallLog])
    cut: set[int] = msgspec.field(default_factory=set[int])
    enders: set[int] = msgspec.field(default_factory=set[int])
    status: str = "completed"
    error: str | None = None
    seen: Counter[str] = msgspec.field(default_factory=Counter[str])
