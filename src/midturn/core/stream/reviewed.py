"""The answers that a review is about, read from the record: what Back has taken back is not among them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from midturn.core.events import Event, InquiryAnswered
from midturn.core.form import Form, FormWalker
from midturn.core.json_value import Json
from midturn.core.question.answer_type import SecretType
from midturn.core.reply import Answered
from midturn.core.secret import SecretValue
from midturn.core.stream.pairing import InquiryPair, pairs
from midturn.core.subject import AnswersSubject
from midturn.errors import QuestionError

_UNKNOWN = SecretValue("")


def reviewed_answers(call: str, events: Iterable[Event], form_id: str | None = None) -> AnswersSubject:
    """Return a form of a call with the answers that hold now; secrets and questions that are not asked are left out.

    `form_id` is the `form` of the approval, where the call asked several at once; otherwise it is the form that was asked last.
    """
    paired = [(request, response) for request, response in pairs(events) if request.call == call]
    if form_id is not None:
        paired = _of_form(paired, form_id)
    latest = {request.question_id: response.answer for request, response in paired if isinstance(response, InquiryAnswered)}
    forms = [request.form for request, _ in paired if request.form]
    try:
        form = Form.from_json(list(forms[-1].questions)) if forms else None
    except QuestionError:  # an older or a newer version asked it
        form = None
    if form is None:
        asked = {request.question_id: request.question.asked(request.question_id) for request, _ in paired}
        return AnswersSubject(tuple(asked.values()), latest)
    return AnswersSubject(form.questions, _walked(form, latest))


def _of_form(paired: Sequence[InquiryPair], form_id: str) -> list[InquiryPair]:
    """Return what was asked for one form: from its first question on, and under its ids."""
    first = next((place for place, (request, _) in enumerate(paired) if request.id == form_id), 0)
    form = paired[first][0].form if paired else None
    ids = {str(question.get("id")) for question in form.questions} if form else set[object]()
    return [pair for pair in paired[first:] if pair[0].question_id in ids and pair[0].form in (None, form)]


def _walked(form: Form, latest: Mapping[str, Json]) -> dict[str, Json]:
    """Walk the form with the latest answers: a predicate that does not hold any more leaves an older answer behind."""
    secrets = {question.id for question in form.questions if isinstance(question.answer_type, SecretType)}
    known = {key: Answered(value) for key, value in latest.items()} | dict.fromkeys(secrets, Answered(_UNKNOWN))
    return {key: latest[key] for key in FormWalker(form).follow(known) if key not in secrets}
