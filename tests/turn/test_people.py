"""People of a question in the machine: who may answer, how many have to say yes, and what is noted of it."""

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
from midturn.turn.people import Poll, handed_as
from midturn.turn.step import (
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
from support.turns import DEPLOY, Played, settings

TWO = People(ask=["ops"], approvals=2, members={"ops": ["ana", "bo"], "others": ["carl"]}, logins={"ana": ["a.smith"]})
ONLY = People(ask=["ops"], only=True, members={"ops": ["ana", "bo"]})
ANA, BO, CARL = (AnsweredBy("user", via="web", user=name) for name in ("ana", "bo", "carl"))


def asking(people: People) -> Question[bool]:
    return Question.boolean("go", "Deploy?", default=True, people=people)


def asked_of(people: People, *, attached: bool = False, by: AnsweredBy = ANA, **policy: object) -> Played:
    """Play up to a question of a tool that is for certain people."""
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
def test_no_model_default_or_configuration_answers_what_has_people(policy: str) -> None:
    configured = {"*": QuestionPolicy(answer=True)}
    played = asked_of(ONLY, detached=DetachedPolicies(tool=policy), questions=configured)  # type: ignore[arg-type]
    assert not answers(played)
    assert rested(played)


@pytest.mark.parametrize(("deliver", "state"), [("defer", "waiting"), ("auto", "waiting"), ("deny", "skipped")])
def test_the_review_of_what_certain_people_answered_waits_for_them_unless_that_is_denied(deliver: Any, state: str) -> None:
    of_tool = ToolPolicy(source=DEPLOY, run="unattended", detached=DetachedPolicies(deliver=deliver, tool="defer"))
    played = Played(settings(of_tool, attached=False))
    (call,) = played.model_calls("deploy")
    note = Question.text("note", "Why?")
    played.meanwhile(ToolReturned(call, FormWanted(Form([asking(ONLY), note], review=True), DEPLOY)))
    for answer in (True, "because"):
        played.meanwhile(AnsweredElsewhere(played.recorded(InquiryRequest)[-1].event_id, Answered(answer), ANA))
    assert [approval.state for approval in played.recorded(Approval)] == [state]


def test_people_stand_beside_the_question_and_configuration_replaces_them() -> None:
    played = asked_of(ONLY, questions={"go": QuestionPolicy(people=TWO)})
    (request,) = played.recorded(InquiryRequest)
    assert request.people == TWO
    assert "people" not in request.question.to_json()


def test_only_those_who_may_answer_do() -> None:
    played = asked_of(ONLY)
    says(played, CARL)
    says(played, AnsweredBy("user", via="web"))
    says(played, AnsweredBy("policy", name="Rules"))
    assert not answers(played)
    says(played, BO)
    assert [answer.answered_by for answer in answers(played)] == [BO]


def test_the_last_yes_that_is_needed_writes_the_response_which_names_the_votes() -> None:
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
def test_spellings_of_one_person_are_one_vote(again: str) -> None:
    played = asked_of(TWO)
    says(played, ANA)
    says(played, AnsweredBy("user", via="web", user=again))
    assert len(played.recorded(Vote)) == 1
    assert not answers(played)


def test_members_that_are_spelled_in_two_ways_are_one_person() -> None:
    people = People(ask=["ops"], only=True, approvals=2, members={"ops": ["ana", "bo"], "Leads": ["Ana"]})
    assert len(people.people_of(["OPS", "leads"])) == 2
    with pytest.raises(QuestionError, match="2 people have to say yes, and only 1 may answer"):
        People(ask=["ana", "Ana"], only=True, approvals=2, members={"ops": ["bo"]})


@pytest.mark.parametrize(
    ("people", "says"),
    [
        (People(ask=["ana"], logins={"ana": ["x"], "bo": ["X"]}), "`X` is a login of both `ana` and `bo`"),
        (People(ask=["ana"], logins={"ana": ["Bo"], "bo": []}), "`Bo` is a login of both `bo` and `ana`"),
        (People(ask=["ana"], logins={"ana": [], "Ana": ["x"]}), "`Ana` and `ana` are one name"),
        (People(ask=["ops"], members={"ops": ["a\x1bb"]}), "has the control character U\\+001B"),
        (People(ask=["ops"], members={"ops": ["ana"], "Ops": ["bo"]}), "`Ops` and `ops` are one name"),
    ],
)
def test_a_program_cannot_give_two_people_one_login(people: People, says: str) -> None:
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
def test_a_note_that_may_not_be_made_is_not_written(note: Vote | Reassigned | Escalated | Reminded | Notified) -> None:
    played = asked_of(ONLY)
    (request,) = played.recorded(InquiryRequest)
    played.meanwhile(Noted(request.event_id, note))
    assert not played.recorded(type(note))
    says(played, CARL)
    assert not answers(played)


def test_the_first_no_is_a_no() -> None:
    played = asked_of(TWO)
    says(played, ANA)
    says(played, BO, yes=False)
    (response,) = answers(played)
    assert response.answer is False
    assert played.recorded(Vote)[-1].answer is False


def test_the_command_line_is_one_person_whatever_name_it_gives() -> None:
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
    [(LOGINS, "a.smith", "ana"), (LOGINS, "ana", "A.Smith"), (TWO, "a.smith", "ana"), (People(approvals=2), "dora", "Dora")],
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
    assert "dora is no known person, and 2 different people have to say yes. Add the login" in poll.barred(AnsweredBy("user", user="dora"))


def test_where_one_yes_is_enough_an_unknown_login_is_a_person() -> None:
    played = asked_of(People(ask=["ops"], members={"ops": ["ana"]}))
    says(played, AnsweredBy("user", via="web", user="dora"))
    assert len(answers(played)) == 1


def test_what_is_recorded_of_an_answer_is_the_person_and_the_login() -> None:
    played = asked_of(TWO)
    says(played, AnsweredBy("user", via="web", user="A.Smith"))
    (vote,) = played.recorded(Vote)
    assert vote.answered_by == AnsweredBy("user", via="web", user="ana", login="A.Smith")


def configured_poll(people: People, now: dict[str, Person] = PEOPLE) -> Poll:
    """Return a poll of a question whose people were configured, where `now` are."""
    asked = Directory(PEOPLE, {"ops": ("ana", "bo")}).filled_in(people)
    return Poll("q", asked, needed=people.approvals, directory=Directory(now, {"ops": ("bo",)}), configured=True)


@pytest.mark.parametrize(
    "people", [People(ask=["ops"], only=True), People(ask=["ops"]), People(approvals=2), People(ask=["ana"], only=True)]
)
@pytest.mark.parametrize("user", ["ana", "a.smith", "ANA"])
def test_who_was_removed_from_the_configuration_decides_nothing(people: People, user: str) -> None:
    without = {name: person for name, person in PEOPLE.items() if name != "ana"}
    assert configured_poll(people).barred(AnsweredBy("user", user=user)) == ""
    why = configured_poll(people, without).barred(AnsweredBy("user", user=user))
    assert why.startswith(("ana is not in the configuration any more, and decides nothing.", "a.smith is no known person"))


def test_who_came_later_votes_where_anyone_may() -> None:
    later = {**PEOPLE, "dora": Person(logins=("d.lee",))}
    assert configured_poll(People(approvals=2), later).named(AnsweredBy("user", user="d.lee")).user == "dora"
    assert configured_poll(People(approvals=2), later).barred(AnsweredBy("user", user="d.lee")) == ""
    assert "dora may not answer this" in configured_poll(People(ask=["ops"], only=True), later).barred(AnsweredBy("user", user="dora"))


def test_the_vote_of_somebody_who_has_left_stands() -> None:
    without = {name: person for name, person in PEOPLE.items() if name != "ana"}
    poll = replace(configured_poll(People(approvals=2), without), notes=(Vote(id="q", answered_by=ANA),))
    assert poll.tally == "1 of 2"


def test_a_configuration_does_not_take_the_people_of_a_program() -> None:
    poll = Poll("q", People(ask=["zoe"], only=True, logins={"zoe": ["a.smith"]}), directory=Directory(PEOPLE))
    assert poll.named(AnsweredBy("user", user="a.smith")).user == "zoe"
    assert poll.barred(AnsweredBy("user", user="zoe")) == ""


def test_a_vote_is_taken_back_until_the_response_is_there() -> None:
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


def test_a_person_who_is_attached_and_may_not_answer_sees_no_prompt() -> None:
    played = asked_of(ONLY, attached=True, by=CARL)
    assert not played.wanted(PromptUser)
    assert rested(played)


def test_where_no_one_can_be_told_apart_it_says_so() -> None:
    played = asked_of(ONLY, attached=True, by=AnsweredBy("user"))
    (warning,) = played.wanted(Warn)
    assert "No one can be told apart here, and only ana and bo may answer this." in warning.text


def test_the_key_of_a_refused_vote_is_not_recorded_with_the_next_vote() -> None:
    two_only = People(ask=("ops",), only=True, approvals=2, members={"ops": ("ana", "bo")})
    for attached in (False, True):
        played = asked_of(two_only, attached=attached, by=ANA)
        (request,) = played.recorded(InquiryRequest)
        played.meanwhile(AnsweredElsewhere(request.event_id, Answered(True), CARL, key="key-of-carl"))
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


def test_passing_on_is_noted_and_changes_not_who_may_answer() -> None:
    played = asked_of(ONLY)
    (request,) = played.recorded(InquiryRequest)
    played.meanwhile(Noted(request.event_id, Reassigned(id=request.id, to=("carl",), answered_by=ANA)))
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
    (ticket,) = [ticket for ticket in (played.turn._state.desk.waiting_for(waiting.event_id),) if ticket]
    played.meanwhile(AnsweredElsewhere(waiting.event_id, reply, who, digest=ticket.decision.digest))


def test_a_rule_puts_a_call_to_people_and_several_have_to_allow_it() -> None:
    played = permitted_by({"ask": ["ana", "bo"], "only": True, "approvals": 2})
    decides(played, Answered(True), CARL)
    decides(played, Answered(True), ANA)
    assert not played.wanted(RunTool)
    decides(played, Answered(True), BO)
    assert played.wanted(RunTool)
    decision = played.recorded(Approval)[-1]
    assert (decision.state, len(decision.votes)) == ("approved", 2)


def test_an_edit_voids_the_votes_before_it_and_is_voted_on() -> None:
    played = permitted_by({"ask": ["ana", "bo", "carl"], "approvals": 2})
    decides(played, Answered(True), ANA)
    decides(played, Edited({"env": "staging"}), BO)
    assert not played.wanted(RunTool)
    decides(played, Answered(True), CARL)
    (run,) = played.wanted(RunTool)
    assert run.call.arguments == {"env": "staging"}
    decision = played.recorded(Approval)[-1]
    assert (decision.state, decision.arguments, len(decision.votes)) == ("edited", {"env": "staging"}, 2)


def test_a_yes_is_to_what_was_shown() -> None:
    """Carl was shown the arguments as the model sent them: his yes is none to what bo has made of them. A no is one to anything."""
    played = permitted_by({"ask": ["ana", "bo", "carl"], "approvals": 2})
    shown = arguments_sha256(played.recorded(ToolCallRequest)[-1].arguments)
    waiting = next(event for event in played.recorded(Approval) if event.state == "waiting")
    decides(played, Edited({"env": "staging"}), BO)
    played.meanwhile(AnsweredElsewhere(waiting.event_id, Answered(True), CARL, digest=shown))
    assert not played.wanted(RunTool)
    assert len(played.recorded(Vote)) == 1
    played.meanwhile(AnsweredElsewhere(waiting.event_id, Answered(True), CARL, digest=arguments_sha256({"env": "staging"})))
    assert played.wanted(RunTool)


def test_a_no_is_one_whatever_was_shown() -> None:
    played = permitted_by({"ask": ["ana", "bo", "carl"], "approvals": 2})
    waiting = next(event for event in played.recorded(Approval) if event.state == "waiting")
    played.meanwhile(AnsweredElsewhere(waiting.event_id, Answered(False), CARL, digest="something else"))
    assert played.recorded(Approval)[-1].state == "skipped"


def test_a_configuration_alone_says_who_its_people_are() -> None:
    configured = Directory(people={"ana": Person(logins=("a.smith",)), "bo": Person()}, groups={"ops": ("ana",)})
    claimed = People(ask=("ana", "ops"), only=True, members={"ops": ("mallory",)}, logins={"ana": ("mallory",), "eve": ("a.smith",)})
    assert configured.filled_in(claimed) == People(ask=("ana", "ops"), only=True, members={"ops": ("ana",)}, logins={"ana": ("a.smith",)})
    assert Directory().filled_in(claimed) == People(ask=("ana", "ops"), only=True)


def test_a_group_that_has_too_few_people_breaks_no_turn() -> None:
    directory = Directory(groups={"ops": ("ana",)})
    assert directory.filled_in(People(ask=("ops",), only=True, approvals=2)).members == {"ops": ("ana",)}


def test_approvals_are_counted_whole() -> None:
    with pytest.raises(QuestionError, match=r"1\.5 is no number of approvals"):
        People(ask=("ana", "bo"), approvals=1.5)  # type: ignore[arg-type]


def test_a_question_that_too_few_people_may_answer_is_put_to_no_one_and_says_why() -> None:
    """The tool names a group, and only the configuration knows how few are in it."""
    directory = Directory(people={"ana": Person()}, groups={"ops": ("ana",)})
    three = People(ask=["ops"], only=True, approvals=3)
    for people, able in ((three, "ana"), (People(ask=["ana", "bo"], only=True, approvals=3), "ana and bo")):
        played = Played(settings(ToolPolicy(source=DEPLOY, run="unattended"), directory=directory))
        (call,) = played.model_calls("deploy")
        played.meanwhile(ToolReturned(call, FormWanted(Form([asking(people)]), DEPLOY)))
        why = f"3 different people have to say yes, and only {able} may answer"
        assert [event.content for event in played.recorded(ToolCallResponse)] == [
            f'deploy: "Deploy?" was put to no one: {why}. Do not retry this tool call in this turn.'
        ]
        assert [event.reason for event in played.recorded(InquiryCancelled)] == ["backend_error"]
        assert [warning.text for warning in played.wanted(Warn)] == [f"deploy.go: {why}"]


def test_a_call_that_too_few_people_may_allow_does_not_run() -> None:
    rules = RunRules(read_run_rules([{"ask": ["ops"], "only": True, "approvals": 2}]), ("config.toml:1",))
    directory = Directory(people={"ana": Person()}, groups={"ops": ("ana",)})
    played = Played(settings(ToolPolicy(source=DEPLOY, rules=(rules,)), directory=directory))
    played.model_calls("deploy")
    (response,) = played.recorded(ToolCallResponse)
    assert "was put to no one: 2 different people have to say yes, and only ana may answer" in response.content
    assert not played.wanted(PromptUser)
