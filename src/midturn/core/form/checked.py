"""A form, checked where it is asked: whoever built it, and however."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from midturn.core.form.form import Form
from midturn.core.form.problems import Entry
from midturn.core.limits import Limits
from midturn.core.question import Question, When
from midturn.core.question.authoring import author, written
from midturn.errors import QuestionError


def checked(form: Form, limits: Limits) -> Form:
    """Return the form as its author would have to write it now; constructors check, but nothing checks what `replace` makes.

    Raises:
        QuestionError: Every rule that a question or the form breaks, with pointers such as `/questions/0/text`.
    """
    return Form.from_entries([_entry(question, limits) for question in form.questions], review=form.review, limit=limits.form)


def _entry(question: Question[Any], limits: Limits) -> Entry:
    try:
        return Entry.of(author(Question[Any], as_written(question), limits, question.returns))
    except QuestionError as error:
        id, when = cast("object", question.id), cast("object", question.when)  # noqa: A001  the wire's word
        return Entry(id if isinstance(id, str) else None, when if isinstance(when, When) else None, None, error.problems)


def as_written(question: Question[Any]) -> Mapping[str, object]:
    """Return a question's JSON as far as its fields have one."""
    return written({name: getattr(question, name) for name in question.__struct_fields__})
