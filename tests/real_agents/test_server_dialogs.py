"""Questions of `midturn mcp` in the dialogs of Claude Code and Codex, answered there or
meanwhile in the inbox.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from real_agents.agents import check_again
from real_agents.test_agent_terminals import PATIENCE, at_a_terminal, found, press, watched
from real_agents.test_claude_terminal import at_a_terminal as claude_at_a_terminal
from support.cli import CommandLine
from support.fake_messages import FakeMessages
from support.fake_provider import Calls, FakeProvider
from support.hooks import answers, stored
from support.pty_session import PtySession

pytestmark = [pytest.mark.real("agents of others", may_be_missing=True), pytest.mark.timeout(600)]
ASKED: dict[str, Any] = {"question": "Ship it?", "answer_type": "boolean"}
RIGHT, DOWN = "\x1b[C", "\x1b[B"
OPEN, POINTER = "requests your input", "\u276f"

# Claude Code: the question is a task, and the answer wakes its model
# ------------------------------------------------------


@contextmanager
def claude_asking(
    midturn: CommandLine, program: Path, name: str = "midturn"
) -> Generator[tuple[PtySession, FakeMessages]]:
    """Have its model ask at a terminal, with our hooks and our server, which has this name
    there.

    Its dialog is then open, and the inbox has the question once.
    """
    servers = midturn.home / "servers.json"
    registered = json.loads(midturn.ok("mcp", "--print-config", "claude").stdout)["mcpServers"]
    servers.write_text(json.dumps({"mcpServers": {name: registered["midturn"]}}))
    asks: Calls = [(f"mcp__{name}__ask_user", ASKED)]
    options = ("--mcp-config", str(servers), "--allowedTools", f"mcp__{name}")
    with (
        FakeMessages(
            [asks, "I go on.", check_again(f"mcp__{name}__check_answer"), "All done."]
        ) as provider,
        claude_at_a_terminal(midturn, program, provider, *options) as session,
    ):
        session.wait_for(OPEN, seconds=300)
        session.wait_for("Accept    Decline", seconds=PATIENCE)
        watched(session, midturn)
        yield session, provider


@pytest.mark.parametrize("name", ["midturn", "ask-me"])
def test_claude_is_answered_in_its_dialog_and_nobody_is_asked_twice(
    midturn: CommandLine, claude_program: Path, name: str
) -> None:
    with claude_asking(midturn, claude_program, name) as (session, provider):
        press(session, " ", lambda: "☒" in session.text)
        press(session, DOWN, lambda: f"{POINTER} Accept" in session.text)
        press(session, "\r", lambda: OPEN not in session.text)
        session.wait_for("All done.", seconds=PATIENCE)

    assert "The user answered: yes" in provider.results[-1]
    (events,) = stored(midturn)
    (answer,) = answers(events)
    assert answer["answered_by"] == {"by": "user", "via": "mcp"}


def test_no_in_claudes_dialog_is_a_reply(midturn: CommandLine, claude_program: Path) -> None:
    with claude_asking(midturn, claude_program) as (session, provider):
        press(session, DOWN, lambda: f"{POINTER} Accept" in session.text)
        press(session, RIGHT, lambda: f"{POINTER} Decline" in session.text)
        press(session, "\r", lambda: OPEN not in session.text)
        session.wait_for("All done.", seconds=PATIENCE)

    assert "The user did not choose, and wants to talk about it first." in provider.results[-1]
    assert "Nobody has answered" not in provider.said
    (closed,) = answers(stored(midturn)[0])
    assert closed["reason"] == "reply"


def test_claude_is_answered_in_the_inbox_while_its_dialog_is_open(
    midturn: CommandLine, claude_program: Path
) -> None:
    """It is notified when its dialog is left. Keys pressed in the dialog are then too late."""
    with claude_asking(midturn, claude_program) as (session, provider):
        (question,) = watched(session, midturn)
        midturn.ok("answer", question["id"], "n")
        press(session, "\x1b", lambda: OPEN not in session.text)
        session.wait_for("All done.", seconds=PATIENCE)

    assert "The user answered: no" in provider.results[-1]
    (answer,) = answers(stored(midturn)[0])
    assert answer["answered_by"]["via"] == "inbox"


def test_without_tasks_claudes_dialog_closes_after_an_answer_elsewhere(
    midturn: CommandLine, claude_program: Path
) -> None:
    """Its turn waits meanwhile, and its model reads the answer as the result of its call."""
    servers = midturn.home / "servers.json"
    servers.write_text(midturn.ok("mcp", "--no-tasks", "--print-config", "claude").stdout)
    options = ("--mcp-config", str(servers), "--allowedTools", "mcp__midturn")
    with (
        FakeMessages([[("mcp__midturn__ask_user", ASKED)], "All done."]) as provider,
        claude_at_a_terminal(midturn, claude_program, provider, *options) as session,
    ):
        session.wait_for("Accept    Decline", seconds=PATIENCE)
        (question,) = watched(session, midturn)
        midturn.ok("answer", question["id"], "n")
        session.wait_for("All done.", seconds=PATIENCE)
        assert OPEN not in session.text

    assert "The user answered: no" in provider.results[-1]
    assert len(stored(midturn)) == 1


# Codex: the call waits while its dialog is open
# --------------------------------------------------------------------------------------------------


@contextmanager
def codex_asking(midturn: CommandLine) -> Generator[tuple[PtySession, FakeProvider]]:
    """Have its model ask at a terminal, with our hooks and our server. Its dialog is open, and
    the inbox has the question once.
    """
    agent = found("codex", midturn)
    agent.told_of_our_server(midturn, "--slice", "1")
    with at_a_terminal(midturn, agent, [[("mcp__midturn/ask_user", ASKED)], "All done."]) as (
        session,
        provider,
    ):
        session.wait_for("Ship it?", seconds=PATIENCE)
        watched(session, midturn)
        yield session, provider


def test_codex_is_answered_in_its_dialog(midturn: CommandLine) -> None:
    with codex_asking(midturn) as (session, provider):
        press(session, "\r", lambda: len(provider.results) == 1)
        session.wait_for("All done.", seconds=PATIENCE)

    assert "The user answered: yes" in provider.results[0]
    (answer,) = answers(stored(midturn)[0])
    assert answer["answered_by"] == {"by": "user", "via": "mcp"}


def test_codex_is_answered_in_the_inbox_while_its_dialog_is_open(midturn: CommandLine) -> None:
    with codex_asking(midturn) as (session, provider):
        (question,) = watched(session, midturn)
        midturn.ok("answer", question["id"], "n")
        session.wait_until(lambda: len(provider.results) == 1, "the result", seconds=PATIENCE)
        session.wait_for("All done.", seconds=PATIENCE)

    assert "The user answered: no" in provider.results[0]
    (answer,) = answers(stored(midturn)[0])
    assert answer["answered_by"]["via"] == "inbox"


def test_leaving_codexs_dialog_is_not_a_no(midturn: CommandLine) -> None:
    """The dialog has no key for a no. Esc is not a reply, and the question stays open."""
    with codex_asking(midturn) as (session, provider):
        press(session, "\x1b", lambda: "Ship it?" not in session.text or bool(provider.results))
        session.wait_until(lambda: len(provider.results) == 1, "the result", seconds=PATIENCE)

    assert "Nobody has answered yet" in provider.results[0]
    assert "The user" not in provider.results[0].replace("the user", "")
    assert answers(stored(midturn)[0]) == []
