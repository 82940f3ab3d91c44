"""Answers that count for later: remembered answers and remembered permissions of a turn, two maps that never mix.

Where a question stands between what is remembered, what is configured and who may answer is a row of the routing table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, UnsetType

from midturn.question.answer_type import BooleanType
from midturn.values.json_value import Json

if TYPE_CHECKING:
    from midturn.question.question import Question


class Memory:
    """Remembered answers, keyed `<tool>.<question_id>`, and remembered permissions, keyed `<tool>.__permission__`."""

    def __init__(self) -> None:
        self.answers: dict[str, Json] = {}
        self.permissions: dict[str, str] = {}
        self._ruled: dict[tuple[str, str], str] = {}  # by tool, and the rule under which a person was asked
        self._set_by: dict[str, str] = {}  # the inquiry behind each answer

    def remember_answer(self, key: str, value: Json, inquiry: str) -> None:
        """Keep an answer, and which inquiry it came from."""
        self.answers[key] = value
        self._set_by[key] = inquiry

    def answer(self, key: str, had: Callable[[Json], bool]) -> Json | UnsetType:
        """Return what was remembered, unless the call has `had` it for an equal question: who asks again wants another answer."""
        value = self.answers.get(key, UNSET)
        return UNSET if isinstance(value, UnsetType) or had(value) else value

    def forget(self, inquiry: str) -> None:
        """Drop what was remembered with an answer that is being revised."""
        for key in [key for key, set_by in self._set_by.items() if set_by == inquiry]:
            del self._set_by[key], self.answers[key]

    def remember_permission(self, tool: str, granted: str, rule: str = "") -> None:
        """Keep `y` or `n` for every further call of the tool; `rule` is the one by which a person was asked."""
        self.permissions[permission_key(tool)] = granted
        self._ruled[tool, rule] = granted

    def permission(self, tool: str, rule: str = "") -> str | None:
        """Return what was remembered for calls of a tool; a `rule` that has a person asked is satisfied by no yes to anything else."""
        granted = self.permissions.get(permission_key(tool))
        return self._ruled.get((tool, rule)) if rule and granted == "y" else granted


def may_be_remembered(question: Question[Any]) -> bool:
    """Whether "remember" is offered, and so counts: for a yes or a no, unless its tool wants it given anew each time."""
    return question.persistence == "turn" and isinstance(question.answer_type, BooleanType)


def answer_key(tool: str, question_id: str) -> str:
    """Return the key under which an answer is remembered."""
    return f"{tool}.{question_id}"


def permission_key(tool: str) -> str:
    """Return the key under which a permission is remembered."""
    return f"{tool}.__permission__"
