"""An approval as the yes/no question that it is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from midturn.core.events import Approval, Event
from midturn.core.limits import DEFAULT_LIMITS
from midturn.core.question import PersistedQuestion
from midturn.core.question.answer_type import BooleanType
from midturn.core.stream.markdown import fenced, shown
from midturn.core.stream.reviewed import reviewed_answers

_CUT: Final = "\n[…]"
_TEXTS: Final = {"run": "Run {tool}?", "deliver": "Deliver the result of {tool}?", "review": "Send these answers?"}


def approval_text(kind: str, tool: str) -> str:
    """Return what a person is asked to approve."""
    return _TEXTS.get(kind, f"Approve {kind} of {{tool}}?").replace("{tool}", tool)


def approval_question(approval: Approval, tool: str, before: Iterable[Event]) -> PersistedQuestion:
    """Return the question of a waiting approval; `before` are the turn's events up to it.

    Its context shows what the call's arguments do not: the result that would be delivered, the answers that would be sent. It is cut at
    the limit of a context; the whole stands in the approval and in the answers.
    """
    match approval.kind:
        case "deliver":
            context = fenced(approval.content or "")
        case "review":
            context = _answers(approval, before)
        case _:
            context = ""
    return PersistedQuestion(text=approval_text(approval.kind, tool), answer_type=BooleanType(), context=_cut(context) or None)


def _answers(approval: Approval, before: Iterable[Event]) -> str:
    """List the answers that would be sent; secrets are not among them."""
    reviewed = reviewed_answers(approval.call, before, approval.form)
    given = [(question, reviewed.answers[question.id]) for question in reviewed.questions if question.id in reviewed.answers]
    return "\n".join(f"- {question.text}: {shown(answer)}" for question, answer in given)


def _cut(context: str) -> str:
    encoded = context.encode("utf-8", "replace")
    if len(encoded) <= DEFAULT_LIMITS.context:
        return context
    return encoded[: DEFAULT_LIMITS.context - len(_CUT.encode())].decode("utf-8", "ignore") + _CUT
