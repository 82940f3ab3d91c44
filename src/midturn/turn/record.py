"""The durable state of a turn: a fold of its events.

Theory of operation
===================

`TurnRecord.apply(event)` is the one place where durable state changes. A running turn applies each event as it writes it, a resumed turn
applies what it reads; so both hold the same state, and a crash is nothing but a shorter list of events. Whatever must survive a process
is derived here, and whatever is derived here needs no other record.

**Contents.** A turn has cycles (`CycleRecord`: one response of the model and its calls). A call (`CallRecord`) has chains and approvals. A
chain (`Chain`) is one question and the requests that it was escalated to; only its last link counts. A link (`Attempt`) is a request and
its response.

**An example.** The state after each event of a turn in which a tool asks once:

    turn_start, chat_request   no calls, and the cycle is complete: `waits_for_model`
    tool_call_request          a new cycle with one open call; the model has spoken
    inquiry_request            the call has an open chain, `asked_at` 3
    inquiry_response           `decided_at` 4 is past every `asked_at`: `is_ready`, a run may go on
    tool_call_response         the call is closed, and its cycle complete: `waits_for_model`
    chat_response, turn_end    `ended`

Places count from 0.

**What may come.** Anything: the log may come from another version, another program or a text editor. `apply` therefore never raises. A
line that stands there twice counts once, a response without a request counts for nothing, a call or an answer without its reference is
matched by order, and unreadable lines still keep their ids from being given out again.

**Guarantees.**

1. Time is linear: no event makes `apply` look at all earlier ones.
2. The first response to a request stands; later ones change nothing.
3. Positions (`asked_at`, `decided_at`, `suspended_at`) count events of the turn, so two facts can be put in order without a clock.
   `is_ready` decides by them whether a turn can go on.
4. A batch counts as one event for `has_closed_by_itself`: a decision and the end of its call were written together, and no run has seen
   them apart.

Readers outside of the machine see a turn through `TurnView` (`turn/view.py`), which stands on this fold and knows no other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from midturn.events import types as ev
from midturn.events.open_question import Refusal
from midturn.events.types import ToolCall
from midturn.events.window import CallSoFar, Pairing, asking_call, is_foretold
from midturn.question.answer_type import BooleanType
from midturn.question.json_value import DEFAULT_LIMITS, Json, Limits, canonical
from midturn.turn.edits import read_edits
from midturn.turn.memory import Memory, answer_key

WITH_A_MODEL: Final[Mapping[str, Json]] = {"asks": "assistant"}
"""Stands with a request that a model gets. Every other one that is open was put to a person."""

_OF_THE_MODEL: Final = frozenset({ev.ToolCallRequest, ev.ChatResponse})


class Attempt(Struct, eq=False, gc=False):
    """A recorded request and, once it is there, its response. Like an event it is part of no cycle (`gc=False`)."""

    request: ev.InquiryRequest
    response: ev.InquiryResponse | None = None

    @property
    def is_rejection(self) -> bool:
        """Whether the answer is a no. `false` is a no only where a yes or no was asked: it may be an option like any other."""
        is_boolean = isinstance(self.request.question.answer_type, BooleanType)
        return is_boolean and isinstance(self.response, ev.InquiryAnswered) and self.response.answer is False


def is_unseen(response: ev.InquiryResponse | None) -> bool:
    """Return whether a person was to have the last word about a model's answer, and nobody was there."""
    return type(response) is ev.InquiryCancelled and response.metadata == ev.STANDS


class Chain(Struct, eq=False, gc=False):
    """An attempt with the escalations that follow from it; its last link says how it ended. `place` counts the chains of its call.

    `asked` is the request that the tool's question led to. `asked_at` counts the events of the turn that came before its last link.
    """

    asked: ev.InquiryRequest
    links: tuple[Attempt, ...]
    place: int
    asked_at: int = 0

    @property
    def last(self) -> Attempt:
        """The link whose outcome counts: a model's answer that nobody could be shown stands."""
        last = self.links[-1]
        return self.links[-2] if len(self.links) > 1 and is_unseen(last.response) else last

    @property
    def is_open(self) -> bool:
        """Whether it still waits for an answer."""
        return self.links[-1].response is None

    @property
    def is_with_a_model(self) -> bool:
        """Whether a model was asked."""
        return (self.last.request.metadata or {}).get("asks") == WITH_A_MODEL["asks"]

    @property
    def is_superseded(self) -> bool:
        """Whether the tool went on without the answer: then it counts as never recorded."""
        response = self.last.response
        return isinstance(response, ev.InquiryCancelled) and response.reason == "superseded"

    def counts_for(self, on_failure: str) -> bool:
        """Whether it stands for who asks the same again: a refusal only where that is wanted, the end of a deadline anywhere."""
        response = self.last.response
        if type(response) is not ev.InquiryCancelled:
            return True
        return response.reason in ("back", "deadline") or (response.reason != "superseded" and on_failure != "fail_call")


class ChildRecord(Struct):
    """A turn of another agent inside a call, and its state as the turn around it has last recorded it."""

    began: ev.Child
    state: str = "running"


class CallRecord:
    """A call, everything that was asked in it, everything that was decided about it, and its response.

    `arguments` are those that run: the model's, or a person's edit of them. `revisions` are the chains that Back led to, and `reviews` is
    what was recorded about reviews, each with how many chains there were by then.
    """

    def __init__(self, request: ev.ToolCallRequest) -> None:
        self.request = request
        self.called_at = 0
        """How many events of the turn came before the call."""
        self.arguments: Json = request.arguments  # type: ignore[assignment]
        self.chains: list[Chain] = []
        self.revisions: list[Chain] = []
        self.approvals: list[ev.Approval] = []
        self.reviews: list[tuple[ev.Approval, int]] = []
        self.decided_at = -1
        """How many events of the turn came before the last thing that a person decided in the call; -1 where there is none."""
        self.undecided_at: dict[str, int] = {}
        """The same of each approval that waits, by its id."""
        self.decisions: set[str] = set()
        """The ids of the approvals that were decided: the first decision stands."""
        self.foretold = False
        """Whether a person who decided about it has seen what its tool would ask."""
        self.response: ev.ToolCallResponse | None = None
        self.answers = CallSoFar()
        self.children: dict[str, ChildRecord] = {}
        """Turns of other agents that its tool has started, by the event that named them."""
        self._at_once: int | None = None  # the place of the first chain that was open when the next question was asked
        self._open: dict[int, Chain] = {}
        self._asking: dict[tuple[str, bytes], list[Chain]] = {}
        self._looked_up = 0
        self._is_nameless = False
        """Whether any request on record does not say its question's id."""

    @property
    def call(self) -> ToolCall:
        """The call as it runs."""
        return ToolCall(self.request.event_id, self.request.id, self.request.name, self.arguments)

    def child_like(self, wanted: ev.Child) -> ev.Child | None:
        """Return what was recorded when the same agent was told the same for the same time."""
        found = [child.began for child in self.children.values() if _is_same(child.began, wanted)]
        return found[-1] if found else None

    @property
    def open_children(self) -> list[ev.Child]:
        """The turns of other agents that the call may wait for; whether they wait for people, only they know."""
        return [] if self.response else [child.began for child in self.children.values() if child.state != "done"]

    @property
    def open_chains(self) -> list[Chain]:
        """The questions that wait for an answer, in the order in which they were asked."""
        return [self._open[place] for place in sorted(self._open)] if self._open else []

    def take_note(self, chain: Chain) -> None:
        """Take note of a chain that has closed, or was opened again."""
        if chain.links[-1].response is None:
            self._open[chain.place] = chain
        else:
            self._open.pop(chain.place, None)

    def begin_chain(self, first: Attempt) -> Chain:
        """Take in a question that the tool asks."""
        chains = self.chains
        chain = Chain(first.request, (first,), len(chains))
        chains.append(chain)
        if self._open and self._at_once is None:
            self._at_once = min(self._open)
        self._open[chain.place] = chain
        if first.request.revises is not None:
            self.revisions.append(chain)
        return chain

    def is_one_by_one(self, places: Sequence[int]) -> bool:
        """Whether the tool asked one question after the other, up to the last of these places."""
        return self._at_once is None or max(places, default=0) < self._at_once

    def asking(self, question_id: str, key: bytes) -> Sequence[Chain]:
        """Return what asked the same question, whole, in order. What another program has recorded may not say its id."""
        while self._looked_up < len(self.chains):  # lists of open questions never get here, and pay for no keys
            chain = self.chains[self._looked_up]
            self._asking.setdefault((chain.asked.question_id, chain.asked.question.key), []).append(chain)
            self._looked_up += 1
            self._is_nameless = self._is_nameless or not chain.asked.question_id
        with_id = self._asking.get((question_id, key), ())
        if not (self._is_nameless and question_id):
            return with_id
        return sorted((*with_id, *self._asking.get(("", key), ())), key=lambda chain: chain.place)

    def has_had(self, question_id: str, key: bytes, answer: Json) -> bool:
        """Whether an equal question of this call has had this very answer."""
        wanted = canonical(answer)
        responses = (chain.last.response for chain in self.asking(question_id, key))
        return any(isinstance(r, ev.InquiryAnswered) and canonical(r.answer) == wanted for r in responses)

    def agreed(self, request: ev.InquiryRequest) -> ev.AnsweredBy | None:
        """Return who has said yes to this very question when they permitted the call: its tool had foretold it. It counts once."""
        given = self.decided("run")
        if given is None or given.state != "approved" or given.answered_by is None or not is_foretold(given, request):
            return None
        is_the_first = len(self.asking(request.question_id, request.question.key)) == 1
        return given.answered_by if is_the_first and given.answered_by.by == "user" else None

    def undecided(self, id: str) -> ev.Approval | None:
        """Return the approval with this id, where it waits."""
        found = next((approval for approval in reversed(self.approvals) if approval.id == id), None)
        return found if found and found.state == "waiting" else None

    @property
    def open_approvals(self) -> list[ev.Approval]:
        """The approvals that wait, in order; one whose line stands there twice waits once."""
        if not self.undecided_at:
            return []
        waiting = (approval for approval in self.approvals if approval.state == "waiting" and approval.id in self.undecided_at)
        return list({approval.event_id: approval for approval in waiting}.values())

    def was_answered_since(self, review: str) -> bool:
        """Whether a question of the call was asked again since a review of its answers was put to people."""
        asked_at = self.undecided_at.get(review)
        return asked_at is not None and any(chain.asked_at > asked_at for chain in self.chains)

    def asks_again(self, review: ev.Approval) -> bool:
        """Whether a question is open that keeps a review of answers from being decided: Back may have opened one again."""
        if not self._open or review.form is None:
            return bool(self._open)
        first = next((chain.place for chain in self.chains if chain.asked.id == review.form), 0)
        form = self.chains[first].asked.form
        ids = {str(question.get("id")) for question in form.questions} if form else set[str]()
        return any(chain.place >= first and chain.asked.revises and chain.asked.question_id in ids for chain in self._open.values())

    def waiting(self, kind: str) -> ev.Approval | None:
        """Return the approval of this kind that was left undecided."""
        of_kind = [a for a in self.approvals if a.kind == kind]
        return of_kind[-1] if of_kind and of_kind[-1].state == "waiting" else None

    @property
    def is_past_deadline(self) -> bool:
        """Whether no one has allowed the call in time."""
        permission = self.decided("run")
        return permission is not None and permission.state == "expired" and self.waiting("run") is None

    def decided(self, kind: str) -> ev.Approval | None:
        """Return the last decision of this kind."""
        of_kind = [a for a in self.approvals if a.kind == kind and a.state != "waiting"]
        return of_kind[-1] if of_kind else None


class CycleRecord:
    """One model answer and its calls: whether a model said "no" in it, and whether anything else was said."""

    def __init__(self) -> None:
        self.calls: list[CallRecord] = []
        self.rejected = False
        self.otherwise = False

    @property
    def is_complete(self) -> bool:
        """Whether every call has its response."""
        return all(call.response for call in self.calls)


class TurnRecord:
    """The durable state of a turn: a fold of `apply` over its events, the same for a turn that runs and one that is resumed."""

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self.started = False
        self.start_id = ""
        """The `event_id` of the event that begins the turn."""
        self.ended: ev.TurnEnd | None = None
        self.calls: dict[str, CallRecord] = {}
        self.inquiries: dict[str, Attempt] = {}
        self.approvals: list[ev.Approval] = []
        """Every line about an approval, also those that belong to no call."""
        self.memory = Memory()
        self._refused: dict[tuple[str, bytes], list[tuple[int, Refusal]]] = {}
        self.notes: dict[str, list[ev.Note]] = {}
        """What was noted on requests, by their ids: votes, who they were passed on to, who was told. None of it answers anything."""
        self.shown: set[tuple[str, str, bytes]] = set()
        self.cycle = CycleRecord()
        self.cycles = 0
        self.rejections_in_a_row = 0
        self.stopped_by_breaker = False
        self.last = ""
        """The id of the last event."""
        self.suspended_at = -1
        """How many events came before a run last said that it had taken in every answer; -1 where none has."""
        self.has_closed_by_itself = False
        """Whether the last batch holds a person's decision that closed its call: no run has seen it."""
        self._at = -1
        self._in_batch = False
        self._rejected_cycles = limits.rejected_cycles
        self._open_calls: dict[str, CallRecord] = {}
        self._attempts: dict[tuple[str, str], int] = {}
        self._asked = Pairing()
        self._called = Pairing()
        self._attempts_at: dict[int, Attempt] = {}
        self._calls_at: dict[int, CallRecord] = {}
        self._approvals: set[str] = set()
        self._unreadable: list[bytes] = []
        self._chains: dict[str, tuple[CallRecord, Chain]] = {}
        self._model_speaks = False

    def apply(self, event: ev.Event) -> None:  # noqa: C901, PLR0912  one case for each kind that matters
        """Take in one recorded event."""
        self._at += 1  # also for lines that change nothing: positions count the events of the turn
        self.last = event.event_id
        self.has_closed_by_itself = self.has_closed_by_itself and self._in_batch
        self._in_batch = event.more > 0
        says = event.__class__ in _OF_THE_MODEL
        if says and not self._model_speaks:  # the first thing that an answer of the model says
            self.cycle = CycleRecord()
            self.cycles += 1
        self._model_speaks = says or (self._model_speaks and event.__class__ is ev.TurnEnd)
        match event:  # those that a turn may have thousands of come first: each case that does not fit costs as much as the work
            case ev.InquiryRequest():
                self._ask(event)
            case ev.InquiryAnswered() | ev.InquiryCancelled() | ev.InquiryRedacted():
                self._close(event)
            case ev.ToolCallRequest():
                self._call(event)
            case ev.ToolCallResponse():
                self._respond(event)
            case ev.TurnStart() | ev.ChatRequest() | ev.ChatResponse():
                pass  # nothing else that a turn's state depends on
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
            case ev.ConfigDelta():
                return
            case ev.OpaqueEvent():
                self._unreadable.append(bytes(event.raw))
                return
            case _:
                pass  # as above
        if not self.started:
            self.started, self.start_id = True, event.event_id

    @property
    def asking_calls(self) -> set[str]:
        """The calls in which a question is open, by the events that requested them."""
        return {call.request.event_id for call in self.open_calls() if call.open_chains}

    @property
    def attempts(self) -> Iterable[Attempt]:
        """Every request in order, also those that belong to no call; `inquiries` has the last one of each id."""
        return self._attempts_at.values()

    @property
    def waits_for_model(self) -> bool:
        """Whether the next thing to do is to ask the model: all calls are answered and it has not had the last word."""
        return self.cycle.is_complete and not self._model_speaks

    @property
    def breaker_is_open(self) -> bool:
        """Whether so many cycles in a row were rejected that only a human may answer the next question."""
        return self.rejections_in_a_row >= self._rejected_cycles

    def next_inquiry_id(self, tool_call_id: str, question_id: str) -> str:
        """Return the id of the next attempt."""
        number = self._attempts.get((tool_call_id, question_id), 0) + 1
        while self.is_taken(free := f"{tool_call_id}.{question_id}.{number}"):
            number += 1
        return free

    def is_taken(self, id: str) -> bool:
        """Whether an inquiry or an approval of the turn has this id, or a line that cannot be read holds it."""
        if id in self.inquiries or id in self._approvals:
            return True
        return bool(self._unreadable) and any(id.encode() in line for line in self._unreadable)

    def place_of(self, inquiry: str) -> tuple[CallRecord, Chain] | tuple[None, None]:
        """Return the call and the chain that an inquiry belongs to."""
        return self._chains.get(inquiry, (None, None))

    def open_calls(self) -> list[CallRecord]:
        """Return the calls that have no response yet."""
        return list(self._open_calls.values())

    @property
    def open_ids(self) -> list[str]:
        """The `event_id`s of everything without an answer or a decision whose call has no response either, sorted."""
        asked = [chain.last.request.event_id for call in self._open_calls.values() for chain in call.open_chains]
        return sorted((*asked, *(approval.event_id for call in self._open_calls.values() for approval in call.open_approvals)))

    @property
    def is_ready(self) -> bool:
        """Whether a person has decided something that no run has taken in yet, and that lets the turn go on.

        That is so in a call which has put nothing to a person since: a form waits for its next question, one of several asks at once is
        enough. A decision that ended its call lets the turn go on where it was the last call that the model waits for.
        """
        if self.ended is not None:
            return False
        if self.waits_for_model:
            return self.has_closed_by_itself
        return any(_goes_on(call, self.suspended_at) for call in self._open_calls.values())

    @property
    def is_due(self) -> bool:
        """Whether an open turn does not wait for a person alone: it is ready, or its process died, or its model was down."""
        calls = self.open_calls()
        return self.ended is None and (not calls or self.is_ready or any(map(_waits_for_no_one, calls)))

    def _follow_child(self, event: ev.Child) -> None:
        call = self.calls.get(event.call)
        if call is None:
            return
        known = call.children.get(event.of)
        if known:
            known.state = event.state
        elif not event.of:
            call.children[event.event_id] = ChildRecord(event, event.state)

    def _call(self, event: ev.ToolCallRequest) -> None:
        if event.event_id in self.calls:
            return  # its line stands there twice, and the second one would never get a response
        self.calls[event.event_id] = self._open_calls[event.event_id] = record = CallRecord(event)
        record.called_at = self._at
        self._called.ask(self._at, event)
        self._calls_at[self._at] = record
        self.cycle.calls.append(record)

    def _respond(self, event: ev.ToolCallResponse) -> None:
        place = self._called.respond(self._at, event)
        if place is None:
            return
        call = self._calls_at[place]
        call.response = event
        self._open_calls.pop(call.request.event_id, None)
        cycle = self.cycle
        if call in cycle.calls and cycle.is_complete:
            self.rejections_in_a_row = self.rejections_in_a_row + 1 if cycle.rejected and not cycle.otherwise else 0

    def _ask(self, event: ev.InquiryRequest) -> None:
        known = self.inquiries.get(event.id)
        if known and known.request.event_id == event.event_id:
            return  # the same of a question
        asked = (event.tool_call_id, event.question_id)
        self._attempts[asked] = self._attempts.get(asked, 0) + 1
        self.inquiries[event.id] = self._attempts_at[self._at] = attempt = Attempt(event)
        self._asked.ask(self._at, event)
        call = self.calls.get(event.call) if event.call else self._only_call_of(event)
        if call is None:
            return
        escalated = self._chains.get(event.escalates or "")
        if escalated:
            chain = escalated[1]
            chain.links = (*chain.links, attempt)
            call.take_note(chain)
        else:
            chain = call.begin_chain(attempt)
        chain.asked_at = self._at
        call.answers.ask(event)
        self._chains[event.id] = (call, chain)
        if event.revises:
            self.memory.forget(event.revises)

    def _only_call_of(self, event: ev.InquiryRequest) -> CallRecord | None:
        """Return the call that a question of another program belongs to."""
        call = asking_call(event, [call.request for call in self.open_calls()])
        return self.calls[call.event_id] if call else None

    def _close(self, event: ev.InquiryResponse) -> None:
        place = self._asked.respond(self._at, event)
        if place is None:  # two writers of another version: the first response stands
            return
        attempt = self._attempts_at[place]
        attempt.response = event
        request = attempt.request
        call, chain = self._chains.get(event.id, (None, None))
        if call and chain:
            call.take_note(chain)
            call.answers.close(request, event)
        match event:
            case ev.InquiryAnswered():
                self._tally(attempt, call, event.answered_by)
                if event.remembered and (call := self.calls.get(request.call)):
                    self.memory.remember_answer(answer_key(call.request.name, request.question_id), event.answer, event.id)
            case ev.InquiryRedacted():
                self._tally(attempt, call, event.answered_by)
            case ev.InquiryCancelled(reason="user" | "back" | "reply" | "deadline" as reason):
                self._show(request)
                if call and reason != "back":
                    self._decided(call)
            case ev.InquiryCancelled(reason="limit_exceeded", metadata={"limit": "rejected_cycles"}):
                self.stopped_by_breaker = True
            case ev.InquiryCancelled():
                pass  # it was never shown

    def _decided(self, call: CallRecord) -> None:
        call.decided_at = self._at
        self.has_closed_by_itself = True

    def _tally(self, attempt: Attempt, call: CallRecord | None, who: ev.AnsweredBy | None) -> None:
        by = who.by if who else ""
        if call and (who is None or by in ("user", "policy", "agent")):
            self._decided(call)
        if by == "user":
            self._show(attempt.request)
        if by == "assistant" and attempt.is_rejection:
            self.cycle.rejected = True
        elif by in ("assistant", "user", "policy", "agent"):
            self.cycle.otherwise = True

    def _show(self, request: ev.InquiryRequest) -> None:
        self.shown.add((request.call, request.question_id, request.question.key))

    def refusals_before(self, call: CallRecord, arguments: Json) -> tuple[Refusal, ...]:
        """Return the refusals by people of equal calls that were on record when the model made a call."""
        if not self._refused:  # as usual
            return ()
        known = self._refused.get((call.request.name, canonical(arguments)), ())
        return tuple(refusal for at, refusal in known if at < call.called_at)

    def _refuse(self, call: CallRecord, event: ev.Approval) -> None:
        """Take note of a call that a person refused, with the arguments that were decided on."""
        edits = read_edits(self.notes.get(event.id, ()))
        arguments = call.arguments if edits.proposal is None else edits.proposal.arguments
        refusal = Refusal(event.answered_by, event.reason, event.timestamp)
        self._refused.setdefault((call.request.name, canonical(arguments)), []).append((self._at, refusal))

    def _propose(self, event: ev.Proposal) -> None:
        """Take in an edit. One that is unchecked lets the turn go on: its run reads the rules."""
        self.notes.setdefault(event.id, []).append(event)
        call = next((call for call in self._open_calls.values() if event.id in call.undecided_at), None)
        if call is not None and event.state == "unchecked":
            self._decided(call)

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
                self._decided(call)
                if event.kind == "run" and event.state == "skipped":
                    self._refuse(call, event)
        if event.kind == "run" and event.state == "edited":
            call.arguments = event.arguments  # type: ignore[assignment]  # `edited` runs carry arguments
        call.foretold = call.foretold or event.question is not None
        self._approvals.add(event.id)
        if event.kind == "review":
            call.reviews.append((event, len(call.chains)))
            if event.is_reply:
                call.answers.reply(event.event_id)
        if event.remembered and event.kind == "run":
            self.memory.remember_permission(call.request.name, "n" if event.state == "skipped" else "y", event.rule)


def _is_same(one: ev.Child, other: ev.Child) -> bool:
    return (one.agent, one.text_sha256, one.occurrence) == (other.agent, other.text_sha256, other.occurrence)


def _goes_on(call: CallRecord, suspended_at: int) -> bool:
    if call.decided_at <= suspended_at:
        return False
    asked = (*(chain.asked_at for chain in call.open_chains), *call.undecided_at.values())
    return all(at < call.decided_at for at in asked)


def _waits_for_no_one(call: CallRecord) -> bool:
    """Whether a process that died has left a call which was running, or which a model was asked about."""
    return not call.undecided_at and not call.open_children and all(chain.is_with_a_model for chain in call.open_chains)
