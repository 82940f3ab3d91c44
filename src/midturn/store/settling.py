"""What an answer leads to in a conversation that is held. The machine of the turn says so; here it is written down."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Protocol

from midturn.core.events import Approval, Event, InquiryCancelled, InquiryRequest, InquiryResponse
from midturn.core.json_value import Json
from midturn.core.question.answer_type import SecretType
from midturn.core.reply import Answered
from midturn.core.stream import OpenQuestion, pairs, pending
from midturn.core.turn.visit import Visit
from midturn.errors import AlreadyAnswered, AnswerError, MidturnError, Problem, StoreError
from midturn.store.batch import stamped
from midturn.store.handover import Answers, already_answered
from midturn.store.ids import event_ids
from midturn.store.submission import Submission, describe

_LOG = logging.getLogger(__name__)


class TurnWriter(Protocol):
    """A conversation that is held for one append."""

    def last_turn(self) -> Sequence[Event]:
        """Return the events of the last turn."""
        ...

    def append(self, batch: Sequence[Event]) -> object:
        """Record a batch, durably."""
        ...


def record(writer: TurnWriter, event_id: str, submission: Submission) -> None:
    """Record an answer in a conversation that is held."""
    writer.append(stamped(_settled(writer.last_turn(), event_id, submission)))


def take_over(writer: TurnWriter, answers: Answers) -> None:
    """Record what was handed over to a holder that is gone. What does not fit any more is dropped: its question was closed."""
    for handed in answers.collect():
        try:
            record(writer, handed.event_id, handed.submission)
        except StoreError:
            raise
        except MidturnError as error:
            _LOG.warning("an answer to %r is dropped: %r", handed.event_id, str(error))
        answers.remove(handed.event_id)


def check(turn: Sequence[Event], conversation: str, event_id: str, submission: Submission) -> None:
    """Find out whether the answer would do, before anything is written or handed over."""
    reply = submission.as_reply()
    question = next((question for question in pending(turn, conversation) if question.id == event_id), None)
    if question and isinstance(reply, Answered) and _gives_a_secret(question, reply):
        message = "A secret is only given at the terminal of the process that needs it: nothing here may write it down. "
        raise AnswerError([Problem("", f"{message}Run `midturn answer {event_id}` at a terminal, without a value.")])
    _settled(turn, event_id, submission)


def _settled(turn: Sequence[Event], event_id: str, submission: Submission) -> Sequence[Event]:
    """Return what the answer leads to; if it comes second, the error says who was first, and how."""
    try:
        settled = Visit(turn, event_id, event_ids()).take(submission.as_reply(), submission.by)
    except AlreadyAnswered:
        decision = decision_about(turn, event_id)
        by = None if decision is None or isinstance(decision, InquiryCancelled) else decision.answered_by
        raise already_answered(event_id, describe(by)) from None
    if not settled:
        raise AnswerError([_nothing_to_record(turn, event_id)])
    return settled


def _nothing_to_record(turn: Sequence[Event], event_id: str) -> Problem:
    """Say which answer a map lacks: a form goes on from its open question, and not before that has its answer."""
    asked = next((event.question_id for event in turn if isinstance(event, InquiryRequest) and event.event_id == event_id), "")
    return Problem(f"/{asked}", f"the open question `{asked}` has no answer in the map, and the form goes on from there: add it.")


def _gives_a_secret(question: OpenQuestion, reply: Answered) -> bool:
    if isinstance(question.question.answer_type, SecretType):
        return True
    if question.form is None or not isinstance(reply.value, Mapping):
        return False
    return any(_is_secret(asked) and asked.get("id") in reply.value for asked in question.form.questions)


def _is_secret(asked: Mapping[str, Json]) -> bool:
    answer_type = asked.get("answer_type")
    return isinstance(answer_type, Mapping) and answer_type.get("type") == "secret"


def decision_about(turn: Sequence[Event], event_id: str) -> InquiryResponse | Approval | None:
    """Return how a question was closed; None while it is open."""
    for request, response in pairs(turn):
        if request.event_id == event_id:
            return response
    approvals = [event for event in turn if isinstance(event, Approval)]
    waiting = next((approval.id for approval in approvals if approval.event_id == event_id), None)
    return next((approval for approval in approvals if approval.id == waiting and approval.state != "waiting"), None)
