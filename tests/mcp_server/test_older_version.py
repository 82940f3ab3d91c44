"""Clients whose dialogs can be closed from here only in the older version of the protocol, and what a person is told where they cannot."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from midturn.integrations.mcp_server.server import keeps_dialogs
from support.cli import CommandLine
from support.hooks import wait_for
from support.warm_commands import started_by_others

pytestmark = pytest.mark.timeout(120)
TASKS: dict[str, Any] = {"io.modelcontextprotocol/tasks": {}}
AT_A_TERMINAL = {"CLAUDE_CODE_SESSION_ATTENDED": "1"}
ASKED = {"question": "Ship it?", "answer_type": "boolean"}


def meta(name: str, **extensions: Any) -> dict[str, Any]:
    """Return what a client says of itself with each request of the newer version."""
    capabilities: dict[str, Any] = {"elicitation": {"form": {}}, "extensions": extensions}
    said: dict[str, Any] = {
        "protocolVersion": "2026-07-28",
        "clientInfo": {"name": name, "version": "1"},
        "clientCapabilities": capabilities,
    }
    return {"_meta": {f"io.modelcontextprotocol/{key}": value for key, value in said.items()}}


KEEPS: list[tuple[str, dict[str, Any], bool]] = [("copilot-cli", {}, True), ("claude-code", TASKS, False), ("claude-code", {}, True)]
LEAVES: list[tuple[str, dict[str, Any], bool]] = [("claude-code", TASKS, True), ("codex-mcp-client", {}, True), ("somebody", {}, True)]


def test_the_older_version_is_for_clients_that_would_keep_a_dialog_open_and_leave_no_call_to_run_on() -> None:
    said = [keeps_dialogs(meta(name, **has), AT_A_TERMINAL, tasks=tasks) for name, has, tasks in (*KEEPS, *LEAVES)]
    assert said == [True] * len(KEEPS) + [False] * len(LEAVES)


def test_without_a_terminal_there_is_no_dialog_to_close() -> None:
    assert not keeps_dialogs(meta("claude-code"), {"CLAUDE_CODE_SESSION_ATTENDED": "0"}, tasks=True)


@pytest.mark.parametrize(
    "params", [None, 7, [], {"_meta": 7}, {"_meta": {"io.modelcontextprotocol/clientInfo": {"name": ["copilot-cli"]}}}]
)
def test_what_is_no_client_is_left_to_the_library(params: Any) -> None:
    assert not keeps_dialogs(params, {}, tasks=True)


class Talk:
    """A client, line by line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def say(self, **message: Any) -> None:
        """Say something."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        self._process.stdin.flush()

    def heard(self, **fields: Any) -> Any:
        """Wait for a message with these fields."""
        assert self._process.stdout
        for line in self._process.stdout:
            message = json.loads(line)
            if all(message.get(key) == value for key, value in fields.items()):
                return message
        raise AssertionError("the server has gone")


@contextmanager
def talking(midturn: CommandLine) -> Generator[Talk]:
    """Start the server as an agent does; it is forked."""
    pipe = subprocess.PIPE
    environment = {**midturn.environment, "CLAUDE_CODE_SESSION_ATTENDED": "1"}
    process = subprocess.Popen(
        [*started_by_others(), "mcp"], stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=midturn.root, env=environment
    )
    try:
        yield Talk(process)
    finally:
        process.kill()
        process.communicate(timeout=60)


@pytest.fixture
def midturn(tmp_path: Path) -> CommandLine:
    """A user with a home and a workspace."""
    return CommandLine(tmp_path)


def test_a_dialog_is_withdrawn_when_somebody_answers_elsewhere(midturn: CommandLine) -> None:
    with talking(midturn) as talk:
        talk.say(id=0, method="server/discover", params=meta("copilot-cli"))
        refused = talk.heard(id=0)
        client = {"name": "copilot-cli", "version": "1"}
        talk.say(
            id=1, method="initialize", params={"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}, "clientInfo": client}
        )
        talk.heard(id=1)
        talk.say(method="notifications/initialized")
        talk.say(id=2, method="tools/call", params={"name": "ask_user", "arguments": ASKED})
        shown = talk.heard(method="elicitation/create")
        (question,) = wait_for(midturn)
        told = midturn.ok("answer", question["id"], "n")
        withdrawn = talk.heard(method="notifications/cancelled")
        result = talk.heard(id=2)

    assert refused["error"]["code"] == -32601
    assert withdrawn["params"]["requestId"] == shown["id"]
    assert "The user answered: no" in json.dumps(result)
    assert told.stderr.endswith("midturn: answered. Copilot CLI, which waits for it, goes on.\n")


def test_where_a_dialog_stays_open_whoever_answers_is_told_so(midturn: CommandLine) -> None:
    with talking(midturn) as talk:
        said = meta("claude-code", **TASKS)
        talk.say(id=0, method="server/discover", params=said)
        talk.heard(id=0)
        talk.say(id=1, method="tools/call", params={"name": "ask_user", "arguments": ASKED, **said})
        task = talk.heard(id=1)["result"]["taskId"]
        talk.say(id=2, method="tasks/get", params={"taskId": task, **said})
        shown = talk.heard(id=2)["result"]["status"]
        (question,) = wait_for(midturn)
        told = midturn.ok("answer", question["id"], "n")

    assert shown == "input_required"
    assert question["asker"]["keeps_dialog"] is True
    assert told.stderr.endswith(
        "midturn: answered. Claude Code goes on as soon as its own dialog about this is left there, if that is open.\n"
    )
