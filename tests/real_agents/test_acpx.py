"""`acpx`, a headless ACP client, with midturn's assistant as its agent."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from midturn.integrations.hooks.external_call import MIN_RESPONSE_TIME
from support.cli import CommandLine, asks, calls
from support.hooks import until, wait_for
from support.installed import installed, or_skip
from support.pty_session import PtySession

pytestmark = [pytest.mark.real("acpx", may_be_missing=True), pytest.mark.timeout(600)]

PROBE = Path(__file__).parents[1] / "support" / "mcp_server.py"


@pytest.fixture(scope="session")
def acpx() -> Path:
    """Install acpx from npm."""
    return or_skip(lambda: installed("acpx", "acpx@0.19.1")) / "acpx"


def start(midturn: CommandLine, acpx: Path, model: str, *options: str) -> subprocess.Popen[str]:
    """Start it without a terminal."""
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
    """Wait until a tool asks; return the question's ID."""
    asked = until(
        lambda: midturn.ok("inbox", "--json").json,
        lambda questions: [question["tool"] for question in questions] == [tool],
    )
    return str(asked[0]["id"])


def decided(midturn: CommandLine) -> list[tuple[object, object]]:
    events = [
        event
        for event in midturn.events()
        if event["type"] == "inquiry_response" or event.get("state", "waiting") != "waiting"
    ]
    return [
        (event.get("answer", event.get("state")), event["answered_by"]["via"]) for event in events
    ]


@pytest.mark.parametrize("options", [[], ["--deny-all"], ["--non-interactive-permissions", "fail"]])
def test_agents_own_refusal_is_not_a_no_and_waits_in_the_inbox(
    midturn: CommandLine, acpx: Path, options: list[str]
) -> None:
    midturn.asker()
    midturn.asker("publish", run="ask")
    model = midturn.script(calls("deploy", ask=asks()), calls("publish", say="Published."))
    running = start(midturn, acpx, model, *options)
    for tool in ("deploy", "publish"):
        midturn.ok("answer", asked_by(midturn, tool), "y")
    said, errors = running.communicate(timeout=300)

    assert "Published." in said, errors
    assert "Done." in said
    assert decided(midturn) == [(True, "inbox"), ("approved", "inbox")]


def test_kill_during_a_question_loses_nothing(midturn: CommandLine, acpx: Path) -> None:
    midturn.asker()
    model = midturn.script(calls("deploy", ask=asks()))
    running = start(midturn, acpx, model)
    (question,) = wait_for(midturn)
    os.killpg(running.pid, signal.SIGKILL)
    running.communicate(timeout=300)

    midturn.ok("answer", question["id"], "n")
    assert "Done." in midturn.ok("resume").stdout
    assert decided(midturn) == [(False, "inbox")]


def at_a_terminal(midturn: CommandLine, acpx: Path, model: str) -> PtySession:
    """Start it at a terminal."""
    agent = shlex.join([sys.executable, "-m", "midturn", "acp", "-m", model])
    return midturn.on_a_terminal_run(
        str(acpx), "--agent", agent, "exec", "Go", size=(120, 40), TERM="xterm-256color"
    )


def test_yes_in_the_client_dialog_is_a_persons_answer(midturn: CommandLine, acpx: Path) -> None:
    midturn.asker("publish", run="ask")
    with at_a_terminal(
        midturn, acpx, midturn.script(calls("publish", say="Published."))
    ) as session:
        session.wait_for("(y/N)", seconds=300)
        session.wait_for_quiet(2 * MIN_RESPONSE_TIME)  # earlier keys are not accepted as an answer
        session.send("y\r")
        session.wait_for("Done.", seconds=300)

    assert decided(midturn) == [("approved", "acp")]


def test_ambiguous_approve_all_is_asked_in_the_inbox(midturn: CommandLine, acpx: Path) -> None:
    midturn.asker()
    several = asks("env", "Where to?", answer_type={"type": "select", "options": ["prod", "dev"]})
    with at_a_terminal(midturn, acpx, midturn.script(calls("deploy", ask=several))) as session:
        session.wait_for("[tool] deploy", seconds=300)
        midturn.ok("answer", asked_by(midturn, "deploy"), "dev")
        session.wait_for("Done.", seconds=300)
        assert "(y/N)" not in session.text

    assert decided(midturn) == [("dev", "inbox")]


def test_resumed_session_has_its_configured_servers(midturn: CommandLine, acpx: Path) -> None:
    server = {"name": "probe", "command": sys.executable, "args": [str(PROBE)], "env": []}
    (midturn.root / ".acpxrc.json").write_text(json.dumps({"mcpServers": [server]}))
    midturn.configure("[conversation.tools.probe_echo]\nsource = 'mcp'\nrun = 'unattended'\n")
    model = midturn.script({"text": "Good morning."}, calls("probe_echo", a=1))
    agent = [
        "--agent",
        shlex.join([sys.executable, "-m", "midturn", "acp", "-m", model]),
        "--ttl",
        "1",
    ]

    def acpx_ends(*arguments: str) -> str:
        command = [str(acpx), *agent, *arguments]
        ended = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            cwd=midturn.root,
            env=midturn.environment,
            timeout=300,
            check=False,
        )
        assert ended.returncode == 0, (ended.stdout, ended.stderr)
        return ended.stdout

    acpx_ends("sessions", "new")
    assert "Good morning." in acpx_ends("prompt", "Go")
    crashed(midturn)
    until(
        lambda: queue_owners(midturn), lambda owners: not owners
    )  # a process that is about to end refuses the next prompt
    assert "Done." in acpx_ends("prompt", "Go on")

    assert [
        event["content"] for event in midturn.events() if event["type"] == "tool_call_response"
    ] == ["echo: {'a': 1}"]
    assert len(midturn.conversations()) == 1


def queue_owners(midturn: CommandLine) -> list[str]:
    """Return the process IDs of the background processes of `acpx` that belong to this test."""
    found: list[str] = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes().split(b"\0")
            if (
                b"__queue-owner" in command
                and os.fsencode(midturn.home) in (entry / "environ").read_bytes()
            ):
                found.append(entry.name)
        except OSError:  # it has ended
            continue
    return found


def crashed(midturn: CommandLine) -> None:
    """Kill every `midturn acp` process of this test."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes().split(b"\0")
            is_ours = b"acp" in command and f"scripted:{midturn.root}/play.json".encode() in command
        except OSError:
            continue
        if is_ours and Path(os.fsdecode(command[0])).name.startswith("python"):
            os.kill(int(entry.name), signal.SIGKILL)
