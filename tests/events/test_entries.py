"""Entries of a conversation, which views match instead of events."""

from __future__ import annotations

from midturn.events.transcript import (
    ApprovalEntry,
    CallEntry,
    NoteEntry,
    RequestEntry,
    ResponseEntry,
    ResultEntry,
    TranscriptBuilder,
    WordsEntry,
    entry_among,
    transcript_entries,
)
from midturn.events.types import (
    Approval,
    ChatRequest,
    ChatResponse,
    Event,
    InquiryAnswered,
    InquiryCancelled,
    InquiryRequest,
    Notified,
    Source,
    ToolCallRequest,
    ToolCallResponse,
    TurnStart,
    Vote,
)
from midturn.question.answer_type import BooleanType
from midturn.question.persisted_question import PersistedQuestion


def _asked(id: str, call: str, event_id: str) -> InquiryRequest:
    question = PersistedQuestion(text="Sure?", answer_type=BooleanType())
    return InquiryRequest(
        event_id=event_id,
        id=id,
        source=Source.tool("send"),
        question=question,
        call=call,
        question_id="sure",
    )


CALL = ToolCallRequest(event_id="e1", id="c1", name="send")
ASKED = _asked("c1.sure.1", "e1", "e2")
ANSWERED = InquiryAnswered(event_id="e3", id="c1.sure.1", answer=True)
RESULT = ToolCallResponse(event_id="e4", id="c1", call="e1", content="sent")
TURN: tuple[Event, ...] = (TurnStart(event_id="e0"), CALL, ASKED, ANSWERED, RESULT)


def test_each_entry_has_its_events() -> None:
    call, asked, answered, result = transcript_entries(TURN)

    assert isinstance(call, CallEntry)
    assert isinstance(asked, RequestEntry)
    assert isinstance(answered, ResponseEntry)
    assert isinstance(result, ResultEntry)
    assert (call.result, call.requests) == (RESULT, [asked])
    assert (asked.call, asked.response) == (call, ANSWERED)
    assert (answered.request, result.call) == (asked, call)


def test_running_turn_is_reported_event_by_event() -> None:
    """Earlier events are known at once; later events complete the entry."""
    story = TranscriptBuilder()
    entries = [story.take(event) for event in TURN[:3]]
    asked = entries[-1]

    assert entries[0] is None
    assert isinstance(asked, RequestEntry)
    assert asked.call is entries[1]
    assert asked.response is None
    story.take(ANSWERED)
    assert asked.response == ANSWERED


def test_kinds_of_messages() -> None:
    said = (ChatResponse(reasoning="Hm."), ChatResponse(message="Ok."), ChatResponse(structured={}))
    words = [
        entry
        for entry in transcript_entries((ChatRequest(content="Go.", author="Ana"), *said))
        if isinstance(entry, WordsEntry)
    ]

    assert [entry.kind for entry in words] == ["request", "reasoning", "message", "structured"]
    assert [entry.text for entry in words] == ["Go.", "Hm.", "Ok.", ""]
    assert (words[0].author, words[3].value) == ("Ana", {})


def test_an_approval_knows_its_decision() -> None:
    waiting = Approval(event_id="e2", id="c1.__run__.1", call="e1", kind="run", state="waiting")
    vote = Vote(event_id="e3", id="c1.__run__.1", answer=True)
    failed = Notified(event_id="e4", id="c1.__run__.1", about="asked", error="no address")
    approved = Approval(event_id="e5", id="c1.__run__.1", call="e1", kind="run", state="approved")
    put, first, second, decided = (
        entry
        for entry in transcript_entries((CALL, waiting, vote, failed, approved))
        if not isinstance(entry, CallEntry)
    )

    assert isinstance(put, ApprovalEntry)
    assert isinstance(decided, ApprovalEntry)
    assert (put.waits, decided.waits, put.decision, decided.put) == (True, False, approved, waiting)
    assert [*put.notes] == [first, second]
    assert [note.kind for note in (first, second) if isinstance(note, NoteEntry)] == [
        "yes",
        "not told",
    ]


def test_pairs_never_span_two_turns() -> None:
    late = InquiryAnswered(event_id="e9", id="c1.sure.1", answer=False)
    entries = transcript_entries((*TURN[:3], TurnStart(event_id="e5"), late))

    assert isinstance(entries[-1], ResponseEntry)
    assert entries[-1].request is None


def test_duplicated_line_is_one_entry() -> None:
    entries = transcript_entries((CALL, CALL, ASKED, ASKED, ANSWERED, RESULT, RESULT))

    assert entries[0] is entries[1]
    assert entries[2] is entries[3]
    assert entries[5] is entries[6]
    assert isinstance(entries[2], RequestEntry)
    assert entries[2].response == ANSWERED


def test_question_before_its_call_belongs_to_it() -> None:
    asked, call = transcript_entries((ASKED, CALL))

    assert isinstance(asked, RequestEntry)
    assert isinstance(call, CallEntry)
    assert (asked.call, call.requests) == (call, [asked])


def test_newest_event_is_distinguished_from_earlier_ones() -> None:
    waiting = Approval(event_id="e2", id="r1", call="e1", kind="run", state="waiting")
    skipped = Approval(event_id="e3", id="r1", call="e1", kind="run", state="skipped")
    answer, decision = entry_among(TURN, ANSWERED), entry_among((waiting, skipped), skipped)
    orphan = entry_among(TURN, InquiryCancelled(id="other", reason="user"))

    assert isinstance(answer, ResponseEntry)
    assert answer.request is not None
    assert answer.request.event is ASKED
    assert isinstance(decision, ApprovalEntry)
    assert (decision.put, decision.decision) == (waiting, skipped)
    assert isinstance(orphan, ResponseEntry)
    assert orphan.request is None
    assert entry_among(TURN, RESULT) is None
