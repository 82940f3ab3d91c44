"""A read-only view of a turn: open questions, answers, deadlines, and whether the turn can
continue.

A view uses the state machine's own record (`turn/record.py`), so a list, a page, a hook and a
worker see the same state as a run that resumes the turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, NamedTuple, TypeAlias, TypeVar, cast

from msgspec.structs import replace

from midturn.errors import AlreadyAnswered, Answerer, DeadlinePassed, NoSuchQuestion, NotOpen
from midturn.events import types as ev
from midturn.events.open_question import Address, AskingAgent, asker_of
from midturn.events.window import Window, last_turn, turns
from midturn.turn.call_record import CallRecord, ChildRecord
from midturn.turn.record import TurnRecord

E = TypeVar("E", bound=ev.Event)
CallPair: TypeAlias = tuple[ev.ToolCallRequest, ev.ToolCallResponse | None]


class Exchange(NamedTuple):
    """A question with its response. `response` is None while the question is open."""

    request: ev.InquiryRequest
    response: ev.InquiryResponse | None


_NO_TURN: Final = Window(())


class TurnView:
    """A view of an open or finished turn. It may be empty; an empty view has no open questions."""

    def __init__(self, window: Window | None, record: TurnRecord | None = None) -> None:
        """Create a view of the events of one turn. `record` is the recorded state, if it is already
        computed.
        """
        self.events = (window or _NO_TURN).events
        self.is_open = window is not None and window.open
        if record is not None:
            self.record = record

    @classmethod
    def last(cls, events: Sequence[ev.Event]) -> TurnView:
        """Return a view of the last turn. `events` may start anywhere before that turn."""
        return cls(last_turn(events))

    @classmethod
    def of(cls, events: Sequence[ev.Event], event_id: str) -> TurnView:
        """Return a view of the turn that contains an event. The view is empty if no turn does."""
        holding = (
            window
            for window in reversed(turns(events))
            if any(event.event_id == event_id for event in window.events)
        )
        return cls(next(holding, None))

    @cached_property
    def record(self) -> TurnRecord:
        """The recorded state of the turn."""
        record = TurnRecord()
        for event in self.events:
            record.apply(event)
        return record

    @cached_property
    def asker(self) -> AskingAgent | None:
        """The external agent that asks. None if midturn runs the turn."""
        return asker_of(self.events)

    # Continuing the turn
    # ----------------------------------------------------------------------------------------------

    @property
    def goes_on_here(self) -> bool:
        """Whether the turn is open and midturn can continue it. False for a turn of an external
        agent, which continues in that agent.
        """
        return self.is_open and self.asker is None

    @property
    def is_ready(self) -> bool:
        """Whether a person's decision lets the turn continue, and no run has processed it yet."""
        return self.goes_on_here and self.record.is_ready

    @property
    def is_due(self) -> bool:
        """Whether the turn can continue without people, for example because its process died."""
        return self.goes_on_here and self.record.is_due

    # Open questions
    # ----------------------------------------------------------------------------------------------

    @property
    def open_ids(self) -> list[str]:
        """The `event_id`s of all open questions and approvals, sorted."""
        return self.record.open_ids if self.is_open else []

    @property
    def waits(self) -> bool:
        """Whether a question or an approval is open."""
        return bool(self.open_ids)

    @property
    def deadlines(self) -> Mapping[str, str]:
        """The deadlines of open questions, permissions and reviews, by `event_id`. Requests without
        a deadline are not included.

        The deadline of an external agent's question is the time at which the agent asks in its own
        dialog instead.
        """
        if self.is_open and self.asker:
            return dict.fromkeys(self.open_ids, self.asker.ends) if self.asker.ends else {}
        if not self.is_open or not any(ev.deadlines(self.events)):
            return {}
        return {
            event_id: deadline
            for call in self.record.open_calls()
            for event_id, deadline in waiting_until(call)
        }

    @property
    def first_deadline(self) -> str:
        """The earliest deadline. Empty if no open question has a deadline, or if an external agent
        runs the turn.
        """
        return min(self.deadlines.values(), default="") if self.goes_on_here else ""

    def on_record(self, event: E) -> E:
        """Return an event as it is in the log. In the state of a run, the events that the run wrote
        have no timestamp.
        """
        if event.timestamp:
            return event
        return cast(
            "E",
            next(
                (each for each in reversed(self.events) if each.event_id == event.event_id), event
            ),
        )

    # Questions and answers
    # ----------------------------------------------------------------------------------------------

    def was_asked(self, event_id: str) -> bool:
        """Return whether a question with this `event_id` exists, open or closed."""
        return self.attempt(event_id) is not None or any(
            approval.event_id == event_id for approval in self.record.approvals
        )

    def attempt(self, event_id: str) -> Exchange | None:
        """Return a question with its response. None if there is no such question."""
        return next((pair for pair in self.inquiries if pair.request.event_id == event_id), None)

    def decision(self, event_id: str) -> ev.InquiryResponse | ev.Approval | None:
        """Return the event that closed a question. None if it is open or does not exist."""
        if found := self.attempt(event_id):
            return found[1]
        waiting = next(
            (approval.id for approval in self.record.approvals if approval.event_id == event_id),
            None,
        )
        return None if waiting is None else _decided(self.record.approvals, waiting)

    def answer(self, event_id: str) -> ev.InquiryAnswered | ev.InquiryRedacted | ev.Approval | None:
        """Return the answer to a question. None if it is open, was closed without an answer, or was
        answered in an external agent.
        """
        match self.decision(event_id):
            case ev.Approval() as decision if (
                decision.state in ("superseded", "expired") or decision.is_reply
            ):
                return None
            case ev.InquiryCancelled():
                return None
            case decision:
                return decision

    @property
    def inquiries(self) -> list[Exchange]:
        """Every question in order, with its response (None if it is open)."""
        return [Exchange(attempt.request, attempt.response) for attempt in self.record.attempts]

    @property
    def answered(self) -> list[tuple[ev.InquiryRequest, ev.InquiryAnswered]]:
        """Every question with its answer, in order, without secrets."""
        return [
            (request, response)
            for request, response in self.inquiries
            if isinstance(response, ev.InquiryAnswered)
        ]

    @property
    def answerers(self) -> list[ev.AnsweredBy | None]:
        """The responders to the questions in the turn, in order, without models whose answers a
        person reviewed.
        """
        found = [
            (request, given)
            for request, given in self.inquiries
            if isinstance(given, ev.InquiryAnswered | ev.InquiryRedacted)
        ]
        overruled = {request.escalates for request, _ in found if request.escalates}
        return [given.answered_by for request, given in found if request.id not in overruled]

    @property
    def decided(
        self,
    ) -> Iterator[tuple[ev.InquiryRequest | ev.Approval, ev.InquiryResponse | ev.Approval]]:
        """Every closed question and every approval that people were asked for, each with the event
        that closed it. Questions come first.
        """
        yield from (
            (request, response) for request, response in self.inquiries if response is not None
        )
        waiting = {
            approval.id: approval
            for approval in self.record.approvals
            if approval.state == "waiting"
        }
        yield from (
            (asked, decision)
            for id, asked in waiting.items()  # noqa: A001  named like the field of the event
            if (decision := _decided(self.record.approvals, id))
        )

    @property
    def cancel_reasons(self) -> set[str]:
        """The reasons why questions were closed without an answer."""
        return {
            response.reason
            for _, response in self.inquiries
            if isinstance(response, ev.InquiryCancelled)
        }

    @property
    def permissions(self) -> list[ev.Approval]:
        """The approval events of permissions, in order."""
        return [approval for approval in self.record.approvals if approval.kind == "run"]

    @property
    def result(self) -> str | None:
        """The result of the first call that has a response, or None."""
        return next((response.content for _, response in self.calls if response), None)

    @property
    def calls(self) -> list[CallPair]:
        """Every tool call in order, with its response (None if it has none)."""
        return [(call.request, call.response) for call in self.record.calls.values()]

    # Turns of other agents inside of its calls
    # ----------------------------------------------------------------------------------------------

    @property
    def open_children(self) -> list[ev.Child]:
        """The nested turns in open calls. Whether they have ended is recorded only in their own
        conversations.
        """
        return [child.began for child in self._children()]

    @property
    def awaited_children(self) -> list[ev.Child]:
        """The nested turns in open calls whose end this turn did not record."""
        return [child.began for child in self._children() if child.state != "done"]

    def _children(self) -> Iterator[ChildRecord]:
        if not self.is_open or ev.Child not in map(type, self.events):  # most turns have none
            return
        for call in self.record.open_calls():
            yield from call.children.values()


def _decided(approvals: Iterable[ev.Approval], id: str) -> ev.Approval | None:
    return next(
        (approval for approval in approvals if approval.id == id and approval.state != "waiting"),
        None,
    )


# Functions for all turns of a log
# --------------------------------------------------------------------------------------------------


def views(events: Iterable[ev.Event]) -> list[TurnView]:
    """Return a view of every turn."""
    return [*map(TurnView, turns(events))]


def pairs(events: Iterable[ev.Event]) -> list[Exchange]:
    """Return every question in a turn or a log, with its response (None if it is open)."""
    return [pair for view in views(events) for pair in view.inquiries]


def calls(events: Iterable[ev.Event]) -> list[CallPair]:
    """Return every tool call in a turn or a log, with its response (None if it has none)."""
    return [pair for view in views(events) for pair in view.calls]


# Deadlines
# --------------------------------------------------------------------------------------------------


def waiting_until(call: CallRecord) -> Iterator[tuple[str, str]]:
    """Yield the `event_id` and the deadline of each open question and approval in a call."""
    for each in _waiting(call):
        if each.deadline:
            yield each.event_id, each.deadline


def expired_requests(turn: TurnView, now: str, ids: Iterator[str]) -> tuple[ev.Event, ...]:
    """Return the events that close questions whose deadline has passed. Their calls continue when
    the turn is resumed.
    """
    over = {event_id for event_id, deadline in turn.deadlines.items() if deadline <= now}
    if not over:
        return ()
    if turn.asker:
        return closed_call(turn, turn.asker.in_own_dialog, ids)
    place = {event.event_id: place for place, event in enumerate(turn.events)}
    waiting = [
        each
        for call in turn.record.open_calls()
        for each in _waiting(call)
        if each.event_id in over
    ]
    return tuple(
        _expired(each, next(ids)) for each in sorted(waiting, key=lambda each: place[each.event_id])
    )


def closed_call(turn: TurnView, content: str, ids: Iterator[str]) -> tuple[ev.Event, ...]:
    """Return the events that end an external agent's call: they supersede its open questions, and
    record `content` as the result.
    """
    call = next(iter(turn.record.calls.values()), None)
    if call is None or not turn.is_open:
        return ()
    asked = [attempt.request for attempt in turn.record.attempts if attempt.response is None]
    events: list[ev.Event] = [
        ev.InquiryCancelled(id=request.id, reason="superseded") for request in asked
    ]
    if waiting := call.waiting("run"):
        events.append(ev.Approval(id=waiting.id, call=waiting.call, kind="run", state="superseded"))
    if call.response is None:
        events.append(
            ev.ToolCallResponse(id=call.request.id, call=call.request.event_id, content=content)
        )
    events.append(ev.TurnEnd(status="completed"))
    return tuple(replace(event, event_id=next(ids)) for event in events)


def _waiting(call: CallRecord) -> list[ev.InquiryRequest | ev.Approval]:
    return [*(thread.last.request for thread in call.open_threads), *call.open_approvals]


def _expired(waiting: ev.InquiryRequest | ev.Approval, event_id: str) -> ev.Event:
    if isinstance(waiting, ev.InquiryRequest):
        return ev.InquiryCancelled(event_id=event_id, id=waiting.id, reason="deadline")
    return ev.Approval(
        event_id=event_id,
        id=waiting.id,
        call=waiting.call,
        kind=waiting.kind,
        state="expired",
        form=waiting.form,
        rule=waiting.rule,
    )


# --------------------------------------------------------------------------------------------------
# Errors for answers that come too late. All interfaces use the same texts


_CANCELLED: Final[Mapping[str, str]] = {
    "user": "its turn was ended",
    "reply": "a reply was given instead",
    "back": "an earlier question is asked again",
    "superseded": "it is not asked any more",
    "deadline": "its deadline has passed",
}


def why_closed(events: Sequence[ev.Event], at: Address, now: str = "") -> AlreadyAnswered | NotOpen:
    """Return the error for an answer that comes too late, or whose question does not exist.

    Args:
        events: The events of the conversation, or of the turn.
        at: The address of the question.
        now: The current time (RFC 3339). Used to detect a passed deadline that is not recorded yet.
            Empty to ignore deadlines.
    """
    turn = TurnView.of(events, at.event_id)
    deadline = turn.deadlines.get(at.event_id) if now else None
    if deadline and deadline <= now and turn.asker is None:
        return past_deadline(at, deadline)
    if not turn.was_asked(at.event_id):
        return no_question(str(at))
    answer = turn.answer(at.event_id)
    if answer is None and (deadline := _passed(turn, at.event_id)):
        return past_deadline(at, deadline)
    if answer is None:
        return NotOpen(f"The question {at} is closed: {why_unanswered(turn, at.event_id)}.")
    return answered_before(at, answer.answered_by, answer.timestamp)


def past_deadline(at: Address, deadline: str) -> DeadlinePassed:
    """Return the error for an answer that comes after the deadline of its question."""
    return DeadlinePassed(
        f"The question {at} is closed: its deadline has passed, at {deadline}.",
        id=str(at),
        deadline=deadline,
    )


def _passed(turn: TurnView, event_id: str) -> str:
    """Return the recorded deadline that closed a question. Empty if no deadline closed it."""
    decision = turn.decision(event_id)
    expired = isinstance(decision, ev.InquiryCancelled) and decision.reason == "deadline"
    if decision is None or (
        not expired and not (isinstance(decision, ev.Approval) and decision.state == "expired")
    ):
        return ""
    asked = turn.attempt(event_id)
    return asked[0].deadline if asked and asked[0].deadline else decision.timestamp


def went_on(events: Sequence[ev.Event], at: Address) -> NotOpen:
    """Return the error for a question whose turn no longer waits for an answer."""
    return NotOpen(
        f"The question {at} is closed: {_how_it_ended(TurnView.of(events, at.event_id))}."
    )


def no_question(id: str) -> NoSuchQuestion:
    """Return the error for an unknown question id."""
    return NoSuchQuestion(f"There is no question {id!r}.", id=id)


def answered_before(at: Address, by: ev.AnsweredBy | None, when: str) -> AlreadyAnswered:
    """Return the error for a question that `by` already answered."""
    who = describe(by)
    answerer = Answerer(
        by.user or by.model or by.name or by.by if by else "", by.via if by else None, when
    )
    first = f", by {who}" if who else ""
    return AlreadyAnswered(
        f"The question {at} was answered before{first}. That answer stands.",
        who,
        answered_by=answerer,
    )


def describe(by: ev.AnsweredBy | None) -> str:
    """Return a phrase that names the responder. Empty if it is not recorded."""
    match by:
        case None:
            return ""
        case ev.AnsweredBy(by="user"):
            name = by.user or "a person"
        case ev.AnsweredBy(by="policy"):
            name = f"the policy {by.name}" if by.name else "a policy"
        case ev.AnsweredBy(by="static" | "configuration"):
            name = f"the configuration ({by.origin})" if by.origin else "the configuration"
        case ev.AnsweredBy(by="agent"):
            name = f"the program {by.user}" if by.user else "a program"
        case ev.AnsweredBy(by="owner"):
            name = f"{by.user or 'a user'}, who owns the store,"
        case _:
            name = {
                "assistant": by.model or "an assistant",
                "cached": "an earlier answer",
                "default": "the default",
            }.get(by.by, by.by)
    return f"{name} ({by.via})" if by.via else name


def cancelled(reason: str) -> str:
    """Return why a question was cancelled, as a clause to follow a colon."""
    return _CANCELLED.get(reason, f"it was cancelled ({reason})")


def why_unanswered(turn: TurnView, event_id: str) -> str:
    """Return why a question was closed without an answer, as a clause to follow a colon."""
    if elsewhere := why_superseded(turn, event_id):
        return elsewhere
    match turn.decision(event_id):
        case ev.InquiryCancelled(reason=reason) if reason != "user":
            return cancelled(reason)
        case ev.Approval(state="superseded" | "expired" as state):
            return cancelled("deadline" if state == "expired" else state)
        case ev.Approval():
            return cancelled("reply")
        case _:
            return _how_it_ended(turn)


def why_superseded(turn: TurnView, event_id: str) -> str:
    """Return why an external agent's question was closed without an answer through midturn. Empty
    if the question is open, or if no external agent asked it.

    The question can be closed without an event: after the hook's time limit, the agent asks in its
    own dialog.
    """
    if turn.asker is None or not turn.was_asked(event_id):
        return ""
    told = next((response for _, response in turn.calls if response), None)
    match turn.decision(event_id):
        case None if told is None:
            return turn.asker.in_own_dialog if turn.asker.ends else ""
        case ev.InquiryCancelled(reason="superseded") | ev.Approval(state="superseded"):
            return told.content.removesuffix(".") if told else ""
        case _:
            return ""


def _how_it_ended(turn: TurnView) -> str:
    end = turn.record.ended
    if end is None:
        return "its turn has continued without the answer"
    by = describe(end.ended_by)
    return (
        f"its turn was ended by {by}"
        if by
        else "its turn was ended"
        if end.status == "ended_by_user"
        else "its turn is over"
    )
