"""Errors for a model whose questions are invalid.

Each names the mistake, its location and the allowed values.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from midturn.errors import Problem, QuestionError
from midturn.events.outcome import ToolError
from midturn.question.form import Form
from midturn.question.json_value import Json, JsonObject, Limits
from midturn.tools.ask_user_call import ENTRY_KEYS, SINGLE_KEYS, AskUserTool, read_arguments
from support.depth import tries
from support.tool_running import Responder, ToolEnvironment, execute

HEAD = (
    "ask_user: nothing was asked, because the arguments are wrong. Correct them and call it again."
)
TYPES = "it is one of `boolean`, `select`, `multi_select`, `text` and `schema`."
BESIDE = (
    "beside `question` there are `context`, `answer_type`, `options`, `schema`, `default` and"
    " `allow_other`."
)

NONE_BEFORE = "there is no earlier question that it could depend on: remove `when`."
QUESTION_HAS = (
    "a question has `id`, `text`, `answer_type`, `context`, `options`, `allow_other`, `min`, `max`,"
    " `schema`, `default`, `optional` and `when`."
)


def mistakes(arguments: Json, limits: Limits | None = None) -> list[str]:
    """Return the lines of the error, and check that nothing was asked."""
    responder = Responder()
    outcome = execute(
        AskUserTool(), arguments, around=ToolEnvironment(ask=responder, limits=limits or Limits())
    )
    assert isinstance(outcome, ToolError)
    assert not responder.asked
    head, *lines = outcome.message.split("\n")
    assert head == HEAD
    return [line.removeprefix("- ") for line in lines]


def select(**changes: Json) -> JsonObject:
    """Return the arguments of a valid select question, with changes."""
    return {"question": "How?", "answer_type": "select", "options": ["backup", "abort"], **changes}


@pytest.mark.parametrize(
    ("arguments", "mistake"),
    [
        (
            {},
            "/question: missing. Give `question` to ask one thing, or `questions` to ask several.",
        ),
        (
            {"context": "…"},
            "/question: missing. Give `question` to ask one thing, or `questions` to ask several.",
        ),
        ({"question": ""}, "/question: the text is empty. Write the question in one line."),
        ({"question": " \t"}, "/question: the text is empty. Write the question in one line."),
        ({"question": 7}, "/question: `question` must be a string, not 7."),
        (
            {"question": "One\ntwo"},
            "/question: the text has 2 lines, but must have one. Put multi-line text in `context`.",
        ),
        (
            {"question": "One\u2028two"},
            "/question: the text has 2 lines, but must have one. Put multi-line text in `context`.",
        ),
        (
            {"question": "?" * 2049},
            (
                "/question: the text has 2,049 characters; the limit is 2,048. Put details in"
                " `context`."
            ),
        ),
        (
            {"question": "Q?", "answer_type": "integer"},
            f"/answer_type: there is no such type; {TYPES}",
        ),
        (
            {"question": "Q?", "answer_type": {"type": "text"}},
            f"/answer_type: there is no such type; {TYPES}",
        ),
        (
            {"question": "Q?", "answer_type": "secret"},
            (
                "/answer_type: secrets must not be asked for: answers are sent to you and are"
                " stored. Do without it."
            ),
        ),
        (
            {"question": "Q?", "when": {"question_id": "a", "equals": 1}},
            f"/when: it belongs to an entry of `questions`; {BESIDE}",
        ),
        ({"question": "Q?", "colour": "red"}, f"/colour: unknown argument; {BESIDE}"),
        (
            {"question": "Q?", "answer_type": "select"},
            (
                '/options: missing; the type `select` needs the list of choices, such as ["yes",'
                ' "no"].'
            ),
        ),
        (select(options=[]), "/options: 0 options are given; the number must be 1 to 200."),
        (
            select(options="backup"),
            '/options: `options` must be a list of 1 or more values to choose from, not "backup".',
        ),
        (
            select(options=["a", "A"]),
            '/options/1: "A" looks the same as /options/0. Use distinct labels.',
        ),
        (
            {"question": "Q?", "answer_type": "text", "options": ["a"]},
            (
                "/options: only for the type `select` or `multi_select`, not for `text`: leave it"
                " out or change `answer_type`."
            ),
        ),
        (
            {"question": "Q?", "answer_type": "boolean", "allow_other": True},
            (
                "/allow_other: only for the type `select` or `multi_select`, not for `boolean`:"
                " leave it out or change `answer_type`."
            ),
        ),
        (
            {"question": "Q?", "answer_type": "schema"},
            "/schema: missing; the type `schema` needs the JSON Schema of the answer.",
        ),
        (
            {"question": "Q?", "schema": {"type": "integer"}},
            (
                "/schema: only for the type `schema`, not for `text`: leave it out or change"
                " `answer_type`."
            ),
        ),
        (
            {"question": "Q?", "answer_type": "boolean", "default": "true"},
            (
                "/default: the default is not a valid answer: the answer must be true or false, not"
                ' "true".'
            ),
        ),
        (
            {"question": "Q?", "default": 3},
            "/default: the default is not a valid answer: the answer must be a string, not 3.",
        ),
        (
            select(default="overwrite", allow_other=False),
            (
                '/default: the default is not a valid answer: "overwrite" is not one of the'
                ' options. Choose "backup", "abort".'
            ),
        ),
        (
            {**select(default="backup"), "answer_type": "multi_select"},
            (
                "/default: the default is not a valid answer: the answer must be an array of"
                ' options, not "backup".'
            ),
        ),
        ({"questions": []}, "/questions: the form has no questions; the number must be 1 to 20."),
        ({"questions": {}}, "/questions: must be an array of 1 to 20 questions."),
        (
            {"questions": ["Q?"]},
            "/questions/0: must be an object with `id`, `text` and `answer_type`.",
        ),
        ({"questions": [{"id": "a", "text": "Q?"}]}, f"/questions/0/answer_type: missing; {TYPES}"),
    ],
)
def test_a_mistake_is_reported_with_its_location_and_the_allowed_values(
    arguments: Json, mistake: str
) -> None:
    assert mistakes(arguments) == [mistake]


def test_a_single_question_and_a_list_are_mutually_exclusive() -> None:
    entry: JsonObject = {"id": "a", "text": "Q?", "answer_type": "text"}
    assert mistakes({"question": "Q?", "context": "…", "questions": [entry]}) == [
        "/question: give either `question` (one thing) or `questions` (several), not both.",
        "/context: nothing may stand beside `questions`; put it into the entries that it is about.",
    ]


def test_an_invalid_list_does_not_hide_other_mistakes() -> None:
    assert mistakes({"questions": [], "options": ["a"], "colour": 1}) == [
        "/options: nothing may stand beside `questions`; put it into the entries that it is about.",
        "/colour: unknown; nothing may stand beside `questions`.",
        "/questions: the form has no questions; the number must be 1 to 20.",
    ]


def test_more_than_20_questions_are_refused() -> None:
    many: list[Json] = [
        {"id": f"q{number}", "text": "Q?", "answer_type": "text"} for number in range(21)
    ]
    assert mistakes({"questions": many}) == [
        "/questions: the form has 21 questions; the number must be 1 to 20."
    ]
    assert mistakes({"questions": many}, Limits(form=5)) == [
        "/questions: the form has 21 questions; the number must be 1 to 5."
    ]


def test_configured_limits_apply() -> None:
    assert mistakes(select(options=["a", "b", "c"]), Limits(options=2)) == [
        "/options: 3 options are given; the number must be 1 to 2."
    ]
    assert mistakes({"question": "Which one?"}, Limits(question=5)) == [
        "/question: the text has 10 characters; the limit is 5. Put details in `context`."
    ]


def test_all_mistakes_of_a_list_are_reported_at_once() -> None:
    """The model can then correct them all in one call."""
    questions: list[Json] = [
        {
            "id": "a",
            "text": "A?",
            "answer_type": "boolean",
            "when": {"question_id": "b", "equals": True},
        },
        {
            "id": "b",
            "text": "B?",
            "answer_type": "select",
            "when": {"question_id": "a", "equals": "yes"},
        },
        {
            "id": "a",
            "text": "C\nD?",
            "answer_type": "multi_select",
            "options": ["x"],
            "min": 3,
            "type": "text",
        },
        {"text": "E?", "answer_type": "number", "default": 3, "when": {"question_id": "b"}},
        {
            "id": "f",
            "text": "F?",
            "answer_type": "text",
            "max": 2,
            "schema": {},
            "when": {"question_id": "a", "equals": "yes"},
        },
    ]
    assert mistakes({"questions": questions}) == [
        f"/questions/0/when/question_id: `b` comes later in the form; {NONE_BEFORE}",
        (
            "/questions/1/options: missing; the type `select` needs the list of choices, such as"
            ' ["yes", "no"].'
        ),
        (
            "/questions/1/when/equals: this is not a possible answer to `a`: the answer must be"
            ' true or false, not "yes".'
        ),
        f"/questions/2/type: unknown; {QUESTION_HAS}",
        (
            "/questions/2/text: the text has 2 lines, but must have one. Put multi-line text in"
            " `context`."
        ),
        "/questions/2/min: `min` is 3, but there are only 2 choices. Lower it.",
        (
            "/questions/2/id: the id `a` is already used by /questions/0. Give every question a"
            " different id."
        ),
        (
            "/questions/3/id: `id` is missing. Give 1 to 64 of the characters A-Z a-z 0-9 _ - (not"
            " beginning with __)."
        ),
        (
            "/questions/3/when/equals: `equals` is missing. Give the answer of the earlier question"
            " that makes this one asked."
        ),
        f"/questions/3/answer_type: there is no such type; {TYPES}",
        (
            "/questions/4/max: only for the type `multi_select`, not for `text`: leave it out or"
            " change `answer_type`."
        ),
        (
            "/questions/4/schema: only for the type `schema`, not for `text`: leave it out or"
            " change `answer_type`."
        ),
        (
            "/questions/4/when/equals: this is not a possible answer to `a`: the answer must be"
            ' true or false, not "yes".'
        ),
    ]


def test_an_unsupported_schema_is_reported_with_its_location() -> None:
    (mistake,) = mistakes(
        {
            "question": "Q?",
            "answer_type": "schema",
            "schema": {"type": "object", "patternProperties": {}},
        }
    )
    assert mistake.startswith("/schema/patternProperties: ")


def test_arguments_outside_json_are_refused() -> None:
    assert mistakes({"question": "\ud800?"}) == [
        "/question: the text has a lone surrogate, which is not Unicode text. Remove it."
    ]
    deep: Json = "x"
    for _ in range(200):
        deep = [deep]
    (mistake,) = mistakes({"question": "Q?", "default": deep})
    assert "nested deeper than 128 levels" in mistake


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-1, 3)
    | st.floats()
    | st.sampled_from(["", "a", "b", "select", "text", "multi_select", "a\nb"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["value", "description", "question_id", "equals"]), inner)
    ),
    max_leaves=6,
)
ENTRIES: st.SearchStrategy[Any] = st.dictionaries(
    st.sampled_from([key for key in ENTRY_KEYS if key != "schema"]), VALUES
)
ARGUMENTS = st.dictionaries(
    st.sampled_from([key for key in SINGLE_KEYS if key != "schema"]), VALUES
) | st.fixed_dictionaries({"questions": st.lists(ENTRIES | VALUES, max_size=4)})


def read(arguments: Any) -> Form | tuple[Problem, ...]:
    """Return the form that is asked, or the problems."""
    try:
        return read_arguments(arguments).form
    except QuestionError as error:
        return error.problems


@settings(max_examples=tries(200), deadline=None)
@given(ARGUMENTS)
def test_any_arguments_give_a_form_or_a_list_of_mistakes(arguments: Any) -> None:
    match read(arguments):
        case Form(questions):
            assert questions
        case problems:
            assert problems
            assert all(
                problem.pointer.startswith("/") and problem.message.endswith((".", "?"))
                for problem in problems
            )


def test_non_text_choices_are_refused() -> None:
    said = mistakes(select(options=["a", 3, {"value": True}, {"value": "b", "description": "c"}]))

    advice = "Give a string, or an object with a string as `value`."
    assert said == [
        f"/options/1: 3 is not text. {advice}",
        f"/options/2: true is not text. {advice}",
    ]
