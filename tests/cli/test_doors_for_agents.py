"""What only a person may do is not done for an agent of others that asks through us, whichever way it goes round."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support import agent_that_acts, agent_with_a_dialog
from support.cli import CommandLine

LOOK = "import os; from midturn.security.authorization import not_a_persons; print(not_a_persons(os.environ))"
HOMES = "HOME=$HOME XDG_STATE_HOME=$XDG_STATE_HOME XDG_CONFIG_HOME=$XDG_CONFIG_HOME XDG_DATA_HOME=$XDG_DATA_HOME"
ROUND = {
    "plainly": "{}",
    "without an environment": "env -i {}",
    "in a session of its own": "setsid -w env -i {homes} {}",
    "after a double fork": "rm -f let; (setsid sh -c 'sleep 0.1; env -i {} > let.new 2>&1; mv let.new let' &); "
    "while [ ! -e let ]; do sleep 0.05; done; cat let",
}
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel hands no mark on")


def round_about(way: str, command: str) -> str:
    return ROUND[way].replace("{homes}", HOMES).replace("{}", command)


def run(midturn: CommandLine, *command: str, **environment: str) -> str:
    """Run a command of the user's; return what it prints."""
    env = {**midturn.environment, **environment}
    done = subprocess.run(command, cwd=midturn.root, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=100, check=False)
    return done.stdout.decode().strip()


def done_by(midturn: CommandLine, way: str, *commands: str, **environment: str) -> list[str]:
    """Return what commands print that an agent runs after it has asked in some way."""
    agent = midturn.root / "claude.py"
    shutil.copy(agent_that_acts.__file__, agent)
    starter = [sys.executable, "-m", "midturn", "acp", "run", "-p", "go", "--"] if way == "acp" else []
    run(midturn, *starter, sys.executable, str(agent), way, *commands, **environment)
    printed: list[str] = json.loads((midturn.root / "printed").read_text())
    return [one.strip() for one in printed]


@linux
@pytest.mark.parametrize("way", ["hook", "mcp", "acp"])
def test_what_an_agent_starts_is_known_whatever_it_does_to_hide(midturn: CommandLine, way: str) -> None:
    (midturn.root / "look.sh").write_text(f'exec {sys.executable} -c "{LOOK}"\n')

    printed = done_by(midturn, way, *(round_about(how, f"sh {midturn.root}/look.sh") for how in ROUND))

    assert [one != "None" and one.startswith("it ") for one in printed] == [True] * len(ROUND), printed


@linux
def test_where_the_kernel_marks_nothing_an_agents_descendants_are_known_by_their_ancestry(midturn: CommandLine) -> None:
    """The limit is not there: `prlimit` may be refused."""
    without = midturn.root / "without"
    without.mkdir()
    refused = "import resource\ndef refuse(*_): raise PermissionError\nresource.prlimit = refuse\n"
    (without / "sitecustomize.py").write_text(refused)
    (midturn.root / "look.sh").write_text(f'exec {sys.executable} -c "{LOOK}"\n')
    (midturn.root / "mark.sh").write_text(
        f'exec {sys.executable} -c "from midturn.security.process_ancestry import tool_above; print(tool_above(dict()))"\n'
    )
    looks = [round_about(how, f"sh {midturn.root}/look.sh") for how in ("plainly", "in a session of its own")]

    *printed, marked = done_by(midturn, "hook", *looks, f"sh {midturn.root}/mark.sh", PYTHONPATH=str(without))

    assert printed == ["it descends from Claude Code, which asks through midturn"] * 2
    assert marked == "None"


@linux
def test_an_agent_does_nothing_in_the_place_of_its_user(midturn: CommandLine) -> None:
    midturn.workspace_file("prompt.bell = true\n")
    before = (midturn.root / ".midturn" / "config.toml").read_bytes()
    doors = {
        "answer 1 yes": "answer questions",
        "trust --yes": "approve files",
        "config set --user conversation.tools.x.run unattended": "change the configuration",
        "config set conversation.tools.x.run unattended": "change the configuration",
        "conversation edit --title x": "edit conversations",
        "resume": "go on with turns",
        "serve": "take answers for one",
        "hook uninstall claude": "change what agents ask through",
        "hook install claude": "change what agents ask through",
    }
    (midturn.root / ".midturn" / "config.d").mkdir()
    (midturn.root / ".midturn" / "config.d" / "later.toml").write_text("notify.after = 3\n")
    program = f"{sys.executable} -m midturn"

    printed = done_by(midturn, "hook", *(round_about("in a session of its own", f"{program} {command}") for command in doors))

    for said, what in zip(printed, doors.values(), strict=True):
        assert f"This process may not {what}: it " in said
    assert not midturn.config.exists()
    assert (midturn.root / ".midturn" / "config.toml").read_bytes() == before
    assert not (midturn.home / ".claude").exists()


@linux
def test_what_a_person_says_in_an_agents_own_dialog_is_an_answer(midturn: CommandLine) -> None:
    shutil.copy(agent_with_a_dialog.__file__, midturn.root / "claude.py")

    assert "The user answered: yes" in run(midturn, sys.executable, str(midturn.root / "claude.py"))


@linux
def test_what_an_agent_let_go_before_it_ever_asked_is_not_known(midturn: CommandLine) -> None:
    """The kernel marks no process but the one that is named: this is said in the documents."""
    asks = f"{sys.executable} {midturn.root}/claude.py"
    (midturn.root / "look.sh").write_text(f'while [ ! -e printed ]; do sleep 0.05; done; {sys.executable} -c "{LOOK}" > new; mv new late\n')
    shutil.copy(agent_that_acts.__file__, midturn.root / "claude.py")
    start = midturn.root / "start.sh"
    start.write_text(f"(setsid env -i sh {midturn.root}/look.sh &) ; exec {asks} hook true\n")

    run(midturn, "/bin/bash", str(start))

    assert run(midturn, "/bin/sh", "-c", "while [ ! -e late ]; do sleep 0.05; done; cat late") == "None"


def test_notes_of_agents_that_have_ended_do_not_pile_up(midturn: CommandLine) -> None:
    notes = midturn.state / "agents"
    notes.mkdir(parents=True)
    (notes / "999999999-1").write_text("x\nclaude")

    done_by(midturn, "hook", "true")

    assert [Path(note).name for note in notes.iterdir()] != ["999999999-1"]
    assert len(list(notes.iterdir())) == 1
