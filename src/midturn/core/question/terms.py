"""What the constructors of questions take by keyword, for type checkers: a program that runs loads none of it."""

from __future__ import annotations

from typing import Generic, TypedDict, TypeVar

from midturn.core.question.fields import Persistence

V = TypeVar("V")


class Terms(TypedDict, total=False):
    """The terms on which any question may be asked."""

    context: str | None
    exclusive: bool
    persistence: Persistence


class TermsOf(Terms, Generic[V], total=False):
    """The terms of a question that may have a default."""

    default: V | None


class SeveralTerms(TermsOf[V], Generic[V], total=False):
    """The terms of a question that takes several choices: at least and at most how many."""

    min: int
    max: int | None


class NumberTerms(TermsOf[V], Generic[V], total=False):
    """The terms of a number: the smallest and the largest."""

    min: V | None
    max: V | None


class TextTerms(TermsOf[str], total=False):
    """The terms of a text."""

    pattern: str | None
    min_length: int | None
    max_length: int | None
