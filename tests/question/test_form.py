"""What a form must be before anything is asked."""

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
    " Allowed are `id`, `text`, `context`, `answer_type`, `default`, `exclusive`, `persistence`, `optional`, `when`, `deadline_seconds`, "
    "`deadline`, `people`."
)
NEVER_APPLY = "/questions/1/when/equals: this can never be the answer to `apply`: "
NEVER_ENV = "/questions/1/when/equals: this can never be the answer to `env`: "
NEVER_LATER = "/questions/1/when/equals: this can never be the answer to `later`: "


def problems(questions: Sequence[Question[Any]]) -> list[str]:
    """Return what is wrong with a form, one line for each problem."""
    with pytest.raises(QuestionError) as raised:
        Form(questions)
    return [str(problem) for problem in raised.value.problems]


def problems_of_json(questions: Json) -> list[str]:
    """Return what is wrong with a form that arrives as JSON."""
    with pytest.raises(QuestionError) as raised:
        Form.from_json(questions)
    return [str(problem) for problem in raised.value.problems]


def depends(named: str, equals: Json) -> Question[str | None]:
    """Return a question that is asked only after a certain answer."""
    return Question.text("then", "Then what?", when=When(named, equals))


def test_any_sequence_of_questions_makes_a_form_and_a_tuple_is_kept() -> None:
    assert Form([APPLY, ENV]) == Form((APPLY, ENV))
    assert Form([APPLY]).questions == (APPLY,)


def test_a_form_sends_without_review_unless_it_is_told_otherwise() -> None:
    assert not Form([APPLY]).review


def test_an_empty_form_is_refused() -> None:
    assert problems([]) == ["/questions: the form has no questions; 1 to 20 are allowed."]


def test_a_form_longer_than_20_questions_is_refused() -> None:
    many = [Question.text(f"q{number}", "What?") for number in range(21)]
    assert problems(many) == ["/questions: the form has 21 questions; 1 to 20 are allowed."]
    assert len(Form(many[:20]).questions) == 20


def test_the_limit_can_be_another() -> None:
    many = [Question.text(f"q{number}", "What?") for number in range(25)]
    assert len(Form(many, limit=25).questions) == 25
    objects: list[Json] = [question.to_json() for question in many]
    assert Form.from_json(objects, limits=Limits(form=30)).limit == 30


def test_an_id_is_used_once() -> None:
    again = Question.text("apply", "Again?")
    assert problems([APPLY, ENV, again]) == ["/questions/2/id: the id `apply` is taken by /questions/0; give every question its own."]


def test_a_predicate_names_an_earlier_question() -> None:
    assert problems([APPLY, ENV, depends("nobody", True)]) == [
        "/questions/2/when/question_id: no question has the id `nobody`; name a question that comes before it: `apply`, `env`."
    ]
    assert problems([APPLY, depends("later", "x"), LATER]) == [
        "/questions/1/when/question_id: `later` comes later in the form; name a question that comes before it: `apply`."
    ]
    assert problems([APPLY, depends("then", "x")]) == [
        "/questions/1/when/question_id: `then` is this question itself; name a question that comes before it: `apply`."
    ]


def test_the_first_question_depends_on_nothing() -> None:
    assert problems([depends("x", True)]) == [
        "/questions/0/when/question_id: no question has the id `x`; no question comes before it that it could depend on: leave `when` out."
    ]


def test_nothing_depends_on_a_secret() -> None:
    assert problems([TOKEN, ENV, depends("token", "hunter2")]) == [
        "/questions/2/when/question_id: `token` is a secret, and nothing may depend on one; name a question that comes before it: `env`."
    ]


@pytest.mark.parametrize(
    ("named", "equals", "problem"),
    [
        (APPLY, "true", NEVER_APPLY + 'the answer must be true or false, not "true".'),
        (APPLY, 1, NEVER_APPLY + "the answer must be true or false, not 1."),
        (ENV, "prod", NEVER_ENV + '"prod" is none of the options. Choose "staging", "production".'),
        (LATER, 7, NEVER_LATER + "the answer must be a string, not 7."),
        (
            LATER,
            None,
            "/questions/1/when/equals: `later` always has an answer: null is one only for a question that is optional or has a `when`.",
        ),
    ],
)
def test_a_predicate_waits_for_a_possible_answer(named: Question[Any], equals: Json, problem: str) -> None:
    assert problems([named, depends(named.id, equals)]) == [problem]


def test_a_predicate_may_wait_for_one_choice_of_several() -> None:
    colours = Question.multi_select("colours", "Which?", ["red", "blue"])
    assert problems([colours, depends("colours", ["red", "pink"])]) == [
        '/questions/1/when/equals/1: this can never be the answer to `colours`: "pink" is none of the options. Choose "red", "blue".'
    ]


def test_null_is_possible_where_the_question_is_optional_or_may_be_skipped() -> None:
    optional = Question.text("optional", "Anything?", optional=True)
    gated = Question.text("gated", "What?", when=When("apply", True))
    after_optional = Question.text("one", "One?", when=When("optional", None))
    after_gated = Question.text("two", "Two?", when=When("gated", None))
    assert len(Form([APPLY, optional, gated, after_optional, after_gated]).questions) == 5


def test_words_of_ones_own_are_a_possible_answer_where_they_are_allowed() -> None:
    env = Question.select("env", "Which?", ["staging"], allow_other=True)
    assert Form([env, depends("env", {"other": "test"})]).questions[1].when == When("env", {"other": "test"})


def test_a_predicate_is_kept_as_the_answer_would_be_written() -> None:
    colours = Question.multi_select("colours", "Which?", ["red", "green", "blue"])
    assert Form([colours, depends("colours", ["blue", "red"])]).questions[1].when == When("colours", ["red", "blue"])


def test_every_problem_is_returned_at_once_in_the_order_of_the_questions() -> None:
    """The problems of the questions and those of the form; a broken question does not make its id unknown."""
    questions: list[Json] = [
        {"id": "a", "text": "One\ntwo", "answer_type": {"type": "boolean"}},
        {"id": "b", "text": "Which?", "answer_type": {"type": "select"}, "when": {"question_id": "a", "equals": True}},
        {"id": "a", "text": "Which?", "answer_type": {"type": "text"}, "when": {"question_id": "c", "equals": 1}, "colour": "red"},
        "d",
        {"text": "What?", "answer_type": {"type": "text"}, "default": 7, "when": {"question_id": "e"}},
    ]
    assert problems_of_json(questions) == [
        "/questions/0/text: the text has 2 lines; one is allowed. Put multi-line text in `context`.",
        "/questions/1/answer_type/options: `options` is missing. List 1 or more values to choose from.",
        '/questions/2/colour: unknown key "colour".' + QUESTION_KEYS,
        "/questions/2/id: the id `a` is taken by /questions/0; give every question its own.",
        "/questions/2/when/question_id: no question has the id `c`; name a question that comes before it: `a`, `b`.",
        '/questions/3: a question must be a JSON object, not "d".',
        "/questions/4/id: `id` is missing. Give 1 to 64 of the characters A-Z a-z 0-9 _ - (not beginning with __).",
        "/questions/4/when/equals: `equals` is missing. Give the answer at which this question is asked.",
        "/questions/4/default: the default is not an answer: the answer must be a string, not 7.",
    ]


@pytest.mark.parametrize("no_list", [{}, "apply", None, 7])
def test_a_form_is_an_array(no_list: Json) -> None:
    assert problems_of_json(no_list) == ["/questions: must be an array of 1 to 20 questions."]


def test_a_form_is_written_and_read_again() -> None:
    form = Form([APPLY, TOKEN, ENV, depends("env", "staging")])
    objects: list[Json] = list(form.to_json())
    assert Form.from_json(objects) == form
    assert objects[3] == {
        "id": "then",
        "text": "Then what?",
        "answer_type": {"type": "text"},
        "when": {"question_id": "env", "equals": "staging"},
    }
