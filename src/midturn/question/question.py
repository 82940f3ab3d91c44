"""A question, as a tool or a model authors it."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, Protocol, TypeVar, cast, overload

import msgspec
from msgspec import UNSET, UnsetType

from midturn.question.answer import DEPTH_LIMIT, check_answer, parse_answer
from midturn.question.answer_type import AuthoredFields, Persistence, When
from midturn.question.authoring import author, stays_as_authored, written
from midturn.question.constructors import Constructors, authored, bounded, terms_of
from midturn.question.json_value import DEFAULT_LIMITS, Json, JsonObject, Limits, SecretValue
from midturn.question.people import Deadline, People
from midturn.question.persisted_question import PERSISTED, PersistedQuestion, question_json
from midturn.question.public_names import name_methods
from midturn.question.python_types import python_answer

if TYPE_CHECKING:
    from typing import Unpack

    from midturn.question.constructors import TextTerms


# `question.text` and `Question.text(…)`: one name for a field and a constructor ---------------------------------------


class _TextConstructor(Protocol):
    """The type of `Question.text(…)`."""

    @overload
    def __call__(
        self, id: str, text: str, *, optional: Literal[False] = False, when: None = None, **terms: Unpack[TextTerms]
    ) -> Question[str]: ...
    @overload
    def __call__(
        self, id: str, text: str, *, optional: bool = False, when: When | None = None, **terms: Unpack[TextTerms]
    ) -> Question[str | None]: ...
    def __call__(self, id: str, text: str, **terms: Any) -> Question[Any]: ...


class Text:
    """`question.text` is the text; `Question.text(…)` asks for one. One name serves both."""

    def __init__(self, stored: Callable[[AuthoredFields], str]) -> None:
        self._stored = stored

    @overload
    def __get__(self, question: None, owner: type) -> _TextConstructor: ...
    @overload
    def __get__(self, question: AuthoredFields, owner: type) -> str: ...
    def __get__(self, question: AuthoredFields | None, owner: type) -> _TextConstructor | str:
        return MethodType(_ask_for_text, owner) if question is None else self._stored(question)


def _ask_for_text(  # noqa: PLR0913  the terms of a question
    _cls: type[Any],
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
    deadline: Deadline | None = None,
    people: People | None = None,
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
    if pattern is None and min_length is None and max_length is None:
        answer_type: JsonObject = {"type": "text"}
    else:
        answer_type = bounded({"type": "string", "pattern": pattern, "minLength": min_length, "maxLength": max_length})
    return authored(_cls, {"id": id, "text": text, "answer_type": answer_type, **terms})


_ask_for_text.__name__, _ask_for_text.__qualname__ = "text", "Question.text"


if TYPE_CHECKING:
    from typing_extensions import TypeVar as DefaultedTypeVar

    from midturn.question.answer_type import AnswerType

    T_co = DefaultedTypeVar("T_co", covariant=True, default=Any)
else:
    T_co = TypeVar("T_co", covariant=True)


class _Checked(msgspec.StructMeta):
    """Checks a question that is built field by field, as the constructors do; `unchecked` is for what is read, not authored."""

    def __call__(cls, **fields: Any) -> Any:  # noqa: N805  a class is built
        """Build a question.

        Raises:
            QuestionError: Rules are broken; `problems` has all of them.
        """
        return author(cast("type[AuthoredFields]", cls), written(fields), DEFAULT_LIMITS, fields.get("returns"))

    def unchecked(cls, **fields: Any) -> Any:  # noqa: N805
        """Build a question whose fields are known to be of their types."""
        return super().__call__(**fields)


class Question(Constructors, AuthoredFields, Generic[T_co], frozen=True, kw_only=True, metaclass=_Checked):
    """A question: its text, its type of answer, and its terms. Build one with the constructors; however it is built, every rule is checked.

    `T` is the type of the answer in Python, as `typed` gives it. `default` is `UNSET` where there is none (a schema may allow `null`).
    `returns` is the Python type behind a select over an `Enum` or a schema made from a type; it is not written.

    Args:
        id: The key of the answer.
        text: The question, one line.
        answer_type: The type of the answer.
        context: What the person should know first; None where there is nothing.
        exclusive: Whether only a human may answer.
        persistence: How long an answer may be remembered: `turn`, `conversation` or `none`.
        optional: Whether it may be skipped.
        when: In a form: ask only if an earlier question was answered so.
        deadline: How long an answer may take (seconds, `2h`, a `timedelta`), or until when. The question has the moment.
        deadline_seconds: How many seconds an answer may take, where `deadline` says that.
        people: Whose question it is; None where anyone's.
    """

    # A type checker sees no field in this name, so it is told below how a question is made.
    text: ClassVar[Text] = Text(AuthoredFields.__dict__["text"].__get__)  # pyright: ignore[reportIncompatibleMethodOverride]

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
            deadline: Deadline | None = None,
            people: People | None = None,
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
        """Return the wire shape: defaults omitted, an option that has only a value as its bare value."""
        wire = question_json(self, lambda option: option if len(option) > 1 else option["value"])
        wire.pop("returns", None)
        return wire

    def check(self, value: object, *, depth_limit: int = DEPTH_LIMIT) -> Json | SecretValue:
        """Return the canonical answer: the one check for people, models, configuration and the inbox.

        Nothing is converted; `null` is an answer only where the question is optional. A secret comes back as `SecretValue`.

        Args:
            value: The recorded answer.
            depth_limit: How deep the answer may be nested.

        Raises:
            AnswerError: The value is not an answer; `problems` says where and what is allowed, and never shows a secret.
        """
        answer = check_answer(self, value, depth_limit)
        if self.returns is not None:
            python_answer(self.answer_type, self.returns, answer)
        return answer

    def parse(self, words: str) -> Json | SecretValue:
        """Return the canonical answer that a person means with these words: `yes`, `2`, `eu-1`, 👍, or JSON where that fits.

        It is how `midturn answer` reads its VALUE: a number is the one in the list of options, choices are separated by commas, `null`
        skips an optional question, and a typo is no answer; a person's own words are written as `{"other": "…"}`.

        Args:
            words: What the person typed.

        Raises:
            AnswerError: The words are no answer; it says in a sentence for the person what would be one.
        """
        answer = parse_answer(self, words)
        return answer if self.returns is None else self.check(answer)

    def typed(self, answer: Json | SecretValue) -> T_co:
        """Return a checked answer as `T`: the member of an `Enum`, an instance of the type behind a schema, else as it is.

        Args:
            answer: What `check` has returned.
        """
        if self.returns is None:
            return answer  # type: ignore[return-value]  # what the type of the question says
        return cast("T_co", python_answer(self.answer_type, self.returns, answer))

    def persisted(self) -> PersistedQuestion:
        """Return what the stream keeps of this question."""
        kept = vars(self)
        persisted: PersistedQuestion | None = kept.get(PERSISTED)
        if persisted is None:
            persisted = self._persisted()
            if stays_as_authored(self):
                kept[PERSISTED] = persisted
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


name_methods(Constructors, "Question.")
