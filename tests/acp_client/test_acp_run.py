"""`midturn acp run`: agents that speak the Agent Client Protocol, as subprocesses."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from support.cli import CommandLine, Process
from support.hooks import answers, stored, until, wait_for
from support.warm_commands import started_by_others

AGENT = Path(__file__).parents[1] / "support" / "acp_agent.py"
pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def midturn(tmp_path: Path) -> CommandLine:
    """A user with a home directory and a workspace."""
    return CommandLine(tmp_path)


def start(midturn: CommandLine, prompt: str) -> Process:
    return midturn.start("acp", "run", "--prompt", prompt, "--", *started_by_others(AGENT))


def ended(run: Process) -> str:
    said, errors = run.communicate(timeout=120)
    assert run.returncode == 0, errors
    return said.strip()


def test_a_yes_of_a_person_allows_a_call_once(midturn: CommandLine) -> None:
    run = start(midturn, "permission")
    (question,) = wait_for(midturn)

    midturn.ok("answer", question["id"], "y")

    assert ended(run) == "permission: yes"
    assert question["asker"]["name"] == "probe"
    assert question["arguments"] == {"command": "touch made"}


@pytest.mark.parametrize(("run", "decided"), [("unattended", "yes"), ("skip", "no")])
def test_rules_are_selected_by_program_name(
    midturn: CommandLine, tmp_path: Path, run: str, decided: str
) -> None:
    """The agent calls itself `probe`. Its own name does not select other rules."""
    program = tmp_path / "my-agent.sh"
    program.write_text(f"#!/bin/sh\nexec {shlex.join(started_by_others(AGENT))}\n")
    program.chmod(0o755)
    other = "skip" if run == "unattended" else "unattended"
    midturn.configure(
        '[[agents.my-agent.tools."*".rules]]\nwhen.command = "touch *"\nrun ='
        f' "{run}"\n[[agents.probe.tools."*".rules]]\nrun = "{other}"\n'
    )
    said = midturn.ok("acp", "run", "--prompt", "permission", "--", str(program)).stdout
    assert said.startswith(f"permission: {decided}")
    (approval,) = [event for event in midturn.events() if event["type"] == "approval"]
    assert approval["answered_by"]["by"] == "configuration"


def test_start_message_names_the_inbox(midturn: CommandLine) -> None:
    run = start(midturn, "permission")
    (question,) = wait_for(midturn)
    midturn.ok("answer", question["id"], "y")
    _, errors = run.communicate(timeout=120)

    assert (
        "the agent's questions appear in `midturn inbox`, and on the page of `midturn serve`"
        in " ".join(errors.split())
    )


def test_question_of_an_agent_is_found_from_another_workspace(
    midturn: CommandLine, tmp_path: Path
) -> None:
    elsewhere = CommandLine(tmp_path / "elsewhere")
    elsewhere.home = midturn.home
    run = start(midturn, "permission")
    (question,) = wait_for(midturn)

    assert [listed["id"] for listed in elsewhere.ok("inbox", "--all", "--json").json] == [
        question["id"]
    ]

    run.terminate()
    run.communicate(timeout=120)


def test_reason_of_a_no_is_sent_as_the_next_prompt(midturn: CommandLine) -> None:
    run = start(midturn, "permission")
    (question,) = wait_for(midturn)

    midturn.ok("answer", question["id"], "n", "--reason", "Not on a Friday.")

    assert (
        ended(run)
        == 'permission: no | heard: midturn: "Make it": The user said no: Not on a Friday.'
    )


def test_skipped_form_fields_are_omitted(midturn: CommandLine) -> None:
    run = start(midturn, "form")
    (question,) = wait_for(midturn)

    midturn.ok("answer", question["id"], '{"env": "dev", "dry": null}')

    assert ended(run) == "form: accept {'env': 'dev'}"


@pytest.mark.parametrize(("value", "action"), [("y", "accept"), ("n", "decline")])
def test_url_is_opened_only_with_approval(midturn: CommandLine, value: str, action: str) -> None:
    run = start(midturn, "address")
    (question,) = wait_for(midturn)

    midturn.ok("answer", question["id"], value)

    assert ended(run) == f"address: {action}"
    assert "Host: `example.org`" in question["question"]["context"]
    assert "https://example.org/in" in question["question"]["context"]


def test_stopped_run_decides_nothing(midturn: CommandLine) -> None:
    run = start(midturn, "permission")
    wait_for(midturn)

    run.terminate()
    run.communicate(timeout=120)

    assert run.returncode == 143
    (question,) = until(
        lambda: midturn.ok("inbox", "--json").json,
        lambda questions: not questions[0]["asker"]["waits"],
    )
    assert question["tool"]
    assert [answers(events) for events in stored(midturn)] == [[]]


def test_turn_ended_by_a_person_is_over_although_the_agent_continues(midturn: CommandLine) -> None:
    """The agent continues and reports a complete turn. No further prompt is sent."""
    run = start(midturn, "stubborn")
    (permission,) = wait_for(midturn)
    midturn.ok("answer", permission["id"], "n", "--reason", "Not on a Friday.")
    (form,) = until(
        lambda: midturn.ok("inbox", "--json").json,
        lambda found: found and found[0]["id"] != permission["id"],
    )

    midturn.ok("answer", form["id"], "--cancel")

    said, errors = run.communicate(timeout=120)
    assert run.returncode == 130, errors
    assert said.strip() == "permission: noform: cancel None"


def test_an_agent_that_dies_is_an_error(midturn: CommandLine) -> None:
    finished = midturn.run("acp", "run", "--prompt", "die", "--", *started_by_others(AGENT))

    assert finished.status == 1
    assert "ended (status 3) before its turn was complete" in finished.stderr.replace("\n", " ")


def test_agent_that_reads_nothing_is_an_error_without_library_output(midturn: CommandLine) -> None:
    finished = midturn.run("acp", "run", "--prompt", "x", "--", "true")

    assert finished.status == 1
    assert "true ended (status 0) before its turn was complete" in finished.stderr.replace(
        "\n", " "
    )
    assert "Traceback" not in finished.stderr
    assert len(finished.stderr.splitlines()) <= 3


def test_stderr_of_an_agent_is_escaped(midturn: CommandLine) -> None:
    script = r"printf 'one \033]52;c;eA==\007\033[2J two\n' >&2; exit 3"
    done = midturn.run("acp", "run", "--prompt", "Go", "--", "sh", "-c", script)

    assert done.status == 1
    assert "one " in done.stderr
    assert " two" in done.stderr
    assert not {"\x1b", "\x07"} & set(done.stderr)


def test_missing_agent_program_is_an_error(midturn: CommandLine) -> None:
    finished = midturn.run("acp", "run", "--prompt", "x", "--", "no-such-agent")

    assert finished.status == 1
    assert "no-such-agent cannot be started" in finished.stderr
