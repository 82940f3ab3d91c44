"""`Question.boolean`, `.select` and the other constructors, one for each type of answer, with their keywords."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, TypeAlias, TypedDict, TypeVar, Unpack, overload

from msgspec import UNSET, Struct

from midturn.question.answer_type import OtherAnswer, Persistence, SelectOption, When
from midturn.question.authoring import author, plain
from midturn.question.json_value import DEFAULT_LIMITS, Json, JsonObject, Scalar, SecretValue
from midturn.question.people import Deadline, People, deadline_as_json
from midturn.question.python_types import default_as_json, options_as_json, schema_as_json


class Constructors:
    """Constructors of `Question`, except `Question.text`, whose name is a field's as well."""

    __slots__ = ()

    @overload
    @classmethod
    def boolean(cls, id: str, text: str, **terms: Unpack[Always[bool]]) -> Question[bool]: ...
    @overload
    @classmethod
    def boolean(cls, id: str, text: str, **terms: Unpack[Perhaps[bool]]) -> Question[bool | None]: ...
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
        """Ask for yes or no; the answer is a `bool`.

        Args:
            id: The key of the answer, 1 to 64 of `A-Z a-z 0-9 _ -`, not beginning with `__`.
            text: The question, one line of at most 2,048 characters.
            default: The answer that Enter gives; without one, Enter does nothing.
            context: What the person should know first: Markdown of several lines, shown above the text, at most 16 KiB.
            exclusive: Only a human may answer, never a model.
            persistence: `turn` if the person may have the answer remembered for the turn, `conversation` if for the whole conversation,
                too, `none` if every question is to be answered anew.
            optional: The person may skip it; the answer is then None.
            when: In a form: ask only if an earlier question was answered so. Where it was not, the answer is None.
            deadline: How long an answer may take (seconds, `2h`, a `timedelta`), or until when. Past it there is no answer.
            people: Whose question it is: who is asked, who alone may answer, how many have to say yes.

        Raises:
            QuestionError: Rules are broken; `problems` has all of them, each with its place and what to do.
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
    def select(cls, id: str, text: str, options: Options[S], *, allow_other: No = False, **terms: Unpack[Always[S]]) -> Question[S]: ...
    @overload
    @classmethod
    def select(
        cls, id: str, text: str, options: Options[S], *, allow_other: No = False, **terms: Unpack[Perhaps[S]]
    ) -> Question[S | None]: ...
    @overload
    @classmethod
    def select(cls, id: str, text: str, options: Options[S], *, allow_other: Yes, **terms: Unpack[Always[Own[S]]]) -> Question[Own[S]]: ...
    @overload
    @classmethod
    def select(
        cls, id: str, text: str, options: Options[S], *, allow_other: Yes, **terms: Unpack[Perhaps[Own[S]]]
    ) -> Question[Own[S] | None]: ...
    @overload
    @classmethod
    def select(cls, id: str, text: str, options: type[E], **terms: Unpack[Always[E]]) -> Question[E]: ...
    @overload
    @classmethod
    def select(cls, id: str, text: str, options: type[E], **terms: Unpack[Perhaps[E]]) -> Question[E | None]: ...
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
            persistence: `turn` if the person may have the answer remembered for the turn, `conversation` if for the whole conversation,
                too, `none` if every question is to be answered anew.
            optional: The person may skip it; the answer is then None.
            when: In a form: ask only if an earlier question was answered so. Where it was not, the answer is None.
            deadline: How long an answer may take (seconds, `2h`, a `timedelta`), or until when. Past it there is no answer.
            people: Whose question it is: who is asked, who alone may answer, how many have to say yes.

        Raises:
            QuestionError: Rules are broken; `problems` has all of them, each with its place and what to do.
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
        cls, id: str, text: str, options: Options[S], *, allow_other: No = False, **terms: Unpack[AlwaysSeveral[S]]
    ) -> Question[list[S]]: ...
    @overload
    @classmethod
    def multi_select(
        cls, id: str, text: str, options: Options[S], *, allow_other: No = False, **terms: Unpack[PerhapsSeveral[S]]
    ) -> Question[list[S] | None]: ...
    @overload
    @classmethod
    def multi_select(
        cls, id: str, text: str, options: Options[S], *, allow_other: Yes, **terms: Unpack[AlwaysSeveral[Own[S]]]
    ) -> Question[list[Own[S]]]: ...
    @overload
    @classmethod
    def multi_select(
        cls, id: str, text: str, options: Options[S], *, allow_other: Yes, **terms: Unpack[PerhapsSeveral[Own[S]]]
    ) -> Question[list[Own[S]] | None]: ...
    @overload
    @classmethod
    def multi_select(cls, id: str, text: str, options: type[E], **terms: Unpack[AlwaysSeveral[E]]) -> Question[list[E]]: ...
    @overload
    @classmethod
    def multi_select(cls, id: str, text: str, options: type[E], **terms: Unpack[PerhapsSeveral[E]]) -> Question[list[E] | None]: ...
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
            persistence: `turn` if the person may have the answer remembered for the turn, `conversation` if for the whole conversation,
                too, `none` if every question is to be answered anew.
            optional: The person may skip it; the answer is then None.
            when: In a form: ask only if an earlier question was answered so. Where it was not, the answer is None.
            deadline: How long an answer may take (seconds, `2h`, a `timedelta`), or until when. Past it there is no answer.
            people: Whose question it is: who is asked, who alone may answer, how many have to say yes.

        Raises:
            QuestionError: Rules are broken; `problems` has all of them, each with its place and what to do.
        """
        values, returns = options_as_json(options)
        wire: dict[str, Json] = {"type": "multi_select", "options": values, "min": min, "allow_other": allow_other}
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
    def number(cls, id: str, text: str, *, type: type[int], **terms: Unpack[AlwaysWithin[int]]) -> Question[int]: ...
    @overload
    @classmethod
    def number(  # pyright: ignore[reportOverlappingOverload]  (an `int` is a `float` to a type checker)
        cls, id: str, text: str, *, type: type[int], **terms: Unpack[PerhapsWithin[int]]
    ) -> Question[int | None]: ...
    @overload
    @classmethod
    def number(cls, id: str, text: str, *, type: type[float] = float, **terms: Unpack[AlwaysWithin[float]]) -> Question[float]: ...
    @overload
    @classmethod
    def number(cls, id: str, text: str, *, type: type[float] = float, **terms: Unpack[PerhapsWithin[float]]) -> Question[float | None]: ...
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
            persistence: `turn` if the person may have the answer remembered for the turn, `conversation` if for the whole conversation,
                too, `none` if every question is to be answered anew.
            optional: The person may skip it; the answer is then None.
            when: In a form: ask only if an earlier question was answered so. Where it was not, the answer is None.
            deadline: How long an answer may take (seconds, `2h`, a `timedelta`), or until when. Past it there is no answer.
            people: Whose question it is: who is asked, who alone may answer, how many have to say yes.

        Raises:
            QuestionError: Rules are broken; `problems` has all of them, each with its place and what to do.
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
        return authored(cls, {"id": id, "text": text, "answer_type": bounded(schema), **terms}, type)

    @overload
    @classmethod
    def secret(cls, id: str, text: str, *, optional: No = False, when: None = None, **terms: Unpack[Terms]) -> Question[SecretValue]: ...
    @overload
    @classmethod
    def secret(
        cls, id: str, text: str, *, optional: bool = False, when: When | None = None, **terms: Unpack[Terms]
    ) -> Question[SecretValue | None]: ...
    @classmethod
    def secret(  # noqa: PLR0913  the terms of a question
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
        """Ask for a secret; the answer is a `SecretValue`, which is never stored, logged, shown or sent to a model.

        Args:
            id: The key of the answer, 1 to 64 of `A-Z a-z 0-9 _ -`, not beginning with `__`.
            text: The question, one line of at most 2,048 characters.
            context: What the person should know first: Markdown of several lines, shown above the text, at most 16 KiB.
            exclusive: Only a human may answer, never a model.
            persistence: `turn` if the person may have the answer remembered for the turn, `conversation` if for the whole conversation,
                too, `none` if every question is to be answered anew.
            optional: The person may skip it; the answer is then None.
            when: In a form: ask only if an earlier question was answered so. Where it was not, the answer is None.
            deadline: How long an answer may take (seconds, `2h`, a `timedelta`), or until when. Past it there is no answer.
            people: Whose question it is: who is asked, who alone may answer, how many have to say yes.

        Raises:
            QuestionError: Rules are broken; `problems` has all of them, each with its place and what to do.
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
    def schema(cls, id: str, text: str, schema: type[V], **terms: Unpack[Always[V]]) -> Question[V]: ...
    @overload
    @classmethod
    def schema(cls, id: str, text: str, schema: type[V], **terms: Unpack[Perhaps[V]]) -> Question[V | None]: ...
    @overload
    @classmethod
    def schema(cls, id: str, text: str, schema: JsonObject, **terms: Unpack[Perhaps[Json]]) -> Question[Json]: ...
    @overload
    @classmethod
    def schema(
        cls, id: str, text: str, schema: object, **terms: Unpack[Perhaps[Any]]
    ) -> Question[Any]: ...  # a type with constraints (`Annotated`, a union) is no `type` to a type checker
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
        """Ask for a value of a type: JSON that is valid under its schema.

        Args:
            id: The key of the answer, 1 to 64 of `A-Z a-z 0-9 _ -`, not beginning with `__`.
            text: The question, one line of at most 2,048 characters.
            schema: A type: `list[str]`, an `Enum`, a dataclass, a `TypedDict`, a `msgspec.Struct`, a Pydantic model, any of them with
                constraints in `Annotated`; the answer is a value of it. Or a JSON Schema of the closed subset; the answer is then JSON.
            default: A value of the type.
            context: What the person should know first: Markdown of several lines, shown above the text, at most 16 KiB.
            exclusive: Only a human may answer, never a model.
            persistence: `turn` if the person may have the answer remembered for the turn, `conversation` if for the whole conversation,
                too, `none` if every question is to be answered anew.
            optional: The person may skip it; the answer is then None.
            when: In a form: ask only if an earlier question was answered so. Where it was not, the answer is None.
            deadline: How long an answer may take (seconds, `2h`, a `timedelta`), or until when. Past it there is no answer.
            people: Whose question it is: who is asked, who alone may answer, how many have to say yes.

        Raises:
            QuestionError: Rules are broken; `problems` has all of them, each with its place and what to do.
        """
        made, returns = schema_as_json(schema)
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
        return authored(cls, {"id": id, "text": text, "answer_type": {"type": "schema", "schema": made}, **terms}, returns)


def authored(cls: type[Any], asked: Mapping[str, object], returns: object = None) -> Question[Any]:
    """Build the JSON that an author would write, and read it: one set of rules for both. What is None is not written."""
    if not _WRITTEN.issuperset(map(type, asked.values())):
        asked = {
            name: plain(value) if isinstance(value, Struct) else value
            for name, value in asked.items()
            if value is not None and value is not UNSET
        }
    return author(cls, asked, DEFAULT_LIMITS, returns)


_WRITTEN: Final = frozenset({str, bool, dict})
"""Types of values that are their own JSON, as nearly all are that an author gives."""


def terms_of(
    default: object,
    *,
    context: str | None = None,
    when: When | None = None,
    deadline: Deadline | None = None,
    people: People | None = None,
    **terms: object,
) -> dict[str, object]:
    """Gather the terms of a question, without those that are left out."""
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
    """Return the answer type of a text or a number within bounds, those left out as None."""
    return {"type": "schema", "schema": {key: value for key, value in schema.items() if value is not None}}


# Keywords of the constructors, for type checkers only: nothing of this is there when a program runs ----------------------


if TYPE_CHECKING:
    from midturn.question.question import Question

    S = TypeVar("S", bound=Scalar)
    E = TypeVar("E", bound=Enum)
    V = TypeVar("V")
    Yes: TypeAlias = Literal[True]
    No: TypeAlias = Literal[False]
    Options: TypeAlias = Sequence[S | SelectOption[S]]
    Own: TypeAlias = S | OtherAnswer
    """An option, or a person's own words."""

    class Terms(TypedDict, total=False):
        """The terms on which any question may be asked."""

        context: str | None
        exclusive: bool
        persistence: Persistence
        deadline: Deadline | None
        people: People | None

    class TermsOf(Terms, Generic[V], total=False):
        """The terms of a question that may have a default."""

        default: V | None

    class Ungated(TypedDict, total=False):
        """A question that is asked in any case, and has an answer."""

        optional: No
        when: None

    class Gated(TypedDict, total=False):
        """A question that may be skipped, or is asked only after another answer; else its answer is None."""

        optional: bool
        when: When | None

    class Several(TypedDict, total=False):
        """At least and at most how many choices."""

        min: int
        max: int | None

    class Within(TypedDict, Generic[V], total=False):
        """The smallest and the largest number."""

        min: V | None
        max: V | None

    class Always(TermsOf[V], Ungated, total=False):
        """The terms of a question with a default that is asked in any case."""

    class Perhaps(TermsOf[V], Gated, total=False):
        """The terms of a question with a default that may go without an answer."""

    class AlwaysSeveral(Always[Sequence[V]], Several, total=False):
        """The terms of several choices that are asked in any case."""

    class PerhapsSeveral(Perhaps[Sequence[V]], Several, total=False):
        """The terms of several choices that may go without an answer."""

    class AlwaysWithin(Always[V], Within[V], total=False):
        """The terms of a number that is asked in any case."""

    class PerhapsWithin(Perhaps[V], Within[V], total=False):
        """The terms of a number that may go without an answer."""

    class TextTerms(TermsOf[str], total=False):
        """The terms of a text."""

        pattern: str | None
        min_length: int | None
        max_length: int | None
