"""Argument formats of other agents' question tools. Models also use them for `ask_user`."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given, settings, strategies as st

from midturn.errors import QuestionError
from midturn.question.answer_type import (
    BooleanType,
    MultiSelectType,
    SelectOption,
    SelectType,
    TextType,
)
from midturn.question.json_value import Json, JsonObject
from midturn.question.question import Question
from midturn.tools.ask_user_call import read_arguments
from midturn.tools.ask_user_shapes import own_shape
from support.depth import tries

OPTIONS: list[Json] = [{"label": "main", "description": "The newest."}, {"label": "backup"}]
READ = (SelectOption("main", "The newest."), SelectOption("backup"))
WHERE: JsonObject = {
    "question": "Which database?",
    "header": "Database",
    "options": OPTIONS,
    "multiSelect": False,
}


def questions(arguments: JsonObject) -> list[Question[Any]]:
    """Return the questions of a call."""
    return list(read_arguments(arguments).form.questions)


def only(arguments: JsonObject) -> Question[Any]:
    """Return the only question of a call."""
    (question,) = questions(arguments)
    return question


def mistakes(arguments: JsonObject) -> list[str]:
    """Return the problems of a call's arguments."""
    with pytest.raises(QuestionError) as caught:
        read_arguments(arguments)
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize("questions", [[WHERE], WHERE, json.dumps([WHERE]), json.dumps(WHERE)])
def test_a_list_can_be_one_object_or_a_json_string(questions: Json) -> None:
    asked = only({"questions": questions})

    assert (asked.id, asked.text, asked.answer_type) == (
        "q1",
        "Which database?",
        SelectType(READ, allow_other=True),
    )


def test_alternative_names_of_multi_select_are_accepted() -> None:
    for name in ("multiSelect", "multi_select", "multiple"):
        asked = only({"question": "Which?", "header": "Which", "options": OPTIONS, name: True})
        assert asked.answer_type == MultiSelectType(READ, allow_other=True)
        (listed,) = questions(
            {"questions": [{"question": "Which?", "options": OPTIONS, name: True}]}
        )
        assert listed.answer_type == MultiSelectType(READ, allow_other=True)


def test_questions_without_ids_are_numbered() -> None:
    asked = questions(
        {
            "questions": [
                WHERE,
                {"id": "sure", "question": "Sure?", "type": "yesno", "options": []},
                {"question": "Why?"},
            ]
        }
    )

    assert [(question.id, type(question.answer_type)) for question in asked] == [
        ("q1", SelectType),
        ("sure", BooleanType),
        ("q3", TextType),
    ]


def test_choices_are_accepted_as_options() -> None:
    asked = only({"question": "Which?", "choices": ["main", "backup"], "allowFreeform": False})

    assert asked.answer_type == SelectType(
        (SelectOption("main"), SelectOption("backup")), allow_other=False
    )
    assert (
        only(
            {"question": "Which?", "choices": [], "allow_freeform": True, "multiple": False}
        ).answer_type
        == TextType()
    )


@pytest.mark.parametrize(
    "option",
    [
        {"label": "main"},
        {"text": "main"},
        {"value": "main"},
        "main",
        {"value": "main", "label": "main"},
    ],
)
def test_an_options_value_can_have_another_name(option: Json) -> None:
    asked = only({"question": "Which?", "options": [option, "backup"]})

    assert isinstance(asked.answer_type, SelectType)
    assert asked.answer_type.options[0] == SelectOption("main")


def test_a_label_next_to_a_value_is_displayed() -> None:
    asked = only(
        {
            "question": "Which?",
            "options": [
                {"value": "pg", "label": "PostgreSQL"},
                {"value": "my", "label": "MySQL", "description": "Old."},
            ],
        }
    )

    assert isinstance(asked.answer_type, SelectType)
    assert asked.answer_type.options == (
        SelectOption("pg", "PostgreSQL"),
        SelectOption("my", "MySQL: Old."),
    )


def test_options_can_be_a_json_string() -> None:
    asked = only({"question": "Which?", "options": '["main", "backup"]'})

    assert asked.answer_type == SelectType(
        (SelectOption("main"), SelectOption("backup")), allow_other=True
    )


def test_the_question_text_can_have_other_names() -> None:
    assert (
        only({"text": "Which?"}).text
        == only({"label": "Which?", "options": ["a", "b"]}).text
        == "Which?"
    )
    assert (
        only({"questions": [{"id": "a", "label": "Which?", "answer_type": "text"}]}).text
        == "Which?"
    )


OWN: list[JsonObject] = [
    {
        "question": "Which?",
        "options": ["a", {"value": "b", "description": "The second."}],
        "default": "a",
    },
    {"questions": [{"id": "a", "text": "A?", "answer_type": "boolean"}]},
    {"context": "…"},
    {},
]


@pytest.mark.parametrize("arguments", OWN)
def test_the_native_format_is_unchanged(arguments: JsonObject) -> None:
    assert own_shape(arguments) == arguments


def test_remaining_mistakes_are_reported() -> None:
    assert mistakes({"questions": "[not JSON"}) == [
        "/questions: must be an array of 1 to 20 questions."
    ]
    assert mistakes({"questions": [{**WHERE, "colour": "red"}]})[0].startswith(
        "/questions/0/colour: unknown; a question has"
    )
    assert mistakes({"questions": [{**WHERE, "multiSelect": "yes"}]})[0].startswith(
        "/questions/0/multiSelect: unknown; a question has"
    )
    assert mistakes({"questions": [{"question": "Which?", "options": [{"label": 3}]}]}) == [
        (
            '/questions/0/options/0: {"label":3} is not text. Give a string, or an object with a string'
            " as `value`."
        )
    ]


EMPTY = "the text is empty. Write the question in one line."
LINES = "the text has 2 lines, but must have one. Put multi-line text in `context`."


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"text": ""}, [f"/text: {EMPTY}"]),
        ({"label": ""}, [f"/label: {EMPTY}"]),
        ({"question": ""}, [f"/question: {EMPTY}"]),
        ({"questions": [{"question": ""}]}, [f"/questions/0/question: {EMPTY}"]),
        ({"questions": [WHERE, {"text": ""}]}, [f"/questions/1/text: {EMPTY}"]),
        ({"questions": {"question": "", "header": "Which"}}, [f"/questions/question: {EMPTY}"]),
        ({"questions": '[{"label": ""}]'}, [f"/questions/0/label: {EMPTY}"]),
        ({"questions": '{"label": ""}'}, [f"/questions/label: {EMPTY}"]),
        (
            {"questions": [{"question": "One\ntwo", "choices": ["x", "X"]}]},
            [
                f"/questions/0/question: {LINES}",
                '/questions/0/choices/1: "X" looks the same as /choices/0. Use distinct labels.',
            ],
        ),
        (
            {"question": "Which?", "choices": "x"},
            ['/choices: `choices` must be a list of 1 or more values to choose from, not "x".'],
        ),
    ],
)
def test_a_mistake_is_reported_with_the_models_own_key(
    arguments: JsonObject, says: list[str]
) -> None:
    for problem in says:
        assert problem in mistakes(arguments)


def test_an_unused_alternative_key_is_not_reported_instead_of_the_missing_one() -> None:
    missing = "/questions/0/text: `text` is missing. Give the question in one line."

    assert missing in mistakes({"questions": [{"id": "a", "question": 7, "answer_type": "text"}]})


KEYS = [
    "question",
    "text",
    "label",
    "value",
    "options",
    "choices",
    "header",
    "multiSelect",
    "type",
    "answer_type",
    "id",
    "description",
]
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(0, 2)
    | st.sampled_from(["", "a", "choice", "yesno", "[1]", '["a"]', '{"text": "Q?"}']),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
    ),
    max_leaves=8,
)


@settings(max_examples=tries(300), deadline=None)
@given(st.dictionaries(st.sampled_from([*KEYS, "questions"]), VALUES, max_size=5))
@example({"options": [], "choices": [], "multiSelect": None})
def test_normalizing_twice_changes_nothing(arguments: dict[str, Any]) -> None:
    """A recorded call that is read again asks the same questions."""
    own = own_shape(arguments)

    assert own_shape(own) == own


@settings(max_examples=tries(300), deadline=None)
@given(st.dictionaries(st.sampled_from([*KEYS, "questions"]), VALUES, max_size=5))
def test_any_arguments_are_accepted_or_refused_with_a_question_error(
    arguments: dict[str, Any],
) -> None:
    with suppress(QuestionError):
        read_arguments(arguments)
