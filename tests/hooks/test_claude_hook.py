"""`midturn hook claude`: the input of Claude Code's hooks, and their output."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from typing import Any
from unittest.mock import patch

import pytest

from midturn.cli.command_context import place_in
from midturn.clock import SYSTEM
from midturn.events.open_question import AskingAgent
from midturn.integrations.hooks.external_calls import ExternalCallService
from midturn.protocol_forms import Outgoing, heading
from midturn.tools.ask_user_call import read_arguments
from support.cli import CommandLine
from support.hooks import Session, answers, stored, until, wait_for

COMMAND = {"command": "touch made", "description": "Make it"}
TOUCH = {"tool_name": "Bash", "tool_input": COMMAND}
QUESTIONS = [
    {
        "question": "Which env?",
        "header": "Env",
        "options": [
            {"label": "prod", "description": "The real one"},
            {"label": "dev", "description": "The other"},
        ],
        "multiSelect": False,
    },
    {
        "question": "Which parts?",
        "header": "Parts",
        "options": [{"label": "api"}, {"label": "web"}],
        "multiSelect": True,
    },
]
ASK = {"tool_name": "AskUserQuestion", "tool_input": {"questions": QUESTIONS}}


def decided(printed: Any) -> dict[str, Any]:
    """Return the decision of a permission hook."""
    assert printed["hookSpecificOutput"]["hookEventName"] == "PermissionRequest"
    return printed["hookSpecificOutput"]["decision"]


# Permissions
# --------------------------------------------------------------------------------------------------


def test_permission_shows_exact_call_and_asker(midturn: CommandLine, claude: Session) -> None:
    hook = claude.start("PermissionRequest", **TOUCH)
    (question,) = wait_for(midturn)

    shown = midturn.ok("inbox").stdout

    assert question["source"] == {"source": "other", "name": "Claude Code"}
    assert (question["kind"], question["tool"], question["arguments"]) == (
        "run",
        "Bash",
        TOUCH["tool_input"],
    )
    assert question["asker"] == {
        "name": "Claude Code",
        "session": "s1",
        "waits": True,
        "cwd": str(midturn.root),
    }
    assert "Claude Code asks: Run Bash?" in shown
    assert "| command: touch made" in shown
    assert "session s1; it is waiting" in shown
    hook.kill()


def test_yes_from_the_inbox_lets_the_call_run(midturn: CommandLine, claude: Session) -> None:
    hook = claude.start("PermissionRequest", **TOUCH)
    (question,) = wait_for(midturn)

    answered = midturn.ok("answer", question["id"], "y")

    assert decided(hook.decision()) == {"behavior": "allow"}
    assert answered.stderr.endswith("midturn: answered. Claude Code continues.\n")
    (events,) = stored(midturn)
    assert [event["answered_by"] for event in answers(events)] == [
        {"by": "user", "via": "inbox", "user": "ana"}
    ]
    assert events[-1] | {"timestamp": "", "event_id": ""} == {
        "type": "turn_end",
        "status": "completed",
        "timestamp": "",
        "event_id": "",
    }


def test_permission_for_later_calls_applies_only_to_the_agents_directory(
    midturn: CommandLine, claude: Session
) -> None:
    midturn.accept_keys_at_once()
    hook = claude.start("PermissionRequest", **TOUCH)
    (question,) = wait_for(midturn)
    first = midturn.root
    with midturn.on_a_terminal("answer", question["id"]) as terminal:
        terminal.wait_at(": ")
        terminal.send("A\r")
        terminal.wait_at("> ")
        shown = " ".join(terminal.text.split())
        assert "Runs without asking, in the project" in shown
        assert ":w change where it applies" not in shown, (
            "a call of another agent is bound to the directory"
        )
        terminal.send("\r")
        assert terminal.wait_for_end() == 0
    assert decided(hook.decision())["behavior"] == "allow"
    (rule,) = midturn.ok("tools", "rules", "--json").json
    assert (rule["about"], rule["project"]) == ("Bash of claude", str(first))

    assert decided(claude.start("PermissionRequest", **TOUCH).decision())["behavior"] == "allow"
    more = {**TOUCH, "tool_input": {**COMMAND, "dangerouslyDisableSandbox": True}}
    asking = claude.start("PermissionRequest", **more)
    wait_for(midturn)
    asking.kill()

    midturn.root = first.parent / "elsewhere"
    (midturn.root / ".midturn").mkdir(parents=True, mode=0o700)
    elsewhere = claude.start("PermissionRequest", **TOUCH)
    (question,) = wait_for(midturn)
    assert question["arguments"] == TOUCH["tool_input"]
    elsewhere.kill()


def test_no_permanent_permission_if_certain_people_decide(
    midturn: CommandLine, claude: Session
) -> None:
    midturn.configure(
        '[people.ana]\n[people.bo]\n[[agents.claude.tools.Bash.rules]]\nask = ["ana", "bo"]\nonly ='
        " true\napprovals = 2\n"
    )
    midturn.accept_keys_at_once()
    hook = claude.start("PermissionRequest", **TOUCH)
    (question,) = wait_for(midturn)
    with midturn.on_a_terminal("answer", question["id"]) as terminal:
        terminal.wait_at(": ")
        assert "A rule" not in terminal.text
        terminal.send("A\r")
        terminal.wait_for("A is not an option")
        terminal.wait_at(": ")
        terminal.send("n\r")
        assert terminal.wait_for_end() == 0
    assert decided(hook.decision())["behavior"] == "deny"


def test_no_contains_the_persons_reason(midturn: CommandLine, claude: Session) -> None:
    hook = claude.start("PermissionRequest", **TOUCH)
    (question,) = wait_for(midturn)

    midturn.ok("answer", question["id"], "n", "--reason", "Not on a Friday.")

    assert decided(hook.decision()) == {
        "behavior": "deny",
        "message": "The user said no: Not on a Friday.",
    }


def test_edited_arguments_run(midturn: CommandLine, claude: Session) -> None:
    hook = claude.start("PermissionRequest", **TOUCH)
    (question,) = wait_for(midturn)

    midturn.ok("answer", question["id"], json.dumps({"edit": {"command": "touch other"}}))

    assert decided(hook.decision()) == {
        "behavior": "allow",
        "updatedInput": {"command": "touch other"},
    }


EDITS = """
[people.ana]
[people.bo]
[[agents.claude.tools.Bash.rules]]
when = { command = "make deploy*" }
ask = ["ana", "bo"]
only = true
approvals = 2
[[agents.claude.tools.Bash.rules]]
when = { command = "rm *" }
run = "skip"
reason = "Nothing is removed."
"""


def test_undecided_edit_is_not_reported_as_an_answer(midturn: CommandLine, claude: Session) -> None:
    midturn.configure(EDITS)
    midturn.accept_keys_at_once()
    hook = claude.start("PermissionRequest", **TOUCH)
    (question,) = wait_for(midturn)

    refused = midturn.ok(
        "answer", question["id"], json.dumps({"edit": {"command": "rm made"}})
    ).stderr
    assert (
        "midturn: the edit is recorded, but others must approve it. Run `midturn inbox" in refused
    )
    assert "midturn: answered" not in refused
    until(lambda: midturn.ok("inbox").stdout, lambda shown: "Nothing is removed." in shown)

    proposed = midturn.ok(
        "answer", question["id"], json.dumps({"edit": {"command": "make deploy"}})
    ).stderr
    assert "midturn: answered" not in proposed
    until(lambda: midturn.ok("inbox").stdout, lambda shown: "of 2" in shown)

    midturn.ok("answer", question["id"], "no")
    assert decided(hook.decision())["behavior"] == "deny"


def test_ending_the_turn_stops_the_agent(midturn: CommandLine, claude: Session) -> None:
    hook = claude.start("PermissionRequest", **TOUCH)
    (question,) = wait_for(midturn)

    midturn.ok("answer", question["id"], "--cancel")

    assert decided(hook.decision()) == {
        "behavior": "deny",
        "message": "The user ended the turn. Stop here.",
        "interrupt": True,
    }


def test_deadline_with_a_dialog_prints_nothing_and_closes_the_question(
    midturn: CommandLine, claude: Session
) -> None:
    printed = claude.run("PermissionRequest", "--wait", "0.1", **TOUCH)

    assert printed is None
    assert midturn.ok("inbox", "--json").json == []
    assert [event["state"] for event in answers(stored(midturn)[0])] == ["superseded"]


def test_deadline_without_a_dialog_denies_without_a_recorded_no(
    midturn: CommandLine, headless: Session
) -> None:
    decision = decided(headless.run("PermissionRequest", "--wait", "0.1", **TOUCH))

    assert decision["behavior"] == "deny"
    assert "Nobody has answered yet" in decision["message"]
    assert "not a no" in decision["message"]
    assert "The user said no" not in decision["message"]
    assert len(midturn.ok("inbox", "--json").json) == 1
    assert answers(stored(midturn)[0]) == []


def test_parallel_calls_are_parallel_questions(midturn: CommandLine, claude: Session) -> None:
    first = claude.start("PermissionRequest", tool_name="Bash", tool_input={"command": "one"})
    second = claude.start("PermissionRequest", tool_name="Bash", tool_input={"command": "two"})
    questions = {
        question["arguments"]["command"]: question["id"] for question in wait_for(midturn, 2)
    }

    midturn.ok("answer", questions["two"], "n")
    midturn.ok("answer", questions["one"], "y")

    assert decided(first.decision()) == {"behavior": "allow"}
    assert decided(second.decision()) == {"behavior": "deny", "message": "The user said no."}


def test_killed_hook_leaves_its_question_open(midturn: CommandLine, claude: Session) -> None:
    hook = claude.start("PermissionRequest", **TOUCH)
    (question,) = wait_for(midturn)
    hook.process.send_signal(signal.SIGTERM)
    assert hook.process.communicate()[0] == ""

    assert "its process has ended" in midturn.ok("inbox").stdout
    answered = midturn.ok("answer", question["id"], "y")

    assert (
        "The hook of Claude Code has ended, so its own dialog decides and the answer is not"
        " delivered." in answered.stderr
    )


def test_repeated_call_is_not_asked_again(midturn: CommandLine, headless: Session) -> None:
    """The answer arrived while no hook was waiting. The repeated call uses it."""
    headless.run("PermissionRequest", "--wait", "0.1", **TOUCH)
    (question,) = midturn.ok("inbox", "--json").json
    midturn.ok("answer", question["id"], "y")

    assert decided(headless.run("PermissionRequest", "--wait", "5", **TOUCH)) == {
        "behavior": "allow"
    }
    assert len(stored(midturn)) == 1


def test_permission_applies_to_one_session(midturn: CommandLine, headless: Session) -> None:
    headless.run("PermissionRequest", "--wait", "0.1", **TOUCH)
    midturn.ok("answer", midturn.ok("inbox", "--json").json[0]["id"], "y")
    other = Session(midturn, "claude", "s2", **headless.environment)

    assert decided(other.run("PermissionRequest", "--wait", "0.1", **TOUCH))["behavior"] == "deny"


# Decisions at Claude Code's own prompt
# --------------------------------------------------------------------------------------------------


def test_yes_in_the_agents_dialog_closes_without_a_responder(
    midturn: CommandLine, claude: Session
) -> None:
    hook = claude.start("PermissionRequest", **TOUCH)
    (question,) = wait_for(midturn)

    claude.run("PostToolUse", **TOUCH, tool_response={"stdout": ""})

    assert hook.decision() is None
    assert midturn.ok("inbox", "--json").json == []
    (events,) = stored(midturn)
    (closed,) = answers(events)
    assert closed["state"] == "superseded"
    assert "answered_by" not in closed
    assert midturn.run("answer", question["id"], "y").status == 1


def test_no_in_the_agents_dialog_closes_at_the_next_message(
    midturn: CommandLine, claude: Session
) -> None:
    hook = claude.start("PermissionRequest", **TOUCH)
    wait_for(midturn)
    hook.process.send_signal(signal.SIGTERM)
    hook.process.communicate()

    claude.run("UserPromptSubmit", prompt="Do something else")

    assert midturn.ok("inbox", "--json").json == []
    assert [event["state"] for event in answers(stored(midturn)[0])] == ["superseded"]


def test_other_sessions_close_nothing(midturn: CommandLine, claude: Session) -> None:
    hook = claude.start("PermissionRequest", **TOUCH)
    wait_for(midturn)
    other = Session(midturn, "claude", "s2", **claude.environment)

    other.run("PostToolUse", **TOUCH, tool_response={})
    other.run("UserPromptSubmit", prompt="Hello")

    assert len(midturn.ok("inbox", "--json").json) == 1
    hook.kill()


# Questions
# --------------------------------------------------------------------------------------------------


def test_questions_are_a_form_with_answers_by_text(midturn: CommandLine, claude: Session) -> None:
    hook = claude.start("PermissionRequest", **ASK)
    (question,) = wait_for(midturn)
    assert question["form"]["total"] == 2
    assert question["question"]["text"] == "Which env?"

    midturn.ok(
        "answer", question["id"], json.dumps({"q0": {"other": "staging"}, "q1": ["api", "web"]})
    )

    decision = decided(hook.decision())
    assert decision["behavior"] == "allow"
    assert decision["updatedInput"] == {
        "questions": QUESTIONS,
        "answers": {"Which env?": "staging", "Which parts?": "api, web"},
    }


def test_questions_are_answered_one_by_one(midturn: CommandLine, claude: Session) -> None:
    hook = claude.start("PermissionRequest", **ASK)
    (first,) = wait_for(midturn)
    midturn.ok("answer", first["id"], "prod")
    (second,) = until(
        lambda: midturn.ok("inbox", "--json").json,
        lambda questions: [q["id"] for q in questions] not in ([], [first["id"]]),
    )

    midturn.ok("answer", second["id"], '["web"]')

    assert decided(hook.decision())["updatedInput"]["answers"] == {
        "Which env?": "prod",
        "Which parts?": "web",
    }


def test_option_previews_are_kept(midturn: CommandLine, claude: Session) -> None:
    layouts = [
        {"label": "wide", "preview": "+----+\n|    |"},
        {"label": "long", "preview": "x" * 20_000},
        {"label": "none"},
    ]
    asked = [
        {"question": "Which layout?", "header": "Layout", "options": layouts, "multiSelect": False}
    ]
    hook = claude.start(
        "PermissionRequest", tool_name="AskUserQuestion", tool_input={"questions": asked}
    )

    (question,) = wait_for(midturn)
    midturn.ok("answer", question["id"], "wide")

    assert decided(hook.decision())["updatedInput"]["answers"] == {"Which layout?": "wide"}
    wide, long, none = question["question"]["answer_type"]["options"]
    assert wide == {"value": "wide", "preview": "+----+\n|    |"}
    assert len(long["preview"]) == 16_384
    assert "preview" not in none


def test_reply_is_reported_as_a_reply(midturn: CommandLine, claude: Session) -> None:
    hook = claude.start("PermissionRequest", **ASK)
    (question,) = wait_for(midturn)

    midturn.ok("answer", question["id"], "--reply", "What is dev?")

    assert decided(hook.decision()) == {
        "behavior": "deny",
        "message": "The user did not choose, and said: What is dev?",
    }


def test_unshowable_questions_are_refused_with_a_reason(headless: Session) -> None:
    twice = {
        "tool_name": "AskUserQuestion",
        "tool_input": {"questions": [QUESTIONS[0], QUESTIONS[0]]},
    }

    decision = decided(headless.run("PermissionRequest", **twice))

    assert decision["behavior"] == "deny"
    assert "two questions have the same text" in decision["message"]


def test_questions_answered_in_the_agents_dialog_are_closed(
    midturn: CommandLine, claude: Session
) -> None:
    hook = claude.start("PermissionRequest", **ASK)
    wait_for(midturn)

    given = {"questions": QUESTIONS, "answers": {"Which env?": "prod", "Which parts?": "api"}}
    claude.run("PostToolUse", tool_name="AskUserQuestion", tool_input=given, tool_response={})

    assert hook.decision() is None
    assert [(event["outcome"], event.get("reason")) for event in answers(stored(midturn)[0])] == [
        ("cancelled", "superseded")
    ]


OURS = {
    "questions": [
        {
            "id": "env",
            "text": "Which env?",
            "answer_type": "select",
            "options": ["prod", "dev"],
            "allow_other": True,
        },
        {"id": "sure", "text": "Sure?", "answer_type": "boolean"},
    ]
}


@pytest.fixture
def asked(midturn: CommandLine) -> list[list[Any]]:
    """Ask a form through our server, in a session that had another ID then.

    Return the sets of questions that its dialog may show.
    """
    with patch.dict(os.environ, midturn.environment, clear=True):
        store = place_in(midturn.root, None).store
    asker = AskingAgent(
        name="Claude Code", agent="claude", session="another", via="mcp", cwd=str(midturn.root)
    )
    form = read_arguments(OURS).form
    asyncio.run(ExternalCallService(store, asker, SYSTEM).questions("", "ask_user", OURS, form))
    return [[*form.questions], [form.questions[0]]]


def dialog(questions: list[Any], **changes: Any) -> dict[str, Any]:
    """Return the hook input before Claude Code opens the dialog of our server."""
    shown = {"message": heading(questions), "requested_schema": Outgoing.of(questions).schema}
    return {"mcp_server_name": "midturn", "mode": "form", **shown, **changes}


@pytest.mark.parametrize("server", ["midturn", "ask-me"])
def test_questions_of_our_server_are_not_asked_twice(
    midturn: CommandLine, claude: Session, asked: list[list[Any]], server: str
) -> None:
    for questions in asked:
        assert claude.run("Elicitation", **dialog(questions, mcp_server_name=server)) is None
    assert len(stored(midturn)) == 1


def test_other_server_with_our_name_is_asked_about(
    midturn: CommandLine, claude: Session, asked: list[list[Any]]
) -> None:
    theirs = [
        dialog(asked[0], message="Which env? "),
        dialog(
            asked[0], requested_schema={"type": "object", "properties": {"env": {"type": "string"}}}
        ),
    ]
    hooks = [claude.start("Elicitation", **one) for one in theirs]
    questions = wait_for(midturn, 3)

    assert [question["question"]["context"] for question in questions[1:]].count(
        "The MCP server midturn asks: Please answer these questions."
    ) == 1
    for hook in hooks:
        hook.kill()


def test_elicitation_is_a_form(midturn: CommandLine, claude: Session) -> None:
    schema = {
        "type": "object",
        "properties": {"re gion": {"type": "string", "enum": ["eu", "us"]}},
        "required": ["re gion"],
    }
    hook = claude.start(
        "Elicitation",
        mcp_server_name="cloud",
        message="Where to?",
        mode="form",
        requested_schema=schema,
    )
    (question,) = wait_for(midturn)
    assert question["question"]["context"] == "The MCP server cloud asks: Where to?"

    midturn.ok("answer", question["id"], "us")

    expected = {"hookEventName": "Elicitation", "action": "accept", "content": {"re gion": "us"}}
    assert hook.decision() == {"hookSpecificOutput": expected}


# Waking
# --------------------------------------------------------------------------------------------------


def test_late_answer_wakes_a_headless_session(midturn: CommandLine, headless: Session) -> None:
    headless.run("PermissionRequest", "--wait", "0.1", **TOUCH)
    stop = headless.start("Stop", stop_hook_active=False)
    (question,) = wait_for(midturn)

    midturn.ok("answer", question["id"], "y")

    woken = stop.decision()
    assert woken["decision"] == "block"
    assert "the user now allows the call of Bash" in woken["reason"]
    assert "Run it again." in woken["reason"]
    assert headless.run("Stop", stop_hook_active=True) is None, "it is told once"
    assert decided(headless.run("PermissionRequest", "--wait", "5", **TOUCH)) == {
        "behavior": "allow"
    }
    assert stored(midturn)[0][-1]["type"] == "turn_end"


def test_late_no_is_reported_once(midturn: CommandLine, headless: Session) -> None:
    headless.run("PermissionRequest", "--wait", "0.1", **TOUCH)
    midturn.ok("answer", midturn.ok("inbox", "--json").json[0]["id"], "n", "--reason", "Too late.")

    assert "The user said no: Too late." in headless.run("Stop", stop_hook_active=False)["reason"]
    assert headless.run("Stop", stop_hook_active=True) is None


def test_session_without_open_questions_stops_immediately(headless: Session) -> None:
    assert headless.run("Stop", stop_hook_active=False) is None


def test_at_a_terminal_the_end_of_a_turn_does_not_wait(
    midturn: CommandLine, claude: Session
) -> None:
    """The hook does not delay a user who types. The dialog of a call closes with its turn."""
    claude.run("PermissionRequest", "--wait", "0.1", **TOUCH)

    assert claude.run("Stop", stop_hook_active=False) is None
    assert midturn.ok("inbox", "--json").json == []


# Unexpected input
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "stdin",
    [
        "",
        "not json",
        "[]",
        "{}",
        '{"hook_event_name": "FromTheFuture", "x": 1}',
        '{"hook_event_name": 7}',
    ],
)
def test_unknown_input_prints_nothing(claude: Session, stdin: str) -> None:
    assert claude.start_with(stdin).decision() is None


def test_permission_of_another_version_is_still_asked(
    midturn: CommandLine, claude: Session
) -> None:
    """Missing fields are read as empty, unknown ones are ignored. The call is shown as far as
    it is known.
    """
    hook = claude.start(
        "PermissionRequest", tool_name="New Tool!", tool_input=["a", "list"], novelty={"x": [1]}
    )
    (question,) = wait_for(midturn)

    midturn.ok("answer", question["id"], "n")

    assert decided(hook.decision())["behavior"] == "deny"


def test_unwritable_store_is_not_an_answer(midturn: CommandLine, headless: Session) -> None:
    (midturn.home / "data").write_text("in the way")

    decision = decided(headless.run("PermissionRequest", **TOUCH))

    assert decision["behavior"] == "deny"
    assert "nobody has decided" in decision["message"]
    assert "The user said no" not in decision["message"]


def test_outside_a_workspace_the_users_store_is_used(midturn: CommandLine, claude: Session) -> None:
    (midturn.root / ".midturn").rmdir()
    hook = claude.start("PermissionRequest", **TOUCH)
    (question,) = wait_for(midturn)

    midturn.ok("answer", question["id"], "y")

    assert decided(hook.decision()) == {"behavior": "allow"}


def test_turn_of_an_external_agent_is_not_continued(
    midturn: CommandLine, headless: Session
) -> None:
    headless.run("PermissionRequest", "--wait", "0.1", **TOUCH)
    (question,) = midturn.ok("inbox", "--json").json
    midturn.ok("answer", question["id"], "y")

    resumed = midturn.run("resume", question["conversation"])

    assert resumed.status == 1
    assert "belongs to Claude Code. Only Claude Code can continue it." in resumed.stderr
    assert "no turn is ready" in midturn.ok("resume", "--ready").stderr


# Rules by argument
# --------------------------------------------------------------------------------------------------


RULES = """
[[agents.claude.tools.Bash.rules]]
when.command = "git status*"
run = "unattended"

[[agents.claude.tools.Bash.rules]]
when.command = "*push*"
run = "skip"
reason = "Releases are pushed by hand."
"""


def asks(session: Session, command: str) -> Any:
    """Run the hook for a command; return its decision."""
    printed = session.run("PermissionRequest", tool_name="Bash", tool_input={"command": command})
    return printed["hookSpecificOutput"]["decision"]


def test_rule_decides_and_is_recorded(midturn: CommandLine, headless: Session) -> None:
    midturn.configure(RULES)
    assert asks(headless, "git status -s") == {"behavior": "allow"}
    refused = (
        "A rule of the user's configuration does not allow this call: Releases are pushed by hand."
    )
    assert asks(headless, "git push") == {"behavior": "deny", "message": refused}
    first, second = [
        [event for event in midturn.events(path) if event["type"] == "approval"]
        for path in midturn.conversations()
    ]
    assert [(one["state"], one["answered_by"]["by"]) for one in (*first, *second)] == [
        ("approved", "configuration"),
        ("skipped", "configuration"),
    ]
    assert first[0]["answered_by"]["origin"].endswith("config.toml:2")
    assert midturn.ok("inbox", "--json").json == []


def test_without_a_matching_rule_the_user_is_asked(midturn: CommandLine, headless: Session) -> None:
    midturn.configure(RULES)
    waiting = headless.start(
        "PermissionRequest", tool_name="Bash", tool_input={"command": "git status; ls"}
    )
    (question,) = wait_for(midturn)
    midturn.ok("answer", question["id"], "yes")
    assert waiting.decision()["hookSpecificOutput"]["decision"]["behavior"] == "allow"


def test_rules_of_a_clone_allow_nothing(midturn: CommandLine, headless: Session) -> None:
    midturn.workspace_file('[[agents.claude.tools."*".rules]]\nrun = "unattended"\n')
    waiting = headless.start("PermissionRequest", tool_name="Bash", tool_input={"command": "ls"})
    wait_for(midturn)
    waiting.kill()
