"""`midturn demo`: a whole turn with real questions, and a scripted model in place of a real one."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import click

from midturn.cli.attachment import is_attached
from midturn.cli.audit_trail import print_inquiries
from midturn.cli.exit_status import ExitStatus
from midturn.cli.loading import Flags, load_for
from midturn.cli.output import note, say
from midturn.cli.place import Place, environment, user_data
from midturn.cli.turn_run import TurnRun, run_turn
from midturn.config.assign import Assignment
from midturn.core.json_value import Json
from midturn.core.turn.inputs import TurnRequested
from midturn.errors import ConfigError
from midturn.runtime.prompter import Prompter
from midturn.store.workspace import Workspace
from midturn.testing.prompter import ScriptedPrompter

HERE = Path(__file__).parent
DEMO = "the demo"
REQUEST = "Add a rollback step to the release plan, and publish it."
ANSWERS = {"edit_file.apply": True, "ask_user.answer": "team", "publish.go_ahead": True}


@click.command
@click.option("--non-interactive", is_flag=True, help="Let a scripted person answer, even if there is a terminal.")
def command(*, non_interactive: bool) -> ExitStatus:
    """Play a turn in which tools ask: no key, no network, nothing of yours is touched."""
    return play(attached=is_attached(environment(), non_interactive=non_interactive))


def play(*, attached: bool) -> ExitStatus:
    """Set up a workspace, play the turn, and show what was recorded."""
    workspace = _workspace(Path(tempfile.mkdtemp(prefix="midturn-demo-")))
    place = Place(workspace, workspace.store(user_data()), workspace.root)
    note(f"A model is asked: {REQUEST}\n")
    person: Prompter | None = None
    if not attached:
        note("There is no terminal to ask at, so a scripted person answers.\n")
        person = ScriptedPrompter(ANSWERS)
    run = TurnRun(place=place, loaded=load_for(place, Flags(assignments=configuration())), attached=True, prompter=person)
    journal = place.store.create(REQUEST)
    workspace.set_current(journal.conversation)
    status = run_turn(run, journal, TurnRequested(REQUEST))
    _show(place, journal.conversation)
    return status


def _show(place: Place, conversation: str) -> None:
    """Show what stands on disk now."""
    directory = place.store.path(conversation)
    say("\n$ midturn conversation show --inquiries")
    print_inquiries(place.store.read(conversation))
    say("\n$ git diff")
    say(_git(place.root, "diff", "--no-color") or "(nothing was changed)")
    note(f"\nThe workspace is {place.root}; every event is in {directory / 'events.jsonl'}.")


def _workspace(root: Path) -> Workspace:
    """Make a git repository with a plan, two local commands, and the configuration that declares them."""
    for name in ("plan.md",):
        shutil.copy(HERE / name, root / name)
    tools = root / "tools"
    tools.mkdir()
    for name in ("edit_file.py", "publish.py"):
        shutil.copy(HERE / name, tools / name)
    _git(root, "init", "--quiet")
    _git(root, "add", "plan.md", "tools")
    _git(root, "-c", "user.name=midturn", "-c", "user.email=demo@localhost", "commit", "--quiet", "--message", "The plan")
    return Workspace.make(root)


def configuration() -> list[Assignment]:
    """Return the configuration of the demo: it is set like flags are, so that it needs no trust."""
    return [
        Assignment("assistant.model.id", f"scripted:{HERE / 'play.toml'}", DEMO),
        _tool("edit_file", "Change a text file: `old` becomes `new`.", ("path", "old", "new")),
        _tool("publish", "Publish a file.", ("path",)),
    ]


def _tool(name: str, summary: str, parameters: tuple[str, ...]) -> Assignment:
    declared: dict[str, Json] = {
        "source": "local",
        "summary": summary,
        "command": [sys.executable, f"tools/{name}.py"],
        "protocol": "outcome",
        "run": "unattended",
        "parameters": {parameter: {"type": "string", "required": True} for parameter in parameters},
    }
    return Assignment(f"conversation.tools.{name}", declared, DEMO)


def _git(root: Path, *arguments: str) -> str:
    try:
        command_line = ["git", "-C", str(root), *arguments]
        finished = subprocess.run(command_line, check=True, capture_output=True, text=True, timeout=20)  # noqa: S603  ours alone
    except FileNotFoundError:
        raise ConfigError("The demo needs git, and there is none.") from None
    except subprocess.CalledProcessError as error:
        raise ConfigError(f"git {arguments[0]} failed: {error.stderr.strip()}") from error
    return finished.stdout.rstrip("\n")
