"""Questions as recorded in the log. Programs that only read logs import this module, so it does not
import the code for authoring questions.
"""

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
    # msgspec does not support unions of tagged and untagged types, so `__post_init__` converts the
    # value
    PersistedType = Any

_CONVERTED_TYPES = (Struct, UnknownType)
_PLACEHOLDER_ID = "answer"
PERSISTED = "as_persisted"
"""Attribute in which a question caches its recorded form."""


@cache
def _load_question() -> type[Question[Any]]:
    """Import `Question` on first use, because most readers of a log do not need it."""
    from midturn.question.question import Question

    return Question


class PersistedQuestion(Struct, frozen=True, kw_only=True, omit_defaults=True, dict=True):
    """A question as it is recorded: without its id, which the event contains.

    Reading is lenient: unknown keys are ignored (the raw line preserves them), an unknown answer
    type becomes an `UnknownType`, options may be bare scalars, and the text may have several lines.
    The default of a secret is dropped, because it must never be shown.

    Args:
        text: The question.
        answer_type: The type of the answer.
        default: The default answer, or `UNSET`.
        context: Background information, shown above the text.
        exclusive: Whether only a human or a configured value may answer.
        persistence: How long an answer may be remembered: `turn`, `conversation` or `none`.
        optional: Whether the question may be skipped.
    """

    # `dict=True` lets `cached_property` store the key, which is needed to look up recorded
    # questions. msgspec encodes unknown types with the `encode_custom` hook.

    text: str
    answer_type: PersistedType
    default: Json | UnsetType = UNSET
    context: str | None = None
    exclusive: bool = False
    persistence: str = "turn"
    optional: bool = False

    def __post_init__(self) -> None:
        kind = type(cast("object", self.answer_type))
        if kind is dict or not issubclass(
            kind, _CONVERTED_TYPES
        ):  # checking for `Mapping` is slow, and decoded JSON has only dicts
            if kind is not dict and not issubclass(kind, Mapping):
                raise TypeError("`answer_type` must be an object with a `type`")
            msgspec.structs.force_setattr(
                self,
                "answer_type",
                read_persisted_type(self.answer_type),  # type: ignore[arg-type]  # still JSON
            )
        if self.default is not UNSET and isinstance(self.answer_type, SecretType):
            msgspec.structs.force_setattr(self, "default", UNSET)

    @classmethod
    def from_json(cls, obj: object) -> PersistedQuestion:
        """Read a question from an event.

        Args:
            obj: The JSON object.

        Raises:
            msgspec.ValidationError: `obj` is not an object, or `text` or `answer_type` is missing
            or has a wrong type.
        """
        return msgspec.convert(obj, PersistedQuestion)

    def to_json(self) -> dict[str, Json]:
        """Return the recorded JSON, without default values and with options as objects."""
        return question_json(self, lambda option: option)

    @cached_property
    def key(self) -> bytes:
        """The question as canonical bytes. Two keys are equal if and only if the questions are
        equal, including their context.
        """
        encoded = msgspec.json.encode(self, order="sorted", enc_hook=_custom_as_json)
        has_no_numbers = self.default is UNSET and type(self.answer_type) in TYPES_WITHOUT_FIELDS
        return encoded if has_no_numbers or is_canonical(encoded) else canonical(self.to_json())

    def check(self, value: object) -> Json | SecretValue:
        """Return the canonical answer, as `Question.check` does.

        Args:
            value: The answer.

        Raises:
            AnswerError: The value is not a valid answer.
            QuestionError: The question comes from a newer version.
        """
        return self.asked(_PLACEHOLDER_ID).check(value)

    def parse(self, words: str) -> Json | SecretValue:
        """Parse an answer given as text, as `Question.parse` does.

        Args:
            words: The text.

        Raises:
            AnswerError: The text is not an answer. The message tells the person what is allowed.
            QuestionError: The question comes from a newer version.
        """
        return self.asked(_PLACEHOLDER_ID).parse(words)

    def asked(self, id: str) -> Question[Any]:
        """Return a `Question` with this id that can be asked again, even if its fields would not be
        allowed in a new question.

        An invalid default is removed, and a `persistence` value from a newer version is treated as
        `none`.

        Args:
            id: The id of the question.

        Raises:
            QuestionError: The answer type comes from a newer version, or its schema is outside the
                supported subset.
        """
        answer_type = self.answer_type
        if isinstance(answer_type, UnknownType):
            problem = (
                f"the answer type {answer_type.type!r} is not supported by this version. Answer"
                " with the version of midturn that asked."
            )
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
        # not cached for a schema, which is mutable
        if question.persistence == self.persistence and not isinstance(answer_type, SchemaType):
            vars(question)[PERSISTED] = self
        return question


def _persistence(written: str) -> Persistence:
    return cast("Persistence", written) if written in ("turn", "conversation") else "none"


def _refuse_outside_subset(schema: JsonObject) -> None:
    problems = check_schema(schema)
    if problems:
        raise QuestionError(
            [
                Problem(f"/answer_type/schema{problem.pointer}", problem.message)
                for problem in problems
            ]
        )


def _with_default(question: Question[Any], default: Json) -> Question[Any]:
    try:
        return msgspec.structs.replace(question, default=question.check(default))
    except AnswerError:
        return question  # the recorded default may be invalid; ask without it


def question_json(
    question: AuthoredFields | PersistedQuestion, write_option: Callable[[JsonObject], Json]
) -> dict[str, Json]:
    """Return the JSON of a question, with options converted by `write_option`."""
    wire: dict[str, Any] = msgspec.to_builtins(question, enc_hook=_custom_as_json)
    answer_type: dict[str, Any] = wire["answer_type"]
    if isinstance(question.answer_type, SelectType | MultiSelectType):
        answer_type["options"] = [
            write_option(option) for option in cast("Sequence[JsonObject]", answer_type["options"])
        ]
    return wire


def _custom_as_json(value: Any) -> Json:
    """Encode an unknown answer type exactly as it was read. The Python type of an answer is not
    encoded.
    """
    return cast("Json", value.to_json()) if isinstance(value, UnknownType) else None
