"""What has to come out of a scripted turn: the values that the oracle computes and the player is held against."""

from __future__ import annotations

from collections import Counter
from typing import TypeAlias

import msgspec
from msgspec import Struct

from support.turn_script import Value

REST = "…"  # in an expected text: what comes in its place is not fixed

Outcome: TypeAlias = tuple[str, Value, str]
"""How an inquiry closed: (`answered`, the answer, by whom), or (`cancelled`, None, the reason)."""


class Pair(Struct, frozen=True):
    """One question that was asked, and how that ended. `revises`: Back brought it up again; `link`: a model's answer led to it."""

    question: str
    revises: bool
    link: bool
    outcome: Outcome


class Result(Struct, frozen=True):
    """What the model reads of a call."""

    content: str
    is_error: bool

    def admits(self, content: str, *, is_error: bool) -> bool:
        """Say whether this is the expected result."""
        head, rest, tail = self.content.partition(REST)
        same = content.startswith(head) and content.endswith(tail) if rest else content == self.content
        return same and is_error == self.is_error


class CallLog:
    """What happens in one call. `given` is what its tool gets, run by run; secrets and what was given up are in no `pairs`.

    `votes` are those that made an answer each, by the names of the people.
    """

    def __init__(self) -> None:
        self.given: list[tuple[str, dict[str, Value]]] = []
        self.pairs: list[Pair] = []
        self.decisions: list[tuple[str, str, str]] = []
        self.votes: list[list[str]] = []
        self.secrets = 0
        self.result: Result | None = None


class Expected(Struct):
    """What has to come out. `calls` in the order of the model; `cut`: somebody ends the turn while siblings may still be at work."""

    calls: list[CallLog] = msgspec.field(default_factory=list[CallLog])
    cut: set[int] = msgspec.field(default_factory=set[int])
    enders: set[int] = msgspec.field(default_factory=set[int])
    status: str = "completed"
    error: str | None = None
    seen: Counter[str] = msgspec.field(default_factory=Counter[str])
