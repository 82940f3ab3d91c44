"""A question (spec 1.1), as a tool or a model authors it, and as the stream keeps it."""

from __future__ import annotations

from typing import Generic, Literal, TypeAlias, TypeVar

from msgspec import UNSET, Struct, UnsetType

from midturn.core.answer_type import AnswerType, PersistedType
from midturn.core.json_value import Json

T = TypeVar("T")
Persistence: TypeAlias = Literal["none", "turn"]


class When(Struct, frozen=True):
    """Ask only if an earlier question of the form was answered with exactly this value (spec 3.1)."""

    question_id: str
    equals: Json


class Question(Struct, Generic[T], frozen=True, kw_only=True):
    """What is asked, of which type, and on what terms (spec 1.1). Build one with the constructors: they check every rule.

    `T` is the type of the answer. `default` is `UNSET` where there is none (a schema may allow `null`).
    """

    id: str
    text: str
    answer_type: AnswerType
    default: Json | UnsetType = UNSET
    context: str | None = None
    exclusive: bool = False
    persistence: Persistence = "turn"
    optional: bool = False
    when: When | None = None


class PersistedQuestion(Struct, frozen=True, kw_only=True):
    """A question as the stream keeps it (spec 1.4): without its id, which stands beside it; unknown answer types survive."""

    text: str
    answer_type: PersistedType
    default: Json | UnsetType = UNSET
    context: str | None = None
    exclusive: bool = False
    persistence: str = "turn"
    optional: bool = False
