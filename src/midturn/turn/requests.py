"""Creates the requests of a call, with their form, deadline, people and metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from msgspec import to_builtins
from msgspec.structs import replace

from midturn.events.types import FormAuthored, InquiryRequest, required_by
from midturn.question.json_value import Json
from midturn.question.people import People, earliest
from midturn.question.persisted_question import PersistedQuestion
from midturn.question.question import Question
from midturn.routing.policy import ToolPolicy
from midturn.turn.call_record import WITH_A_MODEL, InquiryEntry
from midturn.turn.decision import DecisionContext, Escalate
from midturn.turn.inputs import FormWanted
from midturn.turn.step_output import StepOutput

REPORTS_REPLIES: Final[dict[str, Json]] = {"reply": "tool"}
"""Metadata of a request whose tool handles replies: it receives a reply that a person gives instead
of an answer. `Visit` reads this metadata.
"""


def deadlines_of(asking: FormWanted, policy: ToolPolicy) -> list[str | float]:
    """Return the deadlines of a form that its author and the configuration set. Each is a time (RFC
    3339) or a number of seconds.
    """
    found: list[str | float] = []
    for question in asking.form.questions:
        if question.deadline is not None:
            found.append(question.deadline)
        if question.deadline_seconds is not None:
            found.append(question.deadline_seconds)
        if policy.questions and (configured := policy.question(question.id).deadline) is not None:
            found.append(configured)
    return found


def question_request(
    context: DecisionContext,
    asking: FormWanted,
    question: Question[Any],
    persisted: PersistedQuestion,
    *,
    is_first: bool,
    revises: str | None,
    people: People | None,
    deadline: str,
    was_put_to_person: bool,
) -> InquiryRequest:
    """Return a new request for a question, without its id.

    Args:
        context: Settings and records.
        asking: The form that is asked.
        question: The question.
        persisted: The question in its recorded form.
        is_first: Whether this is the first request of a form of several questions. The first
            request records the whole form.
        revises: The id of the request that is repeated after Back.
        people: The people assigned to an earlier request for this question.
        deadline: The deadline of the form (RFC 3339). Empty if there is none.
        was_put_to_person: Whether a person was already asked a question of this form.
    """
    form = authored_form(context, asking) if is_first else None
    metadata = REPORTS_REPLIES if asking.on_failure == "report_all" else None
    people = people or people_of(context, question)
    may_be_for_model = people is None and (
        context.policy.questions or not context.settings.attached
    )
    if may_be_for_model and is_for_model(
        context, question.id, revises, was_put_to_person=was_put_to_person
    ):
        metadata = {**(metadata or {}), **WITH_A_MODEL}
    return InquiryRequest(
        id="",
        source=asking.source,
        question=persisted,
        question_id=question.id,
        revises=revises,
        form=form,
        problem=asking.problem,
        deadline=deadline,
        people=people,
        configured=is_configured(context, people, form),
        metadata=metadata,
    )


def escalation_request(action: Escalate, asking: FormWanted, deadline: str) -> InquiryRequest:
    """Return a request, without its id, that asks a person to review a model's answer."""
    previous = action.previous
    return InquiryRequest(
        id="",
        source=previous.source,
        question=action.question.persisted(),
        question_id=previous.question_id,
        escalates=previous.id,
        problem=previous.problem,
        deadline=deadline,
        people=previous.people,
        metadata=REPORTS_REPLIES if asking.on_failure == "report_all" else None,
    )


def write_request(
    output: StepOutput, context: DecisionContext, request: InquiryRequest
) -> InquiryRequest:
    """Write a request with a new id, and return it. No other code assigns request ids."""
    call = context.call.request
    complete = replace(
        request,
        id=output.record.next_inquiry_id(call.id, request.question_id),
        call=call.event_id,
        tool_call_id=call.id,
        requires=required_by(request.deadline, request.people),
    )
    return output.write(complete)


def new_deadline(output: StepOutput, asking: FormWanted, policy: ToolPolicy) -> str:
    """Return the deadline of a form that is asked now. Empty if it has none, or if the time is
    unknown.
    """
    return earliest(output.now, deadlines_of(asking, policy)) if output.now else ""


def is_for_model(
    context: DecisionContext, question_id: str, revises: str | None, *, was_put_to_person: bool
) -> bool:
    """Return whether the routing table sends a new question without people to a model."""
    if (
        context.policy.question(question_id).target.kind != "user"
        and revises is None
        and not context.turn.breaker_is_open
    ):
        return True
    return (
        not (context.settings.attached or was_put_to_person)
        and context.policy.detached.tool == "auto"
    )


def people_of(context: DecisionContext, question: Question[Any]) -> People | None:
    """Return the people who may answer a question, from the configuration or from its author,
    with groups replaced by their members.
    """
    policies = context.policy.questions
    people = (context.policy.question(question.id).people if policies else None) or question.people
    return None if people is None else context.settings.filled_in(people)


def is_configured(
    context: DecisionContext, people: People | None, form: FormAuthored | None
) -> bool:
    """Return whether the configuration names the people of a request, or of later questions in its
    form.
    """
    if people is None and (
        form is None or not any("people" in question for question in form.questions)
    ):
        return False
    return context.settings.names_people or was_configured(context)


def was_configured(context: DecisionContext) -> bool:
    """Return whether the configuration named the people that this call asked.

    This is read from the recorded requests, because a `Visit` has no configuration.
    """
    return any(thread.asked.configured for thread in context.call.threads)


def authored_form(context: DecisionContext, asking: FormWanted) -> FormAuthored:
    """Return a form in the format that its first request records."""
    form = asking.form
    questions = tuple(
        _as_recorded(question, people_of(context, question)) for question in form.questions
    )
    return FormAuthored(len(form.questions), questions, form.review)


def _as_recorded(question: Question[Any], people: People | None) -> dict[str, Json]:
    """Return a form's question as JSON, with its id, condition and people. The form's deadline is
    recorded in the request.
    """
    recorded = question.to_json() | {"answer_type": question.persisted().to_json()["answer_type"]}
    recorded.pop("deadline_seconds", None)
    recorded.pop("deadline", None)
    return recorded if people is None else recorded | {"people": cast("Json", to_builtins(people))}


def review_behind(
    inquiries: Mapping[str, InquiryEntry], request: InquiryRequest
) -> InquiryRequest | None:
    """Return the request if it is a review of a model's answer. If the request repeats such a
    review after Back, return the earlier review. Otherwise return None.
    """
    for _ in inquiries:  # bounded, because a damaged log may contain a cycle
        if request.escalates:
            return request
        before = inquiries.get(request.revises or "")
        if before is None:
            return None
        request = before.attempt.request
    return None
