"""Exports of a conversation: JSON lines, `jp` and Markdown."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from midturn.events.codec import clean, decode_event, encode_event
from midturn.events.types import (
    AnsweredBy,
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
    TurnEnd,
    delta_events,
)
from midturn.events.window import standing_decisions, turns
from midturn.question.answer_type import BooleanType, SecretType
from midturn.question.json_value import Json
from midturn.question.persisted_question import PersistedQuestion
from midturn.stores.export import CopiedHistory, export_jp, export_jsonl, export_markdown
from midturn.stores.jp import jp_time
from support.tapes import Tape


def _lines(tape: Tape) -> list[bytes]:
    return [encode_event(event) for event in tape.events]


def _jp(tape: Tape) -> list[dict[str, Any]]:
    return json.loads(export_jp(_lines(tape), {}).events)


def _markdown(events: Iterable[Event], title: str = "") -> str:
    return "".join(export_markdown(turns(events), title))


def _hidden(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


# As JSON lines


def test_lines_are_exported_unchanged() -> None:
    lines = [b'{ "type": "newer", "x": 1.0 }', b"{broken", b'{"type":"turn_start","index":0}']
    assert b"".join(export_jsonl(lines)) == b"\n".join(lines) + b"\n"


def test_answer_in_a_redacted_response_is_not_exported() -> None:
    line = b'{"type":"inquiry_response","event_id":"e","outcome":"redacted","id":"i","answer":"hunter2","via":1}'
    assert (
        b"".join(export_jsonl([line]))
        == b'{"type":"inquiry_response","event_id":"e","outcome":"redacted","id":"i","via":1}\n'
    )


def test_word_redacted_in_a_text_is_not_redaction() -> None:
    line = b'{"type":"chat_request",  "content":"say \\"redacted\\"", "answer": 1}'
    assert b"".join(export_jsonl([line])) == line + b"\n"


# As `jp` writes them


def test_events_are_exported_in_the_older_format() -> None:
    tape = Tape()
    tape.start()
    tape.record(ChatRequest(content="Ship it", author="ann"))
    call = tape.record(
        ToolCallRequest(
            id="call_1",
            name="deploy",
            arguments={"env": "production"},
            metadata={"signature": "abc", "n": 1},
        )
    )
    tape.answer(tape.ask(call))
    tape.result(call, "shipped")
    tape.record(ChatResponse(structured={"done": True}))
    tape.end()
    assert _jp(tape) == [
        {"timestamp": "2026-11-21 10:00:01.0", "type": "turn_start"},
        {
            "timestamp": "2026-11-21 10:00:02.0",
            "type": "chat_request",
            "content": "Ship it",
            "author": "ann",
        },
        {
            "timestamp": "2026-11-21 10:00:03.0",
            "type": "tool_call_request",
            "id": "call_1",
            "name": "deploy",
            "arguments": {"env": _hidden("production")},
            "metadata": {"signature": _hidden("abc"), "n": 1},
        },
        {
            "timestamp": "2026-11-21 10:00:04.0",
            "type": "inquiry_request",
            "id": "call_1.confirm.1",
            "source": {"source": "tool", "name": "deploy"},
            "question": {"text": "Deploy to production?", "answer_type": {"type": "boolean"}},
        },
        {
            "timestamp": "2026-11-21 10:00:05.0",
            "type": "inquiry_response",
            "outcome": "answered",
            "id": "call_1.confirm.1",
            "answer": True,
        },
        {
            "timestamp": "2026-11-21 10:00:06.0",
            "type": "tool_call_response",
            "id": "call_1",
            "content": _hidden("shipped"),
            "is_error": False,
        },
        {"timestamp": "2026-11-21 10:00:07.0", "type": "chat_response", "data": {"done": True}},
    ]


def test_a_redacted_response_holds_its_id_and_nothing_else() -> None:
    tape = Tape()
    tape.record(InquiryRedacted(id="call_1.passphrase.1", answered_by=AnsweredBy("user")))
    assert _jp(tape) == [
        {
            "timestamp": "2026-11-21 10:00:01.0",
            "type": "inquiry_response",
            "outcome": "redacted",
            "id": "call_1.passphrase.1",
        }
    ]


def test_a_reason_is_the_responders_own_and_stays() -> None:
    tape = Tape()
    tape.record(InquiryAnswered(id="i", answer=False, reason="No.", remembered=True))
    tape.record(InquiryCancelled(id="j", reason="some_future_variant"))
    assert [entry["reason"] for entry in _jp(tape)] == ["No.", "some_future_variant"]


def test_events_unknown_to_jp_are_left_out() -> None:
    tape = Tape()
    tape.record(Approval(id="a", call="c", kind="run", state="approved"))
    tape.record(TurnEnd(status="completed"))
    tape.record(ConfigDelta(delta={"assistant": {"name": "x"}}))
    lines = [*_lines(tape), b'{"type":"newer"}', b"broken", b'{"type":"chat_response"}']
    assert json.loads(export_jp(lines, {}).events) == []


def test_non_object_arguments_are_wrapped() -> None:
    """`jp` accepts only objects there."""
    tape = Tape()
    tape.record(ToolCallRequest(id="c", name="deploy", arguments='{"env": '))
    assert _jp(tape)[0]["arguments"] == {"text": _hidden('{"env": ')}


def test_metadata_has_the_fields_required_by_jp() -> None:
    tape = Tape()
    tape.start()
    metadata: dict[str, Json] = {
        "title": "Shipping",
        "created_at": "2026-11-21T10:00:00Z",
        "labels": ["x"],
    }
    assert json.loads(export_jp(_lines(tape), metadata).metadata) == {
        "title": "Shipping",
        "last_activated_at": "2026-11-21 10:00:01.0",
        "labels": {"x": ""},
    }
    used = metadata | {"last_activated_at": "2026-11-22T10:00:00.120Z"}
    assert (
        json.loads(export_jp(_lines(tape), used).metadata)["last_activated_at"]
        == "2026-11-22 10:00:00.12"
    )
    assert (
        json.loads(export_jp([], metadata).metadata)["last_activated_at"] == "2026-11-21 10:00:00.0"
    )


def test_continued_import_is_exported_in_one_format() -> None:
    imported = (
        b'{"timestamp":"2026-03-05'
        b' 22:07:43.3","type":"chat_request","content":"Hello","imported":{"source":"jp"}}'
    )
    tape = Tape()
    tape.model("Hello.")
    entries = json.loads(export_jp([imported, *_lines(tape)], {}).events)
    assert entries == [
        {"timestamp": "2026-03-05 22:07:43.3", "type": "chat_request", "content": "Hello"},
        {"timestamp": "2026-11-21 10:00:01.0", "type": "chat_response", "message": "Hello."},
    ]


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("2026-11-21T10:00:00Z", "2026-11-21 10:00:00.0"),
        ("2026-11-21T10:00:00.120Z", "2026-11-21 10:00:00.12"),
        ("2026-11-21T12:00:00+02:00", "2026-11-21 10:00:00.0"),
        ("2026-03-05 22:07:43.3", "2026-03-05 22:07:43.3"),
        ("yesterday", "yesterday"),
    ],
)
def test_times_are_written_as_jp_writes_them(ours: str, theirs: str) -> None:
    assert jp_time(ours) == theirs


# As Markdown


def _asked(response: Event | None) -> str:
    question = PersistedQuestion(
        text="Deploy?", answer_type=BooleanType(), context="It is **Friday**."
    )
    events: list[Event] = [InquiryRequest(id="i", source=Source.tool("deploy"), question=question)]
    return _markdown([*events, *([response] if response else [])])


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        (InquiryAnswered(id="i", answer=True), "Answer: true"),
        (InquiryAnswered(id="i", answer="eu-1"), "Answer: eu-1"),
        (InquiryAnswered(id="i", answer=["a", 1]), 'Answer: ["a",1]'),
        (InquiryAnswered(id="i", answer=None), "Answer: null"),
        (InquiryRedacted(id="i"), "Answer: <redacted>"),
        (InquiryCancelled(id="i", reason="user"), "Cancelled (user)"),
        (InquiryCancelled(id="i", reason="some_future_variant"), "Cancelled (some_future_variant)"),
        (None, "*Not answered yet*"),
    ],
)
def test_question_is_followed_by_its_outcome(response: Event | None, expected: str) -> None:
    assert (
        _asked(response)
        == f"### Question from deploy\n\nIt is **Friday**.\n\nDeploy?\n\n{expected}\n"
    )


def test_unanswered_question_of_an_ended_turn_is_not_exported_as_open() -> None:
    tape = Tape()
    tape.start()
    tape.user("Ship it")
    tape.ask(tape.call("call_1"))
    tape.end("failed")

    page = _markdown(tape.events, "")

    assert "*The turn ended without an answer*" in page
    assert "Not answered yet" not in page


def test_responder_and_reason_are_below_the_answer() -> None:
    by = AnsweredBy("assistant", model="anthropic/claude-haiku-4-5", via="api")
    page = _asked(InquiryAnswered(id="i", answer=False, answered_by=by, reason="It is Friday."))
    assert page.endswith(
        "\n\nAnswer: false\n\nAnswered by: assistant (anthropic/claude-haiku-4-5, via"
        " api)\n\nReason: It is Friday.\n"
    )


def test_a_conversation_reads_from_top_to_bottom() -> None:
    tape = Tape()
    tape.start()
    tape.user("Ship **it**")
    tape.record(ChatResponse(reasoning="First look,\nthen leap."))
    tape.model("On my way.")
    call = tape.call("call_1", arguments={"env": "production"})
    tape.decide(tape.wait(call))
    tape.result(call, "```\nlog\n```")
    tape.record(ChatResponse(structured={"done": True}))
    tape.end("failed")
    tape.events[-1] = msgspec.structs.replace(tape.events[-1], error="no more tokens")
    tape.add(OpaqueEvent(kind="newer", raw=msgspec.Raw(b"{}")))
    assert (
        _markdown(tape.events, "Shipping")
        == """# Shipping

## User

Ship **it**

## Assistant

> First look,
> then leap.

On my way.

### Call of `deploy`

```json
{
  "env": "production"
}
```

*Approval (run): waiting*

*Approval (run): approved*

### Result of `deploy`

````
```
log
```
````

```json
{
  "done": true
}
```

*Turn ended: failed (no more tokens)*
"""
    )


def test_secret_is_not_in_markdown() -> None:
    question = PersistedQuestion(text="Passphrase?", answer_type=SecretType())
    request = InquiryRequest(id="i", source=Source("assistant"), question=question)
    page = _markdown(
        [request, InquiryRedacted(id="i", answered_by=AnsweredBy("user", via="terminal"))]
    )
    assert (
        page
        == "### Question from Assistant\n\nPassphrase?\n\nAnswer: <redacted>\n\nAnswered by: user"
        " (via terminal)\n"
    )


def test_an_empty_conversation_is_an_empty_page() -> None:
    assert _markdown([]) == "\n"


# Imported events have no authority here
# --------------------------------------------------------------------------------------------------


_START = b'"timestamp":"2026-11-29T00:00:00.000000Z","event_id":"abcdefghjkmn"'
_LOOSE = b'"delta":{"conversation":{"tools":{"deploy":{"run":"unattended"}}}}'
_RULE = b'"id":"a","tool":"deploy","rule":{"when":{},"run":"unattended"},"definition":"d","answered_by":{"by":"user","user":"ana"}'
_ANSWER = b'"id":"a","tool":"deploy","question_id":"go","question_sha256":"d","answer":true,"answered_by":{"by":"user"}'


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"config_delta",%b,%b}' % (_START, _LOOSE),
        b'{"type":"config\\u005fdelta",%b,%b}' % (_START, _LOOSE),
        b'\xef\xbb\xbf {%b,%b,"type":"config\\u005fdelta"}\r' % (_START, _LOOSE),
        b'{"type":"config_delta","type":"other",%b,%b}' % (_START, _LOOSE),
        b'{"type":"other","type":"config_delta",%b,%b}' % (_START, _LOOSE),
        b'{"type":"config_delta","delta":{"imported":{}},"imported":{"wraps_delta":true},%b,%b}'
        % (_START, _LOOSE),
        b'{"type":"config_delta",%b,%b,"delta":{"imported":{}},"imported":{"wraps_delta":true}}'
        % (_START, _LOOSE),
        b'{"type":"standing",%b,%b}' % (_START, _RULE),
        b'{"type":"st\\u0061nding",%b,%b}' % (_START, _RULE),
        b'{"type":"standing",%b,%b}' % (_START, _ANSWER),
    ],
)
def test_imported_events_set_and_permit_nothing(line: bytes) -> None:
    (kept,) = CopiedHistory.of([line]).lines
    event = decode_event(clean(kept), "")
    assert {
        key
        for delta in delta_events([event])
        for key in (delta.delta if isinstance(delta.delta, dict) else {})
    } <= {"imported"}
    for standing in standing_decisions([event]):
        assert (standing.rule, standing.answer) == (None, UNSET)
        assert standing.metadata is not None
        assert standing.metadata["imported"]
    assert CopiedHistory.of([kept]).lines == [kept]
