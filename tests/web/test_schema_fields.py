"""A schema becomes a form of native controls, and the form's fields become the answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, cast

import pytest
from msgspec import UNSET

from midturn.errors import AnswerError
from midturn.events.types import InquiryAnswered
from midturn.question.question import Question
from midturn.stores.memory_conversations import MemoryStore
from midturn.web import inbox
from midturn.web.body import Fields
from midturn.web.controls import control_of, sent_answer
from midturn.web.hints import pattern_words
from midturn.web.templating import (
    _ENVIRONMENT as ENVIRONMENT,
)
from support.pages import ada, agent_with, asking, browsing, send, wait_for
from support.schemas import WINDOW, suite
from support.submitted import submitted

_DRAWN = ENVIRONMENT.from_string(
    '{% import "fields.html" as fields %}<input type="hidden" name="as" value="fields">{{'
    " fields.draw(form, []) }}"
)
ANSWER: Mapping[str, Any] = {
    "start": "2026-03-01",
    "minutes": 45,
    "notify": ["ana@example.org"],
    "urgent": False,
    "env": "production",
    "owner": {"name": "Ana", "phone": "030 12"},
    "at": "2026-03-01T02:00:00+01:00",
    "days": ["mon", "sun"],
}


def drawn(question: Question[Any], start: Any = UNSET, typed: Fields | None = None) -> str:
    """Return the controls of a question as HTML."""
    form = control_of(question, start, typed).form
    assert form
    return _DRAWN.render(form=form)


def answered(question: Question[Any], start: Any = UNSET, **more: str) -> Any:
    """Send the form of a question with some fields changed."""
    return sent_answer(question, submitted(drawn(question, start), **more))


@pytest.mark.parametrize(("schema", "answers"), suite())
def test_form_of_every_suite_schema_round_trips(
    schema: Mapping[str, Any], answers: list[Any]
) -> None:
    question = Question.schema("q", "?", schema)
    for answer in answers:
        if control_of(question, answer).kind == "fields":
            assert answered(question, answer) == answer


def test_form_with_every_kind_of_control_round_trips() -> None:
    question = Question.schema("q", "?", WINDOW)
    html = drawn(question, ANSWER)
    for control in (
        'type="date"',
        'type="number"',
        'min="1"',
        "<select",
        'type="email"',
        'role="switch"',
        'type="datetime-local"',
    ):
        assert control in html
    assert answered(question, ANSWER) == ANSWER


def test_empty_form_reports_each_missing_field() -> None:
    with pytest.raises(AnswerError) as refused:
        answered(Question.schema("q", "?", WINDOW))
    assert [problem.pointer for problem in refused.value.problems] == [
        "/start",
        "/notify/0",
        "/env",
        "/owner/name",
    ]


def test_defaults_are_filled_in_and_optional_fields_omitted() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "default": 3},
            "b": {"type": "string"},
            "c": {"type": "boolean"},
        },
    }
    assert answered(Question.schema("q", "?", schema)) == {"a": 3}
    assert answered(Question.schema("q", "?", schema), {"b": "x", "c": False}) == {
        "b": "x",
        "c": False,
    }


@pytest.mark.parametrize(
    "schema",
    [
        {
            "type": "object",
            "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "integer"}]}},
        },
        {"type": "object", "properties": {"a": {"type": "object"}}},
        {
            "type": "object",
            "properties": {"a": {"type": "array", "prefixItems": [{"type": "string"}]}},
        },
        {"type": "object", "properties": {"a": {}}},
    ],
)
def test_values_without_a_control_are_json_fields(schema: Mapping[str, Any]) -> None:
    question = Question.schema("q", "?", schema)
    for value in ("x", 3, {"b": [1]}, ["c"]):
        typed = submitted(drawn(question), **{"f/a": json.dumps(value)})
        assert sent_answer(question, typed) == {"a": value}
    with pytest.raises(AnswerError, match="not valid JSON"):
        answered(question, **{"f/a": "{"})


def test_value_of_another_type_is_kept_as_json() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "integer"},
            "b": {"type": "object", "properties": {"c": {"type": "string"}}},
        },
    }
    question = Question.schema("q", "?", schema)
    value = {"a": "three", "b": {"c": "x", "d": 4}}
    assert answered(question, value) == value


def test_unusual_keys_are_distinguished() -> None:
    names = [
        "a/b",
        "a~b",
        "",
        "?",
        "a b",
        '"',
        "<b>",
        "é",
        "f",
        "n",
        "a\nb",
        "a\rb",
        "a\r\nb",
        "a~nb",
        "a\0b",
    ]
    schema = {"type": "object", "properties": {name: {"type": "string"} for name in names}}
    value = {name: f"of {place}" for place, name in enumerate(names)}
    assert answered(Question.schema("q", "?", schema), value) == value


def test_a_schema_with_a_list_of_types_has_a_page() -> None:
    assert (
        control_of(Question.schema("q", "?", {"type": ["integer", "null"]}), UNSET).kind == "json"
    )


def pressed(question: Question[Any], html: str, act: str) -> str:
    """Press a button that changes the form; return the new form."""
    return drawn(question, UNSET, submitted(html, act=act))


def test_adding_and_removing_items_keeps_typed_values() -> None:
    schema = {
        "type": "array",
        "items": {"type": "object", "properties": {"n": {"type": "string"}}, "required": ["n"]},
        "maxItems": 3,
    }
    question = Question.schema("q", "?", schema)
    html = drawn(question, [{"n": "one"}, {"n": "two"}])
    html = pressed(question, html, "remove /0")
    assert sent_answer(question, submitted(html)) == [{"n": "two"}]
    html = pressed(question, html, "add ")
    assert html.count("autofocus") == 1
    html = pressed(question, html, "add ")
    assert 'value="add ' not in html  # there are three already
    assert sent_answer(question, submitted(html, **{"f/1/n": "three", "f/2/n": "four"})) == [
        {"n": "two"},
        {"n": "three"},
        {"n": "four"},
    ]


@pytest.mark.parametrize("count", ["-1", "99999999999", "x", "٣", "", "101"])
def test_invented_item_count_is_limited(count: str) -> None:
    question = Question.schema("q", "?", {"type": "array", "items": {"type": "string"}})
    html = drawn(question, UNSET, Fields({"as": ("fields",), "n": (count,), "act": ("add ",)}))
    assert html.count("<textarea") <= 101


def test_form_errors_are_shown_next_to_their_fields(store: MemoryStore) -> None:
    waiting = wait_for(agent_with(store, asking(Question.schema("q", "When?", WINDOW))))
    with browsing(inbox(store, user=ada)) as client:
        shown = client.get(f"/q/{waiting.id}").text
        typed = {
            name: value
            for name, value in submitted(shown).pairs()
            if name == "as" or name[1:2] == "/"
        }
        refused = send(
            client,
            waiting,
            **{
                **typed,
                "f/start": "2026-03-01",
                "f/minutes": "900",
                "f/notify/0": "nobody",
                "f/env": "0",
                "f/owner/name": "A",
            },
        )
        assert refused.status_code == 422
        for name, said in (
            ("_2f_minutes", "at most 600"),
            ("_2f_notify_2f_0", "email"),
            ("_2f_owner_2f_name", "at least 2"),
        ):
            problem = refused.text.split(f'id="field{name}-problem"', 1)[1].split("</span>", 1)[0]
            assert said in problem
        assert 'value="900"' in refused.text
        more = send(client, waiting, **{**typed, "act": "add /notify"})
        assert more.status_code == 200
        assert 'name="f/notify/1"' in more.text
        as_json = send(client, waiting, **{**typed, "f/start": "2026-03-01", "act": "as json"}).text
        assert '<input type="hidden" name="as" value="json">' in as_json
        assert "2026-03-01" in as_json
        back = send(
            client, waiting, **{"as": "json", "answer": json.dumps(ANSWER), "act": "as fields"}
        ).text
        assert 'value="ana@example.org"' in back
        assert (
            send(client, waiting, **{"as": "json", "answer": "{", "act": "as fields"}).status_code
            == 422
        )
        held = {
            name: value
            for name, value in submitted(back).pairs()
            if name == "as" or name[1:2] == "/"
        }
        done = send(client, waiting, **{**held, "f/days": ["0", "6"], "act": "answer"})
    assert done.status_code == 303
    events = store.read_sync(waiting.conversation).events
    assert [event.answer for event in events if isinstance(event, InquiryAnswered)] == [ANSWER]


def test_unknown_fields_cannot_change_the_answer(store: MemoryStore) -> None:
    """Fields that the form does not have are ignored."""
    waiting = wait_for(
        agent_with(
            store,
            asking(
                Question.schema(
                    "q", "When?", {"type": "object", "properties": {"a": {"type": "integer"}}}
                )
            ),
        )
    )
    with browsing(inbox(store, user=ada)) as client:
        send(
            client,
            waiting,
            **{"as": "fields", "f/a": "1", "f/b": "2", "f": "3", "f/a/b": "4", "act": "answer"},
        )
    events = store.read_sync(waiting.conversation).events
    assert [event.answer for event in events if isinstance(event, InquiryAnswered)] == [{"a": 1}]


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("^[a-z0-9-]{3,20}$", "only lower-case letters, digits and -, 3 to 20 of them"),
        (r"^\d{4}$", "only digits, 4 of them"),
        ("^[A-Z]+$", "only capital letters"),
        ("^[0-9 ]*$", "only digits and spaces, or nothing"),
        ("^(a|b)$", "in the form of the regular expression ^(a|b)$"),
        ("^[!-~]+$", "in the form of the regular expression ^[!-~]+$"),
        ("^[^a]$", "in the form of the regular expression ^[^a]$"),
    ],
)
def test_pattern_is_described_in_words(pattern: str, words: str) -> None:
    assert pattern_words(pattern) == words


def test_the_suite_has_forms() -> None:
    forms = [
        schema
        for schema, _ in suite()
        if control_of(Question.schema("q", "?", cast("Any", schema)), UNSET).kind == "fields"
    ]
    assert len(forms) >= 25
