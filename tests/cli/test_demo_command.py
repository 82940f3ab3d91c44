"""`midturn demo`: real questions with a scripted model, without a key or network."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from midturn.cli.demo.command import FORM, HERE, RELEASE
from midturn.models.scripted import ScriptedModel
from support.cli import CommandLine


def workspace_of(text: str) -> Path:
    """Return the workspace that the demo created."""
    found = re.search(r"The files of the demo are in\s+(\S+)", text)
    assert found
    return Path(found[1]) / "work"


def test_demo_without_a_terminal_uses_scripted_answers(
    midturn: CommandLine, tmp_path: Path
) -> None:
    finished = midturn.ok("demo", TMPDIR=str(tmp_path))

    assert "No terminal is available, so a scripted user answers." in finished.stderr
    listing = finished.stdout.partition("$ midturn conversation show --inquiries")[2]
    assert "fs_modify_file asks: Apply the changes to plan.md?" in listing
    assert 'answered "team" by user' in listing
    assert "+4. If an alarm rings, roll back." in listing
    place = workspace_of(finished.stderr)
    assert (place / "plan.published").read_text() == (place / "plan.md").read_text()
    assert "run `midturn init` to configure a model" in finished.stderr.splitlines()[-1]


def test_demo_needs_no_workspace_and_does_not_change_the_current_one(
    midturn: CommandLine, tmp_path: Path
) -> None:
    midturn.ok("demo", TMPDIR=str(tmp_path))

    assert midturn.conversations() == []
    assert list(midturn.root.iterdir()) == [midturn.root / ".midturn"]


UNSHARE = ("unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--net")
CAN_UNSHARE = (
    shutil.which("unshare") is not None
    and subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode == 0
)


@pytest.mark.parametrize("flags", [[], ["--forms"]])
@pytest.mark.skipif(not CAN_UNSHARE, reason="no namespace of networks can be made here")
def test_the_demo_needs_no_network_and_creates_files_in_its_temporary_directory_only(
    tmp_path: Path, flags: list[str]
) -> None:
    home, here, temporary = (tmp_path / name for name in ("home", "here", "temporary"))
    for directory in (home, here, temporary):
        directory.mkdir()
    (here / "plan.md").write_text("mine\n")
    environment = {"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(temporary)}

    command = [*UNSHARE, sys.executable, "-m", "midturn", "demo", *flags]
    played = subprocess.run(
        command,
        cwd=here,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )

    assert played.returncode == 0, played.stderr
    assert [*home.rglob("*")] == []
    assert {path.name: path.read_text() for path in here.iterdir()} == {"plan.md": "mine\n"}
    assert [path.name.startswith("midturn-demo-") for path in temporary.iterdir()] == [True]


def test_demo_reports_that_it_needs_git(midturn: CommandLine, tmp_path: Path) -> None:
    finished = midturn.run("demo", TMPDIR=str(tmp_path), PATH=str(tmp_path))

    assert finished.status == 2
    assert "The demo requires git, which is not installed." in finished.stderr


def test_another_answer_at_the_terminal_changes_file_and_listing(
    midturn: CommandLine, tmp_path: Path
) -> None:
    midturn.accept_keys_at_once()
    before = {*midturn.home.rglob("*")}

    with midturn.on_a_terminal("demo", size=(100, 100), TMPDIR=str(tmp_path)) as terminal:
        terminal.wait_for("Apply the changes to plan.md?")
        terminal.wait_at(": ")
        terminal.send("n\r")
        terminal.wait_for("Who should be able to read the plan?")
        terminal.wait_at(": ")
        terminal.send("public\r")
        terminal.wait_for("Publish plan.md now?")
        terminal.wait_at(": ")
        terminal.send("y\r")
        assert terminal.wait_for_end() == 0

    assert "answered false by user ana via terminal" in terminal.text
    assert 'answered "public" by user ana via terminal' in terminal.text
    assert "(nothing was changed)" in terminal.text
    place = workspace_of(terminal.text)
    assert "roll back" not in (place / "plan.md").read_text()
    assert (place / "plan.published").exists()
    assert {*midturn.home.rglob("*")} == before


def test_the_form_is_one_call_with_one_result(midturn: CommandLine, tmp_path: Path) -> None:
    shown = midturn.ok("demo", "--forms", TMPDIR=str(tmp_path)).stdout

    assert shown.count("· ask_user\n") == 1
    assert shown.count("  Where?  staging, production\n") == 1, "what came of it, not the way there"


def test_another_answer_at_the_terminal_changes_the_form(
    midturn: CommandLine, tmp_path: Path
) -> None:
    midturn.accept_keys_at_once()

    with midturn.on_a_terminal(
        "demo", "--forms", size=(100, 100), TMPDIR=str(tmp_path)
    ) as terminal:
        terminal.wait_for("Migrate the data as well?")
        terminal.wait_at(": ")
        terminal.send("n\r")
        terminal.wait_for("Where?")
        terminal.wait_at(": ")
        terminal.send("1\r")
        terminal.wait_for("Why not the data?")
        terminal.wait_at("> ")
        terminal.send("Too slow.\r")
        terminal.wait_for("Press Enter to send")
        terminal.send("\r")
        assert terminal.wait_for_end() == 0

    assert (
        "  Migrate the data as well?  no\n  Where?  development\n  Why not the data?  Too slow.\n"
        in terminal.text
    )


def test_demo_scripts_are_complete() -> None:
    for play in (RELEASE, FORM):
        assert ScriptedModel.from_file(HERE / play.script).script.replies
