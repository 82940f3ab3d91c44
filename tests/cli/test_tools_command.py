"""`midturn tools`, `models`, `doctor`, `completions`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from midturn.cli.config import WrittenRules
from midturn.config.standing_permissions import own_rules
from midturn.events.open_question import approval_text
from midturn.events.prompt import CallSubject, Prompt
from midturn.events.types import ToolCall
from midturn.question.question import Question
from support.cli import CommandLine, asks, calls


def test_ls_shows_offered_tools_and_responders(midturn: CommandLine) -> None:
    midturn.asker(summary="Ship it.", enable=False)

    rows = {
        row.split()[0]: row.split()[1:3] for row in midturn.ok("tools", "ls").stdout.splitlines()
    }

    assert rows["ask_user"] == ["on", "unattended"]
    assert rows["fs_delete_file"] == ["on", "ask"]
    assert rows["deploy"] == ["off", "unattended"]
    assert {tool["name"]: tool["summary"] for tool in midturn.ok("tools", "ls", "--json").json}[
        "deploy"
    ] == "Ship it."


def test_show_prints_the_tool_definition(midturn: CommandLine) -> None:
    shown = midturn.ok("tools", "show", "fs_modify_file").stdout

    assert "asks      apply_changes (answered by user)" in shown
    assert '"edits"' in shown
    assert midturn.ok("tools", "show", "fs_modify_file", "--json").json["name"] == "fs_modify_file"


def test_run_executes_one_tool_and_prints_its_result(midturn: CommandLine) -> None:
    (midturn.root / "plan.md").write_text("one\ntwo\n")

    assert (
        midturn.ok("tools", "run", "fs_read_file", "path=plan.md", "start_line=2").stdout == "two\n"
    )
    assert midturn.ok("tools", "run", "fs_read_file", '{"path": "plan.md"}').stdout == "one\ntwo\n"
    assert midturn.conversations() == []


def test_run_asks_its_questions_at_the_terminal(midturn: CommandLine) -> None:
    midturn.asker(run="ask")
    midturn.accept_keys_at_once()

    with midturn.on_a_terminal("tools", "run", "deploy", f"ask={json.dumps(asks())}") as terminal:
        terminal.wait_for("Deploy to staging?")
        terminal.wait_at(": ")
        terminal.send("y\r")
        assert terminal.wait_for_end() == 0

    assert '{"confirm": true}' in terminal.text


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["fs_read_file", "path=none.md"], 1, "none.md"),
        (["fs_raed_file"], 2, "Did you mean `fs_read_file`?"),
        (["fs_read_file", "plan.md"], 2, ". Expected KEY=VALUE, or one JSON object."),
        (["fs_read_file", "{no"], 2, "not valid JSON"),
        (
            ["deploy", f"ask={json.dumps(asks(exclusive=True))}"],
            4,
            "no interactive terminal is available",
        ),
    ],
)
def test_run_reports_errors(
    midturn: CommandLine, arguments: list[str], status: int, said: str
) -> None:
    midturn.asker()

    finished = midturn.run("tools", "run", *arguments)

    assert finished.status == status, finished
    assert said in finished.stderr
    assert finished.stdout == ""


def test_models_reports_missing_parts(midturn: CommandLine) -> None:
    shown = midturn.ok("models", ANTHROPIC_API_KEY="sk-secret")

    assert "anthropic/claude-sonnet-5-5\n" in shown.stdout or "[anthropic]'" in shown.stdout
    assert "openai  not available: set $OPENAI_API_KEY\n" in shown.stdout
    assert "sk-secret" not in shown.stdout
    assert [one["provider"] for one in midturn.ok("models", "--json").json["providers"]][:3] == [
        "anthropic",
        "openai",
        "google",
    ]


def test_the_configured_model_is_marked(midturn: CommandLine) -> None:
    midturn.configure('[assistant]\nmodel.id = "anthropic/claude-sonnet-5-5"\n')

    assert midturn.ok("models", "--json").json["model"] == "anthropic/claude-sonnet-5-5"


def test_doctor_reports_working_parts_and_fails_without_a_model(midturn: CommandLine) -> None:
    finished = midturn.run("doctor", "--json")

    found = {one["what"]: one["works"] for one in finished.json}
    assert finished.status == 1
    assert (found["configuration"], found["workspace"], found["terminal"], found["model"]) == (
        True,
        True,
        False,
        False,
    )

    midturn.configure('[assistant]\nmodel.id = "scripted:play.json"\n')
    assert midturn.run("doctor").status == 0


def test_doctor_reports_configuration_errors(midturn: CommandLine) -> None:
    midturn.configure("[limits]\ncyles = 1\n")

    finished = midturn.run("doctor")

    assert finished.status == 1
    assert (
        "--  configuration  ~/config/midturn/config.toml:2: unknown key `limits.cyles`."
        in finished.stdout
    )


def test_doctor_reports_the_number_of_untrusted_keys(midturn: CommandLine) -> None:
    midturn.workspace_file(
        "".join(
            f'[conversation.tools.t{at}]\ncommand = ["make"]\nsummary = "Makes."\n'
            for at in range(3)
        )
    )

    shown = midturn.run("doctor").stdout

    said = (
        ".midturn/config.toml is not trusted, so 6 keys have no effect. To review and approve it:"
        " `midturn trust`"
    )
    assert said in shown


def offered(midturn: CommandLine, words: str, shell: str = "bash") -> list[str]:
    """Return the completions that a shell offers after `words`, the last of which is a prefix."""
    given = {
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
        "_MIDTURN_COMPLETE": f"{shell}_complete",
    }
    return midturn.run(**given).stdout.splitlines()


def test_completions_include_open_questions(midturn: CommandLine) -> None:
    midturn.asker()
    midturn.run("query", "-m", midturn.script(calls("deploy", ask=asks())), "--defer", "Ship it")
    question = midturn.ok("inbox", "--json").json[0]["id"]

    assert offered(midturn, f"midturn answer {question[:3]}") == [f"plain,{question}"]
    assert offered(midturn, f"midturn answer {question[:3]}", "zsh") == [
        "plain",
        question,
        "deploy: Deploy to staging?",
    ]
    assert "complete" in midturn.ok("completions", "bash").stdout
    assert "#compdef midturn" in midturn.ok("completions", "zsh").stdout


def test_completions_include_tools_keys_values_models_and_conversations(
    midturn: CommandLine,
) -> None:
    midturn.asker()
    midturn.ok("query", "-m", midturn.script(), "Good morning")
    (conversation,) = midturn.conversations()

    assert offered(midturn, "midturn tools show dep") == ["plain,deploy"]
    assert "plain,fs_read_file" in offered(midturn, "midturn query -t fs_r")
    assert offered(midturn, "midturn config explain prompt.set") == ["plain,prompt.settle_ms"]
    assert "plain,conversation.tools.deploy.run" in offered(
        midturn, "midturn config get conversation.tools.deploy.r"
    )
    assert offered(midturn, "midturn config set prompt.mode ") == [
        "plain,auto",
        "plain,rich",
        "plain,plain",
    ]
    assert "plain,anthropic/claude-haiku-5-5" in offered(
        midturn, "midturn query -m anthropic/claude-h"
    )
    assert offered(midturn, "midturn query --id 1") == [f"plain,{conversation.name.split('-')[0]}"]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (("grep",), "conversation grep"),
        (("rm", "17"), "conversation rm"),
        (("export",), "conversation export"),
        (("conv", "ls"), "conversation"),
        (("ask", "it"), "query"),
        (("history",), "conversation ls"),
        (("settings",), "config"),
        (("qurey",), "query"),
        (("conversation", "delete"), "rm"),
    ],
)
def test_unknown_command_suggests_the_nearest(
    midturn: CommandLine, typed: tuple[str, ...], meant: str
) -> None:
    finished = midturn.run(*typed)

    assert finished.status == 2
    assert f"Did you mean `{meant}`?" in finished.stderr


def test_quoted_message_after_options_is_a_query(midturn: CommandLine) -> None:
    model = midturn.script({"text": "Done."})

    assert midturn.ok("-m", model, "two words").stdout == "Done.\n"
    assert midturn.ok("-c", "two more").stdout == "Done.\n"
    assert len(midturn.conversations()) == 1


def test_undeclared_command_question_is_data_and_reported(midturn: CommandLine) -> None:
    document = json.dumps(
        {
            "type": "needs_input",
            "question": {"id": "q", "text": "Sure?", "answer_type": {"type": "boolean"}},
        }
    )
    (midturn.root / "asked.json").write_text(document)
    midturn.configure(
        "[conversation.tools.t]\nsource = 'local'\ncommand = ['cat', 'asked.json']\nrun ="
        " 'unattended'\n"
    )
    key = '`conversation.tools.t.protocol = "outcome"`'

    ran = midturn.ok("query", "-m", midturn.script(calls("t"), calls("t")), "Go")
    report = midturn.run("doctor", "--json").json

    contents = [
        event["content"] for event in midturn.events() if event["type"] == "tool_call_response"
    ]
    assert contents == [document, document]
    assert " ".join(ran.stderr.split()).count(key) == 1
    assert [(one["works"], key in one["said"]) for one in report if one["what"] == "t"] == [
        (False, True)
    ]


RULES = """
[[conversation.tools.deploy.rules]]
when.say = "hello*"
run = "unattended"

[[conversation.tools.deploy.rules]]
when.say = "rm *"
run = "skip"
reason = "Never."
"""


def test_explain_shows_the_deciding_rule_and_the_others(midturn: CommandLine) -> None:
    midturn.asker(run="ask")
    midturn.configure(midturn.config.read_text() + RULES)
    first = midturn.config.read_text().splitlines().index("[[conversation.tools.deploy.rules]]") + 1

    allowed = midturn.ok("tools", "explain", "deploy", "say=hello there").stdout
    assert allowed.startswith("unattended: runs without asking, by the rule at ")
    assert f"config.toml:{first}\n" in allowed
    other = midturn.ok("tools", "explain", "deploy", '{"say": "hello; rm x"}').stdout
    assert other.startswith("ask: asks before it runs, by `run`, because no rule applies\n")
    assert (
        "does not match: it is not a simple command, and the rule does not set `shell = true`"
        in other
    )
    said = midturn.ok("tools", "explain", "deploy", "say=rm x", "--json").json
    assert (said["run"], said["reason"], [rule["holds"] for rule in said["rules"]]) == (
        "skip",
        "Never.",
        [False, True],
    )


def test_explain_shows_the_deciding_rule_for_another_agents_call(midturn: CommandLine) -> None:
    midturn.configure(
        '[[agents.claude.tools.Bash.rules]]\nwhen.command = "git status*"\nrun = "unattended"\n'
    )
    explain = ("tools", "explain", "--agent", "claude", "Bash")

    assert "by the rule at " in midturn.ok(*explain, "command=git status -s").stdout
    assert midturn.ok(*explain, "command=ls").stdout.startswith(
        "ask: asks before it runs, because no rule applies\n"
    )
    assert midturn.ok(*explain, "command=git status; ls", "--json").json["run"] == "ask"
    wrong = midturn.run("tools", "explain", "--agent", "cluade", "Bash")
    assert (
        wrong.status,
        "There are no rules for the agent `cluade`. Did you mean `claude`?" in wrong.stderr,
    ) == (2, True)


def test_deciding_rule_is_recorded_and_untrusted_files_only_tighten(midturn: CommandLine) -> None:
    midturn.asker(run="ask")
    midturn.configure(midturn.config.read_text() + RULES)
    model = midturn.script({"calls": [{"name": "deploy", "arguments": {"say": "hello"}}]})

    midturn.ok("query", "-m", model, "Go.", "--non-interactive")
    (approval,) = [event for event in midturn.events() if event["type"] == "approval"]
    assert approval["answered_by"]["by"] == "configuration"
    assert approval["answered_by"]["origin"].rpartition(":")[0].endswith("config.toml")
    assert "by configuration" in midturn.ok("conversation", "show", "--inquiries").stdout

    midturn.workspace_file('[[conversation.tools.deploy.rules]]\nwhen.say = "*"\nrun = "ask"\n')
    refused = midturn.run("query", "-m", model, "Go.", "--non-interactive")
    assert (
        refused.status,
        "refused because no one was there to ask: deploy" in refused.stderr,
    ) == (4, True)

    midturn.workspace_file('[[conversation.tools.deploy.rules]]\nrun = "unattended"\n')
    ignored = midturn.run("query", "-m", model, "Go.", "--non-interactive")
    assert (
        ignored.status,
        "`conversation.tools.deploy.rules` has no effect" in ignored.stderr,
    ) == (2, True)


def test_rules_on_one_line_are_distinguished(midturn: CommandLine) -> None:
    """A permission remembered for one rule does not apply to another."""
    midturn.asker(run="unattended")
    rules = [f'{{ when = {{ say = "{say}" }}, run = "ask" }}' for say in ("a*", "b*")]
    midturn.configure(
        midturn.config.read_text() + f"\n[conversation.tools.'*']\nrules = [{', '.join(rules)}]\n"
    )
    places = [
        midturn.ok("tools", "explain", "deploy", f"say={say}", "--json").json["rule"]
        for say in ("a", "b")
    ]
    assert places[0].endswith(" (rule 1)")
    assert places[1] == places[0].replace("(rule 1)", "(rule 2)")


def test_a_wrong_rule_is_named_with_its_place(midturn: CommandLine) -> None:
    midturn.configure('[[conversation.tools.deploy.rules]]\nrun = "ask"\nask = ["ops"]\n')
    told = midturn.run("tools", "ls")
    assert told.status == 2
    assert (
        "config.toml:1: `conversation.tools.deploy.rules`: no person or group is named `ops`"
        in told.stderr
    )


def permitted(midturn: CommandLine, *keys: str, plain: bool = True) -> str:
    """Let a tool ask for approval at a terminal, press keys, and return the whole output."""
    midturn.asker(run="ask")
    midturn.accept_keys_at_once()
    with midturn.on_a_terminal(
        "query", "-m", midturn.script(calls("deploy", say="shipped")), "Ship it", plain=plain
    ) as terminal:
        for number, key in enumerate(keys):
            terminal.wait_at("> " if plain and number else ": ")
            terminal.send(key)
        assert terminal.wait_for_end() == 0
        return terminal.text


def written_rules(midturn: CommandLine) -> list[dict[str, Any]]:
    """Return the rules of the user's own configuration, without the fingerprints of their
    tools.
    """
    rules = midturn.ok("tools", "rules", "--json").json
    for rule in rules:
        rule["rule"].pop("definition", None)
    return rules


def test_yes_can_create_a_rule_shown_before(midturn: CommandLine) -> None:
    shown = permitted(midturn, "A\r", "\r")
    assert '{ when = { say = "shipped" }, exact = true, run = "unattended" }' in shown
    assert (
        f'Runs without asking, in the project {midturn.root}: deploy with say = "shipped", and'
        " nothing else." in " ".join(shown.split())
    )
    assert 'Does not cover: deploy {"say": "shipped", "force": true}.' in " ".join(shown.split())
    (rule,) = written_rules(midturn)
    assert (rule["about"], rule["scope"], rule["project"]) == (
        "deploy",
        "project",
        str(midturn.root),
    )
    assert rule["rule"] == {"when": {"say": "shipped"}, "exact": True, "run": "unattended"}
    assert [
        event["answered_by"]["by"] for event in midturn.events() if event.get("state") == "approved"
    ] == ["user"]

    midturn.ok("query", "-m", midturn.script(calls("deploy", say="shipped")), "Again")
    (approved,) = (event for event in midturn.events() if event["type"] == "approval")
    assert approved["answered_by"]["by"] == "configuration"
    for others in ({"say": "other"}, {"say": "shipped", "note": "x"}):
        midturn.run(
            "query", "-m", midturn.script(calls("deploy", **others)), "Again", "--non-interactive"
        )
        assert [event["state"] for event in midturn.events() if event["type"] == "approval"] == [
            "skipped"
        ]

    assert midturn.ok("tools", "rules", "--remove", "1").stderr.startswith(
        "midturn: removed the rule for deploy from "
    )
    assert midturn.ok("tools", "rules").stdout == "Your user configuration has no rules.\n"
    assert midturn.run("tools", "rules", "--remove", "1").status == 2


def test_rule_scope_can_be_everywhere_or_the_conversation(midturn: CommandLine) -> None:
    shown = permitted(midturn, "A\r", ":w\r", "\r")
    assert "Runs without asking, in every project" in " ".join(shown.split())
    (rule,) = written_rules(midturn)
    assert (rule["scope"], rule["project"]) == ("everywhere", None)
    midturn.ok("tools", "rules", "--remove", "1")

    script = midturn.script(
        calls("deploy", say="once"), {"text": "Shipped."}, calls("deploy", say="once")
    )
    with midturn.on_a_terminal("query", "-m", script, "Ship it") as terminal:
        terminal.wait_at(": ")
        terminal.send("A\r")
        for _ in range(2):
            terminal.wait_at("> ")
            terminal.send(":w\r")
        terminal.wait_for("in this conversation")
        terminal.wait_at("> ")
        terminal.send("\r")
        assert terminal.wait_for_end() == 0
    assert written_rules(midturn) == []
    midturn.ok("query", "-c", "-m", script, "Again", "--non-interactive")
    approvals = [
        event
        for event in midturn.events()
        if event["type"] == "approval" and event["state"] == "approved"
    ]
    assert [approval["answered_by"]["by"] for approval in approvals] == ["user", "cached"]
    refused = midturn.run("query", "-m", script, "Elsewhere", "--non-interactive")
    assert [event["state"] for event in midturn.events() if event["type"] == "approval"] == [
        "skipped"
    ], refused


def test_rule_that_does_not_match_the_call_is_refused_at_the_prompt(midturn: CommandLine) -> None:
    midturn.asker(run="ask")
    midturn.accept_keys_at_once()
    with midturn.on_a_terminal(
        "query", "-m", midturn.script(calls("deploy", say="git x; rm y")), "Ship it"
    ) as terminal:
        terminal.wait_at(": ")
        terminal.send("A\r")
        terminal.wait_for('{ when = { say = "git x; rm y" }, exact = true, run = "unattended" }')
        terminal.wait_at("> ")
        terminal.send('{ when = { say = "git *" }, run = "unattended" }\r')
        terminal.wait_for("Not accepted: The rule does not match this call")
        terminal.wait_at("> ")
        terminal.send(":c\r")
        terminal.wait_at(": ")
        terminal.send("y\r")
        assert terminal.wait_for_end() == 0
    assert midturn.ok("tools", "rules", "--json").json == []


def test_rule_for_another_agent_is_stored_under_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    call = ToolCall("e1", "c1", "Bash", {"command": "git status"})
    question = Question.boolean("run", approval_text("run", "Bash"))
    prompt = Prompt(
        question=question,
        kind="run",
        subject=CallSubject(call),
        tool="Bash",
        arguments=call.arguments,
        scopes=("project",),
    )
    rules = WrittenRules("/work", "claude")
    draft = rules.draft(prompt)
    assert draft is not None
    assert draft.problem(draft.text) == ""
    assert draft.scopes == ("project",)
    rules.keep(prompt, draft.text, "project")
    assert [(one.about, one.project, one.rule) for one in own_rules()] == [
        (
            "Bash of claude",
            "/work",
            {"when": {"command": "git status"}, "exact": True, "run": "unattended"},
        ),
    ]


@pytest.mark.parametrize(
    "command",
    [
        ("trust", "--yes"),
        ("tools", "ls"),
        ("tools", "show", "deploy"),
        ("tools", "run", "deploy"),
        ("query", "--dry-run", "hi"),
        ("query", "hi"),
    ],
    ids=" ".join,
)
def test_a_wrong_keyword_of_a_parameter_is_reported_by_every_command(
    midturn: CommandLine, command: tuple[str, ...]
) -> None:
    midturn.workspace_file(
        '[conversation.tools.deploy]\ncommand = ["true"]\nparameters.env = { type = "string",'
        ' summary = "Where." }\n'
    )

    finished = midturn.run(*command)

    assert finished.status == 2
    assert (
        ".midturn/config.toml:3: `conversation.tools.deploy.parameters.env.summary`: unknown"
        " keyword `summary`. " in finished.stderr
    )
    assert "Did you mean `description`?" in finished.stderr


def test_doctor_reports_a_wrong_keyword_of_a_parameter(midturn: CommandLine) -> None:
    midturn.workspace_file(
        '[conversation.tools.deploy]\ncommand = ["true"]\nparameters.env = { type = "str" }\n'
    )

    finished = midturn.run("doctor")

    assert (
        ".midturn/config.toml:3: `conversation.tools.deploy.parameters.env.type`: expected "
        in finished.stdout + finished.stderr
    )
    assert "Did you mean `string`?" in finished.stdout + finished.stderr
