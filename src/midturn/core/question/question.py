"""A question, as a tool or a model authors it, and as the stream keeps it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast

import msgspec
from msgspec import UNSET, Struct, UnsetType

from midturn.core.json_value import Json, JsonObject, canonical, is_canonical
from midturn.core.limits import DEFAULT_LIMITS, Limits
from midturn.core.question.answer import DEPTH_LIMIT, check_answer
from midturn.core.question.answer_type import MultiSelectType, SchemaType, SecretType, SelectType, UnknownType
from midturn.core.question.authoring import author, stays_as_authored, written
from midturn.core.question.constructors import Constructors
from midturn.core.question.fields import Persistence, QuestionFields, When
from midturn.core.question.persisted_type import read_persisted_type
from midturn.core.question.python_answer import python_answer
from midturn.core.question.text_name import Text
from midturn.core.secret import SecretValue
from midturn.errors import AnswerError, Problem, QuestionError

if TYPE_CHECKING:
    from typing_extensions import TypeVar as DefaultedTypeVar

    from midturn.core.question.answer_type import AnswerType, PersistedType

    T_co = DefaultedTypeVar("T_co", covariant=True, default=Any)
else:
    T_co = TypeVar("T_co", covariant=True)
    PersistedType = Any  # msgspec knows no union of tagged and untagged types: `__post_init__` reads it

_READ_TYPES = (Struct, UnknownType)
_PERSISTED = "as_persisted"

__all__ = ["PersistedQuestion", "Persistence", "Question", "When"]


class _Checked(msgspec.StructMeta):
    """Checks a question that is built field by field, as the constructors do; `unchecked` is for what is read, not authored."""

    def __call__(cls, **fields: Any) -> Any:  # noqa: N805  a class is built
        """Build a question.

        Raises:
            QuestionError: Rules are broken; `problems` has all of them.
        """
        return author(cast("type[QuestionFields]", cls), written(fields), DEFAULT_LIMITS, fields.get("returns"))

    def unchecked(cls, **fields: Any) -> Any:  # noqa: N805
        """Build a question whose fields are known to be of their types."""
        return super().__call__(**fields)


class Question(Constructors, QuestionFields, Generic[T_co], frozen=True, kw_only=True, metaclass=_Checked):
    """What is asked, of which type, and on what terms. Build one with the constructors; however it is built, every rule is checked.

    `T` is the type of the answer in Python, as `typed` gives it. `default` is `UNSET` where there is none (a schema may allow `null`).
    `returns` is the Python type behind a select over an `Enum` or a schema made from a type; it is not written.

    Args:
        id: The key of the answer.
        text: The question, one line.
        answer_type: The type of the answer.
        context: What the person should know first; None where there is nothing.
        exclusive: Whether only a human may answer.
        persistence: `turn` where an answer may be remembered for the turn, else `none`.
        optional: Whether it may be skipped.
        when: In a form: ask only if an earlier question was answered so.
    """

    # A type checker sees no field in this name, so it is told below how a question is made.
    text: ClassVar[Text] = Text(QuestionFields.__dict__["text"].__get__)  # pyright: ignore[reportIncompatibleVariableOverride]

    if TYPE_CHECKING:

        def __init__(  # noqa: PLR0913 (the fields)
            self,
            *,
            id: str,
            text: str,
            answer_type: AnswerType,
            context: str | None = None,
            default: Json | UnsetType = UNSET,
            exclusive: bool = False,
            persistence: Persistence = "turn",
            optional: bool = False,
            when: When | None = None,
            returns: object = None,
        ) -> None: ...

    @classmethod
    def from_json(cls, obj: object, limits: Limits = DEFAULT_LIMITS) -> Question[Any]:
        """Read a question that a tool or a model authors now: an unknown key is a problem, `pre_amble` is read as `context`.

        Args:
            obj: The question as a JSON object.
            limits: How long and how many its parts may be.

        Raises:
            QuestionError: Every rule that is broken, each with a JSON pointer, what is allowed and what to do.
        """
        return author(Question[Any], obj, limits)

    def to_json(self) -> dict[str, Json]:
        """Return the wire shape: defaults omitted, an option without a description as its bare value."""
        wire = _as_json(self, lambda option: option if "description" in option else option["value"])
        wire.pop("returns", None)
        return wire

    def check(self, value: object, *, depth_limit: int = DEPTH_LIMIT) -> Json | SecretValue:
        """Return the canonical answer: the one check for people, models, configuration and the inbox.

        Nothing is converted; `null` is an answer only where the question is optional. A secret comes back as `SecretValue`.

        Args:
            value: What somebody answered.
            depth_limit: How deep the answer may be nested.

        Raises:
            AnswerError: The value is not an answer; `problems` says where and what is allowed, and never shows a secret.
        """
        answer = check_answer(self, value, depth_limit)
        if self.returns is not None:
            python_answer(self.answer_type, self.returns, answer)
        return answer

    def typed(self, answer: Json | SecretValue) -> T_co:
        """Return a checked answer as `T`: the member of an `Enum`, an instance of the type behind a schema, else as it is.

        Args:
            answer: What `check` has returned.
        """
        return cast("T_co", answer if self.returns is None else python_answer(self.answer_type, self.returns, answer))

    def persisted(self) -> PersistedQuestion:
        """Return what the stream keeps of this question."""
        kept = vars(self)
        persisted: PersistedQuestion | None = kept.get(_PERSISTED)
        if persisted is None:
            persisted = self._persisted()
            if stays_as_authored(self):
                kept[_PERSISTED] = persisted
        return persisted

    def _persisted(self) -> PersistedQuestion:
        return PersistedQuestion(
            text=self.text,
            answer_type=self.answer_type,
            default=self.default,
            context=self.context,
            exclusive=self.exclusive,
            persistence=self.persistence,
            optional=self.optional,
        )


class PersistedQuestion(Struct, frozen=True, kw_only=True, omit_defaults=True, dict=True):
    """A question as the stream keeps it: without its id, which stands beside it.

    Read tolerantly: unknown keys are passed over (the raw line keeps them), an unknown answer type becomes `UnknownType`, options may
    be bare scalars, the text may have several lines. A default on a secret is dropped: it must never be shown.
    msgspec writes it as it is on disk (with `encode_custom` as hook, for unknown types), and reads it with these rules. (`dict` is where
    `cached_property` keeps the key, which every look-up of a recorded attempt needs.)
    """

    text: str
    answer_type: PersistedType
    default: Json | UnsetType = UNSET
    context: str | None = None
    exclusive: bool = False
    persistence: str = "turn"
    optional: bool = False

    def __post_init__(self) -> None:
        read = cast("object", self.answer_type)
        if not isinstance(read, _READ_TYPES):
            if type(read) is not dict and not isinstance(read, Mapping):  # asking a class for `Mapping` is slow
                raise TypeError("`answer_type` must be an object with a `type`")
            msgspec.structs.force_setattr(self, "answer_type", read_persisted_type(cast("JsonObject", read)))
        if isinstance(self.answer_type, SecretType) and self.default is not UNSET:
            msgspec.structs.force_setattr(self, "default", UNSET)

    @classmethod
    def from_json(cls, obj: object) -> PersistedQuestion:
        """Read a question of a stream.

        Raises:
            msgspec.ValidationError: It is not an object, or `text` or `answer_type` is missing or of a wrong type.
        """
        return msgspec.convert(obj, PersistedQuestion)

    def to_json(self) -> dict[str, Json]:
        """Return the persisted shape: defaults omitted, options always objects."""
        return _as_json(self, lambda option: option)

    @cached_property
    def key(self) -> bytes:
        """The whole question as canonical bytes: equal exactly for the same question, its context included."""
        encoded = msgspec.json.encode(self, order="sorted", enc_hook=_custom_as_json)
        return encoded if is_canonical(encoded) else canonical(self.to_json())

    def asked(self, id: str) -> Question[Any]:
        """Return the question under its id again, to be asked and answered; what streams may hold and authors may not stays.

        A default that is not an answer is left out, and a `persistence` of a newer version is read as `none`.

        Raises:
            QuestionError: The answer type is of a newer version, or its schema is outside the closed subset.
        """
        answer_type = self.answer_type
        if isinstance(answer_type, UnknownType):
            problem = f"the answer type {answer_type.type!r} is not known here. Answer with the version of midturn that asked."
            raise QuestionError([Problem("/answer_type/type", problem)])
        if isinstance(answer_type, SchemaType):
            _refuse_outside_subset(answer_type.schema)
        question: Question[Any] = Question.unchecked(
            id=id,
            text=self.text,
            context=self.context,
            answer_type=answer_type,
            exclusive=self.exclusive,
            persistence="turn" if self.persistence == "turn" else "none",
            optional=self.optional,
        )
        if self.default is not UNSET:
            return _with_default(question, self.default)
        if question.persistence == self.persistence and not isinstance(answer_type, SchemaType):  # a schema can be changed
            vars(question)[_PERSISTED] = self
        return question


def _refuse_outside_subset(schema: JsonObject) -> None:
    from midturn.core.schema import check_schema

    problems = check_schema(schema)
    if problems:
        raise QuestionError([Problem(f"/answer_type/schema{problem.pointer}", problem.message) for problem in problems])


def _with_default(question: Question[Any], default: Json) -> Question[Any]:
    try:
        return msgspec.structs.replace(question, default=question.check(default))
    except AnswerError:
        return question  # a stream may hold a default that never fitted; the question can be asked without it


def _as_json(question: QuestionFields | PersistedQuestion, write_option: Callable[[JsonObject], Json]) -> dict[str, Json]:
    wire: dict[str, Any] = msgspec.to_builtins(question, enc_hook=_custom_as_json)
    answer_type: dict[str, Any] = wire["answer_type"]
    if isinstance(question.answer_type, SelectType | MultiSelectType):
        answer_type["options"] = [write_option(option) for option in cast("Sequence[JsonObject]", answer_type["options"])]
    return wire


def _custom_as_json(value: Any) -> Json:
    """Write what msgspec does not know: an unknown answer type as it was read; the Python type of an answer not at all."""
    return cast("Json", value.to_json()) if isinstance(value, UnknownType) else None
