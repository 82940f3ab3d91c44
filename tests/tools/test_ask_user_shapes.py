"""Shapes of other agents' question tools, which models use for `ask_user` too."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from midturn.errors import QuestionError
from midturn.question.answer_type import BooleanType, MultiSelectType, SelectOption, SelectType, TextType
from midturn.question.json_value import Json, JsonObject
from midturn.question.question import Question
from midturn.tools.ask_user_call import read_arguments
from midturn.tools.ask_user_shapes import own_shape
from support.depth import tries

OPTIONS: list[Json] = [{"label": "main", "description": "The newest."}, {"label": "backup"}]
READ = (SelectOption("main", "The newest."), SelectOption("backup"))
WHERE: JsonObject = {"question": "Which database?", "header": "Database", "options": OPTIONS, "multiSelect": False}


def questions(arguments: JsonObject) -> list[Question[Any]]:
    """Return the questions that a call asks."""
    return list(read_arguments(arguments).form.questions)


def only(arguments: JsonObject) -> Question[Any]:
    """Return the only question that a call asks."""
    (question,) = questions(arguments)
    return question


def mistakes(arguments: JsonObject) -> list[str]:
    """Return what is wrong with the arguments of a call."""
    with pytest.raises(QuestionError) as caught:
        read_arguments(arguments)
    return [str(problem) for problem in caught.value.problems]


@pytest.mark.parametrize("questions", [[WHERE], WHERE, json.dumps([WHERE]), json.dumps(WHERE)])
def test_a_list_may_be_one_object_or_json_in_a_text(questions: Json) -> None:
    asked = only({"questions": questions})

    assert (asked.id, asked.text, asked.answer_type) == ("q1", "Which database?", SelectType(READ, allow_other=True))


def test_multi_select_is_read_under_its_other_names() -> None:
    for name in ("multiSelect", "multi_select", "multiple"):
        asked = only({"question": "Which?", "header": "Which", "options": OPTIONS, name: True})
        assert asked.answer_type == MultiSelectType(READ, allow_other=True)
        (listed,) = questions({"questions": [{"question": "Which?", "options": OPTIONS, name: True}]})
        assert listed.answer_type == MultiSelectType(READ, allow_other=True)


def test_entries_without_ids_are_numbered() -> None:
    asked = questions({"questions": [WHERE, {"id": "sure", "question": "Sure?", "type": "yesno", "options": []}, {"question": "Why?"}]})

    assert [(question.id, type(question.answer_type)) for question in asked] == [
        ("q1", SelectType),
        ("sure", BooleanType),
        ("q3", TextType),
    ]


def test_choices_are_options() -> None:
    asked = only({"question": "Which?", "choices": ["main", "backup"], "allowFreeform": False})

    assert asked.answer_type == SelectType((SelectOption("main"), SelectOption("backup")), allow_other=False)
    assert only({"question": "Which?", "choices": [], "allow_freeform": True, "multiple": False}).answer_type == TextType()


@pytest.mark.parametrize("option", [{"label": "main"}, {"text": "main"}, {"value": "main"}, "main", {"value": "main", "label": "main"}])
def test_an_option_may_have_its_value_under_another_name(option: Json) -> None:
    asked = only({"question": "Which?", "options": [option, "backup"]})

    assert isinstance(asked.answer_type, SelectType)
    assert asked.answer_type.options[0] == SelectOption("main")


def test_a_label_next_to_a_value_is_shown_to_the_person() -> None:
    asked = only(
        {
            "question": "Which?",
            "options": [{"value": "pg", "label": "PostgreSQL"}, {"value": "my", "label": "MySQL", "description": "Old."}],
        }
    )

    assert isinstance(asked.answer_type, SelectType)
    assert asked.answer_type.options == (SelectOption("pg", "PostgreSQL"), SelectOption("my", "MySQL: Old."))


def test_options_may_be_json_in_a_text() -> None:
    asked = only({"question": "Which?", "options": '["main", "backup"]'})

    assert asked.answer_type == SelectType((SelectOption("main"), SelectOption("backup")), allow_other=True)


def test_the_question_may_be_called_text_or_label() -> None:
    assert only({"text": "Which?"}).text == only({"label": "Which?", "options": ["a", "b"]}).text == "Which?"
    assert only({"questions": [{"id": "a", "label": "Which?", "answer_type": "text"}]}).text == "Which?"


OWN: list[JsonObject] = [
    {"question": "Which?", "options": ["a", {"value": "b", "description": "The second."}], "default": "a"},
    {"questions": [{"id": "a", "text": "A?", "answer_type": "boolean"}]},
    {"context": "…"},
    {},
]


@pytest.mark.parametrize("arguments", OWN)
def test_the_own_shape_stays_as_it_is(arguments: JsonObject) -> None:
    assert own_shape(arguments) == arguments


def test_what_is_still_wrong_is_named() -> None:
    assert mistakes({"questions": "[not JSON"}) == ["/questions: must be an array of 1 to 20 questions."]
    assert mistakes({"questions": [{**WHERE, "colour": "red"}]})[0].startswith("/questions/0/colour: unknown; a question has")
    assert mistakes({"questions": [{**WHERE, "multiSelect": "yes"}]})[0].startswith("/questions/0/multiSelect: unknown; a question has")
    assert mistakes({"questions": [{"question": "Which?", "options": [{"label": 3}]}]}) == [
        '/questions/0/options/0: {"label":3} is not text. Give a string, or an object with a string as `value`.'
    ]


EMPTY = "the text is empty. Ask something, in one line."
LINES = "the text has 2 lines; one is allowed. Put multi-line text in `context`."


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
                '/questions/0/choices/1: "X" reads like /choices/0. Give them labels that differ.',
            ],
        ),
        ({"question": "Which?", "choices": "x"}, ['/choices: `choices` must be a list of 1 or more values to choose from, not "x".']),
    ],
)
def test_what_is_wrong_is_named_by_the_key_that_the_model_wrote(arguments: JsonObject, says: list[str]) -> None:
    for problem in says:
        assert problem in mistakes(arguments)


def test_a_value_under_another_name_that_is_not_rewritten_is_not_named_instead() -> None:
    missing = "/questions/0/text: `text` is missing. Give the question in one line."

    assert missing in mistakes({"questions": [{"id": "a", "question": 7, "answer_type": "text"}]})


KEYS = ["question", "text", "label", "value", "options", "choices", "header", "multiSelect", "type", "answer_type", "id", "description"]
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["", "a", "choice", "yesno", "[1]", '["a"]', '{"text": "Q?"}']),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=8,
)


@settings(max_examples=tries(300), deadline=None)
@given(st.dictionaries(st.sampled_from([*KEYS, "questions"]), VALUES, max_size=5))
def test_the_own_shape_of_the_own_shape_is_the_same(arguments: dict[str, Any]) -> None:
    """A call that is recorded and read again asks the same."""
    own = own_shape(arguments)

    assert own_shape(own) == own


@settings(max_examples=tries(300), deadline=None)
@given(st.dictionaries(st.sampled_from([*KEYS, "questions"]), VALUES, max_size=5))
def test_any_shape_is_read_or_refused_with_a_question_error(arguments: dict[str, Any]) -> None:
    with suppress(QuestionError):
        read_arguments(arguments)
