"""What a dialog of somebody else's is shown of an open question, and how soon a person can have answered it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from midturn.core.events import InquiryRequest
from midturn.core.form import Form
from midturn.core.question import Question
from midturn.core.stream import OpenQuestion

QUICKEST = 0.4  # seconds that a person needs at least to read a question and to say something


def questions_at_once(question: OpenQuestion, can_show: Callable[[Sequence[Question[Any]]], bool]) -> Sequence[Question[Any]]:
    """Return all questions of a form, unless one depends on another, or the dialog cannot show all of them: then the one that is open."""
    request = question.request
    asked = request.question.asked(request.question_id) if isinstance(request, InquiryRequest) else None
    if question.form is None:
        return [asked] if asked else []
    whole = Form.from_json(list(question.form.questions)).questions
    apart = any(one.when for one in whole) or not can_show(whole) or whole[0].id != (asked.id if asked else "")
    return [asked] if apart and asked else whole
