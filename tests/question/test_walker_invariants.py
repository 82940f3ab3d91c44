"""The form walker compared with an oracle, on random forms and random replies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings, strategies as st
from msgspec import UNSET

from midturn.errors import AnswerError
from midturn.question.form import Form
from midturn.question.json_value import SecretValue, json_equal
from midturn.question.reply import Answered, WentBack
from midturn.question.walker import Ask, Completed, FormWalker, MisplacedReplyError, Review, Step
from support.depth import tries
from support.form_oracle import (
    Action,
    Draw,
    action,
    answering,
    draws,
    expected_step,
    fold,
    forms,
    kind_of,
)

MANY = settings(max_examples=tries(400), deadline=None)
SOME = settings(max_examples=tries(100), deadline=None)


def feed(walker: FormWalker, happened: Action) -> bool:
    """Apply an action, and return whether it was accepted.

    A rejected action must not change the step.
    """
    step = walker.step()
    try:
        walker.feed(happened)
    except (AnswerError, MisplacedReplyError):
        assert walker.step() == step
        return False
    return True


def walk(form: Form, made_from: Sequence[Draw]) -> tuple[FormWalker, list[tuple[Step, Action]]]:
    """Walk until the draws are used up. Return each step with the action that followed it."""
    walker, taken = FormWalker(form), list[tuple[Step, Action]]()
    for draw in made_from:
        step = walker.step()
        happened = action(draw, step)
        if feed(walker, happened):
            taken.append((step, happened))
    return walker, taken


@MANY
@given(forms(), st.lists(draws, max_size=40))
def test_each_step_equals_the_oracles_step(form: Form, made_from: list[Draw]) -> None:
    """After each action, accepted or rejected, the step equals the oracle's step.

    Reading the step again does not change it.
    """
    walker, taken = FormWalker(form), list[Action]()
    for draw in made_from:
        step = expected_step(form, fold(form, taken))
        assert walker.step() == step
        assert walker.step() == step
        happened = action(draw, step)
        if feed(walker, happened):
            taken.append(happened)
    assert walker.step() == expected_step(form, fold(form, taken))


@SOME
@given(forms(longest=20), st.lists(draws, max_size=60))
def test_no_question_is_asked_twice_without_back(form: Form, made_from: list[Draw]) -> None:
    asked = Counter[str]()
    for step, happened in walk(form, made_from)[1]:
        if isinstance(happened, WentBack):
            asked.clear()
        elif isinstance(step, Ask):
            asked[step.question.id] += 1
    assert max(asked.values(), default=0) <= 1


@SOME
@given(forms(), st.lists(answering, min_size=7, max_size=40))
def test_a_result_has_every_id_in_order_and_answers_match_their_predicates(
    form: Form, made_from: list[Draw]
) -> None:
    step = walk(form, made_from)[0].step()
    if isinstance(step, Ask):
        return
    assert isinstance(step, Completed | Review)
    assert list(step.answers) == [question.id for question in form.questions]
    for question in form.questions:
        answer, when = step.answers[question.id], question.when
        if answer is not None and when is not None:
            named = step.answers[when.question_id]
            assert not isinstance(named, SecretValue)
            assert json_equal(named, when.equals)


@SOME
@given(forms(), st.lists(draws, max_size=40))
def test_a_secret_is_never_offered_again_and_a_yes_only_before_a_review(
    form: Form, made_from: list[Draw]
) -> None:
    walker = FormWalker(form)
    said: dict[str, object] = {}
    for draw in made_from:
        step = walker.step()
        if isinstance(step, Ask) and kind_of(step.question) in {"secret", "boolean"}:
            assert walker.draft is UNSET or (form.review and walker.draft is said[step.question.id])
            assert not isinstance(step.prefill, SecretValue)
        assert "hunter2" not in repr((step, walker.draft, walker.drafts))
        reply = action(draw, step)
        if (
            feed(walker, reply)
            and isinstance(step, Ask)
            and isinstance(reply, Answered)
            and not reply.automatic
        ):
            said[step.question.id] = reply.value


@SOME
@given(forms(), st.lists(draws, min_size=20, max_size=40))
def test_a_finished_form_accepts_nothing_more(form: Form, made_from: list[Draw]) -> None:
    walker, _ = walk(form, made_from)
    if not isinstance(walker.step(), Ask | Review):
        with pytest.raises(MisplacedReplyError, match="finished"):
            walker.feed(Answered(True))
