"""Claude Code runs a question of `midturn mcp` as a background task: its turn continues, and
the answer wakes it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from real_agents.test_claude_terminal import at_a_terminal
from support.cli import CommandLine
from support.fake_messages import FakeMessages
from support.hooks import answers, stored, until, wait_for

pytestmark = [pytest.mark.real("Claude Code", may_be_missing=True), pytest.mark.timeout(600)]
ENV = {"question": "Which env?", "answer_type": "select", "options": ["prod", "dev"]}
LATER, ESCAPE = "Esc to answer later", "\x1b"
ASK: list[tuple[str, dict[str, Any]]] = [("mcp__midturn__ask_user", ENV)]


def with_our_server(midturn: CommandLine) -> list[str]:
    """Return the options that add our server, as midturn prints them."""
    servers = midturn.home / "servers.json"
    servers.write_text(midturn.ok("mcp", "--print-config", "claude").stdout)
    return ["--mcp-config", str(servers), "--allowedTools", "mcp__midturn"]


def reading(id: str) -> list[tuple[str, dict[str, Any]]]:
    return [("mcp__midturn__check_answer", {"id": id, "ticket": 0})]


def test_turn_continues_and_an_inbox_answer_wakes_it(
    midturn: CommandLine, claude_program: Path
) -> None:
    with (
        FakeMessages([ASK, "I go on meanwhile."]) as provider,
        at_a_terminal(midturn, claude_program, provider, *with_our_server(midturn)) as session,
    ):
        (question,) = wait_for(midturn)
        session.wait_for("I go on meanwhile.", seconds=300)
        session.wait_for(LATER, seconds=300)
        provider.then(reading(question["id"]), "All done.")
        midturn.ok("answer", question["id"], "dev")
        session.send(ESCAPE)  # its dialog stays open until the user leaves it, whoever has answered
        session.wait_for("All done.", seconds=300)

    assert "dev" not in provider.results[0], "what runs on is not the answer"
    assert "The user answered: dev" in provider.results[-1]
    assert "NOT USER INPUT" in provider.said, "why the answer is read with a call of its own"


def test_killed_session_is_woken_by_the_answer_when_resumed(
    midturn: CommandLine, claude_program: Path
) -> None:
    options = with_our_server(midturn)
    with (
        FakeMessages([ASK, "I go on meanwhile."]) as provider,
        at_a_terminal(midturn, claude_program, provider, *options) as session,
    ):
        (question,) = wait_for(midturn)
        session.wait_for(LATER, seconds=300)
    until(
        lambda: midturn.ok("inbox", "--json").json,
        lambda questions: questions[0]["asker"]["waits"] is False,
    )
    midturn.ok("answer", question["id"], "prod")

    with (
        FakeMessages(["I am back.", reading(question["id"]), "All done."]) as provider,
        at_a_terminal(midturn, claude_program, provider, "--continue", *options) as session,
    ):
        session.wait_for("All done.", seconds=300)

    assert "The user answered: prod" in provider.results[-1]
    assert len(stored(midturn)) == 1, "nobody was asked twice"
    assert [event["answered_by"]["via"] for event in answers(stored(midturn)[0])] == ["inbox"]
