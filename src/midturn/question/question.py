"""Questions in the form in which tools and models create them."""

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


# The name `text` is both a field (`question.text`) and a constructor (`Question.text(…)`)
# -----------------------------------------


class _TextConstructor(Protocol):
    """The type of the constructor `Question.text`."""

    @overload
    def __call__(
        self,
        id: str,
        text: str,
        *,
        optional: Literal[False] = False,
        when: None = None,
        **terms: Unpack[TextTerms],
    ) -> Question[str]: ...
    @overload
    def __call__(
        self,
        id: str,
        text: str,
        *,
        optional: bool = False,
        when: When | None = None,
        **terms: Unpack[TextTerms],
    ) -> Question[str | None]: ...
    def __call__(self, id: str, text: str, **terms: Any) -> Question[Any]: ...


class Text:
    """Descriptor for `text`: the field on an instance, the constructor on the class."""

    def __init__(self, stored: Callable[[AuthoredFields], str]) -> None:
        self._stored = stored

    @overload
    def __get__(self, question: None, owner: type) -> _TextConstructor: ...
    @overload
    def __get__(self, question: AuthoredFields, owner: type) -> str: ...
    def __get__(self, question: AuthoredFields | None, owner: type) -> _TextConstructor | str:
        return MethodType(_ask_for_text, owner) if question is None else self._stored(question)


def _ask_for_text(  # noqa: PLR0913  the fields of a question
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
    """Ask for text. The answer is a `str`.

    Args:
        id: Key of the answer: 1 to 64 of `A-Z a-z 0-9 _ -`, not starting with `__`.
        text: The question, in one line of at most 2,048 characters.
        pattern: Regular expression the answer must contain a match for. Anchor it with `^` and `$`
            to match the whole answer. Lookaround is not supported.
        min_length: Minimum number of characters.
        max_length: Maximum number of characters.
        default: Initial value of the field.
        context: Background information in Markdown, shown above the text. At most 16 KiB.
        exclusive: Whether only a human may answer, never a model.
        persistence: How long the person can have the answer remembered: `none`
            (not at all), `turn` or `conversation`.
        optional: Whether the person may skip the question. The answer is then None.
        when: In a form, ask only if an earlier question has this answer. If the question is not
            asked, its answer is None.
        deadline: Time limit for an answer (seconds, a duration such as `2h`, or a `timedelta`), or
            the time of the deadline (a `datetime`). After the deadline, the question closes without
            an answer.
        people: People who are notified, people who may answer, and the number of required
            approvals.

    Raises:
        QuestionError: The question is invalid. `problems` lists every problem with a JSON pointer
            and a remedy.
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
        answer_type = bounded(
            {"type": "string", "pattern": pattern, "minLength": min_length, "maxLength": max_length}
        )
    return authored(_cls, {"id": id, "text": text, "answer_type": answer_type, **terms})


_ask_for_text.__name__, _ask_for_text.__qualname__ = "text", "Question.text"


if TYPE_CHECKING:
    from typing_extensions import TypeVar as DefaultedTypeVar

    from midturn.question.answer_type import AnswerType

    T_co = DefaultedTypeVar("T_co", covariant=True, default=Any)
else:
    T_co = TypeVar("T_co", covariant=True)


class _Checked(msgspec.StructMeta):
    """Metaclass that validates every new question. Use `unchecked` to create a recorded question
    without validation.
    """

    def __call__(cls, **fields: Any) -> Any:  # noqa: N805  a class is built
        """Create and validate a question.

        Raises:
            QuestionError: The question is invalid. `problems` lists every problem.
        """
        return author(
            cast("type[AuthoredFields]", cls),
            written(fields),
            DEFAULT_LIMITS,
            fields.get("returns"),
        )

    def unchecked(cls, **fields: Any) -> Any:  # noqa: N805
        """Create a question without validating its fields."""
        return super().__call__(**fields)


class Question(
    Constructors, AuthoredFields, Generic[T_co], frozen=True, kw_only=True, metaclass=_Checked
):
    """A question: its text, its answer type and its options. Create questions with the
    constructors.

    Every new question is validated. `T` is the Python type of the answer, as returned by `typed`.
    `default` is `UNSET` if there is none, because a schema may allow `null`. `returns` is the
    `Enum` or the Python type that the question was created from. This field is not serialized.

    Args:
        id: Key of the answer.
        text: The question, in one line.
        answer_type: The type of the answer.
        context: Background information in Markdown, or None.
        exclusive: Whether only a human may answer.
        persistence: How long the person can have the answer remembered: `none`,
            `turn` or `conversation`.
        optional: Whether the question may be skipped.
        when: In a form, ask only if an earlier question has this answer.
        deadline: Time of the deadline. A time limit (seconds, a duration such as `2h`, a
            `timedelta`) is also accepted and stored in `deadline_seconds`.
        deadline_seconds: Time limit in seconds.
        people: The people who are assigned to the question, or None.
    """

    # The descriptor hides the field from type checkers, so `__init__` is declared below.
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
        """Read a question from the JSON that a tool or a model wrote. Unknown keys are errors.
        `pre_amble` is an alias for `context`.

        Args:
            obj: The question as a JSON object.
            limits: Limits for the parts of the question.

        Raises:
            QuestionError: The question is invalid. `problems` lists every problem with a JSON
                pointer, the allowed values and a remedy.
        """
        return author(Question[Any], obj, limits)

    def to_json(self) -> dict[str, Json]:
        """Return the question as JSON, without default values. An option that has only a value
        is a bare scalar.
        """
        wire = question_json(self, lambda option: option if len(option) > 1 else option["value"])
        wire.pop("returns", None)
        return wire

    def check(self, value: object, *, depth_limit: int = DEPTH_LIMIT) -> Json | SecretValue:
        """Validate an answer and return it in canonical form. Used for every answer: from people,
        models, the configuration and the inbox.

        Values are not converted. `null` is only valid if the question is optional. A secret is
        returned as `SecretValue`.

        Args:
            value: The answer.
            depth_limit: Maximum nesting depth.

        Raises:
            AnswerError: The value is not a valid answer. `problems` lists each invalid part of the
                value and what is allowed there. Secrets are never shown.
        """
        answer = check_answer(self, value, depth_limit)
        if self.returns is not None:
            python_answer(self.answer_type, self.returns, answer)
        return answer

    def parse(self, words: str) -> Json | SecretValue:
        """Parse an answer given as text: `yes`, `2`, `eu-1`, 👍, or valid JSON.

        `midturn answer` parses its VALUE in this way. A number selects the option at that
        position in the list. Several choices are separated by commas. `null` skips an optional
        question. A misspelt option is an error. An answer in the person's own words must be
        written as `{"other": "…"}`.

        Args:
            words: The text.

        Raises:
            AnswerError: The text is not an answer. The message tells the person what is allowed.
        """
        answer = parse_answer(self, words)
        return answer if self.returns is None else self.check(answer)

    def typed(self, answer: Json | SecretValue) -> T_co:
        """Convert a validated answer to `T`: an `Enum` member, an instance of the schema's type, or
        the answer itself.

        Args:
            answer: The result of `check`.
        """
        if self.returns is None:
            return answer  # type: ignore[return-value]  # T is the JSON type of the answer
        return cast("T_co", python_answer(self.answer_type, self.returns, answer))

    def persisted(self) -> PersistedQuestion:
        """Return the question in its recorded form."""
        cache = vars(self)
        persisted: PersistedQuestion | None = cache.get(PERSISTED)
        if persisted is None:
            persisted = self._persisted()
            if stays_as_authored(self):
                cache[PERSISTED] = persisted
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
