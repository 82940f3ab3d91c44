"""Transcript entries: one per visible event, with the related events attached.

A transcript, an audit trail, the web page, an export, an editor and tracing show the same
conversation in different ways. Each of them needs to know which events belong together: a call and
its result, a question and its answer. `TranscriptBuilder` relates them with the request-response
pairs from `events/window.py`, so that callers only need to `match` on the type of an entry.

References to earlier entries are set immediately, so a running turn can be shown event by event
(`TranscriptBuilder.take`). References to later events, such as the answer to a question, are set
when these events arrive. `transcript_entries` returns the entries of a complete list of events.

Any sequence of events is accepted, as in `TurnRecord.apply`. A response without a request becomes
an entry without a reference. If a call, a result or a question is repeated in the log, the same
entry is returned again.

Entries show recorded events. `TurnView` computes derived state, such as which questions are open
and which have expired.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from midturn.events import types as ev
from midturn.events.window import RequestPairs, starts_turn, was_previewed
from midturn.question.json_value import Json


class WordsEntry(Struct, frozen=True, eq=False):
    """The user's message (`request`), or a part of the model's response. `text` is empty for a
    `structured` value.
    """

    event: ev.ChatRequest | ev.ChatResponse
    kind: Literal["request", "message", "reasoning", "structured"]
    text: str = ""
    author: str | None = None
    value: Json = None


class NoteEntry(Struct, frozen=True, eq=False, kw_only=True):
    """A note on a request: a vote, an edit, a reassignment or a notification.

    `kind` is `yes`, `no` or `taken back` for a vote, and `proposed` or `edit refused` for an edit.
    `to` lists the named people and groups, `by` is the author, `number` counts reminders and
    escalations, and `about` is the subject of a notification.
    """

    event: ev.Note
    kind: Literal[
        "yes",
        "no",
        "taken back",
        "proposed",
        "edit refused",
        "passed on",
        "reminded",
        "escalated",
        "told",
        "not told",
    ]
    to: tuple[str, ...] = ()
    by: ev.AnsweredBy | None = None
    reason: str | None = None
    arguments: Json | UnsetType = UNSET
    number: int = 0
    about: str = ""


class RequestEntry(Struct, eq=False):
    """A question with its call, its notes, and its response if there is one."""

    event: ev.InquiryRequest
    call: CallEntry | None = None
    response: ev.InquiryResponse | None = None
    notes: Sequence[NoteEntry] = ()


class ApprovalEntry(Struct, eq=False):
    """An approval event. `thread` contains all events of the turn that belong to the same approval,
    in order.
    """

    event: ev.Approval
    call: CallEntry | None = None
    notes: Sequence[NoteEntry] = ()
    thread: Sequence[ev.Approval] = ()

    @property
    def waits(self) -> bool:
        """Whether this event asks for the approval (`waiting`) instead of deciding it."""
        return self.event.state == "waiting"

    @property
    def put(self) -> ev.Approval | None:
        """The latest event that asked people, or None if nobody was asked."""
        return next((event for event in reversed(self.thread) if event.state == "waiting"), None)

    @property
    def decision(self) -> ev.Approval | None:
        """The latest decision."""
        return next((event for event in reversed(self.thread) if event.state != "waiting"), None)


class CallEntry(Struct, eq=False):
    """A tool call with its questions and approvals, in order, and its result if there is one."""

    event: ev.ToolCallRequest
    result: ev.ToolCallResponse | None = None
    requests: list[RequestEntry] = []
    approvals: list[ApprovalEntry] = []


class ResultEntry(Struct, frozen=True, eq=False):
    """The result of a call. `call` is None if the call is missing."""

    event: ev.ToolCallResponse
    call: CallEntry | None = None


class ResponseEntry(Struct, frozen=True, eq=False):
    """The response to a question. `request` is None if the question is missing or already has a
    response.
    """

    event: ev.InquiryResponse
    request: RequestEntry | None = None


class SettingsEntry(Struct, frozen=True, eq=False):
    """Values set by flags. `delta` is None if the event describes an external agent instead."""

    event: ev.ConfigDelta


class UnreadEntry(Struct, frozen=True, eq=False):
    """An event that cannot be read or has an unknown type."""

    event: ev.OpaqueEvent


class EndEntry(Struct, frozen=True, eq=False):
    """The end of the turn."""

    event: ev.TurnEnd


Entry: TypeAlias = (
    WordsEntry
    | CallEntry
    | ResultEntry
    | RequestEntry
    | ResponseEntry
    | ApprovalEntry
    | NoteEntry
    | SettingsEntry
    | UnreadEntry
    | EndEntry
)


def transcript_entries(events: Iterable[ev.Event]) -> list[Entry]:
    """Return the entries of one turn or of a whole stream, each with all related events."""
    builder = TranscriptBuilder()
    return [entry for event in events if (entry := builder.take(event)) is not None]


class TranscriptBuilder:
    """Builds entries event by event. Entries of different turns are never related."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._place = 0
        self._called, self._asked = RequestPairs(), RequestPairs()
        self._calls: dict[str, CallEntry] = {}
        self._calls_at: dict[int, CallEntry] = {}
        self._early: list[RequestEntry | ApprovalEntry] = []
        self._requests: dict[str, RequestEntry] = {}
        self._requests_at: dict[int, RequestEntry] = {}
        self._threads: dict[str, list[ev.Approval]] = {}
        self._notes: dict[str, list[NoteEntry]] = {}
        self._results: dict[str, ResultEntry] = {}

    def take(self, event: ev.Event) -> Entry | None:  # noqa: PLR0911  one return per kind of event
        """Return the entry of the next event, or None if the event is not shown."""
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
            case (
                ev.Vote()
                | ev.Proposal()
                | ev.Reassigned()
                | ev.Reminded()
                | ev.Escalated()
                | ev.Notified()
            ):
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
        """Attach a question or an approval to its call. If the call comes later, the entry is
        attached when the call arrives.
        """
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
        """Return a new list that collects the later notes on this request."""
        notes: list[NoteEntry] = []
        self._notes[id] = notes
        return notes


def _said(event: ev.ChatResponse) -> WordsEntry:
    if event.reasoning is not None:
        return WordsEntry(event, "reasoning", event.reasoning)
    if event.message is not None:
        return WordsEntry(event, "message", event.message)
    return WordsEntry(
        event, "structured", value=None if event.structured is UNSET else event.structured
    )


def note_entry(note: ev.Note) -> NoteEntry:
    """Return the entry of a note."""
    match note:
        case ev.Vote(answered_by=by, reason=reason, arguments=arguments):
            kind = "taken back" if note.withdrawn else "yes" if note.answer else "no"
            return NoteEntry(event=note, kind=kind, by=by, reason=reason, arguments=arguments)
        case ev.Proposal(answered_by=by, reason=reason, arguments=arguments, people=people):
            kind = "edit refused" if note.state == "refused" else "proposed"
            return NoteEntry(
                event=note,
                kind=kind,
                to=people.ask if people else (),
                by=by,
                reason=reason,
                arguments=arguments,
            )
        case ev.Reassigned(to=to, answered_by=by, reason=reason):
            return NoteEntry(event=note, kind="passed on", to=to, by=by, reason=reason)
        case ev.Reminded(to=to, number=number):
            return NoteEntry(event=note, kind="reminded", to=to, number=number)
        case ev.Escalated(to=to, number=number):
            return NoteEntry(event=note, kind="escalated", to=to, number=number)
        case ev.Notified(to=to, about=about, error=error):
            return NoteEntry(
                event=note,
                kind="told" if error is None else "not told",
                to=to,
                reason=error,
                about=about,
            )


# Entries of the newest event of a running turn
# --------------------------------------------------------------------------------------------------


def entry_among(
    events: Sequence[ev.Event], event: ev.Event
) -> RequestEntry | ResponseEntry | ApprovalEntry | None:
    """Return the entry of the newest event of a turn, or None if it is not a question, an answer or
    an approval.

    `events` is the turn up to this event. The turn is searched from the end, so the time does not
    depend on its length.
    """
    match event:
        case ev.InquiryRequest():
            return RequestEntry(event)
        case ev.InquiryAnswered() | ev.InquiryCancelled() | ev.InquiryRedacted():
            asked = (
                RequestEntry(found)
                for found in reversed(events)
                if isinstance(found, ev.InquiryRequest) and found.id == event.id
            )
            return ResponseEntry(event, next(asked, None))
        case ev.Approval():
            approvals = (
                found
                for found in reversed(events)
                if isinstance(found, ev.Approval) and found.id == event.id
            )
            waiting = next((found for found in approvals if found.state == "waiting"), None)
            return ApprovalEntry(
                event, thread=[event] if waiting is None or waiting is event else [waiting, event]
            )
        case _:
            return None


def agreed(events: Iterable[ev.Event]) -> frozenset[str]:
    """Return the `event_id`s of the questions that a person answered by approving the call. The
    tool previewed these questions, so the approval prompt showed them.
    """
    permissions: dict[str, ev.Approval] = {}
    found: set[str] = set()
    for event in events:
        match event:
            case ev.Approval(kind="run", state="approved") if event.question is not None:
                permissions[event.call] = event
            case ev.InquiryRequest() if (
                permission := permissions.get(event.call)
            ) is not None and was_previewed(permission, event):
                del permissions[event.call]
                found.add(event.event_id)
            case _:
                pass
    return frozenset(found)
