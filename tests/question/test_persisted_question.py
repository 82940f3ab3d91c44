"""The persisted form of a question."""

from __future__ import annotations

from typing import Any, cast

import msgspec
import pytest
from hypothesis import given
from inline_snapshot import snapshot

from midturn.errors import QuestionError
from midturn.events.codec import decode_event, encode_event
from midturn.events.types import InquiryRequest, Source
from midturn.question.answer_type import SecretType, SelectOption, SelectType, UnknownType
from midturn.question.json_value import Json, canonical
from midturn.question.persisted_question import PersistedQuestion
from midturn.question.question import Question
from support.asked_questions import authored_questions
from support.json_values import JSON, TEXTS


def request(question: PersistedQuestion) -> InquiryRequest:
    return InquiryRequest(
        event_id="e1", id="call.q.1", source=Source.tool("deploy"), question=question
    )


def test_options_are_objects_and_defaults_are_omitted() -> None:
    question = Question.select(
        "env", "Where?", ["a", SelectOption(2, "two")], default=2, exclusive=True, context="C"
    )
    assert question.persisted().to_json() == snapshot(
        {
            "text": "Where?",
            "answer_type": {
                "type": "select",
                "options": [{"value": "a"}, {"value": 2, "description": "two"}],
            },
            "default": 2,
            "context": "C",
            "exclusive": True,
        }
    )
    assert Question.secret(
        "word", "Word?", persistence="none", optional=True
    ).persisted().to_json() == snapshot(
        {
            "text": "Word?",
            "answer_type": {"type": "secret"},
            "persistence": "none",
            "optional": True,
        }
    )


@given(authored_questions())
def test_a_question_survives_writing_and_reading(authored: dict[str, Any]) -> None:
    """The file has exactly the persisted form.

    Reading it returns the same question with its ID.
    """
    question = Question.from_json(authored)
    line = encode_event(request(question.persisted()))
    assert msgspec.json.decode(line)["question"] == msgspec.json.decode(
        msgspec.json.encode(question.persisted().to_json())
    )

    read = decode_event(line, "events.jsonl:1")
    assert isinstance(read, InquiryRequest)
    assert read.question == question.persisted()
    assert read.question.key == question.persisted().key
    assert read.question.asked(question.id) == question
    assert read.question.asked(question.id).persisted() == question.persisted()


def test_old_and_new_formats_are_read() -> None:
    read = PersistedQuestion.from_json(
        {
            "text": "one\ntwo",
            "answer_type": {
                "type": "select",
                "options": ["a", {"value": 2, "icon": "x"}],
                "sorted": True,
            },
            "colour": 3,
        }
    )
    assert read == PersistedQuestion(
        text="one\ntwo", answer_type=SelectType((SelectOption("a"), SelectOption(2)))
    )
    assert (read.context, read.exclusive, read.persistence) == (None, False, "turn")
    assert read.asked("legacy.id").text == "one\ntwo"


@pytest.mark.parametrize(
    "raw",
    [
        {"type": "hologram", "depth": 3.0},
        {"type": "select"},
        {"type": "select", "options": "ab"},
        {},
        {"type": 3},
        {"type": "schema", "schema": True},
    ],
    ids=repr,
)
def test_an_unreadable_answer_type_is_kept(raw: dict[str, Any]) -> None:
    line = msgspec.json.encode(
        {
            "type": "inquiry_request",
            "event_id": "e",
            "id": "i",
            "source": {"source": "assistant"},
            "question": {"text": "?", "answer_type": raw},
        }
    )
    read = decode_event(line, "events.jsonl:1")
    assert isinstance(read, InquiryRequest)
    assert read.question.answer_type == UnknownType(
        raw.get("type", "") if isinstance(raw.get("type"), str) else "", raw
    )
    assert msgspec.json.decode(encode_event(read))["question"]["answer_type"] == raw
    with pytest.raises(QuestionError, match="not supported by this version"):
        read.question.asked("i")


def test_a_default_of_a_secret_is_dropped() -> None:
    read = PersistedQuestion.from_json(
        {"text": "Word?", "answer_type": {"type": "secret"}, "default": "hunter2"}
    )
    assert "hunter2" not in repr(read) + str(read.to_json())
    assert PersistedQuestion(text="Word?", answer_type=SecretType(), default="hunter2") == read


@pytest.mark.parametrize("default", ["c", None, 3, ["a"]])
def test_an_invalid_default_does_not_prevent_asking(default: Any) -> None:
    read = PersistedQuestion.from_json(
        {"text": "?", "answer_type": {"type": "select", "options": ["a"]}, "default": default}
    )
    assert read.asked("q").default is msgspec.UNSET
    assert read.to_json()["default"] == default


def test_a_persistence_of_a_newer_version_is_kept_but_not_used() -> None:
    read = PersistedQuestion.from_json(
        {"text": "?", "answer_type": {"type": "text"}, "persistence": "week"}
    )
    assert read.to_json()["persistence"] == "week"
    assert read.asked("q").persistence == "none"


def test_a_schema_outside_the_subset_is_not_asked() -> None:
    read = PersistedQuestion.from_json(
        {"text": "?", "answer_type": {"type": "schema", "schema": {"$ref": "file:///etc/passwd"}}}
    )
    with pytest.raises(QuestionError) as caught:
        read.asked("q")
    assert caught.value.problems[0].pointer == "/answer_type/schema/$ref"


@pytest.mark.parametrize(
    "broken",
    [
        None,
        [],
        {},
        {"text": "?"},
        {"text": 3, "answer_type": {}},
        {"text": "?", "answer_type": "boolean"},
    ],
    ids=repr,
)
def test_an_invalid_question_is_an_error(broken: Any) -> None:
    with pytest.raises(msgspec.ValidationError):
        PersistedQuestion.from_json(broken)


@given(TEXTS, JSON)
def test_the_key_compares_questions_as_json(context: str, default: Any) -> None:
    answer_type: Any = {"type": "schema", "schema": {}}
    question = PersistedQuestion.from_json(
        {"text": "?", "answer_type": answer_type, "default": default, "context": context}
    )
    again = PersistedQuestion.from_json(
        {
            "context": context,
            "default": default,
            "answer_type": answer_type,
            "exclusive": False,
            "text": "?",
        }
    )
    other = PersistedQuestion.from_json(
        {"text": "?", "answer_type": answer_type, "default": default, "context": context + "x"}
    )
    assert question.key == again.key
    assert question.key != other.key


def test_one_equals_one_point_zero_and_differs_from_true() -> None:
    def key(default: Any) -> bytes:
        return PersistedQuestion.from_json(
            {"text": "?", "answer_type": {"type": "schema", "schema": {}}, "default": default}
        ).key

    assert key(1) == key(1.0)
    assert key(1) != key(True)


@pytest.mark.parametrize(
    "answer_type",
    [
        {"type": "boolean"},
        {
            "type": "select",
            "options": ["a", 2.0, {"value": "b", "description": "1.0 é"}],
            "allow_other": True,
        },
        {"type": "schema", "schema": {"type": "number", "minimum": 1.0, "maximum": 1e3}},
        {"type": "slider", "marks": {"z": 2.0, "a": [1, None]}},
    ],
)
def test_the_key_of_a_question_is_its_canonical_json(answer_type: dict[str, Json]) -> None:
    """This includes floats that equal integers, and answer types of newer versions."""
    read = PersistedQuestion.from_json(
        {"text": "x\ny", "answer_type": answer_type, "persistence": "later"}
    )

    assert read.key == canonical(read.to_json())


def test_the_persisted_form_of_an_immutable_question_is_cached() -> None:
    question = Question.select("region", "Which region?", ["eu-1", "us-2"])
    assert question.persisted() is question.persisted()


def test_a_question_with_a_modified_schema_is_another_question() -> None:
    question = Question.schema("count", "How many?", {"type": "integer", "minimum": 1})
    asked, kind = question.persisted().key, cast("Any", question.answer_type)
    kind.schema["minimum"] = 2
    assert question.persisted().key != asked


def test_a_repeated_question_uses_the_recorded_one_unless_it_is_mutable() -> None:
    read = Question.select("region", "Which region?", ["eu-1", "us-2"]).persisted()
    assert read.asked("region").persisted() is read
    assert (
        msgspec.structs.replace(read.asked("region"), context="Anew.").persisted().context
        == "Anew."
    )

    again = Question.schema("count", "How many?", {"type": "integer"}).persisted().asked("count")
    before, kind = again.persisted().key, cast("Any", again.answer_type)
    kind.schema["minimum"] = 2
    assert again.persisted().key != before
