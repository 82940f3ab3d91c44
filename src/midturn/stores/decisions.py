"""Consequences of an answer in a stored conversation: the machine of the turn decides, this module asks it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, TypeAlias

from msgspec import UNSET

from midturn.errors import AnswerError, NotAllowed, Problem
from midturn.events.open_question import Address, OpenQuestion, PromptKind, secrets_of_form
from midturn.events.types import Event, InquiryRequest, inquiry_requests
from midturn.events.window import turn_of_child
from midturn.question.answer_type import SecretType
from midturn.question.people import Directory
from midturn.question.reply import Answered
from midturn.stores.batch import event_ids
from midturn.stores.port import LastTurn
from midturn.stores.queued_answer import HandedOver, Submission
from midturn.turn.pending import pending
from midturn.turn.people import ending_barred, handed_as, note_batch, under_key
from midturn.turn.view import TurnView

if TYPE_CHECKING:
    from midturn.turn.visit import Visit

_WAYS: Mapping[PromptKind, tuple[str, ...]] = {
    "tool": (),
    "run": ("approve", "arguments"),
    "deliver": ("approve", "content"),
    "review": ("approve",),
}
_WHAT: Mapping[PromptKind, str] = {
    "tool": "A question",
    "run": "The approval of a call",
    "deliver": "The approval of a result",
    "review": "A review of answers",
}
_INSTEAD: Mapping[PromptKind, str] = {
    "tool": "Give its `value`; a yes/no question takes true or false.",
    "run": "Give `approve`, or the `arguments` to run with instead.",
    "deliver": "Give `approve`, or the `content` to deliver instead.",
    "review": "Give `approve`.",
}


@cache
def _load_visit() -> type[Visit]:
    from midturn.turn.visit import Visit  # a list of open questions does without the machine

    return Visit


def answer_batch(
    turn: Sequence[Event], conversation: str, event_id: str, submission: Submission, directory: Directory | None = None
) -> Sequence[Event]:
    """Return the batch that an answer leads to.

    Raises:
        AnswerError: The answer does not fit its question.
        AlreadyAnswered: It was answered before; the error says by whom, and how.
        NotOpen: No such question waits in this turn.
    """
    visit = _load_visit()(turn, event_id, event_ids(), conversation, directory)
    _check_way(visit, submission)
    _check_memory(visit, submission)
    _check_scope(visit, submission)
    batch = visit.take(submission.as_reply(), submission.by, submission.digest)
    if not batch:
        raise AnswerError([_nothing_to_record(turn, event_id)])
    return batch


def handed_batch(turn: Sequence[Event], conversation: str, handed: HandedOver) -> Sequence[Event]:
    """Return the batch that something leads to which was handed over.

    Raises:
        MidturnError: It does not count any more; see `answer_batch` and `note_batch`.
    """
    if (batch := _ending(turn, Address(conversation, handed.event_id), handed)) is not None:
        return batch
    if handed.note is not None:
        batch = note_batch(turn, Address(conversation, handed.event_id), handed.note, event_ids())
    else:
        batch = answer_batch(turn, conversation, handed.event_id, handed.submission)
    return [under_key(event, handed.key) for event in batch] if handed.name else batch


def _ending(turn: Sequence[Event], at: Address, handed: HandedOver) -> Sequence[Event] | None:
    """Return the batch of what was handed over to end a turn as a whole; None where it is about a question.

    Raises:
        NotAllowed: A question of the turn is for others to decide by now.
    """
    view = TurnView.last(turn)
    if handed.note is not None or not handed.submission.cancel or not view.is_open or view.record.start_id != at.event_id:
        return None
    if why := ending_barred((view.record,), handed.by):
        raise NotAllowed(why, id=str(at), user=handed.by.user)
    from midturn.turn.ending import ended_by_user, ending_batch  # who lists conversations ends none

    return ending_batch(view.events, ended_by_user(view.record.asking_calls, handed.by), event_ids())


def check_no_secret(turn: Sequence[Event], conversation: str, event_id: str, submission: Submission) -> None:
    """Refuse to take a secret: nothing here may write it down.

    Raises:
        AnswerError: The answer holds one.
    """
    if not any(map(_may_ask_for_a_secret, inquiry_requests(turn))):
        return
    reply = submission.as_reply()
    question = next((question for question in pending(turn, conversation) if question.request.event_id == event_id), None)
    if question and isinstance(reply, Answered) and _gives_a_secret(question, reply):
        message = (
            "A secret is not taken here, where it would be written down. Only the process that goes on with the turn takes it: "
            "on its page, with `midturn answer` at a terminal, or in a program with `agent.resume(…, secrets={id: …})`."
        )
        raise AnswerError([Problem("", message)])


def _check_way(visit: Visit, submission: Submission) -> None:
    """Refuse what is no way to answer this: an approval is decided, a question is answered."""
    if submission.approve is None and submission.arguments is UNSET and submission.content is UNSET:
        return
    ways = {
        "approve": submission.approve is not None,
        "arguments": submission.arguments is not UNSET,
        "content": submission.content is not UNSET,
    }
    given = [way for way, is_given in ways.items() if is_given]
    prompt = visit.prompt()
    if prompt is None:
        return
    wrong = [f"`{way}`" for way in given if way not in _WAYS[prompt.kind]]
    if wrong:
        raise AnswerError([Problem("", f"{_WHAT[prompt.kind]} is not answered with {' and '.join(wrong)}. {_INSTEAD[prompt.kind]}")])


def _check_memory(visit: Visit, submission: Submission) -> None:
    """Refuse to remember what would not be remembered: the user would believe that it is."""
    if not submission.remember:
        return
    prompt = visit.prompt()
    if prompt is None or not prompt.may_remember:
        raise AnswerError([Problem("", "This answer cannot be remembered for the turn: only a yes or a no can, where its tool allows it.")])
    reply = submission.as_reply()
    if not isinstance(reply, Answered) or not isinstance(reply.value, bool):
        raise AnswerError([Problem("", "Only a plain yes or no can be remembered for the turn.")])


def _check_scope(visit: Visit, submission: Submission) -> None:
    """Refuse a scope that this answer may not have, and one that nothing would be done with."""
    if submission.scope is None:
        return
    from midturn.turn.standing import refusal, rule_problem  # a list of open questions does without questions themselves

    prompt = visit.prompt()
    if prompt is None:
        return
    reply = submission.as_reply()
    rule = str(getattr(visit.request, "rule", ""))
    if why := refusal(submission.scope, prompt.scopes, rule, has_people=prompt.people is not None):
        raise AnswerError([Problem("", why)])
    if not isinstance(reply, Answered) or (prompt.kind != "tool" and reply.value is not True):
        raise AnswerError([Problem("", "Only a plain answer, or a yes to a call, may have a scope.")])
    if submission.rule is not None and (why := rule_problem(submission.rule, prompt.arguments, prompt.definition)):
        raise AnswerError([Problem("", why)])


def _nothing_to_record(turn: Sequence[Event], event_id: str) -> Problem:
    """Say which answer a map lacks: a form goes on from its open question, and not before that has its answer."""
    asked = next((request.question_id for request in inquiry_requests(turn) if request.event_id == event_id), "")
    return Problem(f"/{asked}", f"the open question `{asked}` has no answer in the map, and the form goes on from there: add it.")


def _may_ask_for_a_secret(request: InquiryRequest) -> bool:
    return request.form is not None or isinstance(request.question.answer_type, SecretType)


def _gives_a_secret(question: OpenQuestion, reply: Answered) -> bool:
    if isinstance(question.question.answer_type, SecretType):
        return True
    return isinstance(reply.value, Mapping) and not secrets_of_form(question.form).isdisjoint(reply.value)


def outdated(handed: Iterable[HandedOver], events: Sequence[Event]) -> list[HandedOver]:
    """Return what was handed over and is not waited for any more.

    Its question is closed, or the last turn in `events` is over, or, of a vote or a note, it is on record.
    """
    turn, noted = TurnView.last(events), handed_as(events)
    still_open = {*turn.open_ids, *([turn.record.start_id] if turn.is_open else [])}  # the start: to end the turn as a whole
    return [answer for answer in handed if answer.event_id not in still_open or answer.key in noted]


# ----------------------------------------------------------------------------------------------------------------------
# Readiness of a stored turn, nested turns and handed-over answers included


FindTurn: TypeAlias = Callable[[str], LastTurn | None]
"""Returns the last turn of a conversation; None where there is none."""


def _has_answers(turn: LastTurn) -> bool:
    """Whether an answer was handed over, or a vote, which may be the last that is needed; a note answers nothing."""
    return any(handed.note is None for handed in turn.handed)


def is_ready(turn: LastTurn, find: FindTurn | None = None) -> bool:
    """Say whether a turn, which is free, can go on without a person who is absent.

    `find` finds the turns inside of its tools, with which it goes on; without it, they wait.
    """
    view = TurnView.last(turn.events)
    return view.goes_on_here and (_has_answers(turn) or view.is_ready or _goes_on_inside(turn, find, is_ready))


def is_due(turn: LastTurn, find: FindTurn | None = None, now: str | None = None) -> bool:
    """Say whether an open turn, which is free, does not wait for a person alone, or no longer `now`; `find` is as for `is_ready`."""
    view = TurnView.last(turn.events)
    is_over = now is not None and "" < view.first_deadline <= now
    return view.goes_on_here and (_has_answers(turn) or is_over or view.is_due or _goes_on_inside(turn, find, partial(is_due, now=now)))


def _goes_on_inside(turn: LastTurn, find: FindTurn | None, judged: Callable[[LastTurn, FindTurn | None], bool]) -> bool:
    """Say whether a turn inside of a tool goes on, is over, or was never begun: then its call does."""
    if find is None:
        return False
    for child in TurnView.last(turn.events).awaited_children:
        inside = find(child.conversation)
        window = turn_of_child(inside.events, child.event_id) if inside else None
        if inside is None or window is None or not window.open or judged(inside, find):
            return True
    return False
