"""The recorded state of a turn, computed from its events.

Theory of operation
===================

`TurnRecord.apply(event)` is the only function that changes recorded state. A running turn applies
each event that it writes, and a resumed turn applies the events that it reads, so both have the
same state. After a crash, the list of events is just shorter. All state that must survive the
process is computed here.

**Contents.** A turn consists of cycles. A cycle is one response of the model and its calls. A call
(`CallRecord`) has question threads and approvals. A question thread (`QuestionThread`) is one
question with its attempts, of which only the last counts. An attempt (`Attempt`) is a request and
its response; escalating a question adds an attempt.

**An example.** The state after each event of a turn in which a tool asks once:

    turn_start, chat_request   no calls, and the cycle is complete: `waits_for_model`
    tool_call_request          a new cycle with one open call; the model has responded
    inquiry_request            the call has an open thread with `asked_at` 3
    inquiry_response           `decided_at` 4 is after every `asked_at`: `is_ready`
    tool_call_response         the call is closed and its cycle complete: `waits_for_model`
    chat_response, turn_end    `ended`

Positions start at 0.

**Damaged logs.** The events may come from another version, another program or a text editor, so
`apply` never raises. A repeated line counts once, a response without a request is ignored, a result
or an answer without a reference is matched by order, and ids in unreadable lines are not reused.

**Guarantees.**

1. Applying all events takes linear time: `apply` never reads all earlier events.
2. Only the first response to a request counts. Later ones are ignored.
3. Positions (`asked_at`, `decided_at`, `suspended_at`) count events of the turn, so two events
   can be ordered without a clock. `is_ready` compares them to decide whether a turn can continue.
4. A batch counts as one event for `has_closed_by_itself`: a decision and the end of its call are
   written together, so a run never reads one without the other.

All other readers use `TurnView` (`turn/view.py`), which is based on this record.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from midturn.events import types as ev
from midturn.events.open_question import Refusal
from midturn.events.window import RequestPairs, asking_call
from midturn.question.json_value import DEFAULT_LIMITS, Json, Limits, canonical
from midturn.turn.call_record import Attempt, CallRecord, ChildRecord, InquiryEntry
from midturn.turn.edits import read_edits
from midturn.turn.memory import RememberedDecisions, answer_key

_OF_THE_MODEL: Final = frozenset({ev.ToolCallRequest, ev.ChatResponse})


class TurnRecord:
    """The recorded state of a turn. It is the same for a running turn and a resumed turn."""

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self.started = False
        self.start_id = ""
        """The `event_id` of the first event of the turn."""
        self.ended: ev.TurnEnd | None = None
        self.calls: dict[str, CallRecord] = {}
        self.inquiries: dict[str, InquiryEntry] = {}
        """The last request with each request id."""
        self.approvals: list[ev.Approval] = []
        """Every approval event, including those that belong to no call."""
        self.notes: dict[str, list[ev.Note]] = {}
        """Notes on requests, by request id: votes, edits, reassignments and notifications."""
        self.memory = RememberedDecisions()
        self.shown: set[tuple[str, str, bytes]] = set()
        self.cycles = 0
        """Number of model responses so far."""
        self.rejections_in_a_row = 0
        self.stopped_by_breaker = False
        self.last = ""
        """The `event_id` of the last event."""
        self.suspended_at = -1
        """Number of events in the turn before the last `suspended` event, which says that a run
        processed every earlier answer. -1 if there is none.
        """
        self.has_closed_by_itself = False
        """Whether the last batch contains a person's decision. If that decision closed its call, no
        run has processed it yet.
        """
        self._at = -1
        self._in_batch = False
        self._model_speaks = False
        self._rejected_cycles = limits.rejected_cycles
        self._cycle_calls: list[CallRecord] = []
        self._model_has_rejected = False
        self._others_have_answered = False
        self._open_calls: dict[str, CallRecord] = {}
        self._request_counts: dict[tuple[str, str], int] = {}
        self._asked = RequestPairs()
        self._called = RequestPairs()
        self._attempts_at: dict[int, Attempt] = {}
        self._calls_at: dict[int, CallRecord] = {}
        self._approval_ids: set[str] = set()
        self._unreadable: list[bytes] = []
        self._refusals: dict[tuple[str, bytes], list[tuple[int, Refusal]]] = {}

    # State
    # ----------------------------------------------------------------------------------------------

    def open_calls(self) -> list[CallRecord]:
        """Return the calls that have no response yet."""
        return list(self._open_calls.values())

    @property
    def asking_calls(self) -> set[str]:
        """The calls that have an open question, by the `event_id` of their requests."""
        return {call.request.event_id for call in self.open_calls() if call.open_threads}

    @property
    def attempts(self) -> Iterable[Attempt]:
        """Every request in order, including questions that belong to no call. `inquiries` contains
        only the last request with each id.
        """
        return self._attempts_at.values()

    @property
    def open_requests(self) -> list[ev.InquiryRequest]:
        """The last request with each request id, if it has no response."""
        return [
            entry.attempt.request
            for entry in self.inquiries.values()
            if entry.attempt.response is None
        ]

    @property
    def open_ids(self) -> list[str]:
        """The `event_id`s of all open questions and approvals in open calls, sorted."""
        asked = [
            thread.last.request.event_id
            for call in self._open_calls.values()
            for thread in call.open_threads
        ]
        return sorted(
            (
                *asked,
                *(
                    approval.event_id
                    for call in self._open_calls.values()
                    for approval in call.open_approvals
                ),
            )
        )

    @property
    def waits_for_model(self) -> bool:
        """Whether the model must be asked next: all calls have responses, and the model has not
        replied to them yet.
        """
        return not self._model_speaks and self._cycle_is_complete

    @property
    def breaker_is_open(self) -> bool:
        """Whether the limit of rejected cycles is reached. If so, only a person may answer the next
        question.
        """
        return self.rejections_in_a_row >= self._rejected_cycles

    @property
    def is_ready(self) -> bool:
        """Whether a person's decision lets the turn continue, and no run has processed this
        decision yet.

        A call can continue if it asked nobody after the decision. If several forms are open at the
        same time, one decision is enough. If the decision ended the call, the turn can continue
        after all other calls of the cycle have ended.
        """
        if self.ended is not None:
            return False
        if self.waits_for_model:
            return self.has_closed_by_itself
        return any(_can_continue(call, self.suspended_at) for call in self._open_calls.values())

    @property
    def is_due(self) -> bool:
        """Whether an open turn can continue without people, because it is ready, its process died,
        or its model was unavailable.
        """
        calls = self.open_calls()
        return self.ended is None and (
            not calls or self.is_ready or any(map(_waits_for_nobody, calls))
        )

    def refusals_before(self, call: CallRecord, arguments: Json) -> tuple[Refusal, ...]:
        """Return people's refusals of identical calls. Only refusals recorded before the model made
        this call are returned.
        """
        if not self._refusals:  # fast path: no call was refused
            return ()
        known = self._refusals.get((call.request.name, canonical(arguments)), ())
        return tuple(refusal for at, refusal in known if at < call.called_at)

    # Ids
    # ----------------------------------------------------------------------------------------------

    def next_inquiry_id(self, tool_call_id: str, question_id: str) -> str:
        """Return an unused id for a new request of a question."""
        number = self._request_counts.get((tool_call_id, question_id), 0) + 1
        while self.is_taken(free := f"{tool_call_id}.{question_id}.{number}"):
            number += 1
        return free

    def is_taken(self, id: str) -> bool:
        """Return whether a request or an approval in the turn has this id, or an unreadable line
        contains it.
        """
        if id in self.inquiries or id in self._approval_ids:
            return True
        return bool(self._unreadable) and any(id.encode() in line for line in self._unreadable)

    # Applying events
    # ----------------------------------------------------------------------------------------------

    def apply(self, event: ev.Event) -> None:  # noqa: C901, PLR0912  one case for each kind of event that changes the state
        """Apply one recorded event."""
        self._at += 1  # positions count all events of the turn, even those without effect
        self.last = event.event_id
        self.has_closed_by_itself = self.has_closed_by_itself and self._in_batch
        self._in_batch = event.more > 0
        is_of_model = event.__class__ in _OF_THE_MODEL
        if is_of_model and not self._model_speaks:  # first part of a model response
            self._begin_cycle()
        self._model_speaks = is_of_model or (self._model_speaks and event.__class__ is ev.TurnEnd)
        # the most frequent kinds come first, because testing a case takes as long as applying an
        # event
        match event:
            case ev.InquiryRequest():
                self._ask(event)
            case ev.InquiryAnswered() | ev.InquiryCancelled() | ev.InquiryRedacted():
                self._close(event)
            case ev.ToolCallRequest():
                self._call(event)
            case ev.ToolCallResponse():
                self._respond(event)
            case ev.TurnStart() | ev.ChatRequest() | ev.ChatResponse():
                pass  # these events affect only the state updated above
            case ev.TurnEnd():
                self.ended = event
            case ev.Approval():
                self._approve(event)
            case ev.Suspended():
                self.suspended_at = self._at
            case ev.Child():
                self._follow_child(event)
            case ev.Vote() | ev.Reassigned() | ev.Reminded() | ev.Escalated() | ev.Notified():
                self.notes.setdefault(event.id, []).append(event)
            case ev.Standing():
                self.memory.recall([event])
            case ev.Proposal():
                self._propose(event)
            case ev.CallValue():
                if call := self.calls.get(event.call):
                    call.values[event.name] = event.value
            case ev.ConfigDelta():
                return
            case ev.OpaqueEvent():
                self._unreadable.append(bytes(event.raw))
                return
            case _:
                pass  # an event from a newer version
        if not self.started:
            self.started, self.start_id = True, event.event_id

    # Cycles and calls
    # ----------------------------------------------------------------------------------------------

    def _begin_cycle(self) -> None:
        self.cycles += 1
        self._cycle_calls = []
        self._model_has_rejected = self._others_have_answered = False

    @property
    def _cycle_is_complete(self) -> bool:
        """Whether every call in the model's last response has a response."""
        return all(call.response for call in self._cycle_calls)

    def _call(self, event: ev.ToolCallRequest) -> None:
        if event.event_id in self.calls:
            return  # a repeated line: a second call would never get a response
        self.calls[event.event_id] = self._open_calls[event.event_id] = record = CallRecord(event)
        record.called_at = self._at
        self._called.ask(self._at, event)
        self._calls_at[self._at] = record
        self._cycle_calls.append(record)

    def _respond(self, event: ev.ToolCallResponse) -> None:
        place = self._called.respond(self._at, event)
        if place is None:
            return
        call = self._calls_at[place]
        call.response = event
        self._open_calls.pop(call.request.event_id, None)
        if call in self._cycle_calls and self._cycle_is_complete:
            is_rejected = self._model_has_rejected and not self._others_have_answered
            self.rejections_in_a_row = self.rejections_in_a_row + 1 if is_rejected else 0

    def _follow_child(self, event: ev.Child) -> None:
        call = self.calls.get(event.call)
        if call is None:
            return
        known = call.children.get(event.of)
        if known:
            known.state = event.state
        elif not event.of:
            call.children[event.event_id] = ChildRecord(event, event.state)

    # Questions
    # ----------------------------------------------------------------------------------------------

    def _ask(self, event: ev.InquiryRequest) -> None:
        known = self.inquiries.get(event.id)
        if known and known.attempt.request.event_id == event.event_id:
            return  # a repeated line
        asked = (event.tool_call_id, event.question_id)
        self._request_counts[asked] = self._request_counts.get(asked, 0) + 1
        attempt = self._attempts_at[self._at] = Attempt(event)
        self._asked.ask(self._at, event)
        escalated = self.inquiries.get(
            event.escalates or ""
        )  # looked up before this request replaces the other one in the index
        entry = self.inquiries[event.id] = InquiryEntry(attempt)
        call = self.calls.get(event.call) if event.call else self._only_call_of(event)
        if call is None:
            # another program reused the id: answers still belong to the first question
            if known:
                entry.call, entry.thread = known.call, known.thread
            return
        if escalated and escalated.thread:
            thread = escalated.thread
            thread.attempts = (*thread.attempts, attempt)
            call.note_state(thread)
        else:
            thread = call.begin_thread(attempt)
        thread.asked_at = self._at
        call.answers.ask(event)
        entry.call, entry.thread = call, thread
        if event.revises:
            self.memory.forget(event.revises)

    def _only_call_of(self, event: ev.InquiryRequest) -> CallRecord | None:
        """Return the call that a question from another program belongs to."""
        call = asking_call(event, [call.request for call in self.open_calls()])
        return self.calls[call.event_id] if call else None

    def _close(self, event: ev.InquiryResponse) -> None:
        place = self._asked.respond(self._at, event)
        if (
            place is None
        ):  # two processes running another version wrote one response each: the first one counts
            return
        attempt = self._attempts_at[place]
        attempt.response = event
        request = attempt.request
        entry = self.inquiries.get(event.id)
        call, thread = (entry.call, entry.thread) if entry else (None, None)
        if call and thread:
            call.note_state(thread)
            call.answers.close(request, event)
        match event:
            case ev.InquiryAnswered():
                self._count_answer(attempt, call, event.answered_by)
                if event.remembered and (call := self.calls.get(request.call)):
                    self.memory.remember_answer(
                        answer_key(call.request.name, request.question_id), event.answer, event.id
                    )
            case ev.InquiryRedacted():
                self._count_answer(attempt, call, event.answered_by)
            case ev.InquiryCancelled(reason="user" | "back" | "reply" | "deadline" as reason):
                self._show(request)
                if call and reason != "back":
                    self._decide(call)
            case ev.InquiryCancelled(
                reason="limit_exceeded", metadata={"limit": "rejected_cycles"}
            ):
                self.stopped_by_breaker = True
            case ev.InquiryCancelled():
                pass  # the question was never shown

    def _count_answer(
        self, attempt: Attempt, call: CallRecord | None, who: ev.AnsweredBy | None
    ) -> None:
        by = who.by if who else ""
        if call and (who is None or by in ("user", "policy", "agent")):
            self._decide(call)
        if by == "user":
            self._show(attempt.request)
        if by == "assistant" and attempt.is_rejection:
            self._model_has_rejected = True
        elif by in ("assistant", "user", "policy", "agent"):
            self._others_have_answered = True

    def _decide(self, call: CallRecord) -> None:
        call.decided_at = self._at
        self.has_closed_by_itself = True

    def _show(self, request: ev.InquiryRequest) -> None:
        self.shown.add((request.call, request.question_id, request.question.key))

    # Approvals
    # ----------------------------------------------------------------------------------------------

    def _approve(self, event: ev.Approval) -> None:
        self.approvals.append(event)
        call = self.calls.get(event.call)
        if call is None:
            return
        call.approvals.append(event)
        if event.state == "waiting":
            if event.id not in call.decisions:
                call.undecided_at[event.id] = self._at
        else:
            call.decisions.add(event.id)
            call.undecided_at.pop(event.id, None)
            if event.answered_by is None or event.answered_by.was_asked:
                self._decide(call)
                if event.kind == "run" and event.state == "skipped":
                    self._refuse(call, event)
        if event.kind == "run" and event.state == "edited":
            call.arguments = event.arguments  # type: ignore[assignment]  # `edited` approvals of runs have arguments
        call.was_previewed = call.was_previewed or event.question is not None
        self._approval_ids.add(event.id)
        if event.kind == "review":
            call.reviews.append((event, len(call.threads)))
            if event.is_reply:
                call.answers.reply(event.event_id)
        if event.remembered and event.kind == "run":
            self.memory.remember_permission(
                call.request.name, "n" if event.state == "skipped" else "y", event.rule
            )

    def _refuse(self, call: CallRecord, event: ev.Approval) -> None:
        """Remember that a person refused a call with the arguments shown."""
        edits = read_edits(self.notes.get(event.id, ()))
        arguments = call.arguments if edits.proposal is None else edits.proposal.arguments
        refusal = Refusal(event.answered_by, event.reason, event.timestamp)
        self._refusals.setdefault((call.request.name, canonical(arguments)), []).append(
            (self._at, refusal)
        )

    def _propose(self, event: ev.Proposal) -> None:
        """Add an edit. An unchecked edit makes the turn ready: a run must evaluate the rules."""
        self.notes.setdefault(event.id, []).append(event)
        call = next(
            (call for call in self._open_calls.values() if event.id in call.undecided_at), None
        )
        if call is not None and event.state == "unchecked":
            self._decide(call)


def _can_continue(call: CallRecord, suspended_at: int) -> bool:
    if call.decided_at <= suspended_at:
        return False
    asked = (*(thread.asked_at for thread in call.open_threads), *call.undecided_at.values())
    return all(at < call.decided_at for at in asked)


def _waits_for_nobody(call: CallRecord) -> bool:
    """Return whether a call waits for nobody: when the process died, its tool was running or only a
    model was asked.
    """
    return (
        not call.undecided_at
        and not call.open_children
        and all(thread.is_with_a_model for thread in call.open_threads)
    )
