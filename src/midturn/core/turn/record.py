"""What the events of a turn add up to. `TurnRecord.apply` is the one place where durable state changes."""

from __future__ import annotations

from collections import Counter
from itertools import count

from midturn.core.events import (
    AnsweredBy,
    Approval,
    ChatResponse,
    ConfigDelta,
    Event,
    InquiryAnswered,
    InquiryCancelled,
    InquiryRedacted,
    InquiryRequest,
    InquiryResponse,
    OpaqueEvent,
    ToolCallRequest,
    ToolCallResponse,
    TurnEnd,
)
from midturn.core.json_value import Json, canonical
from midturn.core.limits import DEFAULT_LIMITS, Limits
from midturn.core.prompt import ToolCall
from midturn.core.question.answer_type import BooleanType
from midturn.core.stream.pairing import asking_call
from midturn.core.turn.memory import Memory, answer_key


class Attempt:
    """A recorded request and, once it is there, its response."""

    __slots__ = ("request", "response")

    def __init__(self, request: InquiryRequest) -> None:
        self.request = request
        self.response: InquiryResponse | None = None

    @property
    def is_rejection(self) -> bool:
        """Whether somebody has said no. `false` is a no only where a yes or no was asked: it may be an option like any other."""
        is_boolean = isinstance(self.request.question.answer_type, BooleanType)
        return is_boolean and isinstance(self.response, InquiryAnswered) and self.response.answer is False


class Chain:
    """An attempt with the escalations that follow from it; its last link says how it ended. `place` counts the chains of its call."""

    __slots__ = ("links", "place")

    def __init__(self, first: Attempt, place: int) -> None:
        self.links = [first]
        self.place = place

    @property
    def asked(self) -> InquiryRequest:
        """The request that the tool's question led to."""
        return self.links[0].request

    @property
    def last(self) -> Attempt:
        """The link whose outcome counts."""
        return self.links[-1]

    @property
    def is_open(self) -> bool:
        """Whether somebody still has to answer."""
        return self.links[-1].response is None

    @property
    def is_superseded(self) -> bool:
        """Whether the tool went on without the answer: then it counts as never recorded."""
        response = self.last.response
        return isinstance(response, InquiryCancelled) and response.reason == "superseded"

    @property
    def is_refused(self) -> bool:
        """Whether nobody could answer: that is told again only to a tool that wants to know."""
        response = self.last.response
        return isinstance(response, InquiryCancelled) and response.reason != "back"

    def asks(self, question_id: str, key: bytes) -> bool:
        """Whether this is the same question, whole. One that another program has recorded may not say its id."""
        return self.asked.question_id in (question_id, "") and self.asked.question.key == key


class CallRecord:
    """A call, everything that was asked in it, everything that was decided about it, and its response.

    `reviews` holds what was recorded about reviews, each with how many chains there were by then.
    """

    def __init__(self, request: ToolCallRequest) -> None:
        self.request = request
        self.chains: list[Chain] = []
        self.approvals: list[Approval] = []
        self.reviews: list[tuple[Approval, int]] = []
        self.response: ToolCallResponse | None = None

    @property
    def arguments(self) -> Json:
        """The arguments that run: the model's, or the person's edit of them."""
        edits = [a.arguments for a in self.approvals if a.kind == "run" and a.state == "edited"]
        return edits[-1] if edits else self.request.arguments  # type: ignore[return-value]  # `edited` runs carry arguments

    @property
    def call(self) -> ToolCall:
        """The call as it runs."""
        return ToolCall(self.request.event_id, self.request.id, self.request.name, self.arguments)

    def has_had(self, question_id: str, key: bytes, answer: Json) -> bool:
        """Whether an equal question of this call has had this very answer."""
        wanted = canonical(answer)
        responses = (chain.last.response for chain in self.chains if chain.asks(question_id, key))
        return any(isinstance(r, InquiryAnswered) and canonical(r.answer) == wanted for r in responses)

    def undecided(self, id: str) -> Approval | None:
        """Return the approval with this id, where it waits."""
        found = next((approval for approval in reversed(self.approvals) if approval.id == id), None)
        return found if found and found.state == "waiting" else None

    def waiting(self, kind: str) -> Approval | None:
        """Return the approval of this kind that was left undecided."""
        of_kind = [a for a in self.approvals if a.kind == kind]
        return of_kind[-1] if of_kind and of_kind[-1].state == "waiting" else None

    def decided(self, kind: str) -> Approval | None:
        """Return the last decision of this kind."""
        of_kind = [a for a in self.approvals if a.kind == kind and a.state != "waiting"]
        return of_kind[-1] if of_kind else None


class CycleRecord:
    """One model answer and its calls: whether a model said "no" in it, and whether anybody said anything else."""

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
        self.ended: TurnEnd | None = None
        self.calls: dict[str, CallRecord] = {}
        self.inquiries: dict[str, Attempt] = {}
        self.memory = Memory()
        self.shown: set[tuple[str, str, bytes]] = set()
        self.cycle = CycleRecord()
        self.cycles = 0
        self.rejections_in_a_row = 0
        self.stopped_by_breaker = False
        self._rejected_cycles = limits.rejected_cycles
        self._attempts: Counter[tuple[str, str]] = Counter()
        self._approvals: set[str] = set()
        self._unreadable: list[bytes] = []
        self._chains: dict[str, tuple[CallRecord, Chain]] = {}
        self._model_speaks = False

    def apply(self, event: Event) -> None:
        """Take in one recorded event."""
        speaks = isinstance(event, ChatResponse | ToolCallRequest)
        if speaks and not self._model_speaks:
            self.cycle = CycleRecord()
            self.cycles += 1
        if not isinstance(event, TurnEnd):
            self._model_speaks = speaks
        self.started = self.started or not isinstance(event, ConfigDelta | OpaqueEvent)
        match event:
            case TurnEnd():
                self.ended = event
            case ToolCallRequest():
                self.calls[event.event_id] = record = CallRecord(event)
                self.cycle.calls.append(record)
            case ToolCallResponse():
                self._respond(event)
            case InquiryRequest():
                self._ask(event)
            case InquiryAnswered() | InquiryCancelled() | InquiryRedacted():
                self._close(event)
            case Approval():
                self._approve(event)
            case OpaqueEvent():
                self._unreadable.append(bytes(event.raw))
            case _:
                pass  # nothing that a turn's state depends on

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
        numbers = count(self._attempts[tool_call_id, question_id] + 1)
        ids = (f"{tool_call_id}.{question_id}.{number}" for number in numbers)
        return next(free for free in ids if not self.is_taken(free))

    def is_taken(self, id: str) -> bool:
        """Whether an inquiry or an approval of the turn has this id, or a line that cannot be read holds it."""
        return id in self.inquiries or id in self._approvals or any(id.encode() in line for line in self._unreadable)

    def place_of(self, inquiry: str) -> tuple[CallRecord, Chain] | tuple[None, None]:
        """Return the call and the chain that an inquiry belongs to."""
        return self._chains.get(inquiry, (None, None))

    def open_calls(self) -> list[CallRecord]:
        """Return the calls that have no response yet."""
        return [call for call in self.calls.values() if call.response is None]

    def _respond(self, event: ToolCallResponse) -> None:
        call = self.calls.get(event.call) or next((c for c in self.open_calls() if c.request.id == event.id), None)
        if call is None:
            return
        call.response = event
        cycle = self.cycle
        if call in cycle.calls and cycle.is_complete:
            self.rejections_in_a_row = self.rejections_in_a_row + 1 if cycle.rejected and not cycle.otherwise else 0

    def _ask(self, event: InquiryRequest) -> None:
        self._attempts[event.tool_call_id, event.question_id] += 1
        self.inquiries[event.id] = attempt = Attempt(event)
        call = self._call_of(event)
        if call is None:
            return
        escalated = self._chains.get(event.escalates or "")
        if escalated:
            chain = escalated[1]
            chain.links.append(attempt)
        else:
            chain = Chain(attempt, len(call.chains))
            call.chains.append(chain)
        self._chains[event.id] = (call, chain)
        if event.revises:
            self.memory.forget(event.revises)

    def _call_of(self, event: InquiryRequest) -> CallRecord | None:
        """Return the call that a question belongs to."""
        if event.call:
            return self.calls.get(event.call)
        call = asking_call(event, [call.request for call in self.open_calls()])
        return self.calls[call.event_id] if call else None

    def _close(self, event: InquiryResponse) -> None:
        attempt = self.inquiries.get(event.id)
        if attempt is None or attempt.response is not None:
            return
        attempt.response = event
        request = attempt.request
        match event:
            case InquiryAnswered():
                self._tally(attempt, event.answered_by)
                call = self.calls.get(request.call)
                if event.remembered and call:
                    self.memory.remember_answer(answer_key(call.request.name, request.question_id), event.answer, event.id)
            case InquiryRedacted():
                self._tally(attempt, event.answered_by)
            case InquiryCancelled(reason="user" | "back" | "reply"):
                self._show(request)
            case InquiryCancelled(reason="limit_exceeded", metadata={"limit": "rejected_cycles"}):
                self.stopped_by_breaker = True
            case InquiryCancelled():
                pass  # nobody was shown anything

    def _tally(self, attempt: Attempt, who: AnsweredBy | None) -> None:
        by = who.by if who else ""
        if by == "user":
            self._show(attempt.request)
        if by == "assistant" and attempt.is_rejection:
            self.cycle.rejected = True
        elif by in ("assistant", "user"):
            self.cycle.otherwise = True

    def _show(self, request: InquiryRequest) -> None:
        self.shown.add((request.call, request.question_id, request.question.key))

    def _approve(self, event: Approval) -> None:
        call = self.calls.get(event.call)
        if call is None:
            return
        call.approvals.append(event)
        self._approvals.add(event.id)
        if event.kind == "review":
            call.reviews.append((event, len(call.chains)))
        if event.remembered and event.kind == "run":
            self.memory.remember_permission(call.request.name, "n" if event.state == "skipped" else "y")
