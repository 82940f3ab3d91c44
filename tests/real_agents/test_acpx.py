"""`acpx`, a headless client of the Agent Client Protocol, with our assistant as its agent."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.cli import CommandLine, asks, calls
from support.hooks import until, wait_for
from support.installed import installed, or_skip

pytestmark = [pytest.mark.real("acpx", may_be_missing=True), pytest.mark.timeout(300)]


@pytest.fixture(scope="session")
def acpx() -> Path:
    """It, from npm."""
    return or_skip(lambda: installed("acpx", "acpx@0.19.1")) / "acpx"


def start(midturn: CommandLine, acpx: Path, model: str, *options: str) -> subprocess.Popen[str]:
    """Start it where nobody sits."""
    agent = shlex.join([sys.executable, "-m", "midturn", "acp", "-m", model])
    return subprocess.Popen(
        [str(acpx), *options, "--agent", agent, "exec", "Go"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=midturn.root,
        env=midturn.environment,
        start_new_session=True,
    )


def asked_by(midturn: CommandLine, tool: str) -> str:
    """Wait until a tool asks; return its question's id."""
    asked = until(lambda: midturn.ok("inbox", "--json").json, lambda questions: [question["tool"] for question in questions] == [tool])
    return str(asked[0]["id"])


def decided(midturn: CommandLine) -> list[tuple[object, object]]:
    events = [event for event in midturn.events() if event["type"] == "inquiry_response" or event.get("state", "waiting") != "waiting"]
    return [(event.get("answer", event.get("state")), event["answered_by"]["via"]) for event in events]


@pytest.mark.parametrize("options", [[], ["--deny-all"], ["--non-interactive-permissions", "fail"]])
def test_what_it_refuses_by_itself_is_nobodys_no_and_waits_in_the_inbox(midturn: CommandLine, acpx: Path, options: list[str]) -> None:
    midturn.asker()
    midturn.asker("publish", run="ask")
    model = midturn.script(calls("deploy", ask=asks()), calls("publish", say="Published."))
    running = start(midturn, acpx, model, *options)
    for tool in ("deploy", "publish"):
        midturn.ok("answer", asked_by(midturn, tool), "y")
    said, errors = running.communicate(timeout=120)

    assert "Published." in said, errors
    assert "Done." in said
    assert decided(midturn) == [(True, "inbox"), ("approved", "inbox")]


def test_killed_in_the_middle_it_loses_nothing(midturn: CommandLine, acpx: Path) -> None:
    midturn.asker()
    model = midturn.script(calls("deploy", ask=asks()))
    running = start(midturn, acpx, model)
    (question,) = wait_for(midturn)
    os.killpg(running.pid, signal.SIGKILL)
    running.communicate(timeout=60)

    midturn.ok("answer", question["id"], "n")
    assert "Done." in midturn.ok("resume").stdout
    assert decided(midturn) == [(False, "inbox")]
