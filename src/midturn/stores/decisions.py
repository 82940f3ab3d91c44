"""Computes the events that an answer adds to a stored conversation, using the state machine of
turns.
"""

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
from midturn.stores.queued_answer import QueuedAnswer, SubmittedAnswer
from midturn.turn.pending import pending
from midturn.turn.view import TurnView
from midturn.turn.votes import ending_barred, handed_as, note_batch, under_key

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
    "tool": "Pass its `value`, which is true or false for a yes/no question.",
    "run": "Pass `approve`, or the `arguments` to run with instead.",
    "deliver": "Pass `approve`, or the `content` to deliver instead.",
    "review": "Pass `approve`.",
}


@cache
def _load_visit() -> type[Visit]:
    from midturn.turn.visit import Visit  # not needed by programs that only list open questions

    return Visit


def answer_batch(
    turn: Sequence[Event],
    conversation: str,
    event_id: str,
    submission: SubmittedAnswer,
    directory: Directory | None = None,
) -> Sequence[Event]:
    """Return the batch that records an answer.

    Raises:
        AnswerError: The answer is not valid for its question.
        AlreadyAnswered: The question was answered before; the error names the responder and the
            interface.
        NotOpen: The turn has no such open question.
    """
    visit = _load_visit()(turn, event_id, event_ids(), conversation, directory)
    _check_way(visit, submission)
    _check_memory(visit, submission)
    _check_scope(visit, submission)
    batch = visit.take(submission.as_reply(), submission.by, submission.digest)
    if not batch:
        raise AnswerError([_nothing_to_record(turn, event_id)])
    return batch


def handed_batch(turn: Sequence[Event], conversation: str, handed: QueuedAnswer) -> Sequence[Event]:
    """Return the batch for a queued answer or note.

    Raises:
        MidturnError: The answer or note is no longer valid; see `answer_batch` and `note_batch`.
    """
    if (batch := _ending(turn, Address(conversation, handed.event_id), handed)) is not None:
        return batch
    if handed.note is not None:
        batch = note_batch(turn, Address(conversation, handed.event_id), handed.note, event_ids())
    else:
        batch = answer_batch(turn, conversation, handed.event_id, handed.submission)
    return [under_key(event, handed.key) for event in batch] if handed.name else batch


def _ending(turn: Sequence[Event], at: Address, handed: QueuedAnswer) -> Sequence[Event] | None:
    """Return the batch for a queued reply that ends the whole turn. Return None if the reply
    answers a question.

    Raises:
        NotAllowed: A question of the turn is now assigned to other people.
    """
    view = TurnView.last(turn)
    if (
        handed.note is not None
        or not handed.submission.cancel
        or not view.is_open
        or view.record.start_id != at.event_id
    ):
        return None
    if why := ending_barred((view.record,), handed.by):
        raise NotAllowed(why, id=str(at), user=handed.by.user)
    from midturn.turn.ending import (
        ended_by_user,
        ending_batch,
    )  # not needed by programs that only list conversations

    return ending_batch(
        view.events, ended_by_user(view.record.asking_calls, handed.by), event_ids()
    )


def check_no_secret(
    turn: Sequence[Event], conversation: str, event_id: str, submission: SubmittedAnswer
) -> None:
    """Refuse an answer with a secret, because it would be recorded.

    Raises:
        AnswerError: The answer contains a secret.
    """
    if not any(map(_may_ask_for_a_secret, inquiry_requests(turn))):
        return
    reply = submission.as_reply()
    question = next(
        (
            question
            for question in pending(turn, conversation)
            if question.request.event_id == event_id
        ),
        None,
    )
    if question and isinstance(reply, Answered) and _gives_a_secret(question, reply):
        message = (
            "A secret is not accepted here, because it would be recorded. Only the process that"
            " continues the turn accepts it: on its page, with `midturn answer` at a terminal, or"
            " in a program with `agent.resume(…, secrets={id: …})`."
        )
        raise AnswerError([Problem("", message)])


def _check_way(visit: Visit, submission: SubmittedAnswer) -> None:
    """Refuse a reply of the wrong kind: approvals need a decision, questions an answer."""
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
        raise AnswerError(
            [
                Problem(
                    "",
                    f"{_WHAT[prompt.kind]} cannot be answered with {' and '.join(wrong)}."
                    f" {_INSTEAD[prompt.kind]}",
                )
            ]
        )


def _check_memory(visit: Visit, submission: SubmittedAnswer) -> None:
    """Refuse `remember` if it would have no effect, because the user would rely on it."""
    if not submission.remember:
        return
    prompt = visit.prompt()
    if prompt is None or not prompt.may_remember:
        raise AnswerError(
            [
                Problem(
                    "",
                    "This answer cannot be remembered for the turn: only the answers yes and no"
                    " can be remembered, if the tool allows it.",
                )
            ]
        )
    reply = submission.as_reply()
    if not isinstance(reply, Answered) or not isinstance(reply.value, bool):
        raise AnswerError([Problem("", "Only a plain yes or no can be remembered for the turn.")])


def _check_scope(visit: Visit, submission: SubmittedAnswer) -> None:
    """Refuse a scope that this answer may not have, or that would have no effect."""
    if submission.scope is None:
        return
    from midturn.turn.standing_decisions import (
        refusal,
        rule_problem,
    )  # not needed by programs that only list open questions

    prompt = visit.prompt()
    if prompt is None:
        return
    reply = submission.as_reply()
    rule = str(getattr(visit.request, "rule", ""))
    if why := refusal(submission.scope, prompt.scopes, rule, has_people=prompt.people is not None):
        raise AnswerError([Problem("", why)])
    if not isinstance(reply, Answered) or (prompt.kind != "tool" and reply.value is not True):
        raise AnswerError(
            [Problem("", "Only a plain answer, or an approval of a call, may have a scope.")]
        )
    if submission.rule is not None and (
        why := rule_problem(submission.rule, prompt.arguments, prompt.definition)
    ):
        raise AnswerError([Problem("", why)])


def _nothing_to_record(turn: Sequence[Event], event_id: str) -> Problem:
    """Return the error for a mapping that has no answer to the open question of a form. A form
    continues from its open question, which must be answered first.
    """
    asked = next(
        (request.question_id for request in inquiry_requests(turn) if request.event_id == event_id),
        "",
    )
    return Problem(
        f"/{asked}",
        f"the open question `{asked}` has no answer in the map, but the form continues with it:"
        " add it.",
    )


def _may_ask_for_a_secret(request: InquiryRequest) -> bool:
    return request.form is not None or isinstance(request.question.answer_type, SecretType)


def _gives_a_secret(question: OpenQuestion, reply: Answered) -> bool:
    if isinstance(question.question.answer_type, SecretType):
        return True
    return isinstance(reply.value, Mapping) and not secrets_of_form(question.form).isdisjoint(
        reply.value
    )


def outdated(handed: Iterable[QueuedAnswer], events: Sequence[Event]) -> list[QueuedAnswer]:
    """Return the queued answers that are outdated.

    An answer is outdated if its question is closed, the last turn in `events` has ended, or the
    vote or note is already recorded.
    """
    turn, noted = TurnView.last(events), handed_as(events)
    still_open = {
        *turn.open_ids,
        *([turn.record.start_id] if turn.is_open else []),
    }  # a reply that ends the turn has the event ID of the turn's start
    return [answer for answer in handed if answer.event_id not in still_open or answer.key in noted]


# --------------------------------------------------------------------------------------------------
# Readiness of a stored turn, including nested turns and queued answers


FindTurn: TypeAlias = Callable[[str], LastTurn | None]
"""Returns the last turn of a conversation; None if there is none."""


def _has_answers(turn: LastTurn) -> bool:
    """Return whether an answer or a vote was queued. A vote may complete an approval.

    Notes do not count.
    """
    return any(handed.note is None for handed in turn.handed)


def is_ready(turn: LastTurn, find: FindTurn | None = None) -> bool:
    """Return whether an unlocked turn can continue without waiting for a person.

    `find` returns the last turns of nested conversations. Nested turns continue together with
    this turn. Without `find`, nested turns are treated as waiting.
    """
    view = TurnView.last(turn.events)
    return view.goes_on_here and (
        _has_answers(turn) or view.is_ready or _nested_turn_can_continue(turn, find, is_ready)
    )


def is_due(turn: LastTurn, find: FindTurn | None = None, now: str | None = None) -> bool:
    """Return whether an unlocked open turn can continue without people, immediately or because a
    deadline has passed at the time `now`. See `is_ready` for `find`.
    """
    view = TurnView.last(turn.events)
    is_over = now is not None and "" < view.first_deadline <= now
    return view.goes_on_here and (
        _has_answers(turn)
        or is_over
        or view.is_due
        or _nested_turn_can_continue(turn, find, partial(is_due, now=now))
    )


def _nested_turn_can_continue(
    turn: LastTurn, find: FindTurn | None, judged: Callable[[LastTurn, FindTurn | None], bool]
) -> bool:
    """Return whether a turn inside a tool can continue, has ended, or was never started.

    If so, the outer call can continue.
    """
    if find is None:
        return False
    for child in TurnView.last(turn.events).awaited_children:
        inside = find(child.conversation)
        window = turn_of_child(inside.events, child.event_id) if inside else None
        if inside is None or window is None or not window.open or judged(inside, find):
            return True
    return False
