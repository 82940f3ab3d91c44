"""A turn as it is told: one entry for each event that says something, with what belongs to it.

Theory of operation
===================

A teller shows a conversation to people or to another system: a transcript, an audit trail, the page, an export, an editor, spans. It needs
of an event what other events say: of a call its result, of a result its call, of a question its answer, of an answer its question. `Story`
finds that out once, by the pairs of `events/window.py`, so that a teller matches entries and has no tables of its own.

**Backwards at once, forwards later.** An entry knows what came before it as soon as it is there: so a turn that runs is told event by event
(`Story.take`). What comes after it, such as the answer to a question, is filled in when it comes: so a turn that was read is told whole
(`told`), where each entry has everything.

**What may come.** Anything, as in `TurnRecord.apply`. A response without a request is an entry that belongs to nothing; a call, a
result or a question whose line stands there twice is one entry, which comes twice.

An entry says what is recorded. What adds up to a decision (what is open, ready, too late) is the business of `TurnView`, and of no teller.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from midturn.events import types as ev
from midturn.events.window import Pairing, is_foretold, starts_turn
from midturn.question.json_value import Json


class WordsEntry(Struct, frozen=True, eq=False):
    """Words of the user (`request`), or a part of what the model said; `text` is empty where that is a value (`structured`)."""

    event: ev.ChatRequest | ev.ChatResponse
    kind: Literal["request", "message", "reasoning", "structured"]
    text: str = ""
    author: str | None = None
    value: Json = None


class NoteEntry(Struct, frozen=True, eq=False, kw_only=True):
    """A note on a request: a vote (`yes`, `no`, or a yes that is `taken back`), an edit (`proposed`, `edit refused`), or who was told.

    `to` are the people and groups it names, `by` who has made it; `number` counts reminders and escalations, `about` says what was told.
    """

    event: ev.Note
    kind: Literal["yes", "no", "taken back", "proposed", "edit refused", "passed on", "reminded", "escalated", "told", "not told"]
    to: tuple[str, ...] = ()
    by: ev.AnsweredBy | None = None
    reason: str | None = None
    arguments: Json | UnsetType = UNSET
    number: int = 0
    about: str = ""


class RequestEntry(Struct, eq=False):
    """A question: its call, what was noted on it, and its response once there is one."""

    event: ev.InquiryRequest
    call: CallEntry | None = None
    response: ev.InquiryResponse | None = None
    notes: Sequence[NoteEntry] = ()


class ApprovalEntry(Struct, eq=False):
    """A line about a permission, a delivery or a review; `thread` has all lines of its turn about the same one, in order."""

    event: ev.Approval
    call: CallEntry | None = None
    notes: Sequence[NoteEntry] = ()
    thread: Sequence[ev.Approval] = ()

    @property
    def waits(self) -> bool:
        """Whether this line puts it to people."""
        return self.event.state == "waiting"

    @property
    def put(self) -> ev.Approval | None:
        """The line that last put it to people; None where no one had to wait."""
        return next((one for one in reversed(self.thread) if one.state == "waiting"), None)

    @property
    def decision(self) -> ev.Approval | None:
        """The last decision of it."""
        return next((one for one in reversed(self.thread) if one.state != "waiting"), None)


class CallEntry(Struct, eq=False):
    """A call of a tool: what was asked in it and decided about it, in order, and its result once there is one."""

    event: ev.ToolCallRequest
    result: ev.ToolCallResponse | None = None
    requests: list[RequestEntry] = []
    approvals: list[ApprovalEntry] = []


class ResultEntry(Struct, frozen=True, eq=False):
    """The result of a call; `call` is None where there is no such call."""

    event: ev.ToolCallResponse
    call: CallEntry | None = None


class ResponseEntry(Struct, frozen=True, eq=False):
    """The response to a question; `request` is None where there is no such question, or it was answered before."""

    event: ev.InquiryResponse
    request: RequestEntry | None = None


class SettingsEntry(Struct, frozen=True, eq=False):
    """Values set by flags; None where something else is known of the asker."""

    event: ev.ConfigDelta


class UnreadEntry(Struct, frozen=True, eq=False):
    """A line that cannot be read, or is of a kind that is not known."""

    event: ev.OpaqueEvent


class EndEntry(Struct, frozen=True, eq=False):
    """The end of the turn."""

    event: ev.TurnEnd


Entry: TypeAlias = (
    WordsEntry | CallEntry | ResultEntry | RequestEntry | ResponseEntry | ApprovalEntry | NoteEntry | SettingsEntry | UnreadEntry | EndEntry
)


def told(events: Iterable[ev.Event]) -> list[Entry]:
    """Return the entries of one turn, or of a whole stream, each with everything that belongs to it."""
    story = Story()
    return [entry for event in events if (entry := story.take(event)) is not None]


class Story:
    """Follows a conversation, event by event. Nothing of one turn belongs to another."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._place = 0
        self._called, self._asked = Pairing(), Pairing()
        self._calls: dict[str, CallEntry] = {}
        self._calls_at: dict[int, CallEntry] = {}
        self._early: list[RequestEntry | ApprovalEntry] = []
        self._requests: dict[str, RequestEntry] = {}
        self._requests_at: dict[int, RequestEntry] = {}
        self._threads: dict[str, list[ev.Approval]] = {}
        self._notes: dict[str, list[NoteEntry]] = {}
        self._results: dict[str, ResultEntry] = {}

    def take(self, event: ev.Event) -> Entry | None:  # noqa: PLR0911  one return a kind of event
        """Return the entry of the next event; None of one that says nothing."""
        self._place += 1
        match event:
            case ev.ChatRequest():
                return WordsEntry(event, "request", event.content, event.author)
            case ev.ChatResponse():
                return _said(event)
            case ev.ToolCallRequest():
                return self._call(event)
            case ev.ToolCallResponse():
                return self._result(event)
            case ev.InquiryRequest():
                return self._request(event)
            case ev.InquiryAnswered() | ev.InquiryCancelled() | ev.InquiryRedacted():
                return self._response(event)
            case ev.Approval():
                return self._approval(event)
            case ev.Vote() | ev.Proposal() | ev.Reassigned() | ev.Reminded() | ev.Escalated() | ev.Notified():
                return self._note(event)
            case ev.ConfigDelta():
                return SettingsEntry(event)
            case ev.TurnEnd():
                return EndEntry(event)
            case _:
                if starts_turn(event):
                    self._begin()
                return UnreadEntry(event) if isinstance(event, ev.OpaqueEvent) else None

    def _call(self, event: ev.ToolCallRequest) -> CallEntry:
        if known := self._calls.get(event.event_id):
            return known
        self._called.ask(self._place, event)
        self._calls[event.event_id] = self._calls_at[self._place] = entry = CallEntry(event)
        for early in [early for early in self._early if early.event.call == event.event_id]:
            self._belongs(early)
        return entry

    def _belongs(self, entry: RequestEntry | ApprovalEntry) -> None:
        """Give a question or a decision to its call; where another program has written it before the call, once that is there."""
        call = entry.call = self._calls.get(entry.event.call)
        if call is None:
            if entry.event.call:
                self._early.append(entry)
        elif isinstance(entry, ApprovalEntry):
            call.approvals.append(entry)
        else:
            call.requests.append(entry)

    def _result(self, event: ev.ToolCallResponse) -> ResultEntry:
        place = self._called.respond(self._place, event)
        if place is None:
            return self._results.get(event.event_id, ResultEntry(event))
        call = self._calls_at[place]
        call.result = event
        self._results[event.event_id] = entry = ResultEntry(event, call)
        return entry

    def _request(self, event: ev.InquiryRequest) -> RequestEntry:
        known = self._requests.get(event.id)
        if known and known.event.event_id == event.event_id:
            return known
        entry = RequestEntry(event, notes=self._noted(event.id))
        self._belongs(entry)
        self._asked.ask(self._place, event)
        self._requests[event.id] = self._requests_at[self._place] = entry
        return entry

    def _response(self, event: ev.InquiryResponse) -> ResponseEntry:
        place = self._asked.respond(self._place, event)
        if place is None:
            return ResponseEntry(event)
        request = self._requests_at[place]
        request.response = event
        return ResponseEntry(event, request)

    def _approval(self, event: ev.Approval) -> ApprovalEntry:
        thread = self._threads.setdefault(event.id, [])
        thread.append(event)
        notes = self._noted(event.id) if event.state == "waiting" else ()
        entry = ApprovalEntry(event, notes=notes, thread=thread)
        self._belongs(entry)
        return entry

    def _note(self, event: ev.Note) -> NoteEntry:
        entry = note_entry(event)
        self._notes.setdefault(event.id, []).append(entry)
        return entry

    def _noted(self, id: str) -> Sequence[NoteEntry]:
        """Return a new list, which holds what will be noted from here on."""
        noted: list[NoteEntry] = []
        self._notes[id] = noted
        return noted


def _said(event: ev.ChatResponse) -> WordsEntry:
    if event.reasoning is not None:
        return WordsEntry(event, "reasoning", event.reasoning)
    if event.message is not None:
        return WordsEntry(event, "message", event.message)
    return WordsEntry(event, "structured", value=None if event.structured is UNSET else event.structured)


def note_entry(note: ev.Note) -> NoteEntry:
    """Return a note as it is told."""
    match note:
        case ev.Vote(answered_by=by, reason=reason, arguments=arguments):
            kind = "taken back" if note.withdrawn else "yes" if note.answer else "no"
            return NoteEntry(event=note, kind=kind, by=by, reason=reason, arguments=arguments)
        case ev.Proposal(answered_by=by, reason=reason, arguments=arguments, people=people):
            kind = "edit refused" if note.state == "refused" else "proposed"
            return NoteEntry(event=note, kind=kind, to=people.ask if people else (), by=by, reason=reason, arguments=arguments)
        case ev.Reassigned(to=to, answered_by=by, reason=reason):
            return NoteEntry(event=note, kind="passed on", to=to, by=by, reason=reason)
        case ev.Reminded(to=to, number=number):
            return NoteEntry(event=note, kind="reminded", to=to, number=number)
        case ev.Escalated(to=to, number=number):
            return NoteEntry(event=note, kind="escalated", to=to, number=number)
        case ev.Notified(to=to, about=about, error=error):
            return NoteEntry(event=note, kind="told" if error is None else "not told", to=to, reason=error, about=about)


# One event of a turn that goes on --------------------------------------------------------------------------------------


def entry_among(events: Sequence[ev.Event], event: ev.Event) -> RequestEntry | ResponseEntry | ApprovalEntry | None:
    """Return the entry of the newest event of a turn that was read up to here; None of one that neither asks nor answers.

    It is found from the end, so that what came before costs nothing.
    """
    match event:
        case ev.InquiryRequest():
            return RequestEntry(event)
        case ev.InquiryAnswered() | ev.InquiryCancelled() | ev.InquiryRedacted():
            asked = (RequestEntry(found) for found in reversed(events) if isinstance(found, ev.InquiryRequest) and found.id == event.id)
            return ResponseEntry(event, next(asked, None))
        case ev.Approval():
            same = (found for found in reversed(events) if isinstance(found, ev.Approval) and found.id == event.id)
            put = next((found for found in same if found.state == "waiting"), None)
            return ApprovalEntry(event, thread=[event] if put is None or put is event else [put, event])
        case _:
            return None


def agreed(events: Iterable[ev.Event]) -> frozenset[str]:
    """Return the `event_id`s of the requests that were answered when their call was permitted: one question for one thing."""
    given_in: dict[str, ev.Approval] = {}
    found: set[str] = set()
    for event in events:
        match event:
            case ev.Approval(kind="run", state="approved") if event.question is not None:
                given_in[event.call] = event
            case ev.InquiryRequest() if (given := given_in.get(event.call)) is not None and is_foretold(given, event):
                del given_in[event.call]
                found.add(event.event_id)
            case _:
                pass
    return frozenset(found)
