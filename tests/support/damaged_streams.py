"""Event streams as a careless editor, an old version or a crash could leave them: duplicate IDs,
events in any order.
"""

from __future__ import annotations

from hypothesis import strategies as st
from msgspec import Raw

from midturn.events.types import (
    Approval,
    ChatRequest,
    ChatResponse,
    ConfigDelta,
    Event,
    InquiryAnswered,
    InquiryCancelled,
    InquiryRedacted,
    InquiryRequest,
    OpaqueEvent,
    Source,
    ToolCallRequest,
    ToolCallResponse,
    TurnEnd,
    TurnStart,
)
from support.tapes import CONFIRM

_EVENT_IDS = st.sampled_from(["", "line:1", "a", "b", "c", "d"])
_CALLS = st.sampled_from(["", "a", "b", "c"])
_IDS = st.sampled_from(["call_1", "call_2"])
_INQUIRIES = st.sampled_from(["call_1.confirm", "call_1.confirm.1", "call_2.confirm.1"])
_SHARED = {
    "event_id": _EVENT_IDS,
    "timestamp": st.sampled_from(["2026-11-21T10:00:00Z", "2026-03-05 22:07:43.3", "long ago"]),
    "more": st.integers(0, 2),
}

EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.builds(TurnStart, **_SHARED),
    st.builds(TurnEnd, status=st.just("completed"), **_SHARED),
    st.builds(ChatRequest, content=st.just("go"), **_SHARED),
    st.builds(ChatResponse, message=st.just("fine"), **_SHARED),
    st.builds(ChatResponse, reasoning=st.just("hm"), **_SHARED),
    st.builds(ToolCallRequest, id=_IDS, name=st.just("deploy"), **_SHARED),
    st.builds(ToolCallResponse, id=_IDS, call=_CALLS, content=st.just("done"), **_SHARED),
    st.builds(
        InquiryRequest,
        id=_INQUIRIES,
        call=_CALLS,
        source=st.just(Source.tool("deploy")),
        question=st.just(CONFIRM),
        **_SHARED,
    ),
    st.builds(InquiryAnswered, id=_INQUIRIES, answer=st.booleans(), **_SHARED),
    st.builds(InquiryCancelled, id=_INQUIRIES, reason=st.just("user"), **_SHARED),
    st.builds(InquiryRedacted, id=_INQUIRIES, **_SHARED),
    st.builds(
        Approval,
        id=_INQUIRIES,
        call=_CALLS,
        kind=st.sampled_from(["run", "deliver", "review", "newer"]),
        state=st.sampled_from(["waiting", "approved"]),
        **_SHARED,
    ),
    st.builds(ConfigDelta, **_SHARED),
    st.builds(
        OpaqueEvent,
        kind=st.sampled_from(["", "turn_start", "turn_end", "newer"]),
        raw=st.just(Raw(b"{}")),
        **_SHARED,
    ),
)

STREAMS: st.SearchStrategy[list[Event]] = st.lists(EVENTS, max_size=14)
