"""`midturn mcp` in real agents without terminals: what their models read of a timeout and of a
person's answer.
"""

from __future__ import annotations

from typing import Any

import pytest

from real_agents.agents import AGENTS, Agent, check_again
from support.cli import CommandLine
from support.fake_provider import FakeProvider
from support.hooks import answers, stored, until, wait_for
from support.installed import or_skip

pytestmark = [pytest.mark.real("agents of others", may_be_missing=True), pytest.mark.timeout(600)]
ASKED: dict[str, Any] = {"question": "Ship it?", "answer_type": "boolean"}


@pytest.fixture(params=list(AGENTS))
def agent(request: pytest.FixtureRequest, midturn: CommandLine) -> Agent:
    """An installed agent with our server, which waits for only one second."""
    found = AGENTS[request.param]
    or_skip(found.program)
    found.told_of_our_server(midturn, "--slice", "1")
    return found


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (["n"], "The user answered: no"),
        (["--reply", "Why?"], "The user did not choose, and said: Why?"),
    ],
)
def test_timeout_is_not_a_no_and_the_next_poll_has_the_answer(
    midturn: CommandLine, agent: Agent, value: list[str], words: str
) -> None:
    asks = agent.asks.format("ask_person" if agent.key == "gemini" else "ask_user")

    def looks(request: str) -> list[tuple[str, dict[str, Any]]]:
        (question,) = wait_for(midturn)
        midturn.ok("answer", question["id"], *value)
        return check_again(agent.asks.format("check_answer"))(request)

    with FakeProvider([[(asks, ASKED)], looks, "All done."]) as provider:
        process = agent.start(midturn, provider)
        said, errors = process.communicate(timeout=300)

    assert process.returncode == 0, errors
    assert "All done." in said
    assert "Nobody has answered yet" in provider.results[0]
    assert "not a no" in provider.results[0]
    assert "The user" not in provider.results[0].replace("the user finds it", "")
    assert words in provider.results[1]
    assert "Nobody has answered" not in provider.results[1]
    (events,) = stored(midturn)
    (answer,) = answers(events)
    assert answer.get("reason") == "reply" or answer["answered_by"]["by"] == "user"


@pytest.mark.parametrize("agent", ["codex", "qwen", "copilot"], indirect=True)
def test_answer_after_the_turn_wakes_the_session(midturn: CommandLine, agent: Agent) -> None:
    """Its hook at the end of a turn finds the questions that our server has asked for the same
    session.
    """
    midturn.ok("hook", "install", agent.key)
    with FakeProvider(
        [[(agent.asks.format("ask_user"), ASKED)], "I wait.", "All done."]
    ) as provider:
        process = agent.start(midturn, provider)
        until(lambda: provider.results, bool)
        (question,) = wait_for(midturn)
        midturn.ok("answer", question["id"], "n")
        said, errors = process.communicate(timeout=300)

    assert process.returncode == 0, errors
    assert "All done." in said
    assert "Nobody has answered yet" in provider.results[0]
    assert "was answered by the user: no" in provider.said
    assert len(stored(midturn)) == 1
