"""The constructors of `Question`, one for each answer type (`boolean`, `select`, …), with their
type hints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    Literal,
    TypeAlias,
    TypedDict,
    TypeVar,
    Unpack,
    overload,
)

from msgspec import UNSET, Struct

from midturn.question.answer_type import OtherAnswer, Persistence, SelectOption, When
from midturn.question.authoring import author, plain
from midturn.question.json_value import DEFAULT_LIMITS, Json, JsonObject, Scalar, SecretValue
from midturn.question.people import Deadline, People, deadline_as_json
from midturn.question.python_types import default_as_json, options_as_json, schema_as_json


class Constructors:
    """The constructors of `Question`, except `Question.text`, which is also the name of a field."""

    __slots__ = ()

    @overload
    @classmethod
    def boolean(cls, id: str, text: str, **terms: Unpack[Always[bool]]) -> Question[bool]: ...
    @overload
    @classmethod
    def boolean(
        cls, id: str, text: str, **terms: Unpack[Perhaps[bool]]
    ) -> Question[bool | None]: ...
    @classmethod
    def boolean(  # noqa: PLR0913  the terms of a question
        cls,
        id: str,
        text: str,
        *,
        default: bool | None = None,
        context: str | None = None,
        exclusive: bool = False,
        persistence: Persistence = "turn",
        optional: bool = False,
        when: When | None = None,
        deadline: Deadline | None = None,
        people: People | None = None,
    ) -> Question[Any]:
        """Ask for yes or no. The answer is a `bool`.

        Args:
            id: Key of the answer: 1 to 64 of `A-Z a-z 0-9 _ -`, not starting with `__`.
            text: The question, in one line of at most 2,048 characters.
            default: The answer if the person presses Enter. Without a default, Enter does nothing.
            context: Background information in Markdown, shown above the text. At most 16 KiB.
            exclusive: Whether only a human may answer, never a model.
            persistence: How long the person can have the answer remembered: `none`
                (not at all), `turn` or `conversation`.
            optional: Whether the person may skip the question. The answer is then None.
            when: In a form, ask only if an earlier question has this answer. If the question is
                not asked, its answer is None.
            deadline: Time limit for an answer (seconds, a duration such as `2h`, a `timedelta`), or
                a `datetime`. After the deadline, the question closes without an answer.
            people: People who are notified, people who may answer, and the number of required
                approvals.

        Raises:
            QuestionError: The question is invalid. `problems` lists every problem with a JSON
                pointer and a remedy.
        """
        terms = terms_of(
            default,
            context=context,
            exclusive=exclusive,
            persistence=persistence,
            optional=optional,
            when=when,
            deadline=deadline,
            people=people,
        )
        return authored(cls, {"id": id, "text": text, "answer_type": {"type": "boolean"}, **terms})

    @overload
    @classmethod
    def select(
        cls,
        id: str,
        text: str,
        options: Options[S],
        *,
        allow_other: No = False,
        **terms: Unpack[Always[S]],
    ) -> Question[S]: ...
    @overload
    @classmethod
    def select(
        cls,
        id: str,
        text: str,
        options: Options[S],
        *,
        allow_other: No = False,
        **terms: Unpack[Perhaps[S]],
    ) -> Question[S | None]: ...
    @overload
    @classmethod
    def select(
        cls,
        id: str,
        text: str,
        options: Options[S],
        *,
        allow_other: Yes,
        **terms: Unpack[Always[Own[S]]],
    ) -> Question[Own[S]]: ...
    @overload
    @classmethod
    def select(
        cls,
        id: str,
        text: str,
        options: Options[S],
        *,
        allow_other: Yes,
        **terms: Unpack[Perhaps[Own[S]]],
    ) -> Question[Own[S] | None]: ...
    @overload
    @classmethod
    def select(
        cls, id: str, text: str, options: type[E], **terms: Unpack[Always[E]]
    ) -> Question[E]: ...
    @overload
    @classmethod
    def select(
        cls, id: str, text: str, options: type[E], **terms: Unpack[Perhaps[E]]
    ) -> Question[E | None]: ...
    @classmethod
    def select(  # noqa: PLR0913  the terms of a question
        cls,
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
        deadline: Deadline | None = None,
        people: People | None = None,
    ) -> Question[Any]:
        """Ask for exactly one option. The answer is its value, or the member of the `Enum`.

        Args:
            id: Key of the answer: 1 to 64 of `A-Z a-z 0-9 _ -`, not starting with `__`.
            text: The question, in one line of at most 2,048 characters.
            options: 1 to 200 values, in the order in which they are shown: strings, numbers,
                `SelectOption`s (to add a description) or an `Enum`.
            allow_other: Whether the person may answer in their own words, `{"other": "<text>"}`.
            default: Value (not position) of the option that is selected first.
            context: Background information in Markdown, shown above the text. At most 16 KiB.
            exclusive: Whether only a human may answer, never a model.
            persistence: How long the person can have the answer remembered: `none`
                (not at all), `turn` or `conversation`.
            optional: Whether the person may skip the question. The answer is then None.
            when: In a form, ask only if an earlier question has this answer. If the question is
                not asked, its answer is None.
            deadline: Time limit for an answer (seconds, a duration such as `2h`, a `timedelta`), or
                a `datetime`. After the deadline, the question closes without an answer.
            people: People who are notified, people who may answer, and the number of required
                approvals.

        Raises:
            QuestionError: The question is invalid. `problems` lists every problem with a JSON
                pointer and a remedy.
        """
        values, returns = options_as_json(options)
        wire = {"type": "select", "options": values, "allow_other": allow_other}
        terms = terms_of(
            default,
            context=context,
            exclusive=exclusive,
            persistence=persistence,
            optional=optional,
            when=when,
            deadline=deadline,
            people=people,
        )
        return authored(cls, {"id": id, "text": text, "answer_type": wire, **terms}, returns)

    @overload
    @classmethod
    def multi_select(
        cls,
        id: str,
        text: str,
        options: Options[S],
        *,
        allow_other: No = False,
        **terms: Unpack[AlwaysSeveral[S]],
    ) -> Question[list[S]]: ...
    @overload
    @classmethod
    def multi_select(
        cls,
        id: str,
        text: str,
        options: Options[S],
        *,
        allow_other: No = False,
        **terms: Unpack[PerhapsSeveral[S]],
    ) -> Question[list[S] | None]: ...
    @overload
    @classmethod
    def multi_select(
        cls,
        id: str,
        text: str,
        options: Options[S],
        *,
        allow_other: Yes,
        **terms: Unpack[AlwaysSeveral[Own[S]]],
    ) -> Question[list[Own[S]]]: ...
    @overload
    @classmethod
    def multi_select(
        cls,
        id: str,
        text: str,
        options: Options[S],
        *,
        allow_other: Yes,
        **terms: Unpack[PerhapsSeveral[Own[S]]],
    ) -> Question[list[Own[S]] | None]: ...
    @overload
    @classmethod
    def multi_select(
        cls, id: str, text: str, options: type[E], **terms: Unpack[AlwaysSeveral[E]]
    ) -> Question[list[E]]: ...
    @overload
    @classmethod
    def multi_select(
        cls, id: str, text: str, options: type[E], **terms: Unpack[PerhapsSeveral[E]]
    ) -> Question[list[E] | None]: ...
    @classmethod
    def multi_select(  # noqa: PLR0913  the terms of a question
        cls,
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
        deadline: Deadline | None = None,
        people: People | None = None,
    ) -> Question[Any]:
        """Ask for any number of options. The answer is a list in option order, without repeats.

        Args:
            id: Key of the answer: 1 to 64 of `A-Z a-z 0-9 _ -`, not starting with `__`.
            text: The question, in one line of at most 2,048 characters.
            options: 1 to 200 values, in the order in which they are shown: strings, numbers,
                `SelectOption`s (to add a description) or an `Enum`.
            allow_other: Whether the person may answer in their own words, `{"other": "<text>"}`.
            min: Minimum number of choices. Own words count as one choice.
            max: Maximum number of choices. None: no limit.
            default: Values that are selected first.
            context: Background information in Markdown, shown above the text. At most 16 KiB.
            exclusive: Whether only a human may answer, never a model.
            persistence: How long the person can have the answer remembered: `none`
                (not at all), `turn` or `conversation`.
            optional: Whether the person may skip the question. The answer is then None.
            when: In a form, ask only if an earlier question has this answer. If the question is
                not asked, its answer is None.
            deadline: Time limit for an answer (seconds, a duration such as `2h`, a `timedelta`), or
                a `datetime`. After the deadline, the question closes without an answer.
            people: People who are notified, people who may answer, and the number of required
                approvals.

        Raises:
            QuestionError: The question is invalid. `problems` lists every problem with a JSON
                pointer and a remedy.
        """
        values, returns = options_as_json(options)
        wire: dict[str, Json] = {
            "type": "multi_select",
            "options": values,
            "min": min,
            "allow_other": allow_other,
        }
        if max is not None:
            wire["max"] = max
        terms = terms_of(
            default,
            context=context,
            exclusive=exclusive,
            persistence=persistence,
            optional=optional,
            when=when,
            deadline=deadline,
            people=people,
        )
        return authored(cls, {"id": id, "text": text, "answer_type": wire, **terms}, returns)

    @overload
    @classmethod
    def number(
        cls, id: str, text: str, *, type: type[int], **terms: Unpack[AlwaysWithin[int]]
    ) -> Question[int]: ...
    @overload
    @classmethod
    def number(  # pyright: ignore[reportOverlappingOverload]  (an `int` is a `float` to a type checker)
        cls, id: str, text: str, *, type: type[int], **terms: Unpack[PerhapsWithin[int]]
    ) -> Question[int | None]: ...
    @overload
    @classmethod
    def number(
        cls, id: str, text: str, *, type: type[float] = float, **terms: Unpack[AlwaysWithin[float]]
    ) -> Question[float]: ...
    @overload
    @classmethod
    def number(
        cls, id: str, text: str, *, type: type[float] = float, **terms: Unpack[PerhapsWithin[float]]
    ) -> Question[float | None]: ...
    @classmethod
    def number(  # noqa: PLR0913  the terms of a question
        cls,
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
        deadline: Deadline | None = None,
        people: People | None = None,
    ) -> Question[Any]:
        """Ask for a number. The answer is an `int` or a `float`.

        Args:
            id: Key of the answer: 1 to 64 of `A-Z a-z 0-9 _ -`, not starting with `__`.
            text: The question, in one line of at most 2,048 characters.
            type: `int` for whole numbers, `float` for any number.
            min: Smallest allowed number.
            max: Largest allowed number.
            default: Initial value of the field.
            context: Background information in Markdown, shown above the text. At most 16 KiB.
            exclusive: Whether only a human may answer, never a model.
            persistence: How long the person can have the answer remembered: `none`
                (not at all), `turn` or `conversation`.
            optional: Whether the person may skip the question. The answer is then None.
            when: In a form, ask only if an earlier question has this answer. If the question is
                not asked, its answer is None.
            deadline: Time limit for an answer (seconds, a duration such as `2h`, a `timedelta`), or
                a `datetime`. After the deadline, the question closes without an answer.
            people: People who are notified, people who may answer, and the number of required
                approvals.

        Raises:
            QuestionError: The question is invalid. `problems` lists every problem with a JSON
                pointer and a remedy.
        """
        schema = {"type": "integer" if type is int else "number", "minimum": min, "maximum": max}
        terms = terms_of(
            default,
            context=context,
            exclusive=exclusive,
            persistence=persistence,
            optional=optional,
            when=when,
            deadline=deadline,
            people=people,
        )
        return authored(
            cls, {"id": id, "text": text, "answer_type": bounded(schema), **terms}, type
        )

    @overload
    @classmethod
    def secret(
        cls, id: str, text: str, *, optional: No = False, when: None = None, **terms: Unpack[Terms]
    ) -> Question[SecretValue]: ...
    @overload
    @classmethod
    def secret(
        cls,
        id: str,
        text: str,
        *,
        optional: bool = False,
        when: When | None = None,
        **terms: Unpack[Terms],
    ) -> Question[SecretValue | None]: ...
    @classmethod
    def secret(
        cls,
        id: str,
        text: str,
        *,
        context: str | None = None,
        exclusive: bool = False,
        persistence: Persistence = "turn",
        optional: bool = False,
        when: When | None = None,
        deadline: Deadline | None = None,
        people: People | None = None,
    ) -> Question[Any]:
        """Ask for a secret. The answer is a `SecretValue`, which is never stored, logged, shown or
        sent to a model.

        Args:
            id: Key of the answer: 1 to 64 of `A-Z a-z 0-9 _ -`, not starting with `__`.
            text: The question, in one line of at most 2,048 characters.
            context: Background information in Markdown, shown above the text. At most 16 KiB.
            exclusive: Whether only a human may answer, never a model.
            persistence: Without effect, because a secret is never remembered. `conversation` is
                rejected.
            optional: Whether the person may skip the question. The answer is then None.
            when: In a form, ask only if an earlier question has this answer. If the question is
                not asked, its answer is None.
            deadline: Time limit for an answer (seconds, a duration such as `2h`, a `timedelta`), or
                a `datetime`. After the deadline, the question closes without an answer.
            people: People who are notified, people who may answer, and the number of required
                approvals.

        Raises:
            QuestionError: The question is invalid. `problems` lists every problem with a JSON
                pointer and a remedy.
        """
        terms = terms_of(
            None,
            context=context,
            exclusive=exclusive,
            persistence=persistence,
            optional=optional,
            when=when,
            deadline=deadline,
            people=people,
        )
        return authored(cls, {"id": id, "text": text, "answer_type": {"type": "secret"}, **terms})

    @overload
    @classmethod
    def schema(
        cls, id: str, text: str, schema: type[V], **terms: Unpack[Always[V]]
    ) -> Question[V]: ...
    @overload
    @classmethod
    def schema(
        cls, id: str, text: str, schema: type[V], **terms: Unpack[Perhaps[V]]
    ) -> Question[V | None]: ...
    @overload
    @classmethod
    def schema(
        cls, id: str, text: str, schema: JsonObject, **terms: Unpack[Perhaps[Json]]
    ) -> Question[Json]: ...
    @overload
    @classmethod
    def schema(
        cls, id: str, text: str, schema: object, **terms: Unpack[Perhaps[Any]]
    ) -> Question[Any]: ...  # type checkers do not accept `Annotated` or a union as `type`
    @classmethod
    def schema(  # noqa: PLR0913  the terms of a question
        cls,
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
        deadline: Deadline | None = None,
        people: People | None = None,
    ) -> Question[Any]:
        """Ask for a value of a Python type, or for JSON that is valid under a JSON Schema.

        Args:
            id: Key of the answer: 1 to 64 of `A-Z a-z 0-9 _ -`, not starting with `__`.
            text: The question, in one line of at most 2,048 characters.
            schema: A Python type, or a JSON Schema of the supported subset. The answer is a value
                of the type, or JSON. Supported types are types such as `list[str]`, enums,
                dataclasses, `TypedDict`s, `msgspec.Struct`s, Pydantic models, and these types with
                constraints in `Annotated`.
            default: Initial value of the field: a value of the type, or JSON.
            context: Background information in Markdown, shown above the text. At most 16 KiB.
            exclusive: Whether only a human may answer, never a model.
            persistence: How long the person can have the answer remembered: `none`
                (not at all), `turn` or `conversation`.
            optional: Whether the person may skip the question. The answer is then None.
            when: In a form, ask only if an earlier question has this answer. If the question is
                not asked, its answer is None.
            deadline: Time limit for an answer (seconds, a duration such as `2h`, a `timedelta`), or
                a `datetime`. After the deadline, the question closes without an answer.
            people: People who are notified, people who may answer, and the number of required
                approvals.

        Raises:
            QuestionError: The question is invalid. `problems` lists every problem with a JSON
                pointer and a remedy.
        """
        schema_json, returns = schema_as_json(schema)
        terms = terms_of(
            default,
            context=context,
            exclusive=exclusive,
            persistence=persistence,
            optional=optional,
            when=when,
            deadline=deadline,
            people=people,
        )
        return authored(
            cls,
            {
                "id": id,
                "text": text,
                "answer_type": {"type": "schema", "schema": schema_json},
                **terms,
            },
            returns,
        )


def authored(cls: type[Any], fields: Mapping[str, object], returns: object = None) -> Question[Any]:
    """Build a question with the reader for authored JSON, so that the same rules apply. None values
    are omitted.
    """
    if not _JSON_TYPES.issuperset(map(type, fields.values())):
        fields = {
            name: plain(value) if isinstance(value, Struct) else value
            for name, value in fields.items()
            if value is not None and value is not UNSET
        }
    return author(cls, fields, DEFAULT_LIMITS, returns)


_JSON_TYPES: Final = frozenset({str, bool, dict})
"""Types whose values do not have to be converted to JSON. Most values have one of these types."""


def terms_of(
    default: object,
    *,
    context: str | None = None,
    when: When | None = None,
    deadline: Deadline | None = None,
    people: People | None = None,
    **terms: object,
) -> dict[str, object]:
    """Return the optional fields of a question that are set."""
    if context is not None:
        terms["context"] = context
    if when is not None:
        terms["when"] = when
    if default is not None:
        terms["default"] = default_as_json(default)
    if deadline is not None:
        terms |= deadline_as_json(deadline)
    if people is not None:
        terms["people"] = plain(people)
    return terms


def bounded(schema: Mapping[str, Json]) -> JsonObject:
    """Return the answer type of a text or number with bounds. Bounds of None are omitted."""
    return {
        "type": "schema",
        "schema": {key: value for key, value in schema.items() if value is not None},
    }


# Type hints for the constructors' keyword arguments, used only by type checkers
# ---------------------------------------


if TYPE_CHECKING:
    from midturn.question.question import Question

    S = TypeVar("S", bound=Scalar)
    E = TypeVar("E", bound=Enum)
    V = TypeVar("V")
    Yes: TypeAlias = Literal[True]
    No: TypeAlias = Literal[False]
    Options: TypeAlias = Sequence[S | SelectOption[S]]
    Own: TypeAlias = S | OtherAnswer
    """An option, or the person's own text."""

    class Terms(TypedDict, total=False):
        """The keywords of every constructor."""

        context: str | None
        exclusive: bool
        persistence: Persistence
        deadline: Deadline | None
        people: People | None

    class TermsOf(Terms, Generic[V], total=False):
        """The keywords of a question that may have a default."""

        default: V | None

    class Ungated(TypedDict, total=False):
        """A question that is always asked and must be answered."""

        optional: No
        when: None

    class Gated(TypedDict, total=False):
        """A question whose answer may be None, because it may be skipped or depends on another
        answer.
        """

        optional: bool
        when: When | None

    class Several(TypedDict, total=False):
        """Minimum and maximum number of choices."""

        min: int
        max: int | None

    class Within(TypedDict, Generic[V], total=False):
        """The smallest and the largest number."""

        min: V | None
        max: V | None

    class Always(TermsOf[V], Ungated, total=False):
        """The keywords of a question with a default that is always asked."""

    class Perhaps(TermsOf[V], Gated, total=False):
        """The keywords of a question with a default whose answer may be None."""

    class AlwaysSeveral(Always[Sequence[V]], Several, total=False):
        """The keywords of a multiple-choice question that is always asked."""

    class PerhapsSeveral(Perhaps[Sequence[V]], Several, total=False):
        """The keywords of a multiple-choice question whose answer may be None."""

    class AlwaysWithin(Always[V], Within[V], total=False):
        """The keywords of a number question that is always asked."""

    class PerhapsWithin(Perhaps[V], Within[V], total=False):
        """The keywords of a number question whose answer may be None."""

    class TextTerms(TermsOf[str], total=False):
        """The keywords of a text question."""

        pattern: str | None
        min_length: int | None
        max_length: int | None
