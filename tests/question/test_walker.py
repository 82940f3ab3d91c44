"""The steps of a form, one rule per test."""

from __future__ import annotations

import pytest
from msgspec import UNSET

from midturn.errors import AnswerError
from midturn.question.answer_type import When
from midturn.question.form import Form
from midturn.question.json_value import Json, SecretValue
from midturn.question.question import Question
from midturn.question.reply import Answered, EndedTurn, Replied, Submitted, WentBack
from midturn.question.walker import (
    Ask,
    Cancelled,
    Completed,
    FormEnded,
    FormReply,
    FormWalker,
    MisplacedReplyError,
    Review,
    Step,
)

APPLY = Question.boolean("apply", "Apply the migration?")
ENV = Question.select(
    "env", "Which environment?", ["staging", "production"], when=When("apply", True)
)
NOTE = Question.text("note", "A note for the log?", optional=True, when=When("apply", True))
WHY = Question.text("why", "Why not?", when=When("apply", False))
MIGRATION = Form([APPLY, ENV, NOTE, WHY])
TOKEN = Question.secret("token", "The token?")
PLACE = Question.select("env", "Which environment?", ["staging", "production"])
REMARK = Question.text("note", "A remark?")


def walker_after(form: Form, *replies: FormReply) -> FormWalker:
    """Return a walker that has received all of `replies`."""
    walker = FormWalker(form)
    for reply in replies:
        walker.feed(reply)
    return walker


def step_after(form: Form, *replies: FormReply) -> Step:
    """Return the current step after `replies`."""
    return walker_after(form, *replies).step()


def asked_id(step: Step) -> str:
    """Return the ID of the question that a step asks."""
    assert isinstance(step, Ask)
    return step.question.id


def test_a_form_begins_with_its_first_question() -> None:
    assert step_after(MIGRATION) == Ask(APPLY, 1, 4, UNSET, can_go_back=False)


def test_the_question_number_includes_skipped_questions() -> None:
    assert step_after(MIGRATION, Answered(False)) == Ask(WHY, 4, 4, UNSET, can_go_back=True)


def test_a_skipped_question_is_null_and_results_keep_the_order() -> None:
    assert step_after(
        MIGRATION, Answered(True), Answered("staging"), Answered("by night")
    ) == Completed({"apply": True, "env": "staging", "note": "by night", "why": None})


def test_an_optional_question_skipped_by_a_person_is_null() -> None:
    assert step_after(MIGRATION, Answered(True), Answered("staging"), Answered(None)) == Completed(
        {"apply": True, "env": "staging", "note": None, "why": None}
    )


def test_a_predicate_on_a_skipped_question_is_false() -> None:
    chained = Form(
        [APPLY, ENV, Question.text("ticket", "The ticket?", when=When("env", "production"))]
    )
    assert step_after(chained, Answered(False)) == Completed(
        {"apply": False, "env": None, "ticket": None}
    )


def test_a_predicate_on_a_skipped_question_is_true_for_null() -> None:
    fallback = Form([APPLY, ENV, Question.text("else", "What else?", when=When("env", None))])
    assert asked_id(step_after(fallback, Answered(False))) == "else"
    assert step_after(fallback, Answered(True), Answered("staging")) == Completed(
        {"apply": True, "env": "staging", "else": None}
    )


def test_a_predicate_compares_as_json() -> None:
    """`1` equals `1.0` and differs from `true`. Choices are compared in option order."""
    count = Question.select("count", "How many?", [1, True, 2])
    colours = Question.multi_select("colours", "Which?", ["red", "green", "blue"])
    more = Question.text("more", "More?", when=When("count", 1.0))
    mixed = Question.text("mixed", "Mixed?", when=When("colours", ["blue", "red"]))
    form = Form([count, colours, more, mixed])
    assert step_after(form, Answered(True), Answered(["red"])) == Completed(
        {"count": True, "colours": ["red"], "more": None, "mixed": None}
    )
    assert asked_id(step_after(form, Answered(1), Answered(["red", "blue"]))) == "more"
    assert asked_id(step_after(form, Answered(2), Answered(["red", "blue"]))) == "mixed"


def test_back_asks_the_previous_answered_question_with_its_answer() -> None:
    step = step_after(MIGRATION, Answered(True), Answered("production"), WentBack())
    assert step == Ask(ENV, 2, 4, "production", can_go_back=True)


def test_back_passes_skipped_questions() -> None:
    assert step_after(MIGRATION, Answered(False), WentBack()) == Ask(
        APPLY, 1, 4, False, can_go_back=False
    )


def test_back_is_possible_while_there_are_answers() -> None:
    walker = walker_after(MIGRATION, Answered(True), Answered("production"), WentBack(), WentBack())
    assert walker.step() == Ask(APPLY, 1, 4, True, can_go_back=False)
    with pytest.raises(MisplacedReplyError, match="nothing was answered before it"):
        walker.feed(WentBack())


def test_back_stops_at_a_question_skipped_by_the_person() -> None:
    """Its answer is null, and it is shown again with null."""
    form = Form([Question.text("note", "A note?", optional=True), APPLY])
    assert step_after(form, Answered(None), WentBack()) == Ask(
        form.questions[0], 1, 2, None, can_go_back=False
    )


def test_a_new_answer_after_back_discards_later_answers() -> None:
    """This holds even if the new answer is the same."""
    step = step_after(
        MIGRATION, Answered(True), Answered("production"), WentBack(), WentBack(), Answered(True)
    )
    assert step == Ask(ENV, 2, 4, UNSET, can_go_back=True)


def test_a_changed_answer_changes_which_questions_are_asked() -> None:
    step = step_after(
        MIGRATION,
        Answered(True),
        Answered("staging"),
        WentBack(),
        WentBack(),
        Answered(False),
        Answered("too late"),
    )
    assert step == Completed({"apply": False, "env": None, "note": None, "why": "too late"})


def test_back_alone_discards_no_answer() -> None:
    """A reply after Back still contains the answers given before."""
    step = step_after(
        MIGRATION, Answered(True), Answered("production"), WentBack(), WentBack(), Replied("wait")
    )
    assert step == Cancelled({"apply": True, "env": "production"}, "wait")


def test_a_reply_contains_the_answers_without_skipped_questions_and_secrets() -> None:
    form = Form(
        [
            TOKEN,
            Question.text("note", "A note?", optional=True),
            *MIGRATION.questions[:2],
            Question.text("last", "And?"),
        ]
    )
    step = step_after(
        form, Answered("hunter2"), Answered(None), Answered(False), Replied("tell me more")
    )
    assert step == Cancelled({"apply": False}, "tell me more")


@pytest.mark.parametrize("text", [None, "", "  \n"])
def test_a_reply_without_text_has_no_reply_field(text: str | None) -> None:
    step = step_after(MIGRATION, Replied(text))
    assert isinstance(step, Cancelled)
    assert step.to_json() == {"cancelled": True, "answered": {}}


def test_the_marker_of_a_reply_contains_the_text() -> None:
    assert Cancelled({"apply": True}, "later").to_json() == {
        "cancelled": True,
        "answered": {"apply": True},
        "reply": "later",
    }


def test_ending_the_turn_ends_the_form() -> None:
    assert step_after(MIGRATION, Answered(True), EndedTurn()) == FormEnded()


def test_back_passes_answers_not_given_by_a_human() -> None:
    form = Form(
        [APPLY, Question.text("a", "A?"), Question.text("b", "B?"), Question.text("c", "C?")]
    )
    walker = walker_after(
        form,
        Answered(True),
        Answered("auto", automatic=True),
        Answered("mine"),
        WentBack(),
        WentBack(),
    )
    assert asked_id(walker.step()) == "apply"


def test_back_is_not_offered_without_human_answers() -> None:
    assert step_after(MIGRATION, Answered(True, automatic=True)) == Ask(
        ENV, 2, 4, UNSET, can_go_back=False
    )


def test_an_invalid_answer_is_refused_without_effect() -> None:
    walker = walker_after(MIGRATION, Answered(True), Answered("production"), WentBack())
    before = walker.step()
    with pytest.raises(AnswerError, match='"prodction" is not one of the options'):
        walker.feed(Answered("prodction"))
    assert walker.step() == before
    walker.feed(WentBack())
    assert walker.step() == Ask(APPLY, 1, 4, True, can_go_back=False)


def test_answers_are_stored_in_checked_form() -> None:
    form = Form([Question.multi_select("c", "Which?", ["red", "green", "blue"])])
    assert step_after(form, Answered(["blue", "red"])) == Completed({"c": ["red", "blue"]})


def test_the_review_shows_every_answer_and_submitting_completes_the_form() -> None:
    form = Form(MIGRATION.questions, review=True)
    answers: dict[str, Json | SecretValue] = {
        "apply": False,
        "env": None,
        "note": None,
        "why": "late",
    }
    assert step_after(form, Answered(False), Answered("late")) == Review(answers)
    assert step_after(form, Answered(False), Answered("late"), Submitted()) == Completed(answers)


def test_back_at_the_review_edits_the_last_answer_and_returns_to_the_review() -> None:
    form = Form(MIGRATION.questions, review=True)
    walker = walker_after(form, Answered(False), Answered("late"), WentBack())
    assert walker.step() == Ask(WHY, 4, 4, "late", can_go_back=True)
    walker.feed(Answered("never"))
    assert isinstance(walker.step(), Review)


def test_a_form_without_human_answers_has_no_review() -> None:
    form = Form([APPLY, TOKEN], review=True)
    automatic = [Answered(True, automatic=True), Answered(SecretValue("x"), automatic=True)]
    assert isinstance(step_after(form, *automatic), Completed)
    assert isinstance(step_after(form, automatic[0], Answered("x")), Review)


def test_a_reply_at_the_review_contains_all_answers() -> None:
    form = Form([APPLY, TOKEN], review=True)
    assert step_after(form, Answered(True), Answered("x"), Replied(None)) == Cancelled(
        {"apply": True}
    )


def test_an_open_question_prevents_submitting() -> None:
    with pytest.raises(MisplacedReplyError, match="the question `apply` is open"):
        FormWalker(MIGRATION).feed(Submitted())
    with pytest.raises(
        MisplacedReplyError, match="it takes Answered, WentBack, Replied or EndedTurn"
    ):
        walker_after(MIGRATION, Answered(True)).feed(Submitted())


def test_the_review_accepts_no_answer() -> None:
    walker = walker_after(Form([APPLY], review=True), Answered(True))
    with pytest.raises(
        MisplacedReplyError, match="it takes Submitted, WentBack, Replied or EndedTurn"
    ):
        walker.feed(Answered(True))


@pytest.mark.parametrize("last", [Answered(False), Replied(), EndedTurn()])
@pytest.mark.parametrize("more", [Answered(True), WentBack(), Replied(), EndedTurn(), Submitted()])
def test_a_finished_form_accepts_nothing(last: FormReply, more: FormReply) -> None:
    walker = walker_after(Form([APPLY]), last)
    before = walker.step()
    with pytest.raises(MisplacedReplyError, match="the form is finished"):
        walker.feed(more)
    assert walker.step() == before


def test_a_secret_is_kept_wrapped_and_never_prefilled() -> None:
    walker = walker_after(Form([TOKEN, APPLY], review=True), Answered("hunter2"))
    walker.feed(WentBack())
    assert walker.step() == Ask(TOKEN, 1, 2, UNSET, can_go_back=False)
    walker.feed(Answered("hunter3"))
    walker.feed(Answered(True))
    assert walker.step() == Review({"token": SecretValue("hunter3"), "apply": True})
    assert "hunter" not in repr(walker.step())


def test_a_placeholder_is_replaced_in_place() -> None:
    """A replayed secret is not stored. Only the secret is asked again, at the end."""
    placeholder = SecretValue("")
    walker = walker_after(Form([TOKEN, APPLY]), Answered(placeholder), Answered(True))
    walker.replace("token", SecretValue("hunter2"))
    assert walker.step() == Completed({"token": SecretValue("hunter2"), "apply": True})


def test_a_wrapped_secret_stays_the_same_object() -> None:
    placeholder = SecretValue("")
    step = step_after(Form([TOKEN]), Answered(placeholder))
    assert isinstance(step, Completed)
    assert step.answers["token"] is placeholder


@pytest.mark.parametrize("id", ["token", "apply", "other"])
def test_only_the_answer_to_a_secret_can_be_replaced(id: str) -> None:
    walker = walker_after(Form([APPLY, TOKEN]), Answered(True))
    with pytest.raises(MisplacedReplyError, match=f"no answer to a secret '{id}'"):
        walker.replace(id, SecretValue("x"))


def test_a_wrapped_secret_answers_only_a_secret_question() -> None:
    with pytest.raises(AnswerError):
        FormWalker(Form([APPLY])).feed(Answered(SecretValue("hunter2")))


def test_a_step_says_whether_back_reached_its_question() -> None:
    walker = walker_after(MIGRATION, Answered(True))
    assert not walker.revises
    walker.feed(WentBack())
    assert walker.revises
    walker.feed(Answered(True))
    assert not walker.revises
    assert not walker_after(Form([APPLY]), Answered(True)).revises


def test_a_discarded_answer_is_offered_again() -> None:
    walker = walker_after(
        MIGRATION, Answered(True), Answered("production"), WentBack(), WentBack(), Answered(True)
    )
    assert walker.step() == Ask(ENV, 2, 4, UNSET, can_go_back=True)
    assert walker.draft == "production"


def test_a_yes_is_offered_again_only_if_a_review_follows() -> None:
    questions = [PLACE, Question.boolean("sure", "Are you sure?"), REMARK]
    changed = (Answered("production"), Answered(True), WentBack(), WentBack(), Answered("staging"))
    assert walker_after(Form(questions, review=True), *changed).draft is True
    assert walker_after(Form(questions), *changed).draft is UNSET


def test_a_yes_replaced_by_a_skip_is_not_offered_again() -> None:
    form = Form(
        [PLACE, Question.boolean("sure", "Are you sure?", optional=True), REMARK], review=True
    )
    said_yes = walker_after(
        form, Answered("production"), Answered(True), WentBack(), WentBack(), Answered("staging")
    )
    assert said_yes.draft is True

    for reply in (Answered(None), WentBack(), WentBack(), Answered("production")):
        said_yes.feed(reply)
    assert asked_id(said_yes.step()) == "sure"
    assert said_yes.draft is UNSET


def test_a_form_shown_again_offers_the_earlier_answers_as_drafts() -> None:
    drafts = walker_after(
        Form([PLACE, APPLY, TOKEN, REMARK]),
        Answered("production"),
        Answered(True),
        Answered("hunter2"),
        Answered("by night"),
    ).drafts
    assert drafts == {"env": "production", "note": "by night"}
    again = FormWalker(Form([PLACE]), drafts=drafts)
    assert again.step() == Ask(PLACE, 1, 1, UNSET, can_go_back=False)
    assert again.draft == "production"


def test_an_invalid_draft_is_left_out() -> None:
    changed = Question.select("env", "Which environment?", ["test", "live"])
    assert FormWalker(Form([changed]), drafts={"env": "production", "gone": 1}).drafts == {}


def test_an_answer_not_given_by_a_human_is_not_a_draft() -> None:
    assert walker_after(Form([PLACE, APPLY]), Answered("staging", automatic=True)).drafts == {}


def test_a_yes_not_given_by_a_human_is_not_offered() -> None:
    form = Form([PLACE, Question.boolean("sure", "Are you sure?"), REMARK], review=True)
    walker = walker_after(
        form,
        Answered("production"),
        Answered(True, automatic=True),
        WentBack(),
        Answered("staging"),
    )
    assert asked_id(walker.step()) == "sure"
    assert walker.draft is UNSET


def test_a_skipped_question_has_no_draft() -> None:
    assert (
        walker_after(
            Form([Question.text("extra", "More?", optional=True), PLACE]), Answered(None)
        ).drafts
        == {}
    )


def test_recorded_answers_are_used_while_they_are_valid() -> None:
    form = Form(
        [
            Question.text("a", "A?"),
            Question.boolean("b", "B?"),
            Question.text("c", "C?", when=When("b", True)),
            Question.text("d", "D?"),
        ]
    )
    given = {
        "a": Answered("one"),
        "b": Answered(False),
        "c": Answered("never asked"),
        "d": Answered(4),
    }
    walker = FormWalker(form)

    assert walker.follow(given) == ["a", "b"]

    step = walker.step()
    assert isinstance(step, Ask)
    assert step.question.id == "d"
