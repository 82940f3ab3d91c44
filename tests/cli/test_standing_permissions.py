"""Standing permissions apply only in their scope, and only to the program and the calls they were
given for.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.cli import CommandLine, asks, calls
from support.pty_session import PtySession

DEPLOY = (
    '[conversation.tools.deploy]\ncommand = ["echo",'
    ' "{word}"]\n[conversation.tools.deploy.parameters.to]\n'
)
ASKED = ": "
FIELD = "> "


def project(midturn: CommandLine, name: str, word: str) -> Path:
    """Create another workspace whose own trusted file defines a tool `deploy`.

    Later commands run there.
    """
    midturn.root = midturn.root.parent / name
    (midturn.root / ".midturn").mkdir(parents=True, mode=0o700)
    define(midturn, word)
    return midturn.root


def define(midturn: CommandLine, word: str) -> None:
    """Let the workspace's `deploy` print another word."""
    midturn.workspace_file(DEPLOY.format(word=word))
    midturn.ok("trust", "--yes")


@contextmanager
def asked(midturn: CommandLine, tool: str = "deploy", **arguments: Any) -> Generator[PtySession]:
    """Suspend a call at the approval prompt of a plain terminal."""
    script = midturn.script(calls(tool, **(arguments or {"to": "staging"})))
    with midturn.on_a_terminal("query", "-m", script, "Ship it", size=(100, 40)) as terminal:
        terminal.wait_at(ASKED)
        yield terminal


def allow(midturn: CommandLine, *scope: str) -> str:
    """Allow `deploy` from now on; return the screen.

    Each `scope` is typed into the scope field of the rule.
    """
    with asked(midturn) as terminal:
        terminal.send("A\r")
        for typed in (*scope, ""):
            terminal.wait_at(FIELD)
            terminal.send(f"{typed}\r")
        assert terminal.wait_for_end() == 0
        return " ".join(terminal.text.split())


def is_asked(midturn: CommandLine, **arguments: Any) -> bool:
    """Return whether a call would need approval."""
    midturn.run(
        "query",
        "-m",
        midturn.script(calls("deploy", **(arguments or {"to": "staging"}))),
        "Ship it",
        "--non-interactive",
    )
    (decided,) = (
        event
        for event in midturn.events()
        if event["type"] == "approval" and event["state"] != "waiting"
    )
    return decided["state"] == "skipped"


def test_permission_of_a_project_does_not_apply_to_another_program(midturn: CommandLine) -> None:
    midturn.accept_keys_at_once()
    first = project(midturn, "first", "harmless")
    shown = allow(midturn)
    assert f"in the project {first}" in shown
    assert not is_asked(midturn)
    assert is_asked(midturn, to="production")
    assert is_asked(midturn, to="staging", force=True)

    project(midturn, "second", "dangerous")
    assert is_asked(midturn)
    midturn.root = first
    assert not is_asked(midturn)


def test_a_permission_does_not_apply_to_another_command_of_the_tool_and_the_prompt_says_so(
    midturn: CommandLine,
) -> None:
    midturn.accept_keys_at_once()
    project(midturn, "first", "harmless")
    allow(midturn)
    define(midturn, "dangerous")
    assert is_asked(midturn)
    with asked(midturn) as terminal:
        assert "written for another command of deploy, so it does not apply any more" in " ".join(
            terminal.text.replace("|", " ").split()
        )
        terminal.send("n\r")
        assert terminal.wait_for_end() == 0
    define(midturn, "harmless")
    assert not is_asked(midturn)


def test_permission_for_a_workspace_tool_cannot_apply_everywhere(midturn: CommandLine) -> None:
    midturn.accept_keys_at_once()
    project(midturn, "first", "harmless")
    shown = allow(midturn, ":w", ":w")
    assert "in this conversation" in shown
    assert "in every project" not in shown


def test_global_permission_is_bound_to_the_program(midturn: CommandLine) -> None:
    """A workspace changes the command of the user's own tool."""
    midturn.configure(DEPLOY.format(word="harmless"))
    midturn.accept_keys_at_once()
    allow(midturn, ":w")
    assert not is_asked(midturn)
    project(midturn, "second", "dangerous")
    assert is_asked(midturn)


def test_the_rules_of_projects_are_in_the_users_own_file_only(midturn: CommandLine) -> None:
    rule = f'[[projects."{midturn.root}".tools.deploy.rules]]\nrun = "unattended"\n'
    midturn.workspace_file(rule)
    ignored = midturn.run("query", "-m", midturn.script(), "Hi", "--non-interactive")
    assert (ignored.status, "not trusted" in ignored.stderr) == (2, True)
    midturn.run("trust", "--yes")
    refused = midturn.run("tools", "ls")
    assert (
        refused.status,
        "rules for single projects are only allowed in your own configuration; move them to"
        in refused.stderr,
    ) == (
        2,
        True,
    )


def test_rule_with_people_offers_no_standing_permission(midturn: CommandLine) -> None:
    midturn.configure(
        DEPLOY.format(word="harmless")
        + '[people.ana]\n[people.bo]\n[[conversation.tools.deploy.rules]]\nask = ["ana",'
        ' "bo"]\nonly = true\napprovals = 2\n'
    )
    midturn.accept_keys_at_once()
    with asked(midturn) as terminal:
        assert "A rule" not in terminal.text
        terminal.send("A\r")
        terminal.wait_for("A is not an option")
        terminal.wait_at(ASKED)
        terminal.send("s\r")
        terminal.wait_at(ASKED)
        terminal.send("s\r")
        terminal.wait_for_end()
    assert midturn.ok("tools", "rules", "--json").json[0]["rule"]["ask"] == ["ana", "bo"]


def test_ask_rule_offers_no_permission_without_effect(midturn: CommandLine) -> None:
    midturn.configure(
        f'{DEPLOY.format(word="harmless")}[[conversation.tools.deploy.rules]]\nrun = "ask"\n'
    )
    midturn.accept_keys_at_once()
    with asked(midturn) as terminal:
        assert "A rule" not in terminal.text
        terminal.send("n\r")
        assert terminal.wait_for_end() == 0


@pytest.mark.parametrize("character", ["\u202e", "\u200b", "\xa0", "\u3164"])
def test_invisible_characters_are_escaped_in_the_rule(midturn: CommandLine, character: str) -> None:
    midturn.configure(DEPLOY.format(word="harmless"))
    midturn.accept_keys_at_once()
    with asked(midturn, to=f"a{character}b") as terminal:
        terminal.send("A\r")
        terminal.wait_at(FIELD)
        assert f'to = "a\\u{ord(character):04X}b"' in terminal.text
        terminal.send("\r")
        assert terminal.wait_for_end() == 0
    assert not is_asked(midturn, to=f"a{character}b")
    assert is_asked(midturn, to="ab")
    assert is_asked(midturn, to="a?b")


def test_applicable_rules_are_listed_with_scope_place_and_changes(midturn: CommandLine) -> None:
    midturn.accept_keys_at_once()
    first = project(midturn, "first", "harmless")
    allow(midturn)
    place = f"{midturn.config.name}:"
    for command in (("trust",), ("tools", "ls"), ("tools", "show", "deploy"), ("doctor",)):
        shown = midturn.run(*command).stdout
        assert "staging" in shown, command
        assert str(first) in shown, command
        assert place in shown, command
        assert "has changed" not in shown, command
    (deploy,) = (
        tool for tool in midturn.ok("tools", "ls", "--json").json if tool["name"] == "deploy"
    )
    assert [(rule["scope"], rule["project"]) for rule in deploy["standing"]] == [
        ("project", str(first))
    ]

    define(midturn, "dangerous")
    for command in (("trust",), ("tools", "ls"), ("tools", "show", "deploy"), ("doctor",)):
        assert "the command of deploy has changed" in midturn.run(*command).stdout, command
    explained = midturn.ok("tools", "explain", "deploy", "to=staging").stdout
    assert "does not match: it was added for another command of the tool" in explained

    project(midturn, "second", "harmless")
    for command in (("trust",), ("tools", "ls"), ("tools", "show", "deploy")):
        assert str(first) not in midturn.run(*command).stdout, command
    first.rename(first.parent / "gone")
    assert (
        "does not apply, its directory no longer exists: deploy with to"
        in midturn.run("doctor").stdout
    )


def test_export_to_jp_maps_decisions_for_the_conversation(midturn: CommandLine) -> None:
    midturn.asker(name="format")
    midturn.accept_keys_at_once()
    question = asks("tabs", "Use tabs?", persistence="conversation")
    script = midturn.script(calls("format", ask=[question]))
    with midturn.on_a_terminal("query", "-m", script, "Format it") as terminal:
        terminal.wait_at(ASKED)
        assert "C yes conversation, X no conversation" in " ".join(terminal.text.split())
        terminal.send("C\r")
        assert terminal.wait_for_end() == 0
        assert "From now on yes to this question in this conversation." in " ".join(
            terminal.text.split()
        )
    (standing,) = (event for event in midturn.events() if event["type"] == "standing")
    assert (standing["tool"], standing["question_id"], standing["answer"]) == (
        "format",
        "tabs",
        True,
    )
    to = midturn.root / "exported"
    said = midturn.ok("conversation", "export", "--format", "jp", "--to", str(to)).stderr
    assert "omitted 1 decisions that apply to the whole conversation" in said
    assert "exported 1 questions with `persistence` = `turn` instead of `conversation`." in said
    exported = json.loads((to / "events.json").read_text())
    assert [event["type"] for event in exported].count("standing") == 0
    (asked_there,) = (event["question"] for event in exported if event["type"] == "inquiry_request")
    assert asked_there.get("persistence", "turn") == "turn"


def test_narrow_prompt_shows_the_scope_and_tab_changes_it(midturn: CommandLine) -> None:
    midturn.configure(DEPLOY.format(word="harmless"))
    midturn.accept_keys_at_once()
    script = midturn.script(calls("deploy", to="staging"))
    with midturn.on_a_terminal(
        "query", "-m", script, "Ship it", size=(40, 30), plain=False
    ) as terminal:
        terminal.wait_for("Run deploy?")
        terminal.send("A")
        terminal.wait_for("Tab changes the scope")
        terminal.wait_for("in the project")
        terminal.send("\t")
        terminal.wait_for("in every project")
        terminal.send("\r")
        assert terminal.wait_for_end() == 0
    (rule,) = midturn.ok("tools", "rules", "--json").json
    assert rule["scope"] == "everywhere"


def script(directory: Path, says: str) -> None:
    """Write the program `deploy.sh` into a directory."""
    file = directory / "deploy.sh"
    file.write_text(f"#!/bin/sh\necho {says}\n", encoding="utf-8")
    file.chmod(0o755)


def test_a_permission_does_not_apply_once_the_script_of_the_command_has_changed(
    midturn: CommandLine,
) -> None:
    midturn.configure(
        "[conversation.tools.deploy]\ncommand ="
        ' ["./deploy.sh"]\n[conversation.tools.deploy.parameters.to]\n'
    )
    midturn.accept_keys_at_once()
    script(midturn.root, "harmless")
    allow(midturn)
    assert not is_asked(midturn)
    script(midturn.root, "dangerous")
    assert is_asked(midturn)
    script(midturn.root, "harmless")
    assert not is_asked(midturn)


def test_permission_for_a_project_script_cannot_apply_everywhere(midturn: CommandLine) -> None:
    """The same command runs a different file in another project."""
    midturn.configure(
        "[conversation.tools.deploy]\ncommand ="
        ' ["./deploy.sh"]\n[conversation.tools.deploy.parameters.to]\n'
    )
    midturn.accept_keys_at_once()
    script(midturn.root, "harmless")
    shown = allow(midturn, ":w", ":w")
    assert "in this conversation" in shown
    assert "in every project" not in shown
