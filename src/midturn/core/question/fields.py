"""What a question holds."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from midturn.core.json_value import Json
from midturn.core.question.answer_type import AnswerType

Persistence: TypeAlias = Literal["none", "turn"]


class When(Struct, frozen=True):
    """Ask only if an earlier question of the form was answered with exactly this value.

    Args:
        question_id: The id of the earlier question.
        equals: The answer with which this one is asked.
    """

    question_id: str
    equals: Json


class QuestionFields(Struct, frozen=True, kw_only=True, omit_defaults=True, dict=True):
    """The fields of a question, in the order in which they are written; see `Question`.

    (`dict` is where `author` notes that it has checked a question; a copy does not take that along.)
    """

    id: str
    text: str
    context: str | None = None
    answer_type: AnswerType
    default: Json | UnsetType = UNSET
    exclusive: bool = False
    persistence: Persistence = "turn"
    optional: bool = False
    when: When | None = None
    returns: Any = None
