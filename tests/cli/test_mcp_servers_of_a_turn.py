"""Servers of the configuration: their tools in a turn of `midturn query`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from support.cli import CommandLine, calls

SERVER = Path(__file__).parents[1] / "support" / "mcp_server.py"


def configure(midturn: CommandLine) -> None:
    command = json.dumps([sys.executable, str(SERVER)])
    tool = "[conversation.tools.probe_ask]\nsource = 'mcp'\nrun = 'unattended'\n"
    midturn.configure(f"[providers.mcp.probe]\ncommand = {command}\n{tool}")


def test_what_a_server_asks_waits_in_the_inbox_and_the_call_is_made_again(midturn: CommandLine) -> None:
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


def test_a_server_that_cannot_be_started_is_a_warning_and_the_turn_goes_on(midturn: CommandLine) -> None:
    midturn.configure("[providers.mcp.gone]\ncommand = ['no-such-server']\n")

    finished = midturn.ok("query", "-m", midturn.script(), "Go")

    assert finished.stdout == "Done.\n"
    assert "The MCP server `gone` cannot be used, and its tools are absent" in finished.stderr.replace("\n", " ")
