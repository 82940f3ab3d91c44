"""ACP agents, run by `midturn acp run`, against a provider on loopback."""

from __future__ import annotations

import pytest

from real_agents.agents import AGENTS, Agent
from support.cli import CommandLine, Process
from support.fake_provider import FakeProvider
from support.hooks import answers, stored, wait_for
from support.installed import or_skip

pytestmark = [pytest.mark.real("agents of others", may_be_missing=True), pytest.mark.timeout(600)]
STARTED = {
    "gemini": ("--acp", "-m", "gemini-2.5-pro"),
    "qwen": ("--acp", "--approval-mode", "default", "--auth-type", "openai", "-m", "fake"),
    "copilot": ("--acp",),
}


@pytest.fixture(params=list(STARTED))
def agent(request: pytest.FixtureRequest) -> Agent:
    """An installed agent."""
    found = AGENTS[request.param]
    or_skip(found.program)
    return found


def start(midturn: CommandLine, agent: Agent, provider: FakeProvider) -> Process:
    """Start it as a child process with a minimal environment."""
    command = [str(agent.program()), *STARTED[agent.key]]
    return midturn.start(
        "acp", "run", "--prompt", "Go", "--", *command, **agent.surroundings(midturn, provider)
    )


@pytest.mark.parametrize("value", [["y"], ["n", "--reason", "Not now."]])
def test_permission_is_decided_in_the_inbox(
    midturn: CommandLine, agent: Agent, value: list[str]
) -> None:
    with FakeProvider([[agent.call("touch made")], "All done."]) as provider:
        run = start(midturn, agent, provider)
        (question,) = wait_for(midturn)
        midturn.ok("answer", question["id"], *value)
        said, errors = run.communicate(timeout=300)

    assert run.returncode == 0, errors
    assert "All done." in said
    assert (midturn.root / "made").exists() == (value[0] == "y")
    assert ("The user said no: Not now." in provider.said) == (value[0] == "n")
    assert [
        event["answered_by"]["by"] for events in stored(midturn) for event in answers(events)
    ] == ["user"]


@pytest.mark.parametrize("agent", list(STARTED), indirect=True)
def test_always_allowed_call_is_not_asked_again(midturn: CommandLine, agent: Agent) -> None:
    """Their hooks do not support permanent permissions. Through ACP, they offer them and store
    them themselves.
    """
    with FakeProvider(
        [[agent.call("touch made")], [agent.call("touch made")], "All done."]
    ) as provider:
        run = start(midturn, agent, provider)
        (question,) = wait_for(midturn)
        midturn.ok(
            "answer",
            question["id"],
            "always" if len(question["asker"]["always"]) == 1 else "always 1",
        )
        said, errors = run.communicate(timeout=300)

    assert run.returncode == 0, errors
    assert "All done." in said
    assert question["asker"]["always"], "it offers something to keep"
    assert len(provider.results) == 2
    assert len(stored(midturn)) == 1, "the second call was not asked about"
