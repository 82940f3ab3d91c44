"""Questions for certain people: who may answer, required votes, and notes."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from midturn.errors import QuestionError
from midturn.events.open_question import arguments_sha256
from midturn.events.types import (
    AnsweredBy,
    Approval,
    Escalated,
    InquiryAnswered,
    InquiryCancelled,
    InquiryRequest,
    Notified,
    Reassigned,
    Reminded,
    ToolCallRequest,
    ToolCallResponse,
    Vote,
)
from midturn.question.form import Form
from midturn.question.people import Directory, People, Person
from midturn.question.question import Question
from midturn.question.reply import Answered, Edited
from midturn.routing.policy import DetachedPolicies, QuestionPolicy, ToolPolicy
from midturn.routing.rules import RunRules, read_run_rules
from midturn.turn.inputs import (
    AnsweredElsewhere,
    FormWanted,
    ModelAnswered,
    Noted,
    PromptUser,
    RunTool,
    SuspendTurn,
    ToolReturned,
    UserReplied,
    Warn,
)
from midturn.turn.votes import Poll, handed_as
from support.turns import DEPLOY, Played, settings

TWO = People(
    ask=["ops"],
    approvals=2,
    members={"ops": ["ana", "bo"], "others": ["carl"]},
    logins={"ana": ["a.smith"]},
)
ONLY = People(ask=["ops"], only=True, members={"ops": ["ana", "bo"]})
ANA, BO, CARL = (AnsweredBy("user", via="web", user=name) for name in ("ana", "bo", "carl"))


def asking(people: People) -> Question[bool]:
    return Question.boolean("go", "Deploy?", default=True, people=people)


def asked_of(
    people: People, *, attached: bool = False, by: AnsweredBy = ANA, **policy: object
) -> Played:
    """Play until a tool's question for certain people is asked."""
    of_tool = ToolPolicy(source=DEPLOY, run="unattended", **policy)  # type: ignore[arg-type]
    played = Played(settings(of_tool, attached=attached, at_prompt=by))
    (call,) = played.model_calls("deploy")
    played.meanwhile(ToolReturned(call, FormWanted(Form([asking(people)]), DEPLOY)))
    return played


def rested(played: Played) -> bool:
    return isinstance(played.turn.rest()[-1], SuspendTurn)


def says(played: Played, who: AnsweredBy, *, yes: bool = True) -> None:
    (request,) = played.recorded(InquiryRequest)
    played.meanwhile(AnsweredElsewhere(request.event_id, Answered(yes), who))


def answers(played: Played) -> list[InquiryAnswered]:
    return played.recorded(InquiryAnswered)


@pytest.mark.parametrize("policy", ["auto", "defaults", "defer"])
def test_only_certain_people_answer_a_question_for_certain_people(policy: str) -> None:
    configured = {"*": QuestionPolicy(answer=True)}
    played = asked_of(ONLY, detached=DetachedPolicies(tool=policy), questions=configured)  # type: ignore[arg-type]
    assert not answers(played)
    assert rested(played)


@pytest.mark.parametrize(
    ("deliver", "state"), [("defer", "waiting"), ("auto", "waiting"), ("deny", "skipped")]
)
def test_a_review_waits_for_the_people_who_answered_unless_denied(deliver: Any, state: str) -> None:
    of_tool = ToolPolicy(
        source=DEPLOY, run="unattended", detached=DetachedPolicies(deliver=deliver, tool="defer")
    )
    played = Played(settings(of_tool, attached=False))
    (call,) = played.model_calls("deploy")
    note = Question.text("note", "Why?")
    played.meanwhile(
        ToolReturned(call, FormWanted(Form([asking(ONLY), note], review=True), DEPLOY))
    )
    for answer in (True, "because"):
        played.meanwhile(
            AnsweredElsewhere(played.recorded(InquiryRequest)[-1].event_id, Answered(answer), ANA)
        )
    assert [approval.state for approval in played.recorded(Approval)] == [state]


def test_configured_people_replace_the_people_of_the_question() -> None:
    played = asked_of(ONLY, questions={"go": QuestionPolicy(people=TWO)})
    (request,) = played.recorded(InquiryRequest)
    assert request.people == TWO
    assert "people" not in request.question.to_json()


def test_only_allowed_people_can_answer() -> None:
    played = asked_of(ONLY)
    says(played, CARL)
    says(played, AnsweredBy("user", via="web"))
    says(played, AnsweredBy("policy", name="Rules"))
    assert not answers(played)
    says(played, BO)
    assert [answer.answered_by for answer in answers(played)] == [BO]


def test_the_last_needed_yes_writes_the_response_with_the_votes() -> None:
    played = asked_of(TWO)
    says(played, AnsweredBy("user", via="web", user="a.smith"))
    assert not answers(played)
    says(played, ANA)
    assert len(played.recorded(Vote)) == 1, "the same person, on two devices, is one vote"
    says(played, BO)
    votes = played.recorded(Vote)
    assert [vote.answered_by and vote.answered_by.user for vote in votes] == ["ana", "bo"]
    (response,) = answers(played)
    assert response.answer is True
    assert response.votes == tuple(vote.event_id for vote in votes)


@pytest.mark.parametrize("again", ["ana", "Ana", "ana\u00a0", "A.SMITH", "\uff41na", "a\u200bna"])
def test_spellings_of_one_person_count_as_one_vote(again: str) -> None:
    played = asked_of(TWO)
    says(played, ANA)
    says(played, AnsweredBy("user", via="web", user=again))
    assert len(played.recorded(Vote)) == 1
    assert not answers(played)


def test_members_spelled_differently_are_one_person() -> None:
    people = People(
        ask=["ops"], only=True, approvals=2, members={"ops": ["ana", "bo"], "Leads": ["Ana"]}
    )
    assert len(people.people_of(["OPS", "leads"])) == 2
    with pytest.raises(QuestionError, match="2 people must say yes, but only 1 may answer"):
        People(ask=["ana", "Ana"], only=True, approvals=2, members={"ops": ["bo"]})


@pytest.mark.parametrize(
    ("people", "says"),
    [
        (
            People(ask=["ana"], logins={"ana": ["x"], "bo": ["X"]}),
            "`X` is a login of both `ana` and `bo`",
        ),
        (
            People(ask=["ana"], logins={"ana": ["Bo"], "bo": []}),
            "`Bo` is a login of both `bo` and `ana`",
        ),
        (
            People(ask=["ana"], logins={"ana": [], "Ana": ["x"]}),
            "`Ana` and `ana` are the same name",
        ),
        (
            People(ask=["ops"], members={"ops": ["a\x1bb"]}),
            "contains the control character U\\+001B",
        ),
        (
            People(ask=["ops"], members={"ops": ["ana"], "Ops": ["bo"]}),
            "`Ops` and `ops` are the same name",
        ),
    ],
)
def test_a_program_cannot_assign_a_login_to_two_people(people: People, says: str) -> None:
    with pytest.raises(QuestionError, match=says):
        asking(people)


@pytest.mark.parametrize(
    "note",
    [
        Escalated(id="", number=1, to=("carl",)),
        Reminded(id="", number=1, to=("carl",)),
        Notified(id="", about="paid", to=("carl",)),
        Vote(id="", answered_by=BO),
        Reassigned(id="", to=("carl",), answered_by=ANA),
        Reassigned(id="", to=("bo",), answered_by=CARL),
        Reassigned(id="", to=("bo",)),
    ],
)
def test_a_forbidden_note_is_not_recorded(
    note: Vote | Reassigned | Escalated | Reminded | Notified,
) -> None:
    played = asked_of(ONLY)
    (request,) = played.recorded(InquiryRequest)
    played.meanwhile(Noted(request.event_id, note))
    assert not played.recorded(type(note))
    says(played, CARL)
    assert not answers(played)


def test_the_first_no_decides() -> None:
    played = asked_of(TWO)
    says(played, ANA)
    says(played, BO, yes=False)
    (response,) = answers(played)
    assert response.answer is False
    assert played.recorded(Vote)[-1].answer is False


def test_the_command_line_is_one_person_with_any_name() -> None:
    played = asked_of(TWO)
    says(played, AnsweredBy("user", via="terminal", user="ana"))
    says(played, AnsweredBy("user", via="inbox", user="bo"))
    assert len(played.recorded(Vote)) == 1
    says(played, CARL)
    assert answers(played)


LOGINS = People(approvals=2, logins={"ana": ["a.smith"], "bo": []})
PEOPLE = {"ana": Person(logins=("a.smith", "ana@corp")), "bo": Person(), "carl": Person()}


@pytest.mark.parametrize(
    ("people", "one", "other"),
    [
        (LOGINS, "a.smith", "ana"),
        (LOGINS, "ana", "A.Smith"),
        (TWO, "a.smith", "ana"),
        (People(approvals=2), "dora", "Dora"),
    ],
)
def test_two_logins_of_one_person_are_one_voter(people: People, one: str, other: str) -> None:
    played = asked_of(people)
    for user in (one, other):
        says(played, AnsweredBy("user", via="web", user=user))
    assert len(played.recorded(Vote)) == 1
    assert not answers(played)


@pytest.mark.parametrize("people", [LOGINS, TWO])
def test_an_unknown_login_does_not_vote(people: People) -> None:
    played = asked_of(people)
    says(played, AnsweredBy("user", via="web", user="dora"))
    assert not played.recorded(Vote)
    (request,) = played.recorded(InquiryRequest)
    poll = Poll(request.id, people, needed=2)
    assert (
        "dora is not a known person, and 2 different people have to say yes. To fix this, add the login"
        in poll.barred(AnsweredBy("user", user="dora"))
    )


def test_an_unknown_login_counts_if_one_yes_is_enough() -> None:
    played = asked_of(People(ask=["ops"], members={"ops": ["ana"]}))
    says(played, AnsweredBy("user", via="web", user="dora"))
    assert len(answers(played)) == 1


def test_an_answer_records_person_and_login() -> None:
    played = asked_of(TWO)
    says(played, AnsweredBy("user", via="web", user="A.Smith"))
    (vote,) = played.recorded(Vote)
    assert vote.answered_by == AnsweredBy("user", via="web", user="ana", login="A.Smith")


def configured_poll(people: People, now: dict[str, Person] = PEOPLE) -> Poll:
    """Return a poll about a question with configured people, with `now` as the current people."""
    asked = Directory(PEOPLE, {"ops": ("ana", "bo")}).filled_in(people)
    return Poll(
        "q",
        asked,
        needed=people.approvals,
        directory=Directory(now, {"ops": ("bo",)}),
        configured=True,
    )


@pytest.mark.parametrize(
    "people",
    [
        People(ask=["ops"], only=True),
        People(ask=["ops"]),
        People(approvals=2),
        People(ask=["ana"], only=True),
    ],
)
@pytest.mark.parametrize("user", ["ana", "a.smith", "ANA"])
def test_a_person_removed_from_the_configuration_decides_nothing(people: People, user: str) -> None:
    without = {name: person for name, person in PEOPLE.items() if name != "ana"}
    assert configured_poll(people).barred(AnsweredBy("user", user=user)) == ""
    why = configured_poll(people, without).barred(AnsweredBy("user", user=user))
    assert why.startswith(
        (
            "ana is not in the configuration any more, and cannot decide this.",
            "a.smith is not a known person",
        )
    )


def test_a_person_added_later_can_vote_if_anyone_may() -> None:
    later = {**PEOPLE, "dora": Person(logins=("d.lee",))}
    assert (
        configured_poll(People(approvals=2), later).named(AnsweredBy("user", user="d.lee")).user
        == "dora"
    )
    assert (
        configured_poll(People(approvals=2), later).barred(AnsweredBy("user", user="d.lee")) == ""
    )
    assert "dora may not answer this" in configured_poll(
        People(ask=["ops"], only=True), later
    ).barred(AnsweredBy("user", user="dora"))


def test_the_vote_of_a_removed_person_still_counts() -> None:
    without = {name: person for name, person in PEOPLE.items() if name != "ana"}
    poll = replace(
        configured_poll(People(approvals=2), without), notes=(Vote(id="q", answered_by=ANA),)
    )
    assert poll.tally == "1 of 2"


def test_a_configuration_does_not_replace_the_people_of_a_program() -> None:
    poll = Poll(
        "q",
        People(ask=["zoe"], only=True, logins={"zoe": ["a.smith"]}),
        directory=Directory(PEOPLE),
    )
    assert poll.named(AnsweredBy("user", user="a.smith")).user == "zoe"
    assert poll.barred(AnsweredBy("user", user="zoe")) == ""


def test_a_vote_can_be_withdrawn_until_the_response() -> None:
    played = asked_of(TWO)
    says(played, ANA)
    (request,) = played.recorded(InquiryRequest)
    played.meanwhile(Noted(request.event_id, Vote(id=request.id, answered_by=ANA, withdrawn=True)))
    says(played, BO)
    assert not answers(played)
    says(played, CARL)
    assert answers(played)


def test_at_a_prompt_a_yes_is_a_vote_and_the_question_waits_for_the_next_person() -> None:
    played = asked_of(TWO, attached=True)
    (shown,) = played.wanted(PromptUser)
    assert shown.prompt.label == "0 of 2"
    played.reply(Answered(True), ANA)
    assert [vote.answered_by for vote in played.recorded(Vote)] == [ANA]
    assert played.wanted(SuspendTurn)


def test_an_attached_person_who_may_not_answer_sees_no_prompt() -> None:
    played = asked_of(ONLY, attached=True, by=CARL)
    assert not played.wanted(PromptUser)
    assert rested(played)


def test_without_identities_a_warning_is_given() -> None:
    played = asked_of(ONLY, attached=True, by=AnsweredBy("user"))
    (warning,) = played.wanted(Warn)
    assert (
        "This interface does not identify users, and only ana and bo may answer this."
        in warning.text
    )


def test_the_key_of_a_refused_vote_is_not_recorded_with_the_next_vote() -> None:
    two_only = People(ask=("ops",), only=True, approvals=2, members={"ops": ("ana", "bo")})
    for attached in (False, True):
        played = asked_of(two_only, attached=attached, by=ANA)
        (request,) = played.recorded(InquiryRequest)
        played.meanwhile(
            AnsweredElsewhere(request.event_id, Answered(True), CARL, key="key-of-carl")
        )
        assert not played.recorded(Vote)
        if attached:
            played.meanwhile(UserReplied(request.event_id, Answered(True), ANA))
        else:
            says(played, ANA)
        (vote,) = played.recorded(Vote)
        assert (vote.answered_by, vote.metadata) == (ANA, None)


def test_a_queued_vote_is_recorded_with_its_key() -> None:
    played = asked_of(TWO)
    (request,) = played.recorded(InquiryRequest)
    played.meanwhile(AnsweredElsewhere(request.event_id, Answered(True), ANA, key="key-of-ana"))
    played.meanwhile(AnsweredElsewhere(request.event_id, Answered(True), BO, key="key-of-bo"))
    assert [handed_as([vote]) for vote in played.recorded(Vote)] == [{"key-of-ana"}, {"key-of-bo"}]


def test_passing_on_is_noted_and_does_not_change_who_may_answer() -> None:
    played = asked_of(ONLY)
    (request,) = played.recorded(InquiryRequest)
    played.meanwhile(
        Noted(request.event_id, Reassigned(id=request.id, to=("carl",), answered_by=ANA))
    )
    says(played, CARL)
    assert not answers(played)
    says(played, ANA)
    assert answers(played)


def permitted_by(*rules: dict[str, object]) -> Played:
    of_tool = ToolPolicy(
        source=DEPLOY,
        detached=DetachedPolicies(run="defer"),
        rules=(RunRules(read_run_rules(rules), tuple(f"rules:{n}" for n, _ in enumerate(rules))),),
    )
    played = Played(settings(of_tool, attached=False))
    played.meanwhile(ModelAnswered((ToolCallRequest(id="call_1", name="deploy", arguments={}),)))
    return played


def decides(played: Played, reply: Answered | Edited, who: AnsweredBy) -> None:
    waiting = next(event for event in played.recorded(Approval) if event.state == "waiting")
    (ticket,) = [ticket for ticket in (played.turn._queue.waiting_for(waiting.event_id),) if ticket]
    played.meanwhile(AnsweredElsewhere(waiting.event_id, reply, who, digest=ticket.decision.digest))


def test_a_rule_can_require_several_people_to_approve_a_call() -> None:
    played = permitted_by({"ask": ["ana", "bo"], "only": True, "approvals": 2})
    decides(played, Answered(True), CARL)
    decides(played, Answered(True), ANA)
    assert not played.wanted(RunTool)
    decides(played, Answered(True), BO)
    assert played.wanted(RunTool)
    decision = played.recorded(Approval)[-1]
    assert (decision.state, len(decision.votes)) == ("approved", 2)


def test_an_edit_voids_earlier_votes_and_is_voted_on() -> None:
    played = permitted_by({"ask": ["ana", "bo", "carl"], "approvals": 2})
    decides(played, Answered(True), ANA)
    decides(played, Edited({"env": "staging"}), BO)
    assert not played.wanted(RunTool)
    decides(played, Answered(True), CARL)
    (run,) = played.wanted(RunTool)
    assert run.call.arguments == {"env": "staging"}
    decision = played.recorded(Approval)[-1]
    assert (decision.state, decision.arguments, len(decision.votes)) == (
        "edited",
        {"env": "staging"},
        2,
    )


def test_a_yes_applies_only_to_the_displayed_arguments() -> None:
    """Carl saw the model's arguments, so his yes does not apply to bo's edit.

    A no always applies.
    """
    played = permitted_by({"ask": ["ana", "bo", "carl"], "approvals": 2})
    shown = arguments_sha256(played.recorded(ToolCallRequest)[-1].arguments)
    waiting = next(event for event in played.recorded(Approval) if event.state == "waiting")
    decides(played, Edited({"env": "staging"}), BO)
    played.meanwhile(AnsweredElsewhere(waiting.event_id, Answered(True), CARL, digest=shown))
    assert not played.wanted(RunTool)
    assert len(played.recorded(Vote)) == 1
    played.meanwhile(
        AnsweredElsewhere(
            waiting.event_id, Answered(True), CARL, digest=arguments_sha256({"env": "staging"})
        )
    )
    assert played.wanted(RunTool)


def test_a_no_applies_to_any_arguments() -> None:
    played = permitted_by({"ask": ["ana", "bo", "carl"], "approvals": 2})
    waiting = next(event for event in played.recorded(Approval) if event.state == "waiting")
    played.meanwhile(
        AnsweredElsewhere(waiting.event_id, Answered(False), CARL, digest="something else")
    )
    assert played.recorded(Approval)[-1].state == "skipped"


def test_only_the_configuration_defines_its_people() -> None:
    configured = Directory(
        people={"ana": Person(logins=("a.smith",)), "bo": Person()}, groups={"ops": ("ana",)}
    )
    claimed = People(
        ask=("ana", "ops"),
        only=True,
        members={"ops": ("mallory",)},
        logins={"ana": ("mallory",), "eve": ("a.smith",)},
    )
    assert configured.filled_in(claimed) == People(
        ask=("ana", "ops"), only=True, members={"ops": ("ana",)}, logins={"ana": ("a.smith",)}
    )
    assert Directory().filled_in(claimed) == People(ask=("ana", "ops"), only=True)


def test_a_group_with_too_few_people_does_not_fail_the_turn() -> None:
    directory = Directory(groups={"ops": ("ana",)})
    assert directory.filled_in(People(ask=("ops",), only=True, approvals=2)).members == {
        "ops": ("ana",)
    }


def test_the_number_of_approvals_must_be_an_integer() -> None:
    with pytest.raises(QuestionError, match=r"1\.5 is not a valid number of approvals"):
        People(ask=("ana", "bo"), approvals=1.5)  # type: ignore[arg-type]


def test_a_question_that_too_few_people_may_answer_is_not_asked_and_the_reason_is_given() -> None:
    """The tool names a group. Only the configuration knows its number of members."""
    directory = Directory(people={"ana": Person()}, groups={"ops": ("ana",)})
    three = People(ask=["ops"], only=True, approvals=3)
    for people, able in (
        (three, "ana"),
        (People(ask=["ana", "bo"], only=True, approvals=3), "ana and bo"),
    ):
        played = Played(settings(ToolPolicy(source=DEPLOY, run="unattended"), directory=directory))
        (call,) = played.model_calls("deploy")
        played.meanwhile(ToolReturned(call, FormWanted(Form([asking(people)]), DEPLOY)))
        why = f"3 different people must say yes, but only {able} may answer"
        assert [event.content for event in played.recorded(ToolCallResponse)] == [
            f'deploy: "Deploy?" was put to no one: {why}. Do not retry this tool call in this turn.'
        ]
        assert [event.reason for event in played.recorded(InquiryCancelled)] == ["backend_error"]
        assert [warning.text for warning in played.wanted(Warn)] == [f"deploy.go: {why}"]


def test_a_call_that_too_few_people_may_approve_does_not_run() -> None:
    rules = RunRules(
        read_run_rules([{"ask": ["ops"], "only": True, "approvals": 2}]), ("config.toml:1",)
    )
    directory = Directory(people={"ana": Person()}, groups={"ops": ("ana",)})
    played = Played(settings(ToolPolicy(source=DEPLOY, rules=(rules,)), directory=directory))
    played.model_calls("deploy")
    (response,) = played.recorded(ToolCallResponse)
    assert (
        "was put to no one: 2 different people must say yes, but only ana may answer"
        in response.content
    )
    assert not played.wanted(PromptUser)
