"""A question, as a tool or a model authors it, and as the stream keeps it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Protocol, TypeAlias, TypedDict, TypeVar, Unpack, cast, overload

import msgspec
from msgspec import UNSET, Struct, UnsetType

from midturn.core.json_value import Json, JsonObject, Scalar, canonical
from midturn.core.limits import DEFAULT_LIMITS, Limits
from midturn.core.question.answer import DEPTH_LIMIT, check_answer
from midturn.core.question.answer_type import MultiSelectType, OtherAnswer, SchemaType, SecretType, SelectOption, SelectType, UnknownType
from midturn.core.question.authoring import author, written
from midturn.core.question.fields import Persistence, QuestionFields, When
from midturn.core.question.persisted_type import read_persisted_type
from midturn.core.question.python_answer import default_as_json, options_as_json, python_answer, schema_as_json
from midturn.core.secret import SecretValue
from midturn.errors import AnswerError, Problem, QuestionError

if TYPE_CHECKING:
    from typing_extensions import TypeVar as DefaultedTypeVar

    from midturn.core.question.answer_type import AnswerType, PersistedType

    T_co = DefaultedTypeVar("T_co", covariant=True, default=Any)
else:
    T_co = TypeVar("T_co", covariant=True)
    PersistedType = Any  # msgspec knows no union of tagged and untagged types: `__post_init__` reads it

__all__ = ["PersistedQuestion", "Persistence", "Question", "When"]

S = TypeVar("S", bound=Scalar)
E = TypeVar("E", bound=Enum)
V = TypeVar("V")
Yes: TypeAlias = Literal[True]
No: TypeAlias = Literal[False]
Options: TypeAlias = Sequence[S | SelectOption[S]]


class _Terms(TypedDict, total=False):
    """The terms on which any question may be asked."""

    context: str | None
    exclusive: bool
    persistence: Persistence


class _With(_Terms, Generic[V], total=False):
    """The terms of a question that may have a default."""

    default: V | None


class _Many(_With[V], Generic[V], total=False):
    """The terms of a question that takes several choices: at least and at most how many."""

    min: int
    max: int | None


class _Number(_With[V], Generic[V], total=False):
    """The terms of a number: the smallest and the largest."""

    min: V | None
    max: V | None


class _OfText(_With[str], total=False):
    """The terms of a text."""

    pattern: str | None
    min_length: int | None
    max_length: int | None


class _AsksForText(Protocol):
    """The type of `Question.text(…)`."""

    @overload
    def __call__(self, id: str, text: str, *, optional: No = False, when: None = None, **terms: Unpack[_OfText]) -> Question[str]: ...
    @overload
    def __call__(
        self, id: str, text: str, *, optional: bool = False, when: When | None = None, **terms: Unpack[_OfText]
    ) -> Question[str | None]: ...
    def __call__(self, id: str, text: str, **terms: Any) -> Question[Any]: ...


class _Text:
    """`question.text` is the text; `Question.text(…)` asks for one. One name serves both."""

    def __init__(self, stored: Callable[[QuestionFields], str]) -> None:
        self._stored = stored

    @overload
    def __get__(self, question: None, owner: type) -> _AsksForText: ...
    @overload
    def __get__(self, question: QuestionFields, owner: type) -> str: ...
    def __get__(self, question: QuestionFields | None, owner: type) -> _AsksForText | str:
        return cast("_AsksForText", _ask_for_text) if question is None else self._stored(question)


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


class Question(QuestionFields, Generic[T_co], frozen=True, kw_only=True, metaclass=_Checked):
    """What is asked, of which type, and on what terms. Build one with the constructors; however it is built, every rule is checked.

    `T` is the type of the answer in Python, as `typed` gives it. `default` is `UNSET` where there is none (a schema may allow `null`).
    `returns` is the Python type behind a select over an `Enum` or a schema made from a type; it is not written.
    """

    # A type checker sees no field in this name, so it is told below how a question is made.
    text: ClassVar[_Text] = _Text(QuestionFields.__dict__["text"].__get__)  # pyright: ignore[reportIncompatibleVariableOverride]

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

    @overload
    @staticmethod
    def boolean(id: str, text: str, *, optional: No = False, when: None = None, **terms: Unpack[_With[bool]]) -> Question[bool]: ...
    @overload
    @staticmethod
    def boolean(
        id: str, text: str, *, optional: bool = False, when: When | None = None, **terms: Unpack[_With[bool]]
    ) -> Question[bool | None]: ...
    @staticmethod
    def boolean(  # noqa: PLR0913  the terms of a question
        id: str,
        text: str,
        *,
        default: bool | None = None,
        context: str | None = None,
        exclusive: bool = False,
        persistence: Persistence = "turn",
        optional: bool = False,
        when: When | None = None,
    ) -> Question[Any]:
        """Ask for yes or no; the answer is a `bool`.

        Args:
            id: The key of the answer, 1 to 64 of `A-Z a-z 0-9 _ -`, not beginning with `__`.
            text: The question, one line of at most 2,048 characters.
            default: The answer that Enter gives; without one, Enter does nothing.
            context: What the person should know first: Markdown of several lines, shown above the text, at most 16 KiB.
            exclusive: Only a human may answer, never a model.
            persistence: `turn` where "remember for this turn" may be offered, `none` where every question is to be answered anew.
            optional: The person may skip it; the answer is then None.
            when: In a form: ask only if an earlier question was answered so. Where it was not, the answer is None.

        Raises:
            QuestionError: Rules are broken; `problems` has all of them, each with its place and what to do.
        """
        terms = _terms(default, context=context, exclusive=exclusive, persistence=persistence, optional=optional, when=when)
        return _author(id, text, {"type": "boolean"}, terms)

    @overload
    @staticmethod
    def select(
        id: str,
        text: str,
        options: Options[S],
        *,
        allow_other: No = False,
        optional: No = False,
        when: None = None,
        **terms: Unpack[_With[S]],
    ) -> Question[S]: ...
    @overload
    @staticmethod
    def select(
        id: str,
        text: str,
        options: Options[S],
        *,
        allow_other: No = False,
        optional: bool = False,
        when: When | None = None,
        **terms: Unpack[_With[S]],
    ) -> Question[S | None]: ...
    @overload
    @staticmethod
    def select(
        id: str,
        text: str,
        options: Options[S],
        *,
        allow_other: Yes,
        optional: No = False,
        when: None = None,
        **terms: Unpack[_With[S | OtherAnswer]],
    ) -> Question[S | OtherAnswer]: ...
    @overload
    @staticmethod
    def select(
        id: str,
        text: str,
        options: Options[S],
        *,
        allow_other: Yes,
        optional: bool = False,
        when: When | None = None,
        **terms: Unpack[_With[S | OtherAnswer]],
    ) -> Question[S | OtherAnswer | None]: ...
    @overload
    @staticmethod
    def select(
        id: str, text: str, options: type[E], *, optional: No = False, when: None = None, **terms: Unpack[_With[E]]
    ) -> Question[E]: ...
    @overload
    @staticmethod
    def select(
        id: str, text: str, options: type[E], *, optional: bool = False, when: When | None = None, **terms: Unpack[_With[E]]
    ) -> Question[E | None]: ...
    @staticmethod
    def select(  # noqa: PLR0913  the terms of a question
        id: str,
        text: str,
        options: Any,
        *,
        default: Any = None,
        allow_other: bool = False,
        context: str | None = None,
        exclusive: bool = False,
        persistence: Persistence = "turn",
        optional: bool = False,
        when: When | None = None,
    ) -> Question[Any]:
        """Ask for exactly one of several options; the answer is its value, or the member of the `Enum`.

        Args:
            id: The key of the answer, 1 to 64 of `A-Z a-z 0-9 _ -`, not beginning with `__`.
            text: The question, one line of at most 2,048 characters.
            options: 1 to 200 values in the order in which they are shown: strings, numbers, `SelectOption`s where a choice needs a
                description, or an `Enum`.
            allow_other: The person may also answer in their own words, `{"other": "<text>"}`.
            default: The value (not the position) of the option that Enter picks.
            context: What the person should know first: Markdown of several lines, shown above the text, at most 16 KiB.
            exclusive: Only a human may answer, never a model.
            persistence: `turn` where "remember for this turn" may be offered, `none` where every question is to be answered anew.
            optional: The person may skip it; the answer is then None.
            when: In a form: ask only if an earlier question was answered so. Where it was not, the answer is None.

        Raises:
            QuestionError: Rules are broken; `problems` has all of them, each with its place and what to do.
        """
        values, returns = options_as_json(options)
        terms = _terms(default, context=context, exclusive=exclusive, persistence=persistence, optional=optional, when=when)
        return _author(id, text, {"type": "select", "options": values, "allow_other": allow_other}, terms, returns)

    @overload
    @staticmethod
    def multi_select(
        id: str,
        text: str,
        options: Options[S],
        *,
        allow_other: No = False,
        optional: No = False,
        when: None = None,
        **terms: Unpack[_Many[Sequence[S]]],
    ) -> Question[list[S]]: ...
    @overload
    @staticmethod
    def multi_select(
        id: str,
        text: str,
        options: Options[S],
        *,
        allow_other: No = False,
        optional: bool = False,
        when: When | None = None,
        **terms: Unpack[_Many[Sequence[S]]],
    ) -> Question[list[S] | None]: ...
    @overload
    @staticmethod
    def multi_select(
        id: str,
        text: str,
        options: Options[S],
        *,
        allow_other: Yes,
        optional: No = False,
        when: None = None,
        **terms: Unpack[_Many[Sequence[S | OtherAnswer]]],
    ) -> Question[list[S | OtherAnswer]]: ...
    @overload
    @staticmethod
    def multi_select(
        id: str,
        text: str,
        options: Options[S],
        *,
        allow_other: Yes,
        optional: bool = False,
        when: When | None = None,
        **terms: Unpack[_Many[Sequence[S | OtherAnswer]]],
    ) -> Question[list[S | OtherAnswer] | None]: ...
    @overload
    @staticmethod
    def multi_select(
        id: str, text: str, options: type[E], *, optional: No = False, when: None = None, **terms: Unpack[_Many[Sequence[E]]]
    ) -> Question[list[E]]: ...
    @overload
    @staticmethod
    def multi_select(
        id: str, text: str, options: type[E], *, optional: bool = False, when: When | None = None, **terms: Unpack[_Many[Sequence[E]]]
    ) -> Question[list[E] | None]: ...
    @staticmethod
    def multi_select(  # noqa: PLR0913  the terms of a question
        id: str,
        text: str,
        options: Any,
        *,
        default: Any = None,
        allow_other: bool = False,
        min: int = 0,
        max: int | None = None,
        context: str | None = None,
        exclusive: bool = False,
        persistence: Persistence = "turn",
        optional: bool = False,
        when: When | None = None,
    ) -> Question[Any]:
        """Ask for any number of the options; the answer is a list in option order, without repeats.

        Args:
            id: The key of the answer, 1 to 64 of `A-Z a-z 0-9 _ -`, not beginning with `__`.
            text: The question, one line of at most 2,048 characters.
            options: 1 to 200 values in the order in which they are shown: strings, numbers, `SelectOption`s where a choice needs a
                description, or an `Enum`.
            allow_other: The person may also answer in their own words, `{"other": "<text>"}`.
            min: At least so many; own words count as one.
            max: At most so many; None for all.
            default: The values that are chosen already.
            context: What the person should know first: Markdown of several lines, shown above the text, at most 16 KiB.
            exclusive: Only a human may answer, never a model.
            persistence: `turn` where "remember for this turn" may be offered, `none` where every question is to be answered anew.
            optional: The person may skip it; the answer is then None.
            when: In a form: ask only if an earlier question was answered so. Where it was not, the answer is None.

        Raises:
            QuestionError: Rules are broken; `problems` has all of them, each with its place and what to do.
        """
        values, returns = options_as_json(options)
        wire: dict[str, Json] = {"type": "multi_select", "options": values, "min": min, "allow_other": allow_other}
        if max is not None:
            wire["max"] = max
        terms = _terms(default, context=context, exclusive=exclusive, persistence=persistence, optional=optional, when=when)
        return _author(id, text, wire, terms, returns)

    @overload
    @staticmethod
    def number(
        id: str, text: str, *, type: type[int], optional: No = False, when: None = None, **terms: Unpack[_Number[int]]
    ) -> Question[int]: ...
    @overload
    @staticmethod
    def number(  # pyright: ignore[reportOverlappingOverload]  (an `int` is a `float` to a type checker)
        id: str, text: str, *, type: type[int], optional: bool = False, when: When | None = None, **terms: Unpack[_Number[int]]
    ) -> Question[int | None]: ...  # pyright: ignore[reportOverlappingOverload]  (`int` is a `float` to a type checker)
    @overload
    @staticmethod
    def number(
        id: str, text: str, *, type: type[float] = float, optional: No = False, when: None = None, **terms: Unpack[_Number[float]]
    ) -> Question[float]: ...
    @overload
    @staticmethod
    def number(
        id: str, text: str, *, type: type[float] = float, optional: bool = False, when: When | None = None, **terms: Unpack[_Number[float]]
    ) -> Question[float | None]: ...
    @staticmethod
    def number(  # noqa: PLR0913  the terms of a question
        id: str,
        text: str,
        *,
        default: float | None = None,
        type: type[int | float] = float,
        min: float | None = None,
        max: float | None = None,
        context: str | None = None,
        exclusive: bool = False,
        persistence: Persistence = "turn",
        optional: bool = False,
        when: When | None = None,
    ) -> Question[Any]:
        """Ask for a number; the answer is an `int` or a `float`.

        Args:
            id: The key of the answer, 1 to 64 of `A-Z a-z 0-9 _ -`, not beginning with `__`.
            text: The question, one line of at most 2,048 characters.
            type: `int` for whole numbers, `float` for any.
            min: The smallest number that is an answer.
            max: The largest.
            default: What stands in the field when it opens.
            context: What the person should know first: Markdown of several lines, shown above the text, at most 16 KiB.
            exclusive: Only a human may answer, never a model.
            persistence: `turn` where "remember for this turn" may be offered, `none` where every question is to be answered anew.
            optional: The person may skip it; the answer is then None.
            when: In a form: ask only if an earlier question was answered so. Where it was not, the answer is None.

        Raises:
            QuestionError: Rules are broken; `problems` has all of them, each with its place and what to do.
        """
        schema = {"type": "integer" if type is int else "number", "minimum": min, "maximum": max}
        terms = _terms(default, context=context, exclusive=exclusive, persistence=persistence, optional=optional, when=when)
        return _author(id, text, _scalar(schema), terms, type)

    @overload
    @staticmethod
    def secret(id: str, text: str, *, optional: No = False, when: None = None, **terms: Unpack[_Terms]) -> Question[SecretValue]: ...
    @overload
    @staticmethod
    def secret(
        id: str, text: str, *, optional: bool = False, when: When | None = None, **terms: Unpack[_Terms]
    ) -> Question[SecretValue | None]: ...
    @staticmethod
    def secret(  # noqa: PLR0913  the terms of a question
        id: str,
        text: str,
        *,
        context: str | None = None,
        exclusive: bool = False,
        persistence: Persistence = "turn",
        optional: bool = False,
        when: When | None = None,
    ) -> Question[Any]:
        """Ask for a secret; the answer is a `SecretValue`, which is never stored, logged, shown or sent to a model.

        Args:
            id: The key of the answer, 1 to 64 of `A-Z a-z 0-9 _ -`, not beginning with `__`.
            text: The question, one line of at most 2,048 characters.
            context: What the person should know first: Markdown of several lines, shown above the text, at most 16 KiB.
            exclusive: Only a human may answer, never a model.
            persistence: `turn` where "remember for this turn" may be offered, `none` where every question is to be answered anew.
            optional: The person may skip it; the answer is then None.
            when: In a form: ask only if an earlier question was answered so. Where it was not, the answer is None.

        Raises:
            QuestionError: Rules are broken; `problems` has all of them, each with its place and what to do.
        """
        terms = _terms(None, context=context, exclusive=exclusive, persistence=persistence, optional=optional, when=when)
        return _author(id, text, {"type": "secret"}, terms)

    @overload
    @staticmethod
    def schema(
        id: str, text: str, schema: type[V], *, optional: No = False, when: None = None, **terms: Unpack[_With[V]]
    ) -> Question[V]: ...
    @overload
    @staticmethod
    def schema(
        id: str, text: str, schema: type[V], *, optional: bool = False, when: When | None = None, **terms: Unpack[_With[V]]
    ) -> Question[V | None]: ...
    @overload
    @staticmethod
    def schema(
        id: str, text: str, schema: JsonObject, *, optional: bool = False, when: When | None = None, **terms: Unpack[_With[Json]]
    ) -> Question[Json]: ...
    @overload
    @staticmethod
    def schema(
        id: str, text: str, schema: object, *, optional: bool = False, when: When | None = None, **terms: Unpack[_With[Any]]
    ) -> Question[Any]: ...  # a type with constraints (`Annotated`, a union) is no `type` to a type checker
    @staticmethod
    def schema(  # noqa: PLR0913  the terms of a question
        id: str,
        text: str,
        schema: Any,
        *,
        default: Any = None,
        context: str | None = None,
        exclusive: bool = False,
        persistence: Persistence = "turn",
        optional: bool = False,
        when: When | None = None,
    ) -> Question[Any]:
        """Ask for a value of a type: JSON that is valid under its schema.

        Args:
            id: The key of the answer, 1 to 64 of `A-Z a-z 0-9 _ -`, not beginning with `__`.
            text: The question, one line of at most 2,048 characters.
            schema: A type: `list[str]`, an `Enum`, a dataclass, a `TypedDict`, a `msgspec.Struct`, a Pydantic model, any of them with
                constraints in `Annotated`; the answer is a value of it. Or a JSON Schema of the closed subset; the answer is then JSON.
            default: A value of the type.
            context: What the person should know first: Markdown of several lines, shown above the text, at most 16 KiB.
            exclusive: Only a human may answer, never a model.
            persistence: `turn` where "remember for this turn" may be offered, `none` where every question is to be answered anew.
            optional: The person may skip it; the answer is then None.
            when: In a form: ask only if an earlier question was answered so. Where it was not, the answer is None.

        Raises:
            QuestionError: Rules are broken; `problems` has all of them, each with its place and what to do.
        """
        made, returns = schema_as_json(schema)
        terms = _terms(default, context=context, exclusive=exclusive, persistence=persistence, optional=optional, when=when)
        return _author(id, text, {"type": "schema", "schema": made}, terms, returns)

    @classmethod
    def from_json(cls, obj: object, limits: Limits = DEFAULT_LIMITS) -> Question[Any]:
        """Read a question that a tool or a model authors now: an unknown key is a problem, `pre_amble` is read as `context`.

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

        Raises:
            AnswerError: The value is not an answer; `problems` says where and what is allowed, and never shows a secret.
        """
        answer = check_answer(self, value, depth_limit)
        python_answer(self.answer_type, self.returns, answer)
        return answer

    def typed(self, answer: Json | SecretValue) -> T_co:
        """Return a checked answer as `T`: the member of an `Enum`, an instance of the type behind a schema, else as it is."""
        return cast("T_co", python_answer(self.answer_type, self.returns, answer))

    def persisted(self) -> PersistedQuestion:
        """Return what the stream keeps of this question."""
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
        if isinstance(read, Mapping):
            msgspec.structs.force_setattr(self, "answer_type", read_persisted_type(cast("JsonObject", read)))
        elif not isinstance(read, Struct | UnknownType):
            raise TypeError("`answer_type` must be an object with a `type`")
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
        return canonical(self.to_json())

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
        return question if self.default is UNSET else _with_default(question, self.default)


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


def _ask_for_text(  # noqa: PLR0913  the terms of a question
    id: str,
    text: str,
    *,
    default: str | None = None,
    pattern: str | None = None,
    min_length: int | None = None,
    max_length: int | None = None,
    context: str | None = None,
    exclusive: bool = False,
    persistence: Persistence = "turn",
    optional: bool = False,
    when: When | None = None,
) -> Question[Any]:
    """Ask for a text; the answer is a `str`.

    Args:
        id: The key of the answer, 1 to 64 of `A-Z a-z 0-9 _ -`, not beginning with `__`.
        text: The question, one line of at most 2,048 characters.
        pattern: A regular expression (without look-around) that has to match somewhere in the answer; `^` and `$` bind it.
        min_length: At least so many characters.
        max_length: At most so many.
        default: What stands in the field when it opens.
        context: What the person should know first: Markdown of several lines, shown above the text, at most 16 KiB.
        exclusive: Only a human may answer, never a model.
        persistence: `turn` where "remember for this turn" may be offered, `none` where every question is to be answered anew.
        optional: The person may skip it; the answer is then None.
        when: In a form: ask only if an earlier question was answered so. Where it was not, the answer is None.

    Raises:
        QuestionError: Rules are broken; `problems` has all of them, each with its place and what to do.
    """
    terms = _terms(default, context=context, exclusive=exclusive, persistence=persistence, optional=optional, when=when)
    if pattern is None and min_length is None and max_length is None:
        return _author(id, text, {"type": "text"}, terms)
    return _author(id, text, _scalar({"type": "string", "pattern": pattern, "minLength": min_length, "maxLength": max_length}), terms)


_ask_for_text.__name__, _ask_for_text.__qualname__ = "text", "Question.text"


def _scalar(schema: Mapping[str, Json]) -> JsonObject:
    return {"type": "schema", "schema": {key: value for key, value in schema.items() if value is not None}}


def _terms(default: object, **terms: object) -> dict[str, object]:
    """Gather the terms of a question, those left out as None."""
    return {"default": None if default is None else default_as_json(default), **terms}


def _author(id: str, text: str, answer_type: JsonObject, terms: Mapping[str, object], returns: object = None) -> Question[Any]:
    """Build the JSON that an author would write, and read it: one set of rules for both."""
    given: dict[str, object] = {"id": id, "text": text, "answer_type": answer_type, **terms}
    wire = {name: value for name, value in given.items() if value is not None}
    return author(Question[Any], written(wire), DEFAULT_LIMITS, returns)


def _as_json(question: QuestionFields | PersistedQuestion, write_option: Callable[[JsonObject], Json]) -> dict[str, Json]:
    wire = cast("dict[str, Json]", msgspec.to_builtins(question, enc_hook=_custom_as_json))
    answer_type = cast("dict[str, Json]", wire["answer_type"])
    if isinstance(question.answer_type, SelectType | MultiSelectType):
        answer_type["options"] = [write_option(option) for option in cast("Sequence[JsonObject]", answer_type["options"])]
    return wire


def _custom_as_json(value: Any) -> Json:
    """Write what msgspec does not know: an unknown answer type as it was read; the Python type of an answer not at all."""
    return cast("Json", value.to_json()) if isinstance(value, UnknownType) else None
