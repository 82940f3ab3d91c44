"""A question as the log keeps it. Every log may hold some, so this module loads nothing that authors questions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import UNSET, Struct, UnsetType

from midturn.errors import AnswerError, Problem, QuestionError
from midturn.question.answer_type import (
    TYPES_WITHOUT_FIELDS,
    MultiSelectType,
    SchemaType,
    SecretType,
    SelectType,
    UnknownType,
    read_persisted_type,
)
from midturn.question.json_value import Json, JsonObject, canonical, is_canonical
from midturn.question.schema import check_schema

if TYPE_CHECKING:
    from midturn.question.answer_type import AuthoredFields, PersistedType, Persistence
    from midturn.question.json_value import SecretValue
    from midturn.question.question import Question
else:
    PersistedType = Any  # msgspec knows no union of tagged and untagged types: `__post_init__` reads it

_READ_TYPES = (Struct, UnknownType)
_NAMELESS = "answer"
PERSISTED = "as_persisted"
"""The field in which a question keeps its form in the stream."""


@cache
def _load_question() -> type[Question[Any]]:
    """Load what is asked: who only reads a stream asks nothing."""
    from midturn.question.question import Question

    return Question


class PersistedQuestion(Struct, frozen=True, kw_only=True, omit_defaults=True, dict=True):
    """A question as the stream keeps it: without its id, which stands beside it.

    Read tolerantly: unknown keys are passed over (the raw line keeps them), an unknown answer type becomes `UnknownType`, options may
    be bare scalars, the text may have several lines. A default on a secret is dropped: it must never be shown.

    Args:
        text: The question.
        answer_type: What an answer is.
        default: The answer that stands in for none; `UNSET` where there is none.
        context: What is shown above it.
        exclusive: Whether only a human, or a configured value, may answer it.
        persistence: How long an answer may be remembered: `turn`, `conversation` or `none`.
        optional: Whether it may stay without an answer.
    """

    # msgspec writes it as it is on disk (with `encode_custom` as hook, for unknown types), and reads it with these rules. `dict` is where
    # `cached_property` keeps the key, which every look-up of a recorded attempt needs.

    text: str
    answer_type: PersistedType
    default: Json | UnsetType = UNSET
    context: str | None = None
    exclusive: bool = False
    persistence: str = "turn"
    optional: bool = False

    def __post_init__(self) -> None:
        kind = type(cast("object", self.answer_type))
        if kind is dict or not issubclass(kind, _READ_TYPES):  # asking a class for `Mapping` is slow, and a stream holds only dictionaries
            if kind is not dict and not issubclass(kind, Mapping):
                raise TypeError("`answer_type` must be an object with a `type`")
            msgspec.structs.force_setattr(self, "answer_type", read_persisted_type(self.answer_type))  # type: ignore[arg-type]  # it is one
        if self.default is not UNSET and isinstance(self.answer_type, SecretType):
            msgspec.structs.force_setattr(self, "default", UNSET)

    @classmethod
    def from_json(cls, obj: object) -> PersistedQuestion:
        """Read a question of a stream.

        Args:
            obj: The JSON object.

        Raises:
            msgspec.ValidationError: It is not an object, or `text` or `answer_type` is missing or of a wrong type.
        """
        return msgspec.convert(obj, PersistedQuestion)

    def to_json(self) -> dict[str, Json]:
        """Return the persisted shape: defaults omitted, options always objects."""
        return question_json(self, lambda option: option)

    @cached_property
    def key(self) -> bytes:
        """The whole question as canonical bytes: equal exactly for the same question, its context included."""
        encoded = msgspec.json.encode(self, order="sorted", enc_hook=_custom_as_json)
        has_no_numbers = self.default is UNSET and type(self.answer_type) in TYPES_WITHOUT_FIELDS
        return encoded if has_no_numbers or is_canonical(encoded) else canonical(self.to_json())

    def check(self, value: object) -> Json | SecretValue:
        """Return the canonical answer, as `Question.check` does.

        Args:
            value: The recorded answer.

        Raises:
            AnswerError: The value is not an answer.
            QuestionError: A newer version asked this.
        """
        return self.asked(_NAMELESS).check(value)

    def parse(self, words: str) -> Json | SecretValue:
        """Return the canonical answer that a person means with these words, as `Question.parse` does.

        Args:
            words: What the person typed.

        Raises:
            AnswerError: The words are no answer; it says in a sentence for the person what would be one.
            QuestionError: A newer version asked this.
        """
        return self.asked(_NAMELESS).parse(words)

    def asked(self, id: str) -> Question[Any]:
        """Return the question under its id again, to be asked and answered; what streams may hold and authors may not stays.

        A default that is not an answer is left out, and a `persistence` of a newer version is read as `none`.

        Args:
            id: The question's own id.

        Raises:
            QuestionError: The answer type is of a newer version, or its schema is outside the closed subset.
        """
        answer_type = self.answer_type
        if isinstance(answer_type, UnknownType):
            problem = f"the answer type {answer_type.type!r} is not known here. Answer with the version of midturn that asked."
            raise QuestionError([Problem("/answer_type/type", problem)])
        if isinstance(answer_type, SchemaType):
            _refuse_outside_subset(answer_type.schema)
        question: Question[Any] = _load_question().unchecked(
            id=id,
            text=self.text,
            context=self.context,
            answer_type=answer_type,
            exclusive=self.exclusive,
            persistence=_persistence(self.persistence),
            optional=self.optional,
        )
        if self.default is not UNSET:
            return _with_default(question, self.default)
        if question.persistence == self.persistence and not isinstance(answer_type, SchemaType):  # a schema can be changed
            vars(question)[PERSISTED] = self
        return question


def _persistence(written: str) -> Persistence:
    return cast("Persistence", written) if written in ("turn", "conversation") else "none"


def _refuse_outside_subset(schema: JsonObject) -> None:
    problems = check_schema(schema)
    if problems:
        raise QuestionError([Problem(f"/answer_type/schema{problem.pointer}", problem.message) for problem in problems])


def _with_default(question: Question[Any], default: Json) -> Question[Any]:
    try:
        return msgspec.structs.replace(question, default=question.check(default))
    except AnswerError:
        return question  # a stream may hold a default that never fitted; the question can be asked without it


def question_json(question: AuthoredFields | PersistedQuestion, write_option: Callable[[JsonObject], Json]) -> dict[str, Json]:
    """Return what is written of a question, its options as `write_option` writes them."""
    wire: dict[str, Any] = msgspec.to_builtins(question, enc_hook=_custom_as_json)
    answer_type: dict[str, Any] = wire["answer_type"]
    if isinstance(question.answer_type, SelectType | MultiSelectType):
        answer_type["options"] = [write_option(option) for option in cast("Sequence[JsonObject]", answer_type["options"])]
    return wire


def _custom_as_json(value: Any) -> Json:
    """Write what msgspec does not know: an unknown answer type as it was read; the Python type of an answer not at all."""
    return cast("Json", value.to_json()) if isinstance(value, UnknownType) else None
