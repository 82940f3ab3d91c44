"""What a model reads when its questions cannot be asked: every mistake, where it is, and what is allowed."""

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
from support.tool_running import Around, Responder, execute

HEAD = "ask_user: nothing was asked, because the arguments are wrong. Correct them and call it again."
TYPES = "it is one of `boolean`, `select`, `multi_select`, `text` and `schema`."
BESIDE = "beside `question` there are `context`, `answer_type`, `options`, `schema`, `default` and `allow_other`."

NONE_BEFORE = "no question comes before it that it could depend on: leave `when` out."
QUESTION_HAS = (
    "a question has `id`, `text`, `answer_type`, `context`, `options`, `allow_other`, `min`, `max`, `schema`, `default`, "
    "`optional` and `when`."
)


def mistakes(arguments: Json, limits: Limits | None = None) -> list[str]:
    """Return the lines of the error; nothing may have been asked."""
    responder = Responder()
    outcome = execute(AskUserTool(), arguments, around=Around(ask=responder, limits=limits or Limits()))
    assert isinstance(outcome, ToolError)
    assert not responder.asked
    head, *lines = outcome.message.split("\n")
    assert head == HEAD
    return [line.removeprefix("- ") for line in lines]


def select(**changes: Json) -> JsonObject:
    """Return the arguments of a sound select, with changes."""
    return {"question": "How?", "answer_type": "select", "options": ["backup", "abort"], **changes}


@pytest.mark.parametrize(
    ("arguments", "mistake"),
    [
        ({}, "/question: missing. Give `question` to ask one thing, or `questions` to ask several."),
        ({"context": "…"}, "/question: missing. Give `question` to ask one thing, or `questions` to ask several."),
        ({"question": ""}, "/question: the text is empty. Ask something, in one line."),
        ({"question": " \t"}, "/question: the text is empty. Ask something, in one line."),
        ({"question": 7}, "/question: `question` must be a string, not 7."),
        ({"question": "One\ntwo"}, "/question: the text has 2 lines; one is allowed. Put multi-line text in `context`."),
        ({"question": "One\u2028two"}, "/question: the text has 2 lines; one is allowed. Put multi-line text in `context`."),
        ({"question": "?" * 2049}, "/question: the text has 2,049 characters; 2,048 are allowed. Put details in `context`."),
        ({"question": "Q?", "answer_type": "integer"}, f"/answer_type: there is no such type; {TYPES}"),
        ({"question": "Q?", "answer_type": {"type": "text"}}, f"/answer_type: there is no such type; {TYPES}"),
        (
            {"question": "Q?", "answer_type": "secret"},
            "/answer_type: secrets must not be asked for: answers are sent to you and are stored. Do without it.",
        ),
        ({"question": "Q?", "when": {"question_id": "a", "equals": 1}}, f"/when: it belongs to an entry of `questions`; {BESIDE}"),
        ({"question": "Q?", "colour": "red"}, f"/colour: unknown argument; {BESIDE}"),
        (
            {"question": "Q?", "answer_type": "select"},
            '/options: missing; the type `select` needs the list of choices, such as ["yes", "no"].',
        ),
        (select(options=[]), "/options: 0 options are given; 1 to 200 are allowed."),
        (select(options="backup"), '/options: `options` must be a list of 1 or more values to choose from, not "backup".'),
        (select(options=["a", "A"]), '/options/1: "A" reads like /options/0. Give them labels that differ.'),
        (
            {"question": "Q?", "answer_type": "text", "options": ["a"]},
            "/options: only for the type `select` or `multi_select`, not for `text`: leave it out or change `answer_type`.",
        ),
        (
            {"question": "Q?", "answer_type": "boolean", "allow_other": True},
            "/allow_other: only for the type `select` or `multi_select`, not for `boolean`: leave it out or change `answer_type`.",
        ),
        ({"question": "Q?", "answer_type": "schema"}, "/schema: missing; the type `schema` needs the JSON Schema of the answer."),
        (
            {"question": "Q?", "schema": {"type": "integer"}},
            "/schema: only for the type `schema`, not for `text`: leave it out or change `answer_type`.",
        ),
        (
            {"question": "Q?", "answer_type": "boolean", "default": "true"},
            '/default: the default is not an answer: the answer must be true or false, not "true".',
        ),
        ({"question": "Q?", "default": 3}, "/default: the default is not an answer: the answer must be a string, not 3."),
        (
            select(default="overwrite", allow_other=False),
            '/default: the default is not an answer: "overwrite" is none of the options. Choose "backup", "abort".',
        ),
        (
            {**select(default="backup"), "answer_type": "multi_select"},
            '/default: the default is not an answer: the answer must be an array of options, not "backup".',
        ),
        ({"questions": []}, "/questions: the form has no questions; 1 to 20 are allowed."),
        ({"questions": {}}, "/questions: must be an array of 1 to 20 questions."),
        ({"questions": ["Q?"]}, "/questions/0: must be an object with `id`, `text` and `answer_type`."),
        ({"questions": [{"id": "a", "text": "Q?"}]}, f"/questions/0/answer_type: missing; {TYPES}"),
    ],
)
def test_a_mistake_is_named_with_its_place_and_what_is_allowed(arguments: Json, mistake: str) -> None:
    assert mistakes(arguments) == [mistake]


def test_one_question_or_several_not_both() -> None:
    entry: JsonObject = {"id": "a", "text": "Q?", "answer_type": "text"}
    assert mistakes({"question": "Q?", "context": "…", "questions": [entry]}) == [
        "/question: give either `question` (one thing) or `questions` (several), not both.",
        "/context: nothing may stand beside `questions`; put it into the entries that it is about.",
    ]


def test_a_broken_list_does_not_hide_what_stands_beside_it() -> None:
    assert mistakes({"questions": [], "options": ["a"], "colour": 1}) == [
        "/options: nothing may stand beside `questions`; put it into the entries that it is about.",
        "/colour: unknown; nothing may stand beside `questions`.",
        "/questions: the form has no questions; 1 to 20 are allowed.",
    ]


def test_more_questions_than_20_are_too_many() -> None:
    many: list[Json] = [{"id": f"q{number}", "text": "Q?", "answer_type": "text"} for number in range(21)]
    assert mistakes({"questions": many}) == ["/questions: the form has 21 questions; 1 to 20 are allowed."]
    assert mistakes({"questions": many}, Limits(form=5)) == ["/questions: the form has 21 questions; 1 to 5 are allowed."]


def test_the_limits_of_the_configuration_hold() -> None:
    assert mistakes(select(options=["a", "b", "c"]), Limits(options=2)) == ["/options: 3 options are given; 1 to 2 are allowed."]
    assert mistakes({"question": "Which one?"}, Limits(question=5)) == [
        "/question: the text has 10 characters; 5 are allowed. Put details in `context`."
    ]


def test_every_mistake_of_a_list_is_told_at_once() -> None:
    """A model that reads them all can correct them in one go."""
    questions: list[Json] = [
        {"id": "a", "text": "A?", "answer_type": "boolean", "when": {"question_id": "b", "equals": True}},
        {"id": "b", "text": "B?", "answer_type": "select", "when": {"question_id": "a", "equals": "yes"}},
        {"id": "a", "text": "C\nD?", "answer_type": "multi_select", "options": ["x"], "min": 3, "type": "text"},
        {"text": "E?", "answer_type": "number", "default": 3, "when": {"question_id": "b"}},
        {"id": "f", "text": "F?", "answer_type": "text", "max": 2, "schema": {}, "when": {"question_id": "a", "equals": "yes"}},
    ]
    assert mistakes({"questions": questions}) == [
        f"/questions/0/when/question_id: `b` comes later in the form; {NONE_BEFORE}",
        '/questions/1/options: missing; the type `select` needs the list of choices, such as ["yes", "no"].',
        '/questions/1/when/equals: this can never be the answer to `a`: the answer must be true or false, not "yes".',
        f"/questions/2/type: unknown; {QUESTION_HAS}",
        "/questions/2/text: the text has 2 lines; one is allowed. Put multi-line text in `context`.",
        "/questions/2/min: `min` is 3, but there are only 2 choices. Lower it.",
        "/questions/2/id: the id `a` is taken by /questions/0; give every question its own.",
        "/questions/3/id: `id` is missing. Give 1 to 64 of the characters A-Z a-z 0-9 _ - (not beginning with __).",
        "/questions/3/when/equals: `equals` is missing. Give the answer at which this question is asked.",
        f"/questions/3/answer_type: there is no such type; {TYPES}",
        "/questions/4/max: only for the type `multi_select`, not for `text`: leave it out or change `answer_type`.",
        "/questions/4/schema: only for the type `schema`, not for `text`: leave it out or change `answer_type`.",
        '/questions/4/when/equals: this can never be the answer to `a`: the answer must be true or false, not "yes".',
    ]


def test_a_schema_outside_the_allowed_subset_is_named_with_its_place() -> None:
    (mistake,) = mistakes({"question": "Q?", "answer_type": "schema", "schema": {"type": "object", "patternProperties": {}}})
    assert mistake.startswith("/schema/patternProperties: ")


def test_arguments_that_no_writer_of_json_would_send_are_refused_like_any_other() -> None:
    assert mistakes({"question": "\ud800?"}) == ["/question: the text has a lone surrogate, which is not Unicode text. Remove it."]
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
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["value", "description", "question_id", "equals"]), inner),
    max_leaves=6,
)
ENTRIES: st.SearchStrategy[Any] = st.dictionaries(st.sampled_from([key for key in ENTRY_KEYS if key != "schema"]), VALUES)
ARGUMENTS = st.dictionaries(st.sampled_from([key for key in SINGLE_KEYS if key != "schema"]), VALUES) | st.fixed_dictionaries(
    {"questions": st.lists(ENTRIES | VALUES, max_size=4)}
)


def read(arguments: Any) -> Form | tuple[Problem, ...]:
    """Return the form that is asked, or what is wrong."""
    try:
        return read_arguments(arguments).form
    except QuestionError as error:
        return error.problems


@settings(max_examples=tries(200), deadline=None)
@given(ARGUMENTS)
def test_whatever_a_model_sends_becomes_a_form_or_a_list_of_mistakes(arguments: Any) -> None:
    match read(arguments):
        case Form(questions):
            assert questions
        case problems:
            assert problems
            assert all(problem.pointer.startswith("/") and problem.message.endswith((".", "?")) for problem in problems)


def test_choices_that_are_no_texts_are_refused() -> None:
    said = mistakes(select(options=["a", 3, {"value": True}, {"value": "b", "description": "c"}]))

    advice = "Give a string, or an object with a string as `value`."
    assert said == [f"/options/1: 3 is not text. {advice}", f"/options/2: true is not text. {advice}"]
