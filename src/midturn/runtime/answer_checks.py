"""The rules that tools have for answers, beyond the type of the answer: held while a question is open."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from midturn.core.secret import SecretValue
from midturn.errors import AnswerError

if TYPE_CHECKING:
    from midturn.core.question import Question
    from midturn.core.reply import Reply
    from midturn.tools.own_rule import Check


class _Rule(Struct, frozen=True):
    question: Question[Any]
    check: Check[Any]


class CallChecks:
    """`ports.AnswerChecks` of one call, by question id."""

    def __init__(self) -> None:
        self.rules: dict[str, _Rule] = {}

    @contextmanager
    def holding(self, question: Question[Any], check: Check[Any]) -> Generator[None]:
        """Hold a rule while its question is open."""
        self.rules[question.id] = _Rule(question, check)
        try:
            yield
        finally:
            self.rules.pop(question.id, None)

    async def refusal(self, question_id: str, reply: Reply) -> str | None:
        """Return what the rule says against a reply; None where it holds, or where the reply is no answer of its type."""
        from midturn.core.reply import Answered  # few questions have a rule, and many turns no question
        from midturn.tools.own_rule import refused
        from midturn.tools.scrub import scrub

        rule = self.rules.get(question_id)
        if rule is None or not isinstance(reply, Answered):
            return None
        try:
            answer = rule.question.check(reply.value)
            said = await refused(rule.check, rule.question.typed(answer))
        except AnswerError:  # the machine says so
            return None
        except Exception:  # noqa: BLE001  the tool's own code: it meets its mistake again, where it is reported
            return None
        return scrub(said, [answer]) if said is not None and isinstance(answer, SecretValue) else said


class TurnChecks:
    """The rules of all calls of a turn, by the call's event."""

    def __init__(self) -> None:
        self._of = defaultdict[str, CallChecks](CallChecks)

    def of(self, call: str) -> CallChecks:
        """Return those of one call."""
        return self._of[call]
