"""An answer that comes from outside a running turn: which events it leads to. The machine itself says so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from midturn.core.events import AnsweredBy, Approval, Event, InquiryAnswered, InquiryRedacted, InquiryRequest, ToolCallRequest, TurnEnd
from midturn.core.form import Form
from midturn.core.reply import Answered, Reply, Submitted, WentBack
from midturn.core.routing.policy import DetachedPolicies, ToolPolicy
from midturn.core.source import Source
from midturn.core.turn.effects import Effect, Record
from midturn.core.turn.inputs import AnsweredElsewhere, Asking
from midturn.core.turn.record import CallRecord, Chain
from midturn.core.turn.settings import TurnSettings
from midturn.core.turn.turn import Turn
from midturn.core.turn.whole_form import answers_to_form
from midturn.errors import AlreadyAnswered, AnswerError, NotOpen, Problem

_EVERYBODY_WAITS = DetachedPolicies(run="defer", deliver="defer", tool="defer")


def settle(window: Sequence[Event], event_id: str, reply: Reply, who: AnsweredBy, ids: Iterator[str]) -> tuple[Event, ...]:
    """Return the batch that a reply to an open request appends.

    Args:
        window: The events of the last turn.
        event_id: The request's `event_id`.
        reply: What the person did. For a form of several questions, `Answered` may hold a map of answers by question id: every pair is
            recorded, and the form counts as reviewed.
        who: Who replied, and how.
        ids: Gives the new events their ids.

    Raises:
        NotOpen: No such request waits in this turn.
        AlreadyAnswered: Somebody answered it first.
        AnswerError: The reply does not fit the question.
    """
    turn = Turn.load(window, _settings(window), ids)
    request = next((e for e in window if e.event_id == event_id and isinstance(e, InquiryRequest | Approval)), None)
    if request is None or turn.is_over:
        raise NotOpen(f"No question with the id {event_id!r} is open. `midturn inbox` lists the open ones.")
    if isinstance(request, Approval):
        return _settle_approval(turn, request, reply, who)
    return _settle_inquiry(window, request, reply, who, ids)


def _settings(window: Sequence[Event]) -> TurnSettings:
    """Return settings under which nothing is decided but by the reply: whatever else there is waits."""
    names = {event.name for event in window if isinstance(event, ToolCallRequest)}
    policies = {name: ToolPolicy(source=Source.tool(name), detached=_EVERYBODY_WAITS) for name in names}
    return TurnSettings(tools=policies, attached=False)


# An inquiry -------------------------------------------------------------------------------------------------------------


def _settle_inquiry(
    window: Sequence[Event], request: InquiryRequest, reply: Reply, who: AnsweredBy, ids: Iterator[str]
) -> tuple[Event, ...]:
    turn, form = _waiting_turn(window, request, ids)
    question = request.question.asked(request.question_id)
    answers = answers_to_form(form, question, reply)
    if answers is not None:
        return _walk(turn, request.call, answers, who)
    if isinstance(reply, Answered):
        reply = replace(reply, value=question.check(reply.value))
    return _up_to_next_question(_accepted(turn.step(AnsweredElsewhere(request.id, reply, who))))


def _waiting_turn(window: Sequence[Event], request: InquiryRequest, ids: Iterator[str]) -> tuple[Turn, Form]:
    """Return the turn with its machine waiting for the answer, and the form that the question belongs to.

    A question that a tool asks alone after it has asked the same in a form looks like one of that form; whether it is, the walk knows.
    """
    for first, form in _forms(*_open_chain(Turn.load(window, _settings(window), ids), request)):
        turn = Turn.load(window, _settings(window), ids)
        _use_up(turn.record.calls[request.call], first)
        turn.reopen(request.call, Asking(form, request.source))
        if turn.waits_for(request.call) == request.id:
            return turn, form
    raise NotOpen(f"The question {request.event_id!r} is not the one that its form has come to.")


def _open_chain(turn: Turn, request: InquiryRequest) -> tuple[CallRecord, Chain]:
    """Return the call and the chain that a request belongs to, if it still waits."""
    response = turn.record.inquiries[request.id].response
    if isinstance(response, InquiryAnswered | InquiryRedacted):
        by = response.answered_by.by if response.answered_by else "somebody"
        raise AlreadyAnswered(f"The question {request.event_id!r} was answered already, by {by}.", by)
    call = turn.record.calls.get(request.call)
    chain = next((c for c in call.chains if c.last.request.id == request.id), None) if call else None
    if response is not None or call is None or chain is None or call.response is not None:
        raise NotOpen(f"The question {request.event_id!r} is closed.")
    return call, chain


def _forms(call: CallRecord, chain: Chain) -> Iterator[tuple[int, Form]]:
    """Yield the forms that a question may belong to, at last the question alone, each with the place at which its walk began."""
    place, question_id = call.chains.index(chain), chain.asked.question_id
    for first in range(place, -1, -1):
        asked = call.chains[first].asked.form
        if asked and any(question.get("id") == question_id for question in asked.questions):
            yield first, Form.from_json(list(asked.questions), review=True)
            break
    yield place, Form((chain.asked.question.asked(question_id),))


def _use_up(call: CallRecord, first: int) -> None:
    """Leave the attempts out that came before a walk."""
    for used in call.chains[:first]:
        used.used = True


def _walk(turn: Turn, call: str, answers: Mapping[str, Answered], who: AnsweredBy) -> tuple[Event, ...]:
    """Answer one question of the form after the other; what the map leaves out stays open, a complete map counts as reviewed."""
    events: list[Event] = []
    while waiting := turn.waits_for(call):
        attempt = turn.record.inquiries.get(waiting)
        reply = answers.get(attempt.request.question_id) if attempt else Submitted()
        if reply is None:
            break
        turn.come_back()
        events += _accepted(turn.step(AnsweredElsewhere(waiting, reply, who)))
    return tuple(events)


# An approval ------------------------------------------------------------------------------------------------------------


def _settle_approval(turn: Turn, request: Approval, reply: Reply, who: AnsweredBy) -> tuple[Event, ...]:
    call = turn.record.calls.get(request.call)
    decision = next((a for a in call.approvals if a.id == request.id and a.state != "waiting"), None) if call else None
    if decision is not None:
        by = decision.answered_by.by if decision.answered_by else "somebody"
        raise AlreadyAnswered(f"The approval {request.event_id!r} was decided already, by {by}.", by)
    if call is None or call.response is not None:
        raise NotOpen(f"The approval {request.event_id!r} is closed.")
    if request.kind == "review":
        return _settle_review(turn, call, request, reply, who)
    turn.restart(request.call)
    return _accepted(turn.step(AnsweredElsewhere(request.id, reply, who)))


def _settle_review(turn: Turn, call: CallRecord, request: Approval, reply: Reply, who: AnsweredBy) -> tuple[Event, ...]:
    first = next((chain for chain in reversed(call.chains) if chain.asked.form), None)
    if first is None or first.asked.form is None:
        raise NotOpen(f"The review {request.event_id!r} belongs to no form.")
    _use_up(call, call.chains.index(first))
    turn.reopen(request.call, Asking(Form.from_json(list(first.asked.form.questions), review=True), first.asked.source))
    events = _accepted(turn.step(AnsweredElsewhere(request.id, reply, who)))
    return events if isinstance(reply, WentBack) else _up_to_next_question(events)  # Back is on record as the request that it leads to


def _accepted(effects: Sequence[Effect]) -> tuple[Event, ...]:
    """Return what the machine records; it records nothing for a reply that does not fit.

    Whether the turn fails by a limit is for the next run to say, which knows the limits that hold.
    """
    recorded = (effect.event for effect in effects if isinstance(effect, Record))
    events = tuple(event for event in recorded if not (isinstance(event, TurnEnd) and event.status == "failed"))
    if not events:
        raise AnswerError([Problem("", "The reply does not fit: a question takes an answer, an approval takes yes, no, or an edit.")])
    return events


def _up_to_next_question(events: Sequence[Event]) -> tuple[Event, ...]:
    """Cut what the next run asks for itself: its settings may answer it."""
    asks = (i for i, e in enumerate(events) if isinstance(e, InquiryRequest) or (isinstance(e, Approval) and e.state == "waiting"))
    return tuple(events[: next(asks, len(events))])
