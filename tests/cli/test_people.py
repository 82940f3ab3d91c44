"""Questions for certain people on the command line: votes, reassignment, own questions, and
answering several at once.
"""

from __future__ import annotations

from typing import Any

from support.cli import CommandLine, asks, calls

PEOPLE = """
[people.ana]
[people.bo]
[groups.ops]
members = ["ana", "bo"]
"""


def waiting(
    midturn: CommandLine, people: dict[str, Any], *texts: str, known: str = ""
) -> list[dict[str, Any]]:
    """Suspend a turn on questions for certain people; return the inbox entries."""
    midturn.configure(PEOPLE + known)
    midturn.asker(questions={"go": {"people": people}})
    for text in texts or ("Deploy?",):
        assert (
            midturn.run(
                "query",
                "-m",
                midturn.script(calls("deploy", ask=[asks("go", text)])),
                "--defer",
                "Ship it",
            ).status
            == 3
        )
    return midturn.ok("inbox", "--json").json


def test_first_yes_waits_for_another_person(midturn: CommandLine) -> None:
    (question,) = waiting(midturn, {"ask": ["ops"], "approvals": 2})
    assert question["people"] == {"ask": ["ops"], "approvals": 2, "voted": []}
    assert "For ops · 0 of 2." in midturn.ok("inbox").stdout
    said = midturn.ok("answer", question["id"], "yes")
    assert "1 of 2 approvals so far; another person must approve." in said.stderr
    assert "midturn: answered." not in said.stderr
    again = midturn.run("answer", question["id"], "yes", MIDTURN_CFG_USER__NAME="bo")
    assert again.status != 0
    assert "The command line counts as one person and has said yes already" in again.stderr
    assert (
        "midturn: withdrew your vote on"
        in midturn.ok("answer", question["id"], "--take-back").stderr
    )
    assert "0 of 2" in midturn.ok("inbox").stdout


def test_only_permitted_people_answer_and_reassignment(midturn: CommandLine) -> None:
    (question,) = waiting(midturn, {"ask": ["ops"], "only": True})
    refused = midturn.run("answer", question["id"], "yes", MIDTURN_CFG_USER__NAME="carl")
    assert "carl may not answer this: only ana and bo may." in refused.stderr
    as_ana, as_bo = ({"MIDTURN_CFG_USER__NAME": name} for name in ("ana", "bo"))
    assert (
        "midturn: reassigned Deploy? to bo."
        in midturn.ok("answer", question["id"], "--pass-to", "bo", **as_ana).stderr
    )
    assert midturn.run("answer", question["id"], "--pass-to", "dora", **as_ana).status != 0
    assert midturn.ok("inbox", "--mine", "--json", **as_ana).json == []
    assert [one["id"] for one in midturn.ok("inbox", "--mine", "--json", **as_bo).json] == [
        question["id"]
    ]
    midturn.ok("answer", question["id"], "yes", **as_bo)
    assert midturn.ok("inbox", "--json").json == []


def test_person_removed_from_the_configuration_cannot_decide(midturn: CommandLine) -> None:
    (question,) = waiting(midturn, {"ask": ["ops"], "only": True})
    as_ana, as_bo = ({"MIDTURN_CFG_USER__NAME": name} for name in ("ana", "bo"))
    before = midturn.config.read_text()
    midturn.config.write_text(before.replace("[people.ana]", "").replace('"ana", "bo"', '"bo"'))
    refused = midturn.run("answer", question["id"], "yes", **as_ana)
    assert refused.status != 0
    assert "ana is not in the configuration any more, and cannot decide this." in refused.stderr
    assert midturn.run("answer", question["id"], "--cancel", **as_ana).status != 0
    midturn.ok("answer", question["id"], "yes", **as_bo)
    assert midturn.ok("inbox", "--json").json == []


def test_two_logins_of_a_person_whom_the_question_does_not_name_are_one_voter(
    midturn: CommandLine,
) -> None:
    (question,) = waiting(midturn, {"approvals": 2}, known='[people.carl]\nlogins = ["c.lee"]\n')
    midturn.ok("answer", question["id"], "yes", MIDTURN_CFG_USER__NAME="c.lee")
    assert midturn.ok("inbox", "--json").json[0]["people"]["voted"] == ["carl"]
    vote = midturn.events()[-1]
    assert vote["answered_by"] == {"by": "user", "via": "inbox", "user": "carl", "login": "c.lee"}
    refused = midturn.run("answer", question["id"], "yes", MIDTURN_CFG_USER__NAME="carl")
    assert "carl has said yes already: 1 of 2" in refused.stderr


def test_only_permitted_people_and_the_owner_end_a_turn(midturn: CommandLine) -> None:
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
        assert (
            f"you can end the turn anyway, which is recorded: `midturn resume {conversation}"
            " --discard --as-owner`" in refused.stderr
        )
    assert [one["id"] for one in midturn.ok("inbox", "--json").json] == [question["id"]]
    assert (
        "`--as-owner` requires `--discard`."
        in midturn.run("resume", conversation, "--as-owner").stderr
    )
    midturn.ok("resume", conversation, "--discard", "--as-owner", **as_carl)
    assert midturn.events()[-1]["ended_by"] == {"by": "owner", "via": "inbox", "user": "carl"}
    assert (
        "carl" in midturn.run("answer", question["id"], "yes", MIDTURN_CFG_USER__NAME="ana").stderr
    )
    midturn.ok("conversation", "rm", "--yes", conversation, **as_carl)


def test_several_questions_are_answered_at_once_after_showing_each(midturn: CommandLine) -> None:
    asked = waiting(midturn, {"ask": ["ops"]}, "Deploy one?", "Deploy two?")
    first, second = (question["id"] for question in asked)
    wrong = midturn.run("answer", first, second, "perhaps")
    assert wrong.status != 0
    assert len(midturn.ok("inbox", "--json").json) == 2
    said = midturn.ok("answer", first, second, "yes").stderr
    assert (
        said.index("deploy asks: Deploy one?")
        < said.index("deploy asks: Deploy two?")
        < said.index("Deploy one?  yes")
    )
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


def test_explain_names_people_and_the_number_of_approvals(midturn: CommandLine) -> None:
    midturn.asker(run="unattended")
    midturn.configure(midturn.config.read_text() + PEOPLE + RULE)
    said = midturn.ok("tools", "explain", "deploy", "say=production").stdout.splitlines()
    assert said[0].startswith("ask: asks before it runs, by the rule at ")
    assert said[1:5] == [
        "  Assigned to ops (ana and bo); no one else may answer.",
        "  2 different people must approve. The first denial rejects the call.",
        "  Reminders are sent every 30 min, at most 5 times.",
        "  After 2 h, it is also assigned to carl.",
    ]
    assert " ask ops " in said[5]
    people = midturn.ok("tools", "explain", "deploy", "say=production", "--json").json["people"]
    assert (people["ask"], people["approvals"], people["members"]) == (
        ["ops"],
        2,
        {"ops": ["ana", "bo"]},
    )
    assert midturn.ok("tools", "explain", "deploy", "say=staging", "--json").json["people"] is None


CALLS_OF_OPS = """
[[conversation.tools.deploy.rules]]
ask = ["ops"]
only = true
approvals = 2
"""


def test_digest_binds_a_yes_to_the_shown_call(midturn: CommandLine) -> None:
    midturn.configure(PEOPLE + CALLS_OF_OPS)
    midturn.asker()
    asked = midturn.run(
        "query", "-m", midturn.script(calls("deploy", env="staging")), "--defer", "Ship it"
    )
    assert asked.status == 3
    (question,) = midturn.ok("inbox", "--json").json
    digest = question["about"]
    assert (
        f"midturn answer {question['id']} yes --digest {digest[:8]}" in midturn.ok("inbox").stdout
    )
    for wrong in ("1234", "xyzxyzxyz", f"{digest}0"):
        assert (
            "Invalid `--digest`"
            in midturn.run("answer", question["id"], "yes", "--digest", wrong).stderr
        )
    as_ana = {"MIDTURN_CFG_USER__NAME": "ana"}
    stale = midturn.run("answer", question["id"], "yes", "--digest", "0" * 8, **as_ana)
    assert stale.status != 0
    blind = midturn.run("answer", question["id"], "yes", **as_ana)
    for refused in (stale, blind):
        assert '"env"' in refused.stderr or "staging" in refused.stderr
        assert f"midturn answer {question['id']} yes --digest {digest[:8]}" in refused.stderr
    assert midturn.ok("inbox", "--json").json[0]["people"]["voted"] == []
    assert (
        "1 of 2 approvals so far"
        in midturn.ok("answer", question["id"], "yes", "--digest", digest[:8], **as_ana).stderr
    )


def test_edit_is_a_proposal_until_the_rules_are_applied(midturn: CommandLine) -> None:
    midturn.configure(PEOPLE + RULE)
    midturn.asker(run="ask")
    asked = midturn.run(
        "query", "-m", midturn.script(calls("deploy", say="dev")), "--defer", "Ship it"
    )
    assert asked.status == 3
    (question,) = midturn.ok("inbox", "--json").json
    edited = midturn.ok("answer", question["id"], '{"edit": {"say": "production"}}')
    assert (
        "midturn: the edit is recorded; rules are applied to it when the turn continues."
        in edited.stderr
    )
    assert "midturn: answered." not in edited.stderr
    assert "--digest" not in midturn.ok("inbox").stdout  # a yes is not possible yet
    midturn.run("resume")
    assert f"{question['id']} yes --digest" in midturn.ok("inbox").stdout
    trail = midturn.ok("conversation", "show", "--inquiries").stdout
    assert "run deploy: asked" in trail
    assert 'arguments: {"say": "production"}' in trail
    assert "assigned to ops" in trail
