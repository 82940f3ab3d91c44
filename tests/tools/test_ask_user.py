"""`ask_user`: the questions, and the result for the model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import cast

import pytest
from msgspec import UNSET

from midturn.events.outcome import Success, ToolError
from midturn.events.types import ASSISTANT
from midturn.question.answer_type import MultiSelectType, SelectOption, SelectType, TextType, When
from midturn.question.form import Form
from midturn.question.json_value import Json, SecretValue
from midturn.tools.ask_user_call import AskUserTool
from midturn.turn.inputs import Answer, NoAnswer
from support.tool_running import Responder, Scripted, ToolEnvironment, execute

MIGRATION: list[Json] = [
    {"id": "apply", "text": "Apply the migration?", "answer_type": "boolean"},
    {
        "id": "env",
        "text": "Which environment?",
        "answer_type": "select",
        "options": ["staging", "production"],
        "when": {"question_id": "apply", "equals": True},
    },
    {
        "id": "note",
        "text": "A note?",
        "answer_type": "text",
        "optional": True,
        "when": {"question_id": "apply", "equals": True},
    },
]


def result(arguments: Json, answers: Mapping[str, Scripted]) -> str:
    """Return the result that the model reads."""
    outcome = execute(AskUserTool(), arguments, around=ToolEnvironment(ask=Responder(answers)))
    assert isinstance(outcome, Success)
    return outcome.content


def asked(arguments: Json, answers: Mapping[str, Scripted]) -> Form:
    """Return the form that a call asks."""
    responder = Responder(answers)
    execute(AskUserTool(), arguments, around=ToolEnvironment(ask=responder))
    (asking,) = responder.asked
    assert asking.source == ASSISTANT
    assert asking.on_failure == "fail_call"
    return asking.form


def test_the_assistant_is_the_source_of_the_question() -> None:
    assert AskUserTool().inquiry_source() == ASSISTANT


def test_the_single_format_asks_one_question_named_answer() -> None:
    form = asked({"question": "Where to?", "context": "The **build**."}, {"answer": "/tmp"})
    (question,) = form.questions
    assert (question.id, question.text, question.context, question.answer_type) == (
        "answer",
        "Where to?",
        "The **build**.",
        TextType(),
    )
    assert (question.exclusive, question.persistence, question.optional, question.default) == (
        True,
        "none",
        False,
        UNSET,
    )
    assert not form.review


@pytest.mark.parametrize(
    ("arguments", "answer", "text"),
    [
        (
            {"question": "Go on?", "answer_type": "boolean"},
            True,
            '{"answer_type": "boolean", "answer": true}',
        ),
        (
            {"question": "How?", "answer_type": "select", "options": ["backup", "abort"]},
            "backup",
            '{"answer_type": "select", "answer": "backup"}',
        ),
        (
            {"question": "How?", "answer_type": "select", "options": ["true", "false"]},
            "true",
            '{"answer_type": "select", "answer": "true"}',
        ),
        ({"question": "Where?"}, "true", '{"answer_type": "text", "answer": "true"}'),
        ({"question": "Where?"}, "Zürich", '{"answer_type": "text", "answer": "Zürich"}'),
        (
            {"question": "Which?", "answer_type": "multi_select", "options": ["a", "b", "c"]},
            ["c", "a"],
            '{"answer_type": "multi_select", "answer": ["a", "c"]}',
        ),
        (
            {"question": "How?", "answer_type": "select", "options": ["a", "b"]},
            {"other": "neither"},
            '{"answer_type": "select", "answer": {"other": "neither"}}',
        ),
    ],
)
def test_the_single_result_includes_the_answer_type(
    arguments: Json, answer: Json, text: str
) -> None:
    """This distinguishes `true`, the option `"true"` and the text `"true"`."""
    assert result(arguments, {"answer": answer}) == text


def test_a_schema_question_returns_the_value_unchanged() -> None:
    arguments = {
        "question": "Ports?",
        "answer_type": "schema",
        "schema": {"type": "array", "items": {"type": "integer"}},
    }
    assert (
        result(arguments, {"answer": [80, 443]}) == '{"answer_type": "schema", "answer": [80, 443]}'
    )


def test_a_reason_typed_with_a_no_is_returned_with_the_answer() -> None:
    no = Answer(value=False, by="user", reason='Not before the "freeze" ends.')
    assert json.loads(
        result({"question": "Deploy?", "answer_type": "boolean"}, {"answer": no})
    ) == {
        "answer_type": "boolean",
        "answer": False,
        "reason": 'Not before the "freeze" ends.',
    }


@pytest.mark.parametrize("by", ["assistant", "static", "cached"])
def test_a_reason_not_given_by_a_person_is_left_out(by: str) -> None:
    """With `exclusive = false`, a model may have answered."""
    no = Answer(value=False, by=by, reason="It looks risky.")
    assert (
        result({"question": "Deploy?", "answer_type": "boolean"}, {"answer": no})
        == '{"answer_type": "boolean", "answer": false}'
    )


def test_own_words_are_accepted_unless_the_model_disables_them() -> None:
    options: list[Json] = ["a", {"value": "b", "description": "The second."}]
    choices = (SelectOption("a"), SelectOption("b", "The second."))
    single = {"question": "Which?", "answer_type": "select", "options": options}
    assert asked(single, {"answer": "a"}).questions[0].answer_type == SelectType(
        choices, allow_other=True
    )
    assert asked({**single, "allow_other": False}, {"answer": "a"}).questions[
        0
    ].answer_type == SelectType(choices, allow_other=False)
    entry: dict[str, Json] = {
        "id": "q",
        "text": "Which?",
        "answer_type": "multi_select",
        "options": options,
        "min": 1,
        "max": 2,
    }
    many = asked({"questions": [entry]}, {"q": ["a"]}).questions[0]
    assert many.answer_type == MultiSelectType(choices, 1, 2, allow_other=True)


def test_a_list_asks_a_form_with_a_review() -> None:
    form = asked({"questions": MIGRATION}, {"apply": False, "env": None, "note": None})
    assert [question.id for question in form.questions] == ["apply", "env", "note"]
    assert [question.when for question in form.questions] == [
        None,
        When("apply", True),
        When("apply", True),
    ]
    assert [question.optional for question in form.questions] == [False, False, True]
    assert all(question.exclusive and question.persistence == "none" for question in form.questions)
    assert form.review


def test_a_list_returns_the_answers_by_id_in_order() -> None:
    answers: dict[str, Scripted] = {"note": None, "env": "production", "apply": True}
    assert (
        result({"questions": MIGRATION}, answers)
        == '{"apply": true, "env": "production", "note": null}'
    )


def test_a_skipped_question_is_null() -> None:
    answers: dict[str, Scripted] = {"apply": False, "env": None, "note": None}
    assert (
        result({"questions": MIGRATION}, answers) == '{"apply": false, "env": null, "note": null}'
    )


def test_a_list_of_one_has_no_review_and_returns_an_object() -> None:
    one = {"questions": MIGRATION[:1]}
    assert not asked(one, {"apply": True}).review
    assert result(one, {"apply": True}) == '{"apply": true}'


def test_a_list_of_one_equals_the_single_format_except_for_its_id() -> None:
    """Both are prompted in the same way."""
    single = asked(
        {"question": "Apply?", "answer_type": "boolean", "default": True}, {"answer": True}
    ).questions[0]
    listed = asked(
        {
            "questions": [
                {"id": "answer", "text": "Apply?", "answer_type": "boolean", "default": True}
            ]
        },
        {"answer": True},
    )
    assert listed == Form([single])


def test_null_arguments_count_as_omitted() -> None:
    """Some models write every argument."""
    arguments: Json = {
        "question": "Go?",
        "context": None,
        "answer_type": "boolean",
        "options": None,
        "schema": None,
        "questions": None,
    }
    assert result(arguments, {"answer": True}) == '{"answer_type": "boolean", "answer": true}'
    assert asked(arguments, {"answer": True}).questions[0].context is None


@pytest.mark.parametrize(
    "wrong",
    [
        "yes",
        Answer("yes", by="static"),
        Answer(value=None),
        Answer(SecretValue("hunter2")),
        NoAnswer("no_default"),
    ],
)
def test_an_answer_of_another_type_is_an_error(wrong: Scripted) -> None:
    """The model receives the requested type or an error."""
    arguments = {"question": "Go?", "answer_type": "boolean"}
    outcome = execute(
        AskUserTool(), arguments, around=ToolEnvironment(ask=Responder({"answer": wrong}))
    )
    assert outcome == ToolError("the accumulated answer does not match the requested answer type")


def test_answers_of_a_list_are_checked_too() -> None:
    answers = cast("dict[str, Scripted]", {"apply": True, "env": 3, "note": None})
    outcome = execute(
        AskUserTool(), {"questions": MIGRATION}, around=ToolEnvironment(ask=Responder(answers))
    )
    assert isinstance(outcome, ToolError)


@pytest.mark.parametrize(
    "arguments",
    [
        {"question": "Where to?", "options": ["staging", "production"]},
        {
            "questions": [
                {"id": "answer", "text": "Where to?", "options": ["staging", "production"]}
            ]
        },
    ],
)
def test_options_without_an_answer_type_make_a_select(arguments: Json) -> None:
    (question,) = asked(arguments, {"answer": "staging"}).questions
    assert isinstance(question.answer_type, SelectType)
    assert [option.value for option in question.answer_type.options] == ["staging", "production"]
