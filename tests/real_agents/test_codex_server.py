"""Codex through its app server, against a provider on loopback, with its own home and without
a terminal.
"""

from __future__ import annotations

import pytest

from midturn.integrations.hooks import external_call
from real_agents.agents import AGENTS
from support.cli import CommandLine
from support.fake_provider import FakeProvider
from support.floods import flood
from support.hooks import answers, stored, wait_for
from support.installed import or_skip

pytestmark = [pytest.mark.real("Codex", may_be_missing=True), pytest.mark.timeout(600)]
CODEX = AGENTS["codex"]


def escalated(command: str) -> tuple[str, dict[str, str]]:
    """Return a call that runs a command outside the sandbox, which needs approval."""
    return "exec_command", {
        "cmd": command,
        "sandbox_permissions": "require_escalated",
        "justification": "Try it",
    }


def test_yes_and_no_from_the_inbox_with_reasons(midturn: CommandLine) -> None:
    program = or_skip(CODEX.program)
    with FakeProvider(
        [[escalated("touch one")], [escalated("touch two")], "All done.", "I see."]
    ) as provider:
        environment = {
            **CODEX.surroundings(midturn, provider),
            "PATH": f"{program.parent}:{midturn.environment['PATH']}",
        }
        run = midturn.start("hook", "codex-server", "--prompt", "Go", **environment)
        (first,) = wait_for(midturn)
        midturn.ok("answer", first["id"], "n", "--reason", "Not that one.")
        (second,) = wait_for(midturn)
        midturn.ok("answer", second["id"], "y")
        said, errors = run.communicate(timeout=300)

    assert run.returncode == 0, errors
    assert said == "All done.I see.\n"
    assert (midturn.root / "two").exists()
    assert not (midturn.root / "one").exists()
    assert "touch one" in first["arguments"]["command"]
    assert "The user said no: Not that one." in provider.said
    assert [
        event["answered_by"]["by"] for events in stored(midturn) for event in answers(events)
    ] == ["user", "user"]


def test_always_allowed_call_is_not_asked_again_in_its_session(midturn: CommandLine) -> None:
    program = or_skip(CODEX.program)
    with FakeProvider(
        [[escalated("touch one")], [escalated("touch one")], "All done."]
    ) as provider:
        environment = {
            **CODEX.surroundings(midturn, provider),
            "PATH": f"{program.parent}:{midturn.environment['PATH']}",
        }
        run = midturn.start("hook", "codex-server", "--prompt", "Go", **environment)
        (question,) = wait_for(midturn)
        midturn.ok("answer", question["id"], "always")
        said, errors = run.communicate(timeout=300)

    assert run.returncode == 0, errors
    assert said == "All done.\n"
    assert question["asker"]["always"]
    assert len(provider.results) == 2
    assert len(stored(midturn)) == 1, "the second call was not asked about"
    assert (midturn.root / "one").exists()


def test_with_too_many_questions_the_model_is_told_that_nobody_was_asked(
    midturn: CommandLine,
) -> None:
    """Codex tells its model that such a call was rejected. The next prompt contains the real
    reason.
    """
    program = or_skip(CODEX.program)
    for session in range(external_call.MAX_OPEN // external_call.MAX_OPEN_PER_SESSION):
        flood(midturn, "Codex", "codex", f"s{session}")
    with FakeProvider([[escalated("touch one")], "All done.", "I see."]) as provider:
        environment = {
            **CODEX.surroundings(midturn, provider),
            "PATH": f"{program.parent}:{midturn.environment['PATH']}",
        }
        run = midturn.start("hook", "codex-server", "--prompt", "Go", **environment)
        said, errors = run.communicate(timeout=300)

    assert run.returncode == 0, errors
    assert said == "All done.I see.\n"
    assert not (midturn.root / "one").exists()
    assert "questions of other agents wait for the user already" in provider.said
    assert "nobody has decided. This is not a no." in provider.said
    assert "The user said no" not in provider.said
