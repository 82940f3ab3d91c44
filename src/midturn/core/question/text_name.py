"""`question.text` is the text of a question; `Question.text(…)` asks for one. One name serves both."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast, overload

from midturn.core.question.constructors import authored, bounded, terms_of
from midturn.core.question.fields import Persistence, QuestionFields, When

if TYPE_CHECKING:
    from typing import Unpack

    from midturn.core.question.question import Question
    from midturn.core.question.terms import TextTerms


class _AsksForText(Protocol):
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

    def __init__(self, stored: Callable[[QuestionFields], str]) -> None:
        self._stored = stored

    @overload
    def __get__(self, question: None, owner: type) -> _AsksForText: ...
    @overload
    def __get__(self, question: QuestionFields, owner: type) -> str: ...
    def __get__(self, question: QuestionFields | None, owner: type) -> _AsksForText | str:
        return cast("_AsksForText", MethodType(_ask_for_text, owner)) if question is None else self._stored(question)


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
    terms = terms_of(default, context=context, exclusive=exclusive, persistence=persistence, optional=optional, when=when)
    bounds = {"pattern": pattern, "minLength": min_length, "maxLength": max_length}
    is_free = all(bound is None for bound in bounds.values())
    answer_type = {"type": "text"} if is_free else bounded({"type": "string", **bounds})
    return authored(_cls, {"id": id, "text": text, "answer_type": answer_type, **terms})


_ask_for_text.__name__, _ask_for_text.__qualname__ = "text", "Question.text"
