"""What is put on the page of an open question: the question, the review of a form, or a decision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from midturn.core.json_value import Json
from midturn.core.question import Question
from midturn.core.secret import SecretValue
from midturn.errors import Problem
from midturn.web.controls import Control


class QuestionPage(Struct, frozen=True, kw_only=True):
    """A question as it is put on the page; `carried` is what a form has come to, `is_draft` whether that was kept from an earlier visit.

    `covers` says what a remembered answer covers; it is empty where none is remembered.
    """

    asked: Question[Any]
    control: Control
    index: int = 1
    total: int = 1
    can_go_back: bool = False
    covers: str = ""
    carried: str = ""
    is_draft: bool = False
    secret_elsewhere: str = ""


class ReviewPage(Struct, frozen=True):
    """All answers of a form once more."""

    answers: list[tuple[Question[Any], Json | SecretValue]]
    carried: str
    is_draft: bool = False


class DecisionPage(Struct, frozen=True, kw_only=True):
    """A call, a result or recorded answers to be approved; `editable` is what may be changed, as text."""

    kind: str
    arguments: Json = None
    content: str = ""
    is_error: bool = False
    answers: Sequence[tuple[Question[Any], Json | SecretValue]] = ()
    covers: str = ""
    always: Sequence[str] = ()
    pictures: Sequence[str] = ()
    editable: str | None = None


ShownPage: TypeAlias = QuestionPage | ReviewPage | DecisionPage


class PageAgain(Exception):  # noqa: N818  it says what the answer is
    """What was sent does not do; `shown` is the page to show again, `problems` say why."""

    def __init__(self, shown: ShownPage, problems: tuple[Problem, ...]) -> None:
        self.shown = shown
        self.problems = problems
        super().__init__("\n".join(map(str, problems)))
