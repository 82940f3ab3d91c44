"""Checks of a form before anything is asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from midturn.errors import QuestionError
from midturn.question.answer_type import When
from midturn.question.form import Form
from midturn.question.json_value import Json, Limits
from midturn.question.question import Question

APPLY = Question.boolean("apply", "Apply the migration?")
ENV = Question.select("env", "Which environment?", ["staging", "production"])
TOKEN = Question.secret("token", "The token?")
LATER = Question.text("later", "And later?")


QUESTION_KEYS = (
    " Allowed keys: `id`, `text`, `context`, `answer_type`, `default`, `exclusive`, `persistence`,"
    " `optional`, `when`, `deadline_seconds`, `deadline`, `people`."
)
NEVER_APPLY = "/questions/1/when/equals: this is not a possible answer to `apply`: "
NEVER_ENV = "/questions/1/when/equals: this is not a possible answer to `env`: "
NEVER_LATER = "/questions/1/when/equals: this is not a possible answer to `later`: "


def problems(questions: Sequence[Question[Any]]) -> list[str]:
    """Return the problems of a form, one line for each."""
    with pytest.raises(QuestionError) as raised:
        Form(questions)
    return [str(problem) for problem in raised.value.problems]


def problems_of_json(questions: Json) -> list[str]:
    """Return the problems of a form that is given as JSON."""
    with pytest.raises(QuestionError) as raised:
        Form.from_json(questions)
    return [str(problem) for problem in raised.value.problems]


def conditional_question(named: str, equals: Json) -> Question[str | None]:
    """Return a question that is asked only after a certain answer."""
    return Question.text("then", "Then what?", when=When(named, equals))


def test_any_sequence_of_questions_makes_a_form() -> None:
    assert Form([APPLY, ENV]) == Form((APPLY, ENV))
    assert Form([APPLY]).questions == (APPLY,)


def test_a_form_has_no_review_by_default() -> None:
    assert not Form([APPLY]).review


def test_an_empty_form_is_refused() -> None:
    assert problems([]) == ["/questions: the form has no questions; the number must be 1 to 20."]


def test_a_form_longer_than_20_questions_is_refused() -> None:
    many = [Question.text(f"q{number}", "What?") for number in range(21)]
    assert problems(many) == ["/questions: the form has 21 questions; the number must be 1 to 20."]
    assert len(Form(many[:20]).questions) == 20


def test_the_maximum_length_can_be_configured() -> None:
    many = [Question.text(f"q{number}", "What?") for number in range(25)]
    assert len(Form(many, limit=25).questions) == 25
    objects: list[Json] = [question.to_json() for question in many]
    assert Form.from_json(objects, limits=Limits(form=30)).limit == 30


def test_question_ids_are_unique_in_a_form() -> None:
    again = Question.text("apply", "Again?")
    assert problems([APPLY, ENV, again]) == [
        (
            "/questions/2/id: the id `apply` is already used by /questions/0. Give every question a"
            " different id."
        )
    ]


def test_a_predicate_refers_to_an_earlier_question() -> None:
    assert problems([APPLY, ENV, conditional_question("nobody", True)]) == [
        (
            "/questions/2/when/question_id: no question has the id `nobody`; name an earlier question:"
            " `apply`, `env`."
        )
    ]
    assert problems([APPLY, conditional_question("later", "x"), LATER]) == [
        (
            "/questions/1/when/question_id: `later` comes later in the form; name an earlier question:"
            " `apply`."
        )
    ]
    assert problems([APPLY, conditional_question("then", "x")]) == [
        (
            "/questions/1/when/question_id: `then` is this question itself; name an earlier question:"
            " `apply`."
        )
    ]


def test_the_first_question_has_no_predicate() -> None:
    assert problems([conditional_question("x", True)]) == [
        (
            "/questions/0/when/question_id: no question has the id `x`; there is no earlier question"
            " that it could depend on: remove `when`."
        )
    ]


def test_a_predicate_cannot_refer_to_a_secret() -> None:
    assert problems([TOKEN, ENV, conditional_question("token", "hunter2")]) == [
        (
            "/questions/2/when/question_id: `token` is a secret, and a condition cannot depend on a"
            " secret; name an earlier question: `env`."
        )
    ]


@pytest.mark.parametrize(
    ("named", "equals", "problem"),
    [
        (APPLY, "true", NEVER_APPLY + 'the answer must be true or false, not "true".'),
        (APPLY, 1, NEVER_APPLY + "the answer must be true or false, not 1."),
        (
            ENV,
            "prod",
            NEVER_ENV + '"prod" is not one of the options. Choose "staging", "production".',
        ),
        (LATER, 7, NEVER_LATER + "the answer must be a string, not 7."),
        (
            LATER,
            None,
            (
                "/questions/1/when/equals: `later` always has an answer. "
                "Null is only possible for a question that is optional or has a `when`."
            ),
        ),
    ],
)
def test_a_predicate_compares_with_a_possible_answer(
    named: Question[Any], equals: Json, problem: str
) -> None:
    assert problems([named, conditional_question(named.id, equals)]) == [problem]


def test_a_predicate_can_compare_with_one_of_several_choices() -> None:
    colours = Question.multi_select("colours", "Which?", ["red", "blue"])
    assert problems([colours, conditional_question("colours", ["red", "pink"])]) == [
        (
            '/questions/1/when/equals/1: this is not a possible answer to `colours`: "pink" is not one'
            ' of the options. Choose "red", "blue".'
        )
    ]


def test_null_is_possible_if_the_question_is_optional_or_conditional() -> None:
    optional = Question.text("optional", "Anything?", optional=True)
    gated = Question.text("gated", "What?", when=When("apply", True))
    after_optional = Question.text("one", "One?", when=When("optional", None))
    after_gated = Question.text("two", "Two?", when=When("gated", None))
    assert len(Form([APPLY, optional, gated, after_optional, after_gated]).questions) == 5


def test_own_words_are_a_possible_answer_if_allowed() -> None:
    env = Question.select("env", "Which?", ["staging"], allow_other=True)
    assert Form([env, conditional_question("env", {"other": "test"})]).questions[1].when == When(
        "env", {"other": "test"}
    )


def test_a_predicate_is_stored_in_answer_form() -> None:
    colours = Question.multi_select("colours", "Which?", ["red", "green", "blue"])
    assert Form([colours, conditional_question("colours", ["blue", "red"])]).questions[
        1
    ].when == When("colours", ["red", "blue"])


def test_all_problems_are_reported_in_the_order_of_the_questions() -> None:
    """Includes problems of the questions and of the form.

    The ID of an invalid question is still known.
    """
    questions: list[Json] = [
        {"id": "a", "text": "One\ntwo", "answer_type": {"type": "boolean"}},
        {
            "id": "b",
            "text": "Which?",
            "answer_type": {"type": "select"},
            "when": {"question_id": "a", "equals": True},
        },
        {
            "id": "a",
            "text": "Which?",
            "answer_type": {"type": "text"},
            "when": {"question_id": "c", "equals": 1},
            "colour": "red",
        },
        "d",
        {
            "text": "What?",
            "answer_type": {"type": "text"},
            "default": 7,
            "when": {"question_id": "e"},
        },
    ]
    assert problems_of_json(questions) == [
        (
            "/questions/0/text: the text has 2 lines, but must have one. Put multi-line text in"
            " `context`."
        ),
        (
            "/questions/1/answer_type/options: `options` is missing. List 1 or more values to"
            " choose from."
        ),
        '/questions/2/colour: unknown key "colour".' + QUESTION_KEYS,
        (
            "/questions/2/id: the id `a` is already used by /questions/0. Give every question a"
            " different id."
        ),
        (
            "/questions/2/when/question_id: no question has the id `c`; name an earlier question:"
            " `a`, `b`."
        ),
        '/questions/3: the question must be a JSON object, not "d".',
        (
            "/questions/4/id: `id` is missing. Give 1 to 64 of the characters A-Z a-z 0-9 _ - (not"
            " beginning with __)."
        ),
        (
            "/questions/4/when/equals: `equals` is missing. Give the answer of the earlier question"
            " that makes this one asked."
        ),
        (
            "/questions/4/default: the default is not a valid answer: the answer must be a string,"
            " not 7."
        ),
    ]


@pytest.mark.parametrize("no_list", [{}, "apply", None, 7])
def test_a_form_must_be_an_array(no_list: Json) -> None:
    assert problems_of_json(no_list) == ["/questions: must be an array of 1 to 20 questions."]


def test_a_form_survives_writing_and_reading() -> None:
    form = Form([APPLY, TOKEN, ENV, conditional_question("env", "staging")])
    objects: list[Json] = list(form.to_json())
    assert Form.from_json(objects) == form
    assert objects[3] == {
        "id": "then",
        "text": "Then what?",
        "answer_type": {"type": "text"},
        "when": {"question_id": "env", "equals": "staging"},
    }
