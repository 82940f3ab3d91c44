"""Commands that are reserved for a person refuse every process of an agent that asks through a
hook.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support import dialog_agent, self_answering_agent
from support.cli import CommandLine

LOOK = (
    "import os; from midturn.security.authorization import nonhuman_reason;"
    " print(nonhuman_reason(os.environ))"
)
HOMES = (
    "HOME=$HOME XDG_STATE_HOME=$XDG_STATE_HOME XDG_CONFIG_HOME=$XDG_CONFIG_HOME"
    " XDG_DATA_HOME=$XDG_DATA_HOME"
)
ROUND = {
    "plainly": "{}",
    "without an environment": "env -i {}",
    "in a session of its own": "setsid -w env -i {homes} {}",
    "after a double fork": (
        "rm -f let; (setsid sh -c 'sleep 0.1; env -i {} > let.new 2>&1; mv let.new let' &); "
        "while [ ! -e let ]; do sleep 0.05; done; cat let"
    ),
}
linux = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the kernel hands no mark on"
)


def wrapped_command(way: str, command: str) -> str:
    return ROUND[way].replace("{homes}", HOMES).replace("{}", command)


def run(midturn: CommandLine, *command: str, **environment: str) -> str:
    """Run a command as the user; return its output."""
    env = {**midturn.environment, **environment}
    done = subprocess.run(
        command,
        cwd=midturn.root,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
        check=False,
    )
    return done.stdout.decode().strip()


def outputs_of_agent_commands(
    midturn: CommandLine, way: str, *commands: str, **environment: str
) -> list[str]:
    """Return the output of commands that an agent runs after it has asked in one of several
    ways.
    """
    agent = midturn.root / "claude.py"
    shutil.copy(self_answering_agent.__file__, agent)
    starter = (
        [sys.executable, "-m", "midturn", "acp", "run", "-p", "go", "--"] if way == "acp" else []
    )
    run(midturn, *starter, sys.executable, str(agent), way, *commands, **environment)
    printed: list[str] = json.loads((midturn.root / "printed").read_text())
    return [one.strip() for one in printed]


@linux
@pytest.mark.parametrize("way", ["hook", "mcp", "acp"])
def test_descendants_of_an_agent_are_detected(midturn: CommandLine, way: str) -> None:
    (midturn.root / "look.sh").write_text(f'exec {sys.executable} -c "{LOOK}"\n')

    printed = outputs_of_agent_commands(
        midturn, way, *(wrapped_command(how, f"sh {midturn.root}/look.sh") for how in ROUND)
    )

    assert [one != "None" and one.startswith("it ") for one in printed] == [True] * len(ROUND), (
        printed
    )


@linux
def test_descendants_are_detected_by_ancestry_without_kernel_marks(midturn: CommandLine) -> None:
    """`prlimit` may be refused, so the mark is missing."""
    without = midturn.root / "without"
    without.mkdir()
    refused = "import resource\ndef refuse(*_): raise PermissionError\nresource.prlimit = refuse\n"
    (without / "sitecustomize.py").write_text(refused)
    (midturn.root / "look.sh").write_text(f'exec {sys.executable} -c "{LOOK}"\n')
    (midturn.root / "mark.sh").write_text(
        f'exec {sys.executable} -c "from midturn.security.process_ancestry import tool_above;'
        ' print(tool_above(dict()))"\n'
    )
    looks = [
        wrapped_command(how, f"sh {midturn.root}/look.sh")
        for how in ("plainly", "in a session of its own")
    ]

    *printed, marked = outputs_of_agent_commands(
        midturn, "hook", *looks, f"sh {midturn.root}/mark.sh", PYTHONPATH=str(without)
    )

    assert printed == ["it descends from Claude Code, which asks through midturn"] * 2
    assert marked == "None"


@linux
def test_agent_process_may_not_act_for_its_user(midturn: CommandLine) -> None:
    midturn.workspace_file("prompt.bell = true\n")
    before = (midturn.root / ".midturn" / "config.toml").read_bytes()
    doors = {
        "answer 1 yes": "answer questions",
        "trust --yes": "approve files",
        "config set --user conversation.tools.x.run unattended": "change the configuration",
        "config set conversation.tools.x.run unattended": "change the configuration",
        "conversation edit --title x": "edit conversations",
        "resume": "continue turns",
        "serve": "accept answers",
        "hook uninstall claude": "change the hooks of agents",
        "hook install claude": "change the hooks of agents",
    }
    (midturn.root / ".midturn" / "config.d").mkdir()
    (midturn.root / ".midturn" / "config.d" / "later.toml").write_text("notify.after = 3\n")
    program = f"{sys.executable} -m midturn"

    printed = outputs_of_agent_commands(
        midturn,
        "hook",
        *(wrapped_command("in a session of its own", f"{program} {command}") for command in doors),
    )

    for said, what in zip(printed, doors.values(), strict=True):
        assert f"This process may not {what}: it " in said
    assert not midturn.config.exists()
    assert (midturn.root / ".midturn" / "config.toml").read_bytes() == before
    assert not (midturn.home / ".claude").exists()


@linux
def test_answer_in_the_agents_own_dialog_counts(midturn: CommandLine) -> None:
    shutil.copy(dialog_agent.__file__, midturn.root / "claude.py")

    assert "The user answered: yes" in run(midturn, sys.executable, str(midturn.root / "claude.py"))


@linux
def test_process_detached_before_the_first_question_is_not_detected(midturn: CommandLine) -> None:
    """The kernel marks only the named process. The documents mention this limitation."""
    asks = f"{sys.executable} {midturn.root}/claude.py"
    (midturn.root / "look.sh").write_text(
        f'while [ ! -e printed ]; do sleep 0.05; done; {sys.executable} -c "{LOOK}" > new; mv new'
        " late\n"
    )
    shutil.copy(self_answering_agent.__file__, midturn.root / "claude.py")
    start = midturn.root / "start.sh"
    start.write_text(f"(setsid env -i sh {midturn.root}/look.sh &) ; exec {asks} hook true\n")

    run(midturn, "/bin/bash", str(start))

    assert (
        run(midturn, "/bin/sh", "-c", "while [ ! -e late ]; do sleep 0.05; done; cat late")
        == "None"
    )


def test_records_of_ended_agents_are_removed(midturn: CommandLine) -> None:
    notes = midturn.state / "agents"
    notes.mkdir(parents=True)
    (notes / "999999999-1").write_text("x\nclaude")

    outputs_of_agent_commands(midturn, "hook", "true")

    assert [Path(note).name for note in notes.iterdir()] != ["999999999-1"]
    assert len(list(notes.iterdir())) == 1
