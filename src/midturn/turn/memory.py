"""Answers that count for later: remembered answers and permissions of a turn, two maps that never mix, and those of the conversation.

Where a question stands between what is remembered, what is configured and who may answer is a row of the routing table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, UnsetType

from midturn.events.types import Standing
from midturn.question.answer_type import BooleanType, SecretType
from midturn.question.json_value import Json
from midturn.question.reply import Scope
from midturn.question.text import sha256

if TYPE_CHECKING:
    from midturn.question.question import Question


class Memory:
    """Remembered answers, keyed `<tool>.<question_id>`, and remembered permissions, keyed `<tool>.__permission__`."""

    def __init__(self) -> None:
        self.answers: dict[str, Json] = {}
        self.permissions: dict[str, str] = {}
        self._ruled: dict[tuple[str, str], str] = {}  # by tool, and the rule under which a person was asked
        self._set_by: dict[str, str] = {}  # the inquiry behind each answer
        self._standing: dict[str, Standing] = {}

    def recall(self, decisions: Iterable[Standing]) -> None:
        """Take note of decisions that hold for the rest of the conversation."""
        self._standing |= {decision.event_id: decision for decision in decisions}

    def standing_answer(self, tool: str, question_id: str, key: bytes, had: Callable[[Json], bool]) -> Json | UnsetType:
        """Return the answer that was given to this question (`PersistedQuestion.key`) for the whole conversation."""
        asked = [each for each in self._standing.values() if (each.tool, each.question_id) == (tool, question_id)]
        found = next((each for each in reversed(asked) if each.question_sha256 == sha256(key)), None) if question_id and asked else None
        return UNSET if found is None or isinstance(found.answer, UnsetType) or had(found.answer) else found.answer

    def allows(self, tool: str, arguments: Json, definition: str) -> bool:
        """Say whether calls of a tool with these arguments were permitted for the whole conversation."""
        given = [each for each in self._standing.values() if each.tool == tool and each.rule is not None and each.definition == definition]
        if not given:
            return False
        from midturn.routing.rules import read_run_rules  # a list of conversations needs no rules

        return any(rule.lets_through and rule.holds(arguments) for each in given for rule in read_run_rules([each.rule]))

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
    return question.persistence != "none" and isinstance(question.answer_type, BooleanType)


def scopes_of(question: Question[Any]) -> Sequence[Scope]:
    """Return the scopes that an answer may have: the author of a question says whether it may hold for the conversation."""
    return ("conversation",) if question.persistence == "conversation" and not isinstance(question.answer_type, SecretType) else ()


def answer_key(tool: str, question_id: str) -> str:
    """Return the key under which an answer is remembered."""
    return f"{tool}.{question_id}"


def permission_key(tool: str) -> str:
    """Return the key under which a permission is remembered."""
    return f"{tool}.__permission__"
