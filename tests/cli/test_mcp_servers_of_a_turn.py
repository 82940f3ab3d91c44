"""Configured MCP servers: their tools are available in every command that runs or shows tools."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from midturn.cli.command_context import find_place
from midturn.cli.serve_turns import continue_turn
from support.cli import CommandLine, calls
from support.warm_commands import started_by_others

REVIEWER = {"field_1": "us-2", "count": 3, "dry": True}
SERVER = Path(__file__).parents[1] / "support" / "mcp_server.py"


def configure(midturn: CommandLine) -> None:
    command = json.dumps(started_by_others(SERVER))
    tool = "[conversation.tools.probe_ask]\nsource = 'mcp'\nrun = 'unattended'\n"
    midturn.configure(f"[providers.mcp.probe]\ncommand = {command}\n{tool}")


def test_server_question_waits_in_the_inbox_and_the_call_is_repeated(midturn: CommandLine) -> None:
    configure(midturn)
    model = midturn.script(calls("probe_ask"))

    suspended = midturn.run("query", "-m", model, "--defer", "Go")
    (question,) = midturn.ok("inbox", "--json").json
    midturn.ok("answer", question["id"], '{"field_1": "us-2", "count": 3, "dry": true}')
    resumed = midturn.ok("resume")

    assert suspended.status == 3, suspended
    assert question["source"] == {"source": "tool", "name": "probe_ask"}
    assert resumed.stdout == "Done.\n"
    response = next(event for event in midturn.events() if event["type"] == "tool_call_response")
    assert response["content"] == "accept {'re gion': 'us-2', 'count': 3, 'dry': True}"


OWN_WORD = """
questions.field_1.answer = "us-2"
questions.count.answer = 3
questions.dry.answer = true
"""


@pytest.mark.parametrize(
    ("said", "by", "heard"),
    [
        ("", None, "cancel None"),
        ("questions.'*' = { exclusive = false }", None, "cancel None"),
        ("questions.'*' = { exclusive = false, target = 'assistant' }", None, "cancel None"),
        ("detached = 'defaults'", None, "cancel None"),
        (OWN_WORD, "static", "accept {'re gion': 'us-2', 'count': 3, 'dry': True}"),
    ],
)
def test_no_model_and_no_default_answers_a_server_whatever_is_configured(
    midturn: CommandLine, said: str, by: str | None, heard: str
) -> None:
    """Only a person or the user's own configuration answers."""
    command = json.dumps(started_by_others(SERVER))
    tool = f"[conversation.tools.probe_ask]\nsource = 'mcp'\nrun = 'unattended'\n{said}\n"
    midturn.configure(f"[providers.mcp.probe]\ncommand = {command}\n{tool}")
    answers = [
        {"question": id, "answers": [{"reason": "Right.", "answer": answer}]}
        for id, answer in REVIEWER.items()
    ]
    model = midturn.script(calls("probe_ask"), inquiries=answers)

    midturn.run("query", "--non-interactive", "-m", model, "Go")

    (response,) = [event for event in midturn.events() if event["type"] == "tool_call_response"]
    answered = {
        e["answered_by"]["by"]
        for e in midturn.events()
        if e["type"] == "inquiry_response" and e["outcome"] == "answered"
    }
    asked = [event["question"] for event in midturn.events() if event["type"] == "inquiry_request"]
    assert response["content"].splitlines()[-1] == heard
    assert answered == ({by} if by else set())
    assert asked
    assert all(question["exclusive"] for question in asked)


def test_a_server_that_the_sandbox_stops_names_the_path_and_the_key(midturn: CommandLine) -> None:
    kept = midturn.home / "notes"
    kept.write_text("content")
    midturn.configure(
        "[providers.mcp.notes]\ncommand ="
        f" {json.dumps([sys.executable, '-c', f'open({str(kept)!r})'])}\n"
    )

    asked = midturn.ok("query", "-m", midturn.script({"text": "Fine."}), "Go")
    by_hand = midturn.run("tools", "run", "notes_list")

    for finished in (asked, by_hand):
        said = " ".join(finished.stderr.split())
        assert f'To allow it, set `providers.mcp.notes.sandbox.read = ["{kept}"]`' in said


def test_a_server_that_cannot_be_started_is_a_warning_and_the_turn_goes_on(
    midturn: CommandLine,
) -> None:
    midturn.configure("[providers.mcp.gone]\ncommand = ['no-such-server']\n")

    finished = midturn.ok("query", "-m", midturn.script(), "Go")

    assert finished.stdout == "Done.\n"
    assert (
        "The MCP server `gone` cannot be used, so its tools are not available"
        in finished.stderr.replace("\n", " ")
    )


def test_no_tool_of_a_server_runs_in_place_of_a_command_that_is_configured(
    midturn: CommandLine,
) -> None:
    command = json.dumps(started_by_others(SERVER))
    tool = (
        "[conversation.tools.probe_echo]\nsource = 'local'\ncommand = ['echo', 'mine']\nrun ="
        " 'unattended'\n"
    )
    midturn.configure(f"[providers.mcp.probe]\ncommand = {command}\n{tool}")

    ran = midturn.ok("query", "-m", midturn.script(calls("probe_echo")), "Go")

    response = next(event for event in midturn.events() if event["type"] == "tool_call_response")
    assert response["content"].strip() == "mine"
    told = ran.stderr.replace("\n", " ")
    assert (
        "The MCP server `probe` has tools that are left out, because their names are used by"
        " other tools: `probe_echo`" in told
    )


def test_renamed_tool_uses_its_own_configuration(midturn: CommandLine) -> None:
    command = json.dumps(started_by_others(SERVER))
    tool = (
        "[conversation.tools.probe_echo]\nsource = 'mcp'\nrename = 'repeat'\nrun ="
        " 'unattended'\nsummary = 'Says it again.'\n"
    )
    midturn.configure(f"[providers.mcp.probe]\ncommand = {command}\n{tool}")

    listed = {tool["name"]: tool for tool in midturn.ok("tools", "ls", "--json").json}

    assert listed["repeat"]["run"] == "unattended"
    assert listed["repeat"]["summary"] == "Says it again."
    assert "probe_echo" not in listed


def test_tools_of_servers_are_listed_shown_and_run_by_hand(midturn: CommandLine) -> None:
    configure(midturn)

    listed = {tool["name"]: tool for tool in midturn.ok("tools", "ls", "--json").json}
    shown = midturn.ok("tools", "show", "probe_echo").stdout
    ran = midturn.ok("tools", "run", "probe_echo", "a=1")

    assert listed["probe_ask"]["source"] == "mcp"
    assert listed["probe_ask"]["run"] == "unattended"
    assert listed["probe_echo"]["run"] == "ask"
    assert "source    mcp" in shown
    assert ran.stdout == "echo: {'a': 1}\n"


def test_a_dry_run_names_the_tools_of_servers(midturn: CommandLine) -> None:
    configure(midturn)

    request = midturn.ok("query", "-m", midturn.script(), "--dry-run", "Go").stdout

    assert '"probe_ask"' in request
    assert '"probe_echo"' in request


def test_doctor_starts_every_server_and_says_what_it_offers(midturn: CommandLine) -> None:
    command = json.dumps(started_by_others(SERVER))
    midturn.configure(
        f"[providers.mcp.probe]\ncommand = {command}\n[providers.mcp.gone]\ncommand ="
        " ['no-such-server']\n"
    )

    found = {one["what"]: one for one in midturn.run("doctor", "--json").json}

    assert found["MCP probe"]["works"]
    assert found["MCP probe"]["said"].startswith("13 tools")
    assert not found["MCP gone"]["works"]
    assert "no-such-server" in found["MCP gone"]["said"]


def test_turn_resumed_by_the_page_has_server_tools(
    midturn: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(midturn)
    assert (
        midturn.run("query", "-m", midturn.script(calls("probe_ask")), "--defer", "Go").status == 3
    )
    (question,) = midturn.ok("inbox", "--json").json
    midturn.ok("answer", question["id"], '{"field_1": "us-2", "count": 3, "dry": true}')
    for name, value in midturn.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(midturn.root)

    asyncio.run(continue_turn(find_place(), question["conversation"]))

    contents = [
        event["content"] for event in midturn.events() if event["type"] == "tool_call_response"
    ]
    assert contents == ["accept {'re gion': 'us-2', 'count': 3, 'dry': True}"]


def test_a_chat_keeps_its_servers_connected_from_turn_to_turn(midturn: CommandLine) -> None:
    started = midturn.root / "started"
    (midturn.root / "start.sh").write_text('echo x >> started; exec "$@"')
    command = json.dumps(["/bin/sh", str(midturn.root / "start.sh"), *started_by_others(SERVER)])
    tool = "[conversation.tools.probe_echo]\nsource = 'mcp'\nrun = 'unattended'\n"
    midturn.configure(f"[providers.mcp.probe]\ncommand = {command}\n{tool}")
    midturn.accept_keys_at_once()
    replies = [
        calls("probe_echo", n=1),
        {"text": "First."},
        calls("probe_echo", n=2),
        {"text": "Second."},
    ]
    (midturn.root / "play.json").write_text(json.dumps({"replies": replies}))

    with midturn.on_a_terminal("chat", "-m", f"scripted:{midturn.root / 'play.json'}") as terminal:
        terminal.wait_at("> ")
        terminal.send("One\r")
        terminal.wait_for("First.")
        terminal.wait_until(lambda: terminal.text.endswith("\n>"), "the next line")
        terminal.send("Two\r")
        terminal.wait_for("Second.")
        terminal.wait_until(lambda: terminal.text.endswith("\n>"), "the next line")
        terminal.send("/quit\r")
        assert terminal.wait_for_end() == 0

    assert started.read_text() == "x\n"
    assert [e["content"] for e in midturn.events() if e["type"] == "tool_call_response"] == [
        "echo: {'n': 1}",
        "echo: {'n': 2}",
    ]
