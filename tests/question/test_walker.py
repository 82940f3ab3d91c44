"""The walk through a form, one rule at a time."""

from __future__ import annotations

import pytest
from msgspec import UNSET

from midturn.errors import AnswerError
from midturn.question.answer_type import When
from midturn.question.form import Form
from midturn.question.json_value import Json, SecretValue
from midturn.question.question import Question
from midturn.question.reply import Answered, EndedTurn, Replied, Submitted, WentBack
from midturn.question.walker import Ask, Cancelled, Completed, FormEnded, FormReply, FormWalker, MisplacedReplyError, Review, Step

APPLY = Question.boolean("apply", "Apply the migration?")
ENV = Question.select("env", "Which environment?", ["staging", "production"], when=When("apply", True))
NOTE = Question.text("note", "A note for the log?", optional=True, when=When("apply", True))
WHY = Question.text("why", "Why not?", when=When("apply", False))
MIGRATION = Form([APPLY, ENV, NOTE, WHY])
TOKEN = Question.secret("token", "The token?")
PLACE = Question.select("env", "Which environment?", ["staging", "production"])
REMARK = Question.text("note", "A remark?")


def walked(form: Form, *replies: FormReply) -> FormWalker:
    """Return a walker that has been fed all of `replies`."""
    walker = FormWalker(form)
    for reply in replies:
        walker.feed(reply)
    return walker


def after(form: Form, *replies: FormReply) -> Step:
    """Return what a walk says after `replies`."""
    return walked(form, *replies).step()


def asked(step: Step) -> str:
    """Return the id of the question that a step asks."""
    assert isinstance(step, Ask)
    return step.question.id


def test_a_walk_begins_with_the_first_question() -> None:
    assert after(MIGRATION) == Ask(APPLY, 1, 4, UNSET, can_go_back=False)


def test_the_number_counts_in_the_submitted_list_and_skipped_questions_with_it() -> None:
    assert after(MIGRATION, Answered(False)) == Ask(WHY, 4, 4, UNSET, can_go_back=True)


def test_a_skipped_question_is_null_and_the_result_is_in_submitted_order() -> None:
    assert after(MIGRATION, Answered(True), Answered("staging"), Answered("by night")) == Completed(
        {"apply": True, "env": "staging", "note": "by night", "why": None}
    )


def test_an_optional_question_that_a_person_skips_is_null() -> None:
    assert after(MIGRATION, Answered(True), Answered("staging"), Answered(None)) == Completed(
        {"apply": True, "env": "staging", "note": None, "why": None}
    )


def test_a_predicate_on_a_skipped_question_is_false() -> None:
    chained = Form([APPLY, ENV, Question.text("ticket", "The ticket?", when=When("env", "production"))])
    assert after(chained, Answered(False)) == Completed({"apply": False, "env": None, "ticket": None})


def test_a_predicate_on_a_skipped_question_is_true_if_it_waits_for_null() -> None:
    fallback = Form([APPLY, ENV, Question.text("else", "What else?", when=When("env", None))])
    assert asked(after(fallback, Answered(False))) == "else"
    assert after(fallback, Answered(True), Answered("staging")) == Completed({"apply": True, "env": "staging", "else": None})


def test_a_predicate_compares_as_json_does() -> None:
    """`1` is `1.0` and is not `true`; choices count in option order, however the author wrote them."""
    count = Question.select("count", "How many?", [1, True, 2])
    colours = Question.multi_select("colours", "Which?", ["red", "green", "blue"])
    more = Question.text("more", "More?", when=When("count", 1.0))
    mixed = Question.text("mixed", "Mixed?", when=When("colours", ["blue", "red"]))
    form = Form([count, colours, more, mixed])
    assert after(form, Answered(True), Answered(["red"])) == Completed({"count": True, "colours": ["red"], "more": None, "mixed": None})
    assert asked(after(form, Answered(1), Answered(["red", "blue"]))) == "more"
    assert asked(after(form, Answered(2), Answered(["red", "blue"]))) == "mixed"


def test_back_asks_the_previous_answered_question_again_with_its_answer() -> None:
    step = after(MIGRATION, Answered(True), Answered("production"), WentBack())
    assert step == Ask(ENV, 2, 4, "production", can_go_back=True)


def test_back_jumps_over_what_was_skipped() -> None:
    assert after(MIGRATION, Answered(False), WentBack()) == Ask(APPLY, 1, 4, False, can_go_back=False)


def test_back_goes_as_far_as_there_are_answers() -> None:
    walker = walked(MIGRATION, Answered(True), Answered("production"), WentBack(), WentBack())
    assert walker.step() == Ask(APPLY, 1, 4, True, can_go_back=False)
    with pytest.raises(MisplacedReplyError, match="nothing was answered before it"):
        walker.feed(WentBack())


def test_a_question_that_the_person_skipped_is_gone_back_to() -> None:
    """Its answer is null, and null is what is filled in."""
    form = Form([Question.text("note", "A note?", optional=True), APPLY])
    assert after(form, Answered(None), WentBack()) == Ask(form.questions[0], 1, 2, None, can_go_back=False)


def test_an_answer_given_anew_discards_the_later_ones() -> None:
    """Even if it is the same answer."""
    step = after(MIGRATION, Answered(True), Answered("production"), WentBack(), WentBack(), Answered(True))
    assert step == Ask(ENV, 2, 4, UNSET, can_go_back=True)


def test_a_changed_answer_skips_what_was_asked_and_asks_what_was_skipped() -> None:
    step = after(MIGRATION, Answered(True), Answered("staging"), WentBack(), WentBack(), Answered(False), Answered("too late"))
    assert step == Completed({"apply": False, "env": None, "note": None, "why": "too late"})


def test_nothing_is_discarded_before_the_answer_is_given_anew() -> None:
    """Who goes back and then replies has still said what was said."""
    step = after(MIGRATION, Answered(True), Answered("production"), WentBack(), WentBack(), Replied("wait"))
    assert step == Cancelled({"apply": True, "env": "production"}, "wait")


def test_a_reply_carries_what_was_answered_and_neither_what_was_skipped_nor_secrets() -> None:
    form = Form([TOKEN, Question.text("note", "A note?", optional=True), *MIGRATION.questions[:2], Question.text("last", "And?")])
    step = after(form, Answered("hunter2"), Answered(None), Answered(False), Replied("tell me more"))
    assert step == Cancelled({"apply": False}, "tell me more")


@pytest.mark.parametrize("text", [None, "", "  \n"])
def test_a_reply_without_words_has_no_reply(text: str | None) -> None:
    step = after(MIGRATION, Replied(text))
    assert isinstance(step, Cancelled)
    assert step.to_json() == {"cancelled": True, "answered": {}}


def test_the_marker_of_a_reply_has_the_words() -> None:
    assert Cancelled({"apply": True}, "later").to_json() == {"cancelled": True, "answered": {"apply": True}, "reply": "later"}


def test_ending_the_turn_ends_the_form() -> None:
    assert after(MIGRATION, Answered(True), EndedTurn()) == FormEnded()


def test_back_passes_over_answers_that_no_human_gave() -> None:
    form = Form([APPLY, Question.text("a", "A?"), Question.text("b", "B?"), Question.text("c", "C?")])
    walker = walked(form, Answered(True), Answered("auto", automatic=True), Answered("mine"), WentBack(), WentBack())
    assert asked(walker.step()) == "apply"


def test_back_is_not_offered_where_no_human_answered() -> None:
    assert after(MIGRATION, Answered(True, automatic=True)) == Ask(ENV, 2, 4, UNSET, can_go_back=False)


def test_an_invalid_answer_is_refused_and_changes_nothing() -> None:
    walker = walked(MIGRATION, Answered(True), Answered("production"), WentBack())
    before = walker.step()
    with pytest.raises(AnswerError, match='"prodction" is none of the options'):
        walker.feed(Answered("prodction"))
    assert walker.step() == before
    walker.feed(WentBack())
    assert walker.step() == Ask(APPLY, 1, 4, True, can_go_back=False)


def test_answers_are_kept_as_the_checker_writes_them() -> None:
    form = Form([Question.multi_select("c", "Which?", ["red", "green", "blue"])])
    assert after(form, Answered(["blue", "red"])) == Completed({"c": ["red", "blue"]})


def test_the_review_shows_every_answer_and_submitting_completes() -> None:
    form = Form(MIGRATION.questions, review=True)
    answers: dict[str, Json | SecretValue] = {"apply": False, "env": None, "note": None, "why": "late"}
    assert after(form, Answered(False), Answered("late")) == Review(answers)
    assert after(form, Answered(False), Answered("late"), Submitted()) == Completed(answers)


def test_back_at_the_review_edits_the_last_answer_and_the_review_comes_again() -> None:
    form = Form(MIGRATION.questions, review=True)
    walker = walked(form, Answered(False), Answered("late"), WentBack())
    assert walker.step() == Ask(WHY, 4, 4, "late", can_go_back=True)
    walker.feed(Answered("never"))
    assert isinstance(walker.step(), Review)


def test_there_is_no_review_where_no_person_answered() -> None:
    form = Form([APPLY, TOKEN], review=True)
    automatic = [Answered(True, automatic=True), Answered(SecretValue("x"), automatic=True)]
    assert isinstance(after(form, *automatic), Completed)
    assert isinstance(after(form, automatic[0], Answered("x")), Review)


def test_a_reply_at_the_review_carries_all_answers() -> None:
    form = Form([APPLY, TOKEN], review=True)
    assert after(form, Answered(True), Answered("x"), Replied(None)) == Cancelled({"apply": True})


def test_nothing_can_be_submitted_while_a_question_is_open() -> None:
    with pytest.raises(MisplacedReplyError, match="the question `apply` is open"):
        FormWalker(MIGRATION).feed(Submitted())
    with pytest.raises(MisplacedReplyError, match="it takes Answered, WentBack, Replied or EndedTurn"):
        walked(MIGRATION, Answered(True)).feed(Submitted())


def test_the_review_takes_no_answer() -> None:
    walker = walked(Form([APPLY], review=True), Answered(True))
    with pytest.raises(MisplacedReplyError, match="it takes Submitted, WentBack, Replied or EndedTurn"):
        walker.feed(Answered(True))


@pytest.mark.parametrize("last", [Answered(False), Replied(), EndedTurn()])
@pytest.mark.parametrize("more", [Answered(True), WentBack(), Replied(), EndedTurn(), Submitted()])
def test_a_finished_form_takes_nothing(last: FormReply, more: FormReply) -> None:
    walker = walked(Form([APPLY]), last)
    before = walker.step()
    with pytest.raises(MisplacedReplyError, match="the form is finished"):
        walker.feed(more)
    assert walker.step() == before


def test_a_secret_is_held_as_one_and_never_filled_in() -> None:
    walker = walked(Form([TOKEN, APPLY], review=True), Answered("hunter2"))
    walker.feed(WentBack())
    assert walker.step() == Ask(TOKEN, 1, 2, UNSET, can_go_back=False)
    walker.feed(Answered("hunter3"))
    walker.feed(Answered(True))
    assert walker.step() == Review({"token": SecretValue("hunter3"), "apply": True})
    assert "hunter" not in repr(walker.step())


def test_a_placeholder_is_replaced_where_it_stands() -> None:
    """A replayed secret was never written; the machine asks again at the end, and nothing else moves."""
    placeholder = SecretValue("")
    walker = walked(Form([TOKEN, APPLY]), Answered(placeholder), Answered(True))
    walker.replace("token", SecretValue("hunter2"))
    assert walker.step() == Completed({"token": SecretValue("hunter2"), "apply": True})


def test_a_secret_that_came_as_one_stays_the_same_object() -> None:
    placeholder = SecretValue("")
    step = after(Form([TOKEN]), Answered(placeholder))
    assert isinstance(step, Completed)
    assert step.answers["token"] is placeholder


@pytest.mark.parametrize("id", ["token", "apply", "other"])
def test_only_the_answer_to_a_secret_can_be_replaced(id: str) -> None:
    walker = walked(Form([APPLY, TOKEN]), Answered(True))
    with pytest.raises(MisplacedReplyError, match=f"no answer to a secret '{id}'"):
        walker.replace(id, SecretValue("x"))


def test_a_secret_answers_nothing_but_a_secret() -> None:
    with pytest.raises(AnswerError):
        FormWalker(Form([APPLY])).feed(Answered(SecretValue("hunter2")))


def test_a_walker_says_whether_back_brought_the_question_up() -> None:
    walker = walked(MIGRATION, Answered(True))
    assert not walker.revises
    walker.feed(WentBack())
    assert walker.revises
    walker.feed(Answered(True))
    assert not walker.revises
    assert not walked(Form([APPLY]), Answered(True)).revises


def test_what_a_person_entered_is_offered_again_after_it_was_discarded() -> None:
    walker = walked(MIGRATION, Answered(True), Answered("production"), WentBack(), WentBack(), Answered(True))
    assert walker.step() == Ask(ENV, 2, 4, UNSET, can_go_back=True)
    assert walker.draft == "production"


def test_a_yes_is_offered_again_only_where_it_is_seen_once_more_before_it_is_sent() -> None:
    questions = [PLACE, Question.boolean("sure", "Are you sure?"), REMARK]
    changed = (Answered("production"), Answered(True), WentBack(), WentBack(), Answered("staging"))
    assert walked(Form(questions, review=True), *changed).draft is True
    assert walked(Form(questions), *changed).draft is UNSET


def test_a_yes_in_whose_place_the_question_was_skipped_is_not_offered_again() -> None:
    form = Form([PLACE, Question.boolean("sure", "Are you sure?", optional=True), REMARK], review=True)
    said_yes = walked(form, Answered("production"), Answered(True), WentBack(), WentBack(), Answered("staging"))
    assert said_yes.draft is True

    for reply in (Answered(None), WentBack(), WentBack(), Answered("production")):
        said_yes.feed(reply)
    assert asked(said_yes.step()) == "sure"
    assert said_yes.draft is UNSET


def test_a_form_shown_again_has_what_was_entered_as_drafts() -> None:
    drafts = walked(
        Form([PLACE, APPLY, TOKEN, REMARK]), Answered("production"), Answered(True), Answered("hunter2"), Answered("by night")
    ).drafts
    assert drafts == {"env": "production", "note": "by night"}
    again = FormWalker(Form([PLACE]), drafts=drafts)
    assert again.step() == Ask(PLACE, 1, 1, UNSET, can_go_back=False)
    assert again.draft == "production"


def test_a_draft_that_no_longer_fits_is_left_out() -> None:
    changed = Question.select("env", "Which environment?", ["test", "live"])
    assert FormWalker(Form([changed]), drafts={"env": "production", "gone": 1}).drafts == {}


def test_an_answer_that_no_human_gave_is_no_draft() -> None:
    assert walked(Form([PLACE, APPLY]), Answered("staging", automatic=True)).drafts == {}


def test_a_yes_that_no_human_gave_is_not_offered_as_theirs() -> None:
    form = Form([PLACE, Question.boolean("sure", "Are you sure?"), REMARK], review=True)
    walker = walked(form, Answered("production"), Answered(True, automatic=True), WentBack(), Answered("staging"))
    assert asked(walker.step()) == "sure"
    assert walker.draft is UNSET


def test_a_question_that_was_skipped_is_no_draft() -> None:
    assert walked(Form([Question.text("extra", "More?", optional=True), PLACE]), Answered(None)).drafts == {}


def test_answers_are_followed_as_far_as_they_fit() -> None:
    form = Form(
        [Question.text("a", "A?"), Question.boolean("b", "B?"), Question.text("c", "C?", when=When("b", True)), Question.text("d", "D?")]
    )
    given = {"a": Answered("one"), "b": Answered(False), "c": Answered("never asked"), "d": Answered(4)}
    walker = FormWalker(form)

    assert walker.follow(given) == ["a", "b"]

    step = walker.step()
    assert isinstance(step, Ask)
    assert step.question.id == "d"
