"""Edited arguments of a call: what its tool takes, and what is wrong with them. They are checked where they are typed."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from midturn.cli.answer.submitting import Typed, TypedEdit
from midturn.cli.place import Place
from midturn.core.events import Approval
from midturn.core.stream import OpenQuestion
from midturn.errors import AnswerError, Problem
from midturn.prompts.accept import argument_problems


def as_edited(question: OpenQuestion, typed: Typed) -> OpenQuestion:
    """Return the question as if it were about what is used instead; as it is, where nothing was edited."""
    if not isinstance(typed, TypedEdit):
        return question
    if question.kind == "deliver" and isinstance(question.request, Approval):
        return replace(question, request=replace(question.request, content=str(typed.json)))
    return replace(question, arguments=typed.json, question=replace(question.question, context=None))


def check_edit(place: Place, question: OpenQuestion, typed: Typed) -> None:
    """Refuse an edit that cannot be used.

    Raises:
        AnswerError: It is of the wrong kind, or does not fit what the tool takes.
    """
    if not isinstance(typed, TypedEdit) or question.kind not in ("run", "deliver"):
        return
    if question.kind == "deliver":
        if not isinstance(typed.json, str):
            raise AnswerError([Problem("", 'A result is text: {"edit": "…"}.')])
        return
    if not isinstance(typed.json, Mapping):
        raise AnswerError([Problem("", 'Arguments are an object: {"edit": {"NAME": …}}.')])
    from midturn.cli.answer.parameters import parameters_of  # hardly an answer is an edit, and this reads the configuration

    problems = argument_problems(parameters_of(place, question), typed.json)
    if problems:
        raise AnswerError([Problem("", f"These arguments do not fit {question.tool}; nothing was recorded."), *problems])
