"""People and groups in the configuration: how names are resolved, and which entries are
errors.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from midturn.errors import ConfigError, NotAllowed
from midturn.events.open_question import AskingAgent
from midturn.events.types import AnsweredBy
from midturn.integrations.hooks.external_call import ExternalCall, permission, start_events
from midturn.question.people import People
from midturn.question.reply import Answered
from midturn.turn.settings import TurnSettings
from midturn.turn.visit import Visit
from support.workspaces import Workspace

OPS = """
[people.ana]
logins = ["a.smith", "ana@example.org"]
notify = "ntfy://ntfy.sh/ana"
[people.bo]
[people.carl]
[groups.leads]
members = ["carl"]
[groups.ops]
members = ["ana", "bo", "leads"]
"""
DEPLOY = """
[[conversation.tools.deploy.rules]]
when.env = "production"
ask = ["ops"]
only = true
remind_after = "30m"
escalate = [{ after = "2h", to = ["leads"] }]
approvals = 2
"""


def test_people_of_a_rule_include_groups_and_logins(workspace: Workspace) -> None:
    workspace.user(OPS + DEPLOY)
    settings = workspace.load().settings
    ruling = settings.tool("deploy").policy.ruling({"env": "production"})
    assert ruling.run == "ask"
    assert ruling.people is not None
    asked = settings.directory.filled_in(ruling.people)
    assert asked.members == {"ops": ("ana", "bo", "carl"), "leads": ("carl",)}
    assert [asked.person(login) for login in ("a.smith", "ana", "bo", "dora")] == [
        "ana",
        "ana",
        "bo",
        "dora",
    ]
    assert (asked.only, asked.approvals, asked.remind_after, asked.escalate[0].after) == (
        True,
        2,
        1800,
        7200,
    )
    assert settings.directory.addresses(asked, ["ops"]) == ["ntfy://ntfy.sh/ana"]


def test_a_question_is_given_people_by_configuration(workspace: Workspace) -> None:
    workspace.user(
        'conversation.tools.deploy.questions.go.people = { ask = ["ana"], only = true }\n' + OPS
    )
    assert workspace.load().settings.tool("deploy").policy.question("go").people == People(
        ask=["ana"], only=True
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            '[groups.ops]\nmembers = ["anna"]\n[people.ana]',
            "config.toml:2: `groups.ops.members`: no person or group is named `anna`.",
        ),
        (
            '[groups.a]\nmembers = ["b"]\n[groups.b]\nmembers = ["a"]',
            "config.toml:2: `groups.a.members`: the group contains itself (a → b → a)",
        ),
        (
            '[groups.a]\nmembers = ["a"]',
            "`groups.a.members`: the group contains itself (a → a); remove one of these members",
        ),
        ("[groups.a]\nmembers = []", "`groups.a`: the group is empty; set its `members`"),
        (
            '[people.a]\n[groups.a]\nmembers = ["a"]',
            "`a` is also the name of a person; rename the group",
        ),
        (
            '[people.bo]\n[people.ana]\nlogins = ["bo"]',
            "config.toml:3: `people.ana.logins`: `bo` is the name of another person",
        ),
        (
            '[people.ana]\nlogins = ["a.smith"]\n[people.bo]\nlogins = ["A.Smith"]',
            "config.toml:4: `people.bo.logins`: `A.Smith` is also in `people.ana.logins` (",
        ),
        (
            '[people.ana]\nlogins = ["x"]\n[people.Ana]\nlogins = ["y"]',
            "config.toml:4: `people.Ana`: the same name as `people.ana` (",
        ),
        ('[people.ops]\n[groups.Ops]\nmembers = ["ops"]', "the same name as `people.ops`"),
        (
            '[people.ana]\nlogins = ["a\\u0007b"]',
            "b' contains the control character U+0007. Remove it.",
        ),
        ('[people.ana]\nlogins = ["\\u200b"]', "is empty. Use at least one visible character."),
        (
            '[people.bo]\n[people.ana]\nlogins = ["BO"]',
            "config.toml:3: `people.ana.logins`: `BO` is the name of another person",
        ),
        (
            '[[conversation.tools.deploy.rules]]\nask = ["oops"]',
            "no person or group is named `oops`.",
        ),
        (
            (
                '[[conversation.tools.deploy.rules]]\nask = ["ana"]\nescalate = [{ after = "1h", to'
                " = [] }]"
            ),
            "no one is named. Name people or groups.",
        ),
        (
            (
                '[people.ana]\n[[conversation.tools.deploy.rules]]\nask = ["ana"]\nonly ='
                " true\napprovals = 2"
            ),
            "2 approvals are required, but only 1 may answer",
        ),
        (
            "conversation.tools.deploy.questions.go.people = { approvals = 0 }",
            "0 is not a valid number of approvals",
        ),
        (
            'conversation.tools.deploy.questions.go.people = "ana"',
            "expected a table, such as { ask = ",
        ),
    ],
)
def test_invalid_people_entry_is_an_error_with_its_place(
    workspace: Workspace, text: str, says: str
) -> None:
    workspace.user(text)
    with pytest.raises(ConfigError) as failed:
        workspace.load()
    assert says in str(failed.value)
    assert "config.toml:" in str(failed.value)


def test_a_file_of_a_workspace_sets_no_people_until_it_is_approved(workspace: Workspace) -> None:
    workspace.user(OPS)
    workspace.workspace("[people.ana]\nlogins = ['mallory']\n" + DEPLOY.replace("only = true", ""))
    settings = workspace.load().settings
    assert settings.directory.person("mallory") == "mallory"
    assert settings.tool("deploy").policy.ruling({"env": "production"}).people is None
    workspace.trust()
    assert workspace.load().settings.directory.person("mallory") == "ana"


def test_rule_for_another_agents_call_asks_people(workspace: Workspace) -> None:
    workspace.user(
        OPS
        + "[[agents.claude.tools.Bash.rules]]\nwhen.command = 'terraform *'\nask = ['ops']\nonly ="
        " true"
    )
    ruling = workspace.load().settings.ruling("claude", "Bash", {"command": "terraform apply"})
    assert ruling.people is not None
    asker = AskingAgent(agent="claude", name="Claude Code", via="hook")
    external_call = ExternalCall(
        conversation="1",
        call="c",
        id="call",
        tool="Bash",
        arguments={"command": "terraform apply"},
        asker=asker,
    )
    waiting = permission(external_call, ruling)
    assert waiting.people is not None
    assert waiting.people.members["ops"] == ("ana", "bo", "carl")
    turn = [
        replace(event, event_id=event.event_id or f"e{place}")
        for place, event in enumerate((*start_events(external_call, "Apply"), waiting))
    ]
    with pytest.raises(NotAllowed, match="dora may not answer this"):
        Visit(turn, turn[-1].event_id, iter(["n1", "n2"])).take(
            Answered(True), AnsweredBy("user", via="web", user="dora")
        )


def test_names_are_compared_by_their_canonical_form(workspace: Workspace) -> None:
    workspace.user(
        OPS.replace("[people.bo]", "[people.Bo]")
        + DEPLOY.replace('["ops"]', '["OPS"]').replace('["leads"]', '["Leads"]')
    )
    settings = workspace.load().settings
    ruling = settings.tool("deploy").policy.ruling({"env": "production"})
    assert ruling.people is not None
    asked = settings.directory.filled_in(ruling.people)
    assert asked.people_of(asked.ask) == {"ana", "Bo", "carl"}
    assert [
        asked.person(login) for login in ("A.SMITH", "ana@Example.org", "ANA", "an\u200ba")
    ] == ["ana"] * 4
    assert settings.directory.person("bO") == "Bo"
    assert settings.directory.knows("oPS")


def test_the_logins_of_everyone_are_recorded_where_anyone_may_vote(workspace: Workspace) -> None:
    workspace.user(OPS)
    asked = workspace.load().settings.directory.filled_in(People(approvals=2))
    assert asked.person("a.smith") == asked.person("ana@example.org") == "ana"
    assert set(asked.logins) == {"ana", "bo", "carl"}


def test_program_defines_groups_without_configuration() -> None:
    asked = TurnSettings(tools={}).filled_in(People(ask=["ops"], members={"ops": ["ana"]}))
    assert asked.people_of(asked.ask) == {"ana"}
