"""Answers and permissions that are remembered for a turn or a conversation.

The routing table says whether a remembered answer is used before a configured one.
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


class RememberedDecisions:
    """Remembered answers, keyed `<tool>.<question_id>`, and remembered permissions, keyed
    `<tool>.__permission__`.
    """

    def __init__(self) -> None:
        self.answers: dict[str, Json] = {}
        self.permissions: dict[str, str] = {}
        # remembered permissions, by tool and by the rule that required approval
        self._ruled: dict[tuple[str, str], str] = {}
        self._set_by: dict[str, str] = {}  # id of the request that each remembered answer came from
        self._standing: dict[str, Standing] = {}

    def recall(self, decisions: Iterable[Standing]) -> None:
        """Add the standing decisions of the conversation."""
        self._standing |= {decision.event_id: decision for decision in decisions}

    def standing_answer(
        self, tool: str, question_id: str, key: bytes, had: Callable[[Json], bool]
    ) -> Json | UnsetType:
        """Return the answer to this question (matched by `PersistedQuestion.key`) that was given
        for the whole conversation, or UNSET.
        """
        asked = [
            each
            for each in self._standing.values()
            if (each.tool, each.question_id) == (tool, question_id)
        ]
        found = (
            next((each for each in reversed(asked) if each.question_sha256 == sha256(key)), None)
            if question_id and asked
            else None
        )
        return (
            UNSET
            if found is None or isinstance(found.answer, UnsetType) or had(found.answer)
            else found.answer
        )

    def allows(self, tool: str, arguments: Json, definition: str) -> bool:
        """Return whether calls of a tool with these arguments are permitted for the whole
        conversation.
        """
        given = [
            each
            for each in self._standing.values()
            if each.tool == tool and each.rule is not None and each.definition == definition
        ]
        if not given:
            return False
        from midturn.routing.rules import (
            read_run_rules,
        )  # imported here because listing conversations does not need rules

        return any(
            rule.is_permissive and rule.holds(arguments)
            for each in given
            for rule in read_run_rules([each.rule])
        )

    def remember_answer(self, key: str, value: Json, inquiry: str) -> None:
        """Remember an answer, with the id of the request that it answers."""
        self.answers[key] = value
        self._set_by[key] = inquiry

    def answer(self, key: str, had: Callable[[Json], bool]) -> Json | UnsetType:
        """Return the remembered answer, unless the call already received it for the same question
        (`had`). A tool that asks again needs a different answer.
        """
        value = self.answers.get(key, UNSET)
        return UNSET if isinstance(value, UnsetType) or had(value) else value

    def forget(self, inquiry: str) -> None:
        """Forget the answer to a request, because the question is asked again."""
        for key in [key for key, set_by in self._set_by.items() if set_by == inquiry]:
            del self._set_by[key], self.answers[key]

    def remember_permission(self, tool: str, granted: str, rule: str = "") -> None:
        """Remember `y` or `n` for all later calls of a tool. `rule` is the rule that required
        approval.
        """
        self.permissions[permission_key(tool)] = granted
        self._ruled[tool, rule] = granted

    def permission(self, tool: str, rule: str = "") -> str | None:
        """Return the remembered permission for calls of a tool. If a `rule` requires approval, only
        a permission given under that rule counts.
        """
        granted = self.permissions.get(permission_key(tool))
        return self._ruled.get((tool, rule)) if rule and granted == "y" else granted


def may_be_remembered(question: Question[Any]) -> bool:
    """Return whether the prompt offers to remember the answer: for yes/no questions, unless the
    tool requires a new answer each time.
    """
    return question.persistence != "none" and isinstance(question.answer_type, BooleanType)


def scopes_of(question: Question[Any]) -> Sequence[Scope]:
    """Return the scopes that an answer may have. The author of the question decides whether the
    answer may apply to the whole conversation.
    """
    return (
        ("conversation",)
        if question.persistence == "conversation"
        and not isinstance(question.answer_type, SecretType)
        else ()
    )


def answer_key(tool: str, question_id: str) -> str:
    """Return the key under which an answer is remembered."""
    return f"{tool}.{question_id}"


def permission_key(tool: str) -> str:
    """Return the key under which a permission is remembered."""
    return f"{tool}.__permission__"
