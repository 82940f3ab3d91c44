"""Encoding and decoding of events."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from midturn.events.codec import KINDS, decode_event, decode_lines, encode_event
from midturn.events.types import (
    AnsweredBy,
    Approval,
    ChatRequest,
    ChatResponse,
    ConfigDelta,
    Event,
    FormAuthored,
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
from midturn.question.answer_type import BooleanType, SelectType, UnknownType
from midturn.question.json_value import Limits
from midturn.question.persisted_question import PersistedQuestion

WHERE = "events.jsonl:7"
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(TEXTS, JSON, max_size=3)
ANSWERED_BY = st.none() | st.builds(
    AnsweredBy, by=TEXTS, model=st.none() | TEXTS, via=st.none() | TEXTS, user=st.none() | TEXTS
)
QUESTIONS = st.builds(
    PersistedQuestion,
    text=TEXTS,
    answer_type=st.sampled_from(
        [BooleanType(), UnknownType("date", {"type": "date", "after": "today"})]
    ),
    default=st.just(msgspec.UNSET) | JSON,
    context=st.none() | TEXTS,
    exclusive=st.booleans(),
)
SHARED: dict[str, Any] = {
    "timestamp": st.sampled_from(["2026-11-21T10:00:00.123Z", "2026-03-05 22:07:43.3"]),
    "event_id": st.text("abcdefgh", min_size=1),
    "more": st.integers(0, 3),
    "metadata": st.none() | OBJECTS,
}
EVENTS: st.SearchStrategy[Event] = st.one_of(
    st.builds(TurnStart, **SHARED),
    st.builds(TurnEnd, status=TEXTS, error=st.none() | TEXTS, **SHARED),
    st.builds(
        ChatRequest, content=TEXTS, author=st.none() | TEXTS, schema=st.none() | OBJECTS, **SHARED
    ),
    st.builds(ChatResponse, message=TEXTS, **SHARED),
    st.builds(ChatResponse, reasoning=TEXTS, **SHARED),
    st.builds(ChatResponse, structured=JSON, **SHARED),
    st.builds(ToolCallRequest, id=TEXTS, name=TEXTS, arguments=OBJECTS | TEXTS, **SHARED),
    st.builds(
        ToolCallResponse, id=TEXTS, content=TEXTS, is_error=st.booleans(), call=TEXTS, **SHARED
    ),
    st.builds(
        InquiryRequest,
        id=TEXTS,
        source=st.sampled_from([Source.tool("deploy"), Source("assistant"), Source("newer", "x")]),
        question=QUESTIONS,
        call=TEXTS,
        revises=st.none() | TEXTS,
        form=st.none()
        | st.builds(FormAuthored, total=st.integers(1, 20), questions=st.tuples(OBJECTS)),
        **SHARED,
    ),
    st.builds(
        InquiryAnswered,
        id=TEXTS,
        answer=JSON,
        answered_by=ANSWERED_BY,
        reason=st.none() | TEXTS,
        remembered=st.booleans(),
        **SHARED,
    ),
    st.builds(InquiryCancelled, id=TEXTS, reason=TEXTS, **SHARED),
    st.builds(InquiryRedacted, id=TEXTS, answered_by=ANSWERED_BY, **SHARED),
    st.builds(
        Approval,
        id=TEXTS,
        call=TEXTS,
        kind=TEXTS,
        state=TEXTS,
        answered_by=ANSWERED_BY,
        arguments=st.just(msgspec.UNSET) | JSON,
        **SHARED,
    ),
    st.builds(ConfigDelta, delta=JSON, **SHARED),
)


@given(EVENTS)
def test_written_events_are_read_again(event: Event) -> None:
    assert decode_event(encode_event(event), WHERE) == event


@given(EVENTS)
def test_an_event_is_one_line_of_json(event: Event) -> None:
    line = encode_event(event)
    assert b"\n" not in line
    assert json.loads(line) == json.loads(msgspec.json.encode(event.to_json()))


@given(st.binary(max_size=60))
def test_bytes_never_raise_and_are_kept(line: bytes) -> None:
    event = decode_event(line, WHERE)
    assert isinstance(event, OpaqueEvent)
    assert encode_event(event) == line


@given(
    st.sampled_from(sorted(KINDS)) | TEXTS,
    st.dictionaries(st.sampled_from(["id", "answer", "outcome", "question", "more", "x"]), JSON),
)
def test_json_never_raises_and_unreadable_values_are_kept(
    kind: str, fields: dict[str, Any]
) -> None:
    line = msgspec.json.encode({"type": kind, **fields})
    event = decode_event(line, WHERE)
    assert event.type == kind
    if isinstance(event, OpaqueEvent):
        assert encode_event(event) == line
        assert event.problem or kind not in KINDS or fields.get("outcome") is not None


@given(
    st.sampled_from(["boolean", "select", "multi_select", "text", "secret", "schema", "newer"]),
    st.dictionaries(st.sampled_from(["options", "min", "max", "allow_other", "schema", "x"]), JSON),
    st.dictionaries(
        st.sampled_from(["default", "context", "exclusive", "persistence", "optional"]), JSON
    ),
)
def test_decoding_a_question_never_raises(
    kind: str, details: dict[str, Any], terms: dict[str, Any]
) -> None:
    question = {"text": "Which?", "answer_type": {"type": kind, **details}, **terms}
    line = msgspec.json.encode(
        {"type": "inquiry_request", "id": "i", "source": {"source": "user"}, "question": question}
    )
    event = decode_event(line, WHERE)
    assert decode_event(encode_event(event), WHERE) == event


def test_type_is_the_first_key_then_common_keys() -> None:
    event = ToolCallRequest(
        timestamp="2026-11-21T10:00:00Z",
        event_id="k3jd8s",
        more=1,
        id="call_1",
        name="deploy",
        arguments={"a": 1},
    )
    assert (
        encode_event(event)
        == b'{"type":"tool_call_request","timestamp":"2026-11-21T10:00:00Z","event_id":"k3jd8s","more":1,'
        b'"id":"call_1","name":"deploy","arguments":{"a":1}}'
    )


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (
            InquiryAnswered(id="i", answer=True, remembered=True),
            {"outcome": "answered", "answer": True, "remembered": True},
        ),
        (
            InquiryAnswered(id="i", answer=1, answered_by=AnsweredBy("user")),
            {"outcome": "answered", "answer": 1, "answered_by": {"by": "user"}},
        ),
        (InquiryAnswered(id="i", answer=None), {"outcome": "answered", "answer": None}),
        (
            InquiryAnswered(id="i", answer=False, reason="No."),
            {"outcome": "answered", "answer": False, "reason": "No."},
        ),
        (InquiryCancelled(id="i", reason="user"), {"outcome": "cancelled", "reason": "user"}),
        (
            InquiryCancelled(id="i", reason="backend_error"),
            {"outcome": "cancelled", "reason": "backend_error"},
        ),
        (
            InquiryRedacted(id="i", answered_by=AnsweredBy("user")),
            {"outcome": "redacted", "answered_by": {"by": "user"}},
        ),
    ],
)
def test_each_outcome_has_its_own_tagged_shape(event: Event, expected: dict[str, Any]) -> None:
    assert json.loads(encode_event(event)) == {"type": "inquiry_response", "id": "i", **expected}


def _read(**fields: Any) -> Event:
    return decode_event(msgspec.json.encode({"event_id": "e", **fields}), WHERE)


def _response(**fields: Any) -> Event:
    return _read(type="inquiry_response", id="call_1.confirm", **fields)


@pytest.mark.parametrize("answer", [True, "eu-1", None])
def test_flat_response_of_an_old_stream_is_an_answer(answer: object) -> None:
    """The presence of the key counts: `null` is an answer."""
    assert _response(answer=answer) == InquiryAnswered(
        event_id="e",
        id="call_1.confirm",
        answer=answer,  # type: ignore[arg-type]  # any JSON
    )


def test_cancelled_without_a_reason_was_the_user() -> None:
    assert _response(outcome="cancelled") == InquiryCancelled(
        event_id="e", id="call_1.confirm", reason="user"
    )


def test_a_reason_of_a_newer_version_is_kept() -> None:
    event = _response(outcome="cancelled", reason="some_future_variant")
    assert event == InquiryCancelled(
        event_id="e", id="call_1.confirm", reason="some_future_variant"
    )
    assert json.loads(encode_event(event))["reason"] == "some_future_variant"


def test_response_without_outcome_is_a_problem_with_event_file_and_line() -> None:
    event = _response()
    assert isinstance(event, OpaqueEvent)
    assert (
        event.problem
        == "events.jsonl:7: inquiry_response call_1.confirm: `outcome` and `answer` are missing; "
        "`outcome` must be `answered` (with `answer`), "
        "`cancelled` or `redacted`. The line is kept unchanged."
    )


def test_answered_without_an_answer_is_a_problem() -> None:
    event = _response(outcome="answered")
    assert isinstance(event, OpaqueEvent)
    assert "`answer` is missing" in event.problem


def test_an_outcome_of_a_newer_version_passes_through_without_a_problem() -> None:
    event = _response(outcome="delegated", answer=1)
    assert isinstance(event, OpaqueEvent)
    assert (event.type, event.problem) == ("inquiry_response", "")


def test_answer_in_a_redacted_response_is_ignored() -> None:
    event = _response(outcome="redacted", answer="hunter2", reason="hunter2")
    assert isinstance(event, InquiryRedacted)
    assert b"hunter2" not in encode_event(event)
    broken = _response(outcome="redacted", answer="hunter2", answered_by=5)
    assert isinstance(broken, OpaqueEvent)
    assert "hunter2" not in str(broken.to_json())


def test_the_answers_of_an_old_tool_call_have_no_effect() -> None:
    event = _read(
        type="tool_call_request",
        id="call_1",
        name="deploy",
        arguments={},
        tool_answers={"confirm": True},
    )
    assert event == ToolCallRequest(event_id="e", id="call_1", name="deploy", arguments={})


def test_a_question_may_have_bare_options_and_several_lines() -> None:
    question = {
        "text": "Apply?\n\n```diff\n+x\n```",
        "answer_type": {"type": "select", "options": ["a", 1]},
    }
    event = _read(
        type="inquiry_request",
        id="i",
        source={"source": "tool", "name": "fs_modify_file"},
        question=question,
    )
    assert isinstance(event, InquiryRequest)
    assert isinstance(event.question.answer_type, SelectType)
    assert [option.value for option in event.question.answer_type.options] == ["a", 1]


def test_an_unknown_answer_type_and_an_unknown_source_are_kept() -> None:
    question = {"text": "When?", "answer_type": {"type": "date", "after": "today"}}
    event = _read(
        type="inquiry_request",
        id="i",
        source={"source": "cron", "name": "nightly"},
        question=question,
    )
    written = json.loads(encode_event(event))
    assert (written["question"], written["source"]) == (
        question,
        {"source": "cron", "name": "nightly"},
    )


def test_an_unknown_kind_passes_through_byte_for_byte() -> None:
    line = b'{ "type": "compaction", "event_id": "c1", "more": 2, "ranges": [1.0, 1e5] }'
    event = decode_event(line, WHERE)
    assert isinstance(event, OpaqueEvent)
    assert (event.type, event.event_id, event.more, event.problem) == ("compaction", "c1", 2, "")
    assert encode_event(event) == line


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"", "events.jsonl:7: an event without a kind: not a JSON object"),
        (b"[]", "events.jsonl:7: an event without a kind: Expected `object`, got `array`"),
        (b'{"type":"turn_start"} {}', "events.jsonl:7: an event without a kind: not a JSON object"),
        (b"{}", "events.jsonl:7: an event without a kind: Object missing required field `type`"),
        (b'{"type":""}', "events.jsonl:7: an event without a kind: Invalid value ''"),
        (
            b'{"type":"turn_end","event_id":"x"}',
            "events.jsonl:7: turn_end x: Object missing required field `status`",
        ),
        (
            b'{"type":"turn_start","more":"1"}',
            "events.jsonl:7: turn_start: Expected `int`, got `str`",
        ),
        (
            b'{"type":"chat_request","content":"\xff"}',
            "events.jsonl:7: chat_request: not valid UTF-8",
        ),
        (
            b'{"type":"chat_response"}',
            (
                "events.jsonl:7: chat_response: exactly one of `message`, `reasoning` and"
                " `structured` is required"
            ),
        ),
        (
            b'{"type":"chat_response","message":"a","reasoning":"b"}',
            "events.jsonl:7: chat_response: exactly one of",
        ),
        (
            b'{"type":"inquiry_request","id":"i","source":{"source":"user"},"question":{"text":"?"}}',
            "events.jsonl:7: inquiry_request i: ",
        ),
        (
            b'{"type":"inquiry_request","id":"i","source":{"source":"user"},"question":{"text":"?","answer_type":1}}',
            "events.jsonl:7: inq",
        ),
    ],
)
def test_a_broken_line_says_what_is_wrong_with_it(line: bytes, problem: str) -> None:
    event = decode_event(line, WHERE)
    assert isinstance(event, OpaqueEvent)
    assert event.problem.startswith(problem)
    assert event.problem.endswith("The line is kept unchanged.")
    assert encode_event(event) == line
    assert isinstance(event.to_json(), dict)


@pytest.mark.parametrize("depth", [145, 900, 100_000])
def test_a_line_that_nests_too_deeply_is_kept_unread(depth: int) -> None:
    line = b'{"type":"config_delta","delta":' + b"[" * depth + b"]" * depth + b"}"
    event = decode_event(line, WHERE)
    assert isinstance(event, OpaqueEvent)
    assert "deep" in event.problem


def test_brackets_in_a_text_do_not_count_as_nesting() -> None:
    code = '"[' * 500 + "\\" * 3
    event = _read(type="chat_request", content=code)
    assert event == ChatRequest(event_id="e", content=code)


def test_a_line_beyond_the_limit_is_kept_unread() -> None:
    line = encode_event(ChatRequest(content="x" * 200))
    event = decode_event(line, WHERE, Limits(event_line=100))
    assert isinstance(event, OpaqueEvent)
    assert "the limit is 100" in event.problem


def test_event_without_an_id_is_identified_by_its_line() -> None:
    assert decode_event(b'{"type":"turn_start"}', WHERE) == TurnStart(event_id="line:7")
    assert decode_event(b'{"type":"newer"}', WHERE).event_id == "line:7"
    assert [
        event.event_id
        for event in decode_lines([b'{"type":"turn_start"}', b"?"], "events.jsonl", 3)
    ] == ["line:3", "line:4"]


def test_lines_are_read_like_single_events() -> None:
    lines = [
        b'{"type":"turn_start","event_id":"a"}',
        b"{",
        b'{"type":"newer"}',
        b'{"type":"inquiry_response","id":"i"}',
    ]
    assert decode_lines(lines, "events.jsonl") == [
        decode_event(line, f"events.jsonl:{number}") for number, line in enumerate(lines, 1)
    ]


def test_unknown_keys_and_a_carriage_return_do_no_harm() -> None:
    assert decode_event(b'{"type":"turn_start","event_id":"a","index":3}\r', WHERE) == TurnStart(
        event_id="a"
    )


def test_last_of_two_equal_keys_is_used() -> None:
    event = decode_event(
        b'{"type":"chat_request","event_id":"a","content":"x","content":"y"}', WHERE
    )
    assert event == ChatRequest(event_id="a", content="y")


@pytest.mark.parametrize("half", [rb"\ud83d", rb"\uDC00", rb"\ud83d\ud83d"])
def test_lone_surrogate_of_another_tool_does_not_hide_the_event(half: bytes) -> None:
    event = decode_event(
        b'{"type":"chat_request","event_id":"a","content":"' + half + rb' \ud83d\ude00 \\ud83d"}',
        WHERE,
    )
    assert event == ChatRequest(event_id="a", content="\ufffd" * (len(half) // 6) + " 😀 \\ud83d")


def test_lone_surrogate_is_written_as_a_replacement() -> None:
    """For example a file name that is not UTF-8, or a text that was cut inside an emoji."""
    line = encode_event(ToolCallRequest(id="c", name="ls", arguments={"\udcff": ["a\ud83d", "😀"]}))
    assert json.loads(line)["arguments"] == {"\ufffd": ["a\ufffd", "😀"]}
