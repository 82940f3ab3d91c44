"""Conversations recorded by `jp` are read, imported and exported without loss."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from midturn.errors import StoreError
from midturn.events.codec import decode_lines
from midturn.events.provider_view import sanitize
from midturn.events.types import (
    ConfigDelta,
    Event,
    InquiryAnswered,
    InquiryCancelled,
    OpaqueEvent,
    ToolCallRequest,
    ToolCallResponse,
)
from midturn.events.window import open_turn, turns
from midturn.stores.export import export_jp
from midturn.stores.jp import JpConversation, hide, import_events, import_metadata, read_jp, reveal
from midturn.stores.log_tail import is_jp
from midturn.turn.pending import pending
from midturn.turn.view import calls, pairs

OURS = Path(__file__).parents[2] / "data" / "legacy"
THEIRS = Path(__file__).parents[4] / "shared" / "data" / "legacy"
TALK = OURS / "17700000000-a-small-legacy-talk"
WAITING = OURS / "17700000001"
FOLDERS = [TALK, WAITING, *sorted(path for path in THEIRS.glob("*") if path.is_dir())]


def _events(conversation: JpConversation) -> list[Event]:
    return decode_lines(conversation.lines, "events.jsonl")


@pytest.fixture
def talk() -> list[Event]:
    return _events(read_jp(TALK))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_import_and_export_is_byte_identical(folder: Path) -> None:
    conversation = read_jp(folder)
    files = export_jp(conversation.lines, conversation.metadata)
    assert files.events == (folder / "events.json").read_bytes()
    if (folder / "metadata.json").exists():
        assert files.metadata == (folder / "metadata.json").read_bytes()


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_every_entry_is_one_readable_event(folder: Path) -> None:
    conversation = read_jp(folder)
    events = _events(conversation)
    assert len(events) == len(json.loads((folder / "events.json").read_bytes()))
    assert [
        event.problem for event in events if isinstance(event, OpaqueEvent) and event.problem
    ] == []
    assert all(b"\n" not in line for line in conversation.lines)
    assert all(event.at for event in events)


def test_directory_name_has_the_id_and_the_title() -> None:
    conversation = read_jp(TALK)
    assert (conversation.id, conversation.title) == ("17700000000", "Watering the roses")
    assert (read_jp(WAITING).id, read_jp(WAITING).title) == ("17700000001", "")
    assert is_jp(TALK)
    assert not is_jp(OURS)


def test_hidden_arguments_and_contents_are_readable(talk: list[Event]) -> None:
    requests = [event for event in talk if isinstance(event, ToolCallRequest)]
    assert requests[0].arguments == {
        "bed": "roses",
        "rows": ["north", "süd", 2, 1.0, None, True],
        "deep": {"cm9zZXM=": "a key that looks hidden", "empty": ""},
    }
    responses = [event for event in talk if isinstance(event, ToolCallResponse)]
    assert [response.content for response in responses] == [
        "dry\n```\nvery dry\n```\n",
        "No such bed: tulips.",
        "10 litres.",
        "",
    ]


def test_string_that_is_no_base64_text_is_kept(talk: list[Event]) -> None:
    plain = [event for event in talk if isinstance(event, ToolCallRequest)][1]
    assert plain.arguments == {
        "bed": "tulips, and no base64",
        "odd": "docs",  # base64 of bytes that are not text
        "padded": "cm9zZXM",  # base64 without padding
        "binary": "//79",
        "mixed": "hidden",
    }


def test_provider_metadata_is_kept(talk: list[Event]) -> None:
    assert talk[4].metadata == {
        "thinking_signature": "b3BhcXVlIHRvIGV2ZXJ5Ym9keQ==",
        "rendered": {"n": 3},
    }


def test_configuration_is_read_in_every_shape(talk: list[Event]) -> None:
    assert isinstance(talk[0], ConfigDelta)
    assert talk[0].delta == {
        "inherit": False,
        "assistant": {"name": "Gardener", "system_prompt": "You look after a garden."},
    }
    assert isinstance(talk[1], ConfigDelta)
    assert talk[1].delta is None


def test_structured_answer_has_its_current_name(talk: list[Event]) -> None:
    assert talk[16].to_json()["structured"] == {"beds": [{"name": "roses", "litres": 10.0}]}


def test_inquiries_with_one_id_are_paired_in_order_within_a_turn(talk: list[Event]) -> None:
    answers = [
        response.answer if isinstance(response, InquiryAnswered) else response
        for _, response in pairs(talk)
    ]
    assert answers == [None, "yes", None]
    assert isinstance(pairs(talk)[0][1], InquiryAnswered)
    assert pairs(talk)[2][1] is None


def test_calls_are_paired_although_an_id_is_reused(talk: list[Event]) -> None:
    assert [response and response.content for _, response in calls(talk)][-2:] == ["10 litres.", ""]


def test_legacy_stream_ending_in_a_message_is_complete_after_repair(talk: list[Event]) -> None:
    assert [window.open for window in turns(talk)] == [False, False]
    whole, repairs = sanitize(talk)
    assert (repairs.cancelled, repairs.dropped, repairs.interrupted) == (
        ("line:22",),
        ("m2x90aa",),
        (),
    )
    assert isinstance(pairs(whole)[2][1], InquiryCancelled)


def test_a_legacy_question_that_nobody_answered_is_pending() -> None:
    events = _events(read_jp(WAITING))
    assert open_turn(events)
    (question,) = pending(events, "17700000001")
    shape = question.to_json()
    assert (shape["id"], shape["kind"], shape["tool"]) == (
        "17700000001-line:4",
        "tool",
        "hedge_cut",
    )
    assert shape["asked_at"] == "2026-02-02T03:00:01.200000Z"


def test_directory_without_metadata_is_a_conversation() -> None:
    assert read_jp(WAITING).metadata == {}
    assert json.loads(export_jp(read_jp(WAITING).lines, {}).metadata) == {
        "last_activated_at": "2026-02-02 03:00:01.2"
    }


@pytest.mark.parametrize("content", [b"", b"{}", b'{"events":[]}', b"[1,", b"[" * 100_000])
def test_file_that_is_no_array_is_an_error_with_its_name(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "events.json").write_bytes(content)
    with pytest.raises(StoreError, match=r"events\.json is not the JSON array that `jp` writes"):
        read_jp(tmp_path)


def test_missing_file_is_an_error_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"Cannot read .*events\.json: No such file"):
        read_jp(tmp_path)


def test_metadata_that_is_no_object_is_an_error() -> None:
    with pytest.raises(StoreError, match=r"metadata\.json is not the JSON object"):
        import_metadata(b"[]")


def test_an_entry_that_is_no_object_is_kept_and_reported() -> None:
    lines = import_events(b'[{"type":"turn_start"}, 5]')
    assert lines[1] == b"5"
    (event,) = decode_lines(lines[1:], "events.jsonl", 2)
    assert isinstance(event, OpaqueEvent)
    assert event.problem.startswith("events.jsonl:2: ")


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**40), 2**40)
    | TEXTS
    | st.sampled_from(["cm9zZXM=", "docs", "", "AAAA"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=10,
)


@given(JSON)
def test_every_field_value_survives(value: object) -> None:
    field = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    readable, plain = reveal(field)
    assert json.loads(hide(readable, plain)) == value


@given(JSON)
def test_encoded_fields_are_decoded(value: object) -> None:
    field = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    assert json.loads(reveal(hide(field))[0]) == value
