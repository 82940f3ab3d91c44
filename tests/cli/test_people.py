"""Whose question it is, at the command line: votes, passing on, what is mine, and several at once."""

from __future__ import annotations

from typing import Any

from support.cli import CommandLine, asks, calls

PEOPLE = """
[people.ana]
[people.bo]
[groups.ops]
members = ["ana", "bo"]
"""


def waiting(midturn: CommandLine, people: dict[str, Any], *texts: str, known: str = "") -> list[dict[str, Any]]:
    """Have a turn wait for certain people; return the entries of the inbox."""
    midturn.configure(PEOPLE + known)
    midturn.asker(questions={"go": {"people": people}})
    for text in texts or ("Deploy?",):
        assert midturn.run("query", "-m", midturn.script(calls("deploy", ask=[asks("go", text)])), "--defer", "Ship it").status == 3
    return midturn.ok("inbox", "--json").json


def test_a_yes_waits_for_another_person(midturn: CommandLine) -> None:
    (question,) = waiting(midturn, {"ask": ["ops"], "approvals": 2})
    assert question["people"] == {"ask": ["ops"], "approvals": 2, "voted": []}
    assert "It is for ops · 0 of 2." in midturn.ok("inbox").stdout
    said = midturn.ok("answer", question["id"], "yes")
    assert "1 of 2 have said yes. Another person has to" in said.stderr
    assert "midturn: answered." not in said.stderr
    again = midturn.run("answer", question["id"], "yes", MIDTURN_CFG_USER__NAME="bo")
    assert again.status != 0
    assert "The command line is one person, and has said yes already" in again.stderr
    assert "is taken back" in midturn.ok("answer", question["id"], "--take-back").stderr
    assert "0 of 2" in midturn.ok("inbox").stdout


def test_only_those_who_may_answer_do_and_it_is_passed_on_to_them(midturn: CommandLine) -> None:
    (question,) = waiting(midturn, {"ask": ["ops"], "only": True})
    refused = midturn.run("answer", question["id"], "yes", MIDTURN_CFG_USER__NAME="carl")
    assert "carl may not answer this: only ana and bo may." in refused.stderr
    as_ana, as_bo = ({"MIDTURN_CFG_USER__NAME": name} for name in ("ana", "bo"))
    assert "is put to bo now" in midturn.ok("answer", question["id"], "--pass-to", "bo", **as_ana).stderr
    assert midturn.run("answer", question["id"], "--pass-to", "dora", **as_ana).status != 0
    assert midturn.ok("inbox", "--mine", "--json", **as_ana).json == []
    assert [one["id"] for one in midturn.ok("inbox", "--mine", "--json", **as_bo).json] == [question["id"]]
    midturn.ok("answer", question["id"], "yes", **as_bo)
    assert midturn.ok("inbox", "--json").json == []


def test_who_was_removed_from_the_configuration_decides_nothing(midturn: CommandLine) -> None:
    (question,) = waiting(midturn, {"ask": ["ops"], "only": True})
    as_ana, as_bo = ({"MIDTURN_CFG_USER__NAME": name} for name in ("ana", "bo"))
    before = midturn.config.read_text()
    midturn.config.write_text(before.replace("[people.ana]", "").replace('"ana", "bo"', '"bo"'))
    refused = midturn.run("answer", question["id"], "yes", **as_ana)
    assert refused.status != 0
    assert "ana is not in the configuration any more, and decides nothing." in refused.stderr
    assert midturn.run("answer", question["id"], "--cancel", **as_ana).status != 0
    midturn.ok("answer", question["id"], "yes", **as_bo)
    assert midturn.ok("inbox", "--json").json == []


def test_two_logins_of_a_person_whom_the_question_does_not_name_are_one_voter(midturn: CommandLine) -> None:
    (question,) = waiting(midturn, {"approvals": 2}, known='[people.carl]\nlogins = ["c.lee"]\n')
    midturn.ok("answer", question["id"], "yes", MIDTURN_CFG_USER__NAME="c.lee")
    assert midturn.ok("inbox", "--json").json[0]["people"]["voted"] == ["carl"]
    vote = midturn.events()[-1]
    assert vote["answered_by"] == {"by": "user", "via": "inbox", "user": "carl", "login": "c.lee"}
    refused = midturn.run("answer", question["id"], "yes", MIDTURN_CFG_USER__NAME="carl")
    assert "carl has said yes already: 1 of 2" in refused.stderr


def test_who_may_not_decide_ends_nothing_and_the_owner_does_so_on_record(midturn: CommandLine) -> None:
    (question,) = waiting(midturn, {"ask": ["ops"], "only": True})
    as_carl, conversation = {"MIDTURN_CFG_USER__NAME": "carl"}, question["conversation"]
    for words in (
        ("answer", question["id"], "--cancel"),
        ("resume", conversation, "--discard"),
        ("conversation", "rm", "--yes", conversation),
    ):
        refused = midturn.run(*words, **as_carl)
        assert refused.status != 0
        assert "carl may not answer this: only ana and bo may." in refused.stderr
        assert f"This store is yours: `midturn resume {conversation} --discard --as-owner` ends the turn all the same" in refused.stderr
    assert [one["id"] for one in midturn.ok("inbox", "--json").json] == [question["id"]]
    assert "`--as-owner` is for `--discard`" in midturn.run("resume", conversation, "--as-owner").stderr
    midturn.ok("resume", conversation, "--discard", "--as-owner", **as_carl)
    assert midturn.events()[-1]["ended_by"] == {"by": "owner", "via": "inbox", "user": "carl"}
    assert "carl" in midturn.run("answer", question["id"], "yes", MIDTURN_CFG_USER__NAME="ana").stderr
    midturn.ok("conversation", "rm", "--yes", conversation, **as_carl)


def test_several_are_answered_in_one_act_after_each_was_shown(midturn: CommandLine) -> None:
    asked = waiting(midturn, {"ask": ["ops"]}, "Deploy one?", "Deploy two?")
    first, second = (question["id"] for question in asked)
    wrong = midturn.run("answer", first, second, "perhaps")
    assert wrong.status != 0
    assert len(midturn.ok("inbox", "--json").json) == 2
    said = midturn.ok("answer", first, second, "yes").stderr
    assert said.index("deploy asks: Deploy one?") < said.index("deploy asks: Deploy two?") < said.index("Deploy one?  yes")
    assert midturn.ok("inbox", "--json").json == []


RULE = """
[[conversation.tools.deploy.rules]]
when.say = "production*"
ask = ["ops"]
only = true
approvals = 2
remind_after = "30m"
escalate = [{ after = "2h", to = ["carl"] }]
[people.carl]
"""


def test_explain_names_the_people_and_how_many_have_to_say_yes(midturn: CommandLine) -> None:
    midturn.asker(run="unattended")
    midturn.configure(midturn.config.read_text() + PEOPLE + RULE)
    said = midturn.ok("tools", "explain", "deploy", "say=production").stdout.splitlines()
    assert said[0].startswith("ask: it is asked about before it runs, by the rule at ")
    assert said[1:5] == [
        "  It is put to ops (ana and bo), and no one else may answer.",
        "  2 different people have to say yes; the first no is a no.",
        "  They are told again every 30 min, at most 5 times.",
        "  After 2 h it is put to carl, too.",
    ]
    assert " ask ops " in said[5]
    people = midturn.ok("tools", "explain", "deploy", "say=production", "--json").json["people"]
    assert (people["ask"], people["approvals"], people["members"]) == (["ops"], 2, {"ops": ["ana", "bo"]})
    assert midturn.ok("tools", "explain", "deploy", "say=staging", "--json").json["people"] is None


CALLS_OF_OPS = """
[[conversation.tools.deploy.rules]]
ask = ["ops"]
only = true
approvals = 2
"""


def test_a_digest_confirms_a_yes_to_exactly_the_call_that_was_shown(midturn: CommandLine) -> None:
    midturn.configure(PEOPLE + CALLS_OF_OPS)
    midturn.asker()
    asked = midturn.run("query", "-m", midturn.script(calls("deploy", env="staging")), "--defer", "Ship it")
    assert asked.status == 3
    (question,) = midturn.ok("inbox", "--json").json
    digest = question["about"]
    assert f"midturn answer {question['id']} yes --digest {digest[:8]}" in midturn.ok("inbox").stdout
    for wrong in ("1234", "xyzxyzxyz", f"{digest}0"):
        assert "`--digest` takes 8 to 64 characters" in midturn.run("answer", question["id"], "yes", "--digest", wrong).stderr
    as_ana = {"MIDTURN_CFG_USER__NAME": "ana"}
    stale = midturn.run("answer", question["id"], "yes", "--digest", "0" * 8, **as_ana)
    assert stale.status != 0
    blind = midturn.run("answer", question["id"], "yes", **as_ana)
    for refused in (stale, blind):
        assert '"env"' in refused.stderr or "staging" in refused.stderr
        assert f"midturn answer {question['id']} yes --digest {digest[:8]}" in refused.stderr
    assert midturn.ok("inbox", "--json").json[0]["people"]["voted"] == []
    assert "1 of 2 have said yes" in midturn.ok("answer", question["id"], "yes", "--digest", digest[:8], **as_ana).stderr


def test_an_edit_whose_rules_were_not_read_decides_nothing_yet(midturn: CommandLine) -> None:
    midturn.configure(PEOPLE + RULE)
    midturn.asker(run="ask")
    asked = midturn.run("query", "-m", midturn.script(calls("deploy", say="dev")), "--defer", "Ship it")
    assert asked.status == 3
    (question,) = midturn.ok("inbox", "--json").json
    edited = midturn.ok("answer", question["id"], '{"edit": {"say": "production"}}')
    assert "the edit is recorded and decides nothing yet" in edited.stderr
    assert "midturn: answered." not in edited.stderr
    assert "--digest" not in midturn.ok("inbox").stdout  # nobody can say yes yet
    midturn.run("resume")
    assert f"{question['id']} yes --digest" in midturn.ok("inbox").stdout
    trail = midturn.ok("conversation", "show", "--inquiries").stdout
    assert "run deploy: asked" in trail
    assert 'arguments: {"say": "production"}' in trail
    assert "put to ops" in trail
