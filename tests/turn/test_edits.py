"""Edits of a waiting call. Each is checked as if the model had made the edited call."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

import pytest
from msgspec.structs import replace

from midturn.errors import AnswerError, DigestMismatch, NotAllowed
from midturn.events.open_question import Address, OpenQuestion, arguments_sha256
from midturn.events.prompt import CallSubject
from midturn.events.types import (
    PROPOSALS,
    AnsweredBy,
    Approval,
    Event,
    Proposal,
    Reassigned,
    ToolCallRequest,
    ToolCallResponse,
    Vote,
)
from midturn.question.json_value import Json, JsonObject
from midturn.question.people import Directory, People, Person
from midturn.question.question import Question
from midturn.question.reply import Answered, Edited
from midturn.routing.policy import DetachedPolicies, ToolPolicy
from midturn.routing.rules import Ruling, RunRules, read_run_rules
from midturn.turn.inputs import (
    AnsweredElsewhere,
    ClosePrompt,
    ModelAnswered,
    Noted,
    PreviewQuestion,
    PromptUser,
    QuestionPreviewed,
    Record,
    RunTool,
    SuspendTurn,
    UserReplied,
    Warn,
)
from midturn.turn.pending import pending
from midturn.turn.turn import Turn
from midturn.turn.view import TurnView
from midturn.turn.visit import Visit
from midturn.turn.votes import note_batch
from support.turns import DEPLOY, Played, counting_ids, settings

ANA, BO, DORA = (AnsweredBy("user", via="web", user=name) for name in ("ana", "bo", "dora"))
STAGING: JsonObject = {"env": "staging"}
PRODUCTION: JsonObject = {"env": "production"}
TEST: JsonObject = {"env": "test"}
NOWHERE: JsonObject = {"env": "nowhere"}
DIRECTORY = Directory(
    people={"ana": Person(), "bo": Person(), "dora": Person()}, groups={"ops": ("ana", "bo")}
)
RULES: tuple[dict[str, object], ...] = (
    {
        "when": {"env": "production"},
        "ask": ["ops"],
        "only": True,
        "approvals": 2,
        "reason": "Customers are there.",
    },
    {"when": {"env": "reviewed"}, "ask": ["ops"], "only": True},
    {"when": {"env": "nowhere"}, "run": "skip", "reason": "It is gone."},
    {"when": {"env": "test"}, "run": "unattended"},
)


def policy(*rules: dict[str, object]) -> ToolPolicy:
    read = read_run_rules(rules)
    places = tuple(f"rules:{number}" for number in range(1, len(read) + 1))
    return ToolPolicy(
        source=DEPLOY,
        detached=DetachedPolicies(run="defer"),
        rules=(RunRules(read, places),) if rules else (),
    )


def called(
    arguments: JsonObject, *rules: dict[str, object], attached: bool = False, **changes: object
) -> Played:
    """Let the model call `deploy`, and play until the call waits."""
    given = settings(
        policy(*(rules or RULES)), attached=attached, at_prompt=DORA, directory=DIRECTORY, **changes
    )
    played = Played(given)
    played.meanwhile(
        ModelAnswered((ToolCallRequest(id="call_1", name="deploy", arguments=arguments),))
    )
    return played


def waiting(played: Played) -> Approval:
    return next(event for event in played.recorded(Approval) if event.state == "waiting")


def current_question(events: Sequence[Event]) -> OpenQuestion:
    (question,) = pending(events, "1")
    return question


def says(
    played: Played, reply: Answered | Edited, who: AnsweredBy, digest: str | None = None
) -> None:
    shown = current_question(played.events).digest if digest is None else digest
    played.meanwhile(AnsweredElsewhere(waiting(played).event_id, reply, who, digest=shown))


def executed_arguments(played: Played) -> list[object]:
    return [effect.call.arguments for effect in played.wanted(RunTool)]


# Who may decide the edited call
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("edited", [TEST, {"env": "other"}])
def test_an_edit_by_a_person_who_may_decide_the_result_is_the_decision(edited: JsonObject) -> None:
    played = called(STAGING)
    says(played, Edited(edited), DORA)
    assert executed_arguments(played) == [edited]
    decision = played.recorded(Approval)[-1]
    assert (decision.state, decision.arguments, decision.answered_by) == ("edited", edited, DORA)
    assert not played.recorded(Proposal)


def test_an_edit_into_a_call_for_other_people_is_a_proposal_to_them() -> None:
    played = called(STAGING)
    says(played, Edited(PRODUCTION), DORA)
    assert not executed_arguments(played)
    (proposal,) = played.recorded(Proposal)
    assert (proposal.state, proposal.arguments, proposal.answered_by, proposal.rule) == (
        "open",
        PRODUCTION,
        DORA,
        "rules:1",
    )
    assert proposal.people == People(
        ask=("ops",), only=True, approvals=2, members={"ops": ("ana", "bo")}
    )
    assert proposal.requires == PROPOSALS
    question = current_question(played.events)
    assert question.arguments == PRODUCTION
    assert question.edit is not None
    assert (question.edit.by, question.edit.original, question.edit.is_checked) == (
        DORA,
        STAGING,
        True,
    )
    assert question.whose is not None
    assert (question.whose.ask, question.whose.needed, question.whose.eligible) == (
        ("ops",),
        2,
        {"ana", "bo"},
    )

    says(played, Answered(True), DORA)
    says(played, Answered(True), ANA)
    assert not executed_arguments(played)
    says(played, Answered(True), BO)
    assert executed_arguments(played) == [PRODUCTION]
    decision = played.recorded(Approval)[-1]
    assert (decision.state, decision.arguments, decision.answered_by, decision.rule) == (
        "edited",
        PRODUCTION,
        BO,
        "rules:1",
    )
    assert len(decision.votes) == 2


def test_the_prompt_of_a_proposal_shows_its_author_and_the_diff() -> None:
    played = called(STAGING)
    says(played, Edited(PRODUCTION), DORA)
    context = current_question(played.events).question.context
    assert context is not None
    assert "Customers are there." in context
    assert "dora (web) proposed different arguments than the model" in context
    assert '-  "env": "staging"\n+  "env": "production"' in context
    visit = Visit(played.events, waiting(played).event_id, counting_ids(100), "1")
    prompt = visit.prompt()
    assert prompt is not None
    assert isinstance(prompt.subject, CallSubject)
    assert (prompt.subject.call.arguments, prompt.subject.original, prompt.subject.proposed_by) == (
        PRODUCTION,
        STAGING,
        DORA,
    )
    assert prompt.question.context == context
    assert prompt.digest == current_question(played.events).digest


def test_an_edit_by_one_of_several_people_is_the_first_vote_for_the_result() -> None:
    played = called(STAGING)
    says(played, Edited(PRODUCTION), ANA)
    assert [type(event) for event in played.events[-2:]] == [Proposal, Vote]
    question = current_question(played.events)
    assert question.whose is not None
    assert question.whose.voters == ("ana",)
    says(played, Answered(True), ANA)
    assert not executed_arguments(played)
    says(played, Answered(True), BO)
    assert executed_arguments(played) == [PRODUCTION]


def test_votes_before_a_proposal_are_void() -> None:
    everyone: dict[str, object] = {
        "when": {"env": "staging"},
        "ask": ["ana", "dora"],
        "approvals": 2,
    }
    played = called(STAGING, everyone, *RULES)
    says(played, Answered(True), ANA)
    says(played, Edited(PRODUCTION), DORA)
    assert current_question(played.events).whose.voters == ()  # type: ignore[union-attr]
    says(played, Answered(True), BO)
    assert not executed_arguments(played)


def test_notes_before_a_proposal_apply_to_the_former_call() -> None:
    """The question was passed on to dora, who may not decide about production.

    It is no longer assigned to her.
    """
    played = called(STAGING)
    request = waiting(played)
    played.meanwhile(
        Noted(request.event_id, Reassigned(id=request.id, to=("dora",), answered_by=ANA))
    )
    assert current_question(played.events).whose.ask == ("dora",)  # type: ignore[union-attr]
    says(played, Edited(PRODUCTION), DORA)
    assert current_question(played.events).whose.ask == ("ops",)  # type: ignore[union-attr]


def test_a_person_who_may_not_decide_the_call_may_not_edit_it() -> None:
    played = called(PRODUCTION)
    says(played, Edited(STAGING), DORA)
    assert not executed_arguments(played)
    assert not played.recorded(Proposal)


def test_a_person_who_may_decide_the_call_may_edit_it_into_one_for_anyone() -> None:
    played = called(PRODUCTION)
    says(played, Answered(True), BO)
    says(played, Edited(STAGING), ANA)
    assert executed_arguments(played) == [STAGING]
    assert played.recorded(Approval)[-1].votes == ()


def test_an_edit_for_the_same_people_is_a_vote() -> None:
    rule: dict[str, object] = {"ask": ["ops"], "only": True, "approvals": 2}
    played = called(STAGING, rule)
    says(played, Answered(True), ANA)
    says(played, Edited(TEST), BO)
    assert [vote.arguments for vote in played.recorded(Vote)][1:] == [TEST]
    assert not played.recorded(Proposal)
    says(played, Answered(True), ANA)
    assert executed_arguments(played) == [TEST]


def test_an_edit_refused_by_a_rule_changes_nothing_and_shows_why() -> None:
    played = called(STAGING)
    says(played, Edited(NOWHERE), DORA)
    assert not executed_arguments(played)
    assert not played.recorded(Proposal)
    says(played, Answered(True), DORA)
    assert executed_arguments(played) == [STAGING]


def test_an_edit_into_a_remembered_no_is_refused() -> None:
    played = called({"env": "reviewed"})
    played.turn.record.memory.remember_permission("deploy", "n")
    says(played, Edited(STAGING), ANA)
    assert not executed_arguments(played)
    says(played, Edited(PRODUCTION), ANA)
    assert played.recorded(Proposal), "what a rule puts to people, only people decide"


def test_an_edit_that_too_few_people_could_decide_is_refused() -> None:
    rule: dict[str, object] = {
        "when": {"env": "production"},
        "ask": ["ops"],
        "only": True,
        "approvals": 3,
    }
    played = called(STAGING, rule)
    says(played, Edited(PRODUCTION), DORA)
    assert not played.recorded(Proposal)
    assert not executed_arguments(played)


def test_a_no_to_a_proposal_ends_the_call() -> None:
    played = called(STAGING)
    says(played, Edited(PRODUCTION), DORA)
    says(played, Answered(False, reason="Not on a Friday."), ANA)
    (response,) = played.recorded(ToolCallResponse)
    assert "Not on a Friday." in response.content


def test_the_people_of_a_proposal_may_edit_it_back() -> None:
    played = called(STAGING)
    says(played, Edited(PRODUCTION), DORA)
    says(played, Edited(STAGING), ANA)
    assert executed_arguments(played) == [STAGING]


# At a prompt
# --------------------------------------------------------------------------------------------------


def test_at_a_prompt_a_proposal_closes_the_prompt_and_waits_for_its_people() -> None:
    played = called(STAGING, attached=True)
    assert played.wanted(PromptUser)
    played.meanwhile(UserReplied(waiting(played).id, Edited(PRODUCTION), DORA))
    assert not executed_arguments(played)
    assert played.recorded(Proposal)[-1].state == "open"
    assert not played.wanted(PromptUser)
    assert [warning.text for warning in played.wanted(Warn)] == [
        "deploy: the edited call needs approval from ops"
    ]
    assert isinstance(played.turn.rest()[-1], SuspendTurn)


def test_a_prompt_is_redrawn_when_the_call_changes_and_an_old_reply_is_ignored() -> None:
    rule: dict[str, object] = {"ask": ["dora", "ops"], "approvals": 2}
    played = called(STAGING, rule, attached=True)
    (shown,) = played.wanted(PromptUser)
    says(played, Edited(PRODUCTION), ANA)
    assert played.wanted(ClosePrompt)
    (again,) = played.wanted(PromptUser)
    assert again.prompt.digest != shown.prompt.digest
    played.meanwhile(UserReplied(again.id, Answered(True), DORA, digest=shown.prompt.digest))
    assert not executed_arguments(played)
    (redrawn,) = played.wanted(PromptUser)
    assert redrawn.prompt.error is not None
    assert "was changed after you saw it" in redrawn.prompt.error
    played.meanwhile(UserReplied(again.id, Answered(True), DORA, digest=again.prompt.digest))
    assert executed_arguments(played) == [PRODUCTION]


# Digests
# --------------------------------------------------------------------------------------------------


def visit(played: Played) -> Visit:
    return Visit(played.events, waiting(played).event_id, counting_ids(100), "1")


def test_a_yes_without_a_digest_counts_for_an_unedited_call_with_one_vote() -> None:
    assert visit(called(STAGING)).take(Answered(True), DORA)


def test_a_yes_without_a_digest_is_refused_if_several_people_vote() -> None:
    played = called(PRODUCTION)
    with pytest.raises(DigestMismatch, match="--digest") as refused:
        visit(played).take(Answered(True), ANA)
    assert (
        refused.value.digest
        == arguments_sha256(PRODUCTION)
        == current_question(played.events).digest
    )
    assert visit(played).take(Answered(True), ANA, refused.value.digest)


def test_a_yes_without_a_digest_is_refused_after_an_edit() -> None:
    one: dict[str, object] = {"when": {"env": "production"}, "ask": ["ops"], "only": True}
    played = called(STAGING, one)
    says(played, Edited(PRODUCTION), DORA)
    with pytest.raises(DigestMismatch):
        visit(played).take(Answered(True), ANA)
    assert visit(played).take(Answered(True), ANA, current_question(played.events).digest)


@pytest.mark.parametrize("reply", [Answered(True), Edited(TEST)])
def test_a_yes_or_an_edit_with_another_digest_is_refused(reply: Answered | Edited) -> None:
    with pytest.raises(DigestMismatch, match="was changed after you saw it"):
        visit(called(STAGING)).take(reply, DORA, arguments_sha256(PRODUCTION))


def test_a_no_counts_with_any_digest() -> None:
    assert visit(called(PRODUCTION)).take(Answered(False), ANA, "something else")
    assert visit(called(PRODUCTION)).take(Answered(False), ANA)


def test_a_person_who_may_not_decide_gets_that_error_first() -> None:
    with pytest.raises(NotAllowed):
        visit(called(PRODUCTION)).take(Answered(True), DORA, "something else")


# Edits from a process that does not know the rules
# --------------------------------------------------------------------------------------------------


def resumed(played: Played, **changes: object) -> Played:
    """Resume the turn in another process, which knows the rules."""
    again = Played(replace(played.settings, **changes))
    again.events = list(played.events)
    again.turn, effects = Turn.resume(played.events, again.settings, counting_ids(500))
    again.last = effects
    again.events += [effect.event for effect in effects if isinstance(effect, Record)]
    return again


def edited_outside(played: Played, arguments: JsonObject, who: AnsweredBy = DORA) -> Played:
    batch = visit(played).take(Edited(arguments), who)
    assert [(event.state, event.answered_by) for event in batch if isinstance(event, Proposal)] == [
        ("unchecked", who)
    ]
    played.events += batch
    return played


def test_an_outside_edit_is_recorded_unchecked_and_the_turn_is_ready() -> None:
    played = called(STAGING)
    played.turn.rest()
    assert not TurnView.last(played.events).is_ready
    edited_outside(played, PRODUCTION)
    assert TurnView.last(played.events).is_ready
    question = current_question(played.events)
    assert question.arguments == STAGING
    assert question.edit is not None
    assert (question.edit.arguments, question.edit.is_checked) == (PRODUCTION, False)
    with pytest.raises(AnswerError, match="not checked yet"):
        visit(played).take(Answered(True), ANA, question.digest)
    assert visit(played).take(Answered(False), ANA)


def test_the_running_process_accepts_an_edit_by_a_person_who_may_decide() -> None:
    played = resumed(edited_outside(called(STAGING), TEST))
    assert executed_arguments(played) == [TEST]
    decision = played.recorded(Approval)[-1]
    assert (decision.state, decision.answered_by) == ("edited", DORA)


def test_the_running_process_turns_an_edit_into_a_proposal() -> None:
    played = resumed(edited_outside(called(STAGING), PRODUCTION))
    assert not executed_arguments(played)
    assert [proposal.state for proposal in played.recorded(Proposal)] == ["unchecked", "open"]
    assert played.recorded(Proposal)[-1].answered_by == DORA
    left = resumed(played)
    rested = left.turn.rest()
    assert isinstance(rested[-1], SuspendTurn)
    assert not TurnView.last(
        [*left.events, *(effect.event for effect in rested if isinstance(effect, Record))]
    ).is_ready
    says(played, Answered(True), ANA)
    says(played, Answered(True), BO)
    assert executed_arguments(played) == [PRODUCTION]


def test_the_running_process_refuses_an_edit_that_a_rule_refuses() -> None:
    played = resumed(edited_outside(called(STAGING), NOWHERE))
    assert not executed_arguments(played)
    refused = played.recorded(Proposal)[-1]
    assert (refused.state, refused.reason) == (
        "refused",
        "A rule does not allow such a call (rules:3): It is gone.",
    )
    question = current_question(played.events)
    assert (question.arguments, question.edit) == (STAGING, None)
    assert "An edit by dora (web) was refused." in (question.question.context or "")
    says(played, Answered(True), DORA)
    assert executed_arguments(played) == [STAGING]


def test_an_unchecked_edit_is_never_replaced_by_the_original_call() -> None:
    """Meanwhile, the configuration allows every call.

    Dora's edited call is run, and an open proposal still waits for its people.
    """
    free = {"deploy": ToolPolicy(source=DEPLOY, run="unattended")}
    assert executed_arguments(resumed(edited_outside(called(STAGING), TEST), tools=free)) == [TEST]
    played = called(STAGING)
    says(played, Edited(PRODUCTION), DORA)
    assert not executed_arguments(resumed(played, tools=free))


def test_an_outside_edit_is_decided_at_once_if_no_rule_depends_on_arguments() -> None:
    played = Played(settings(policy(), attached=False, directory=DIRECTORY))
    played.meanwhile(
        ModelAnswered((ToolCallRequest(id="call_1", name="deploy", arguments={"env": "staging"}),))
    )
    assert waiting(played).any_arguments
    (decision,) = [
        event
        for event in visit(played).take(Edited(PRODUCTION), DORA)
        if isinstance(event, Approval)
    ]
    assert decision.state == "edited"
    same: dict[str, object] = {"ask": ["ops"], "only": True, "approvals": 2}
    voted = called(STAGING, same)
    assert waiting(voted).any_arguments
    (vote,) = visit(voted).take(Edited(PRODUCTION), ANA)
    assert isinstance(vote, Vote)
    assert not waiting(called(STAGING)).any_arguments


def ruling_here(arguments: Json) -> Ruling:
    """Return the decision of a process that knows the configuration."""
    ruling = policy(*RULES).ruling(arguments)
    return replace(ruling, people=DIRECTORY.filled_in(ruling.people)) if ruling.people else ruling


def test_an_outside_process_that_knows_the_rules_checks_an_edit_at_once() -> None:
    played = called(STAGING)
    known = Visit(
        played.events, waiting(played).event_id, counting_ids(100), "1", rules=ruling_here
    )
    batch = known.take(Edited(TEST), DORA)
    assert [event.state for event in batch if isinstance(event, Approval)] == ["edited"]
    known = Visit(
        played.events, waiting(played).event_id, counting_ids(100), "1", rules=ruling_here
    )
    (proposal,) = known.take(Edited(PRODUCTION), DORA)
    assert isinstance(proposal, Proposal)
    assert proposal.state == "open"


def test_an_outside_process_that_knows_the_rules_checks_an_unchecked_edit() -> None:
    for edited, kind, state in (
        (TEST, Approval, "edited"),
        (PRODUCTION, Proposal, "open"),
        (NOWHERE, Proposal, "refused"),
    ):
        played = edited_outside(called(STAGING), edited)
        (event,) = Visit(
            played.events, waiting(played).event_id, counting_ids(100), "1", rules=ruling_here
        ).checked()
        assert isinstance(event, kind)
        assert event.state == state


# Rules that are functions of a program
# --------------------------------------------------------------------------------------------------


def test_a_rule_function_is_called_for_the_edited_call() -> None:
    played = called(STAGING, previewing=frozenset({"deploy"}), own_rules=frozenset({"deploy"}))
    (call,) = (effect.call for effect in played.wanted(PreviewQuestion))
    played.meanwhile(QuestionPreviewed(call.event, None, Ruling("ask", "rule", by="policy")))
    says(played, Edited(TEST), DORA)
    assert [proposal.state for proposal in played.recorded(Proposal)] == ["unchecked"]
    (asked,) = played.wanted(PreviewQuestion)
    assert asked.call.arguments == TEST
    ops = People(ask=("ops",), only=True)
    played.meanwhile(
        QuestionPreviewed(call.event, None, Ruling("ask", "rule", by="policy", people=ops))
    )
    assert not executed_arguments(played)
    assert [proposal.state for proposal in played.recorded(Proposal)] == ["unchecked", "open"]
    says(played, Edited(STAGING), ANA)
    played.meanwhile(QuestionPreviewed(call.event, None, Ruling("ask", "rule", by="policy")))
    assert executed_arguments(played) == [STAGING]
    assert played.recorded(Approval)[-1].answered_by == ANA


# Forgery
# --------------------------------------------------------------------------------------------------


def test_a_note_cannot_contain_a_proposal() -> None:
    played = called(STAGING)
    request = waiting(played)
    forged = Proposal(
        id=request.id,
        state="open",
        arguments=PRODUCTION,
        answered_by=DORA,
        people=People(ask=("dora",)),
    )
    with pytest.raises(NotAllowed, match="An edit is an answer"):
        note_batch(played.events, Address("1", request.event_id), forged, map(str, count()))
    played.meanwhile(Noted(request.event_id, forged))
    assert not played.recorded(Proposal)


# Earlier refusals
# --------------------------------------------------------------------------------------------------


def refused_times(times: int) -> Played:
    """Let the model repeat the same call after each refusal."""
    played = Played(settings(policy(), attached=False, directory=DIRECTORY))
    for number in range(times):
        arguments = (
            {"env": "staging", "force": True} if number % 2 else {"force": True, "env": "staging"}
        )
        played.meanwhile(
            ModelAnswered(
                (ToolCallRequest(id=f"call_{number}", name="deploy", arguments=arguments),)
            )
        )
        for asked in pending(played.events, "1"):
            reply = Answered(False, reason=f"No, the {number}.")
            played.meanwhile(AnsweredElsewhere(asked.request.event_id, reply, ANA))
    return played


def test_a_call_shows_earlier_refusals_of_an_equal_call() -> None:
    played = refused_times(2)
    played.meanwhile(
        ModelAnswered(
            (
                ToolCallRequest(
                    id="again", name="deploy", arguments={"env": "staging", "force": True}
                ),
            )
        )
    )
    question = current_question(played.events)
    assert [(refusal.by, refusal.reason) for refusal in question.refusals] == [
        (ANA, "No, the 0."),
        (ANA, "No, the 1."),
    ]
    assert 'refused earlier in this turn by ana (web): "No, the 1."' in (
        question.question.context or ""
    )
    assert question.to_json()["refused_before"][0]["reason"] == "No, the 0."  # type: ignore[index, call-overload]
    prompt = Visit(played.events, question.request.event_id, counting_ids(100), "1").prompt()
    assert prompt is not None
    assert prompt.refusals == question.refusals
    played.meanwhile(
        ModelAnswered((ToolCallRequest(id="other", name="deploy", arguments={"env": "other"}),))
    )
    assert pending(played.events, "1")[-1].refusals == ()


def test_a_call_refused_too_often_is_not_asked_again() -> None:
    played = refused_times(5)
    contents = [response.content for response in played.recorded(ToolCallResponse)]
    assert len(contents) == 5
    assert (
        contents[3:]
        == [
            (
                "deploy was not run: the same call was refused 3 times in this turn. Do not retry this"
                " tool call in this turn."
            )
        ]
        * 2
    )
    skipped = [
        approval.answered_by
        for approval in played.recorded(Approval)
        if approval.state == "skipped"
    ]
    assert skipped == [ANA] * 3 + [AnsweredBy("cached")] * 2


# Previewed questions
# --------------------------------------------------------------------------------------------------


def test_an_edited_call_does_not_show_the_previewed_question() -> None:
    given = settings(
        policy(*RULES),
        attached=False,
        at_prompt=DORA,
        directory=DIRECTORY,
        previewing=frozenset({"deploy"}),
    )
    played = Played(given)
    played.meanwhile(
        ModelAnswered((ToolCallRequest(id="call_1", name="deploy", arguments=STAGING),))
    )
    (wanted,) = played.wanted(PreviewQuestion)
    played.meanwhile(
        QuestionPreviewed(
            wanted.call.event,
            Question.boolean("overwrite", "Overwrite staging?", context="-old\n+new"),
        )
    )
    assert shown_text(played) == "Overwrite staging?"

    says(played, Edited(PRODUCTION), DORA)
    assert current_question(played.events).question.text == "Run deploy?"
    assert shown_text(played) == "Run deploy?"


def shown_text(played: Played) -> str:
    prompt = Visit(played.events, waiting(played).event_id, counting_ids(100), "1").prompt()
    assert prompt is not None

    return prompt.question.text
