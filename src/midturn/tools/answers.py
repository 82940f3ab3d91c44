"""Answers, as a function gets them."""

from __future__ import annotations

from typing import Any, Generic, TypeVar, cast

from msgspec import Struct

from midturn.core.question import Question
from midturn.core.turn.effects import Given, GivenAnswer

T = TypeVar("T")


class Answer(Struct, Generic[T], frozen=True):
    """An answer with its circumstances: `by` is a tag of docs/recording.md (`user`, `assistant`, …), `reason` the responder's words.

    Args:
        value: The answer, of the type of the question.
    """

    value: T
    reason: str | None = None
    by: str = "user"


class Unanswered(Struct, frozen=True):
    """There is no answer; `reason` is the tag that says why (docs/recording.md).

    With the reason `reply`, a person said something instead of answering: `reply` holds the words, None where there were none. They are
    yours to act on, or to pass on to the model in what the tool returns.
    """

    reason: str
    reply: str | None = None


class FormAnswers:
    """The answers to a form: `answers[question]` has the type of the question's answer, and is `None` where it was skipped.

    `ask_form` returns one.
    """

    def __init__(self, given: Given) -> None:
        self._given = given

    def __getitem__(self, question: Question[T]) -> T:
        """Return the answer to a question of the form.

        Raises:
            TypeError: It is not a question: answers are found by the question itself, which knows their type.
            KeyError: The form does not have it.
        """
        if not isinstance(cast("object", question), Question):
            raise TypeError(f"Answers are found by question, not by a `{type(question).__name__}`: `answers[question]`.")
        if question.id not in self._given:
            raise KeyError(f"`{question.id}` is not a question of this form; it has {', '.join(map(repr, self._given))}.")
        given = self._given[question.id]
        return question.typed(given.value) if isinstance(given, GivenAnswer) else cast("T", None)

    def __contains__(self, question: Question[Any]) -> bool:
        """Say whether the question was answered, rather than skipped."""
        given = self._given.get(question.id)
        return isinstance(given, GivenAnswer) and given.value is not None

    def __repr__(self) -> str:
        return f"FormAnswers({', '.join(self._given)})"  # no values: one may be a secret
