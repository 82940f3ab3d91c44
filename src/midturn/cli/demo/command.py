"""`midturn demo`: a whole turn with real questions, and a scripted model in place of a real one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import click
from msgspec import Struct

from midturn.cli.command_context import Place, StoreAddress, environment, place_at
from midturn.cli.conversation.transcript import print_inquiries, print_transcript
from midturn.cli.loading import Flags, load_for
from midturn.cli.locked import Held, is_attached
from midturn.cli.options import with_non_interactive
from midturn.cli.output import ExitStatus, block, note, say
from midturn.cli.turn_run import TurnRun, TurnRunner
from midturn.config.assign import Assignment
from midturn.errors import ConfigError
from midturn.events.prompt import Prompt
from midturn.prompter import Prompter
from midturn.question.json_value import Json
from midturn.question.reply import Reply, WentBack
from midturn.stores.log_tail import NAME
from midturn.stores.workspace import Workspace
from midturn.terminal.prompts.answer_text import reply_text
from midturn.testing.prompter import Scripted, ScriptedPrompter
from midturn.turn.step import TurnRequested

HERE = Path(__file__).parent
DEMO = "the demo"


class Play(Struct, frozen=True):
    """A script for the model, what it is asked, and what a scripted person answers."""

    script: str
    request: str
    answers: dict[str, Scripted]


class _ScriptedPerson(ScriptedPrompter):
    """The person of the demo: answers by script, and shows each answer in a line, for there is no terminal to watch them at."""

    async def prompt(self, prompt: Prompt) -> Reply:
        """Reply as the script says, and show it."""
        reply = await super().prompt(prompt)
        place = f"[{prompt.index}/{prompt.total}] " if prompt.total > 1 else ""
        note("  {} asks: {}{}  {}", prompt.asked_by, place, prompt.question.text, reply_text(prompt, reply))
        return reply


RELEASE = Play(
    "play.toml",
    "Add a rollback step to the release plan, and publish it.",
    {"fs_modify_file.apply_changes": True, "ask_user.answer": "team", "publish.go_ahead": True},
)
FORM = Play(
    "forms.toml",
    "Plan the migration of the customers' database.",
    {  # at the reason for a "no" they think again, and go back twice
        "ask_user.migrate": [False, True],
        "ask_user.where": [["staging"], WentBack(), ["staging", "production"]],
        "ask_user.why_not": WentBack(),
        "ask_user.when": "Sunday, 6:00",
    },
)


@click.command
@click.option("--forms", is_flag=True, help="Show a form: several questions at once, some of which depend on others.")
@with_non_interactive
def command(*, forms: bool, non_interactive: bool) -> ExitStatus:
    """Play a turn in which tools ask: no key, no network, nothing of yours is touched."""
    return play(FORM if forms else RELEASE, attached=is_attached(environment(), non_interactive=non_interactive))


def play(chosen: Play, *, attached: bool) -> ExitStatus:
    """Set up a workspace, play the turn, and show what was recorded."""
    room = Path(tempfile.mkdtemp(prefix="midturn-demo-"))
    os.environ["XDG_CACHE_HOME"] = str(room / "cache")  # the sandbox of tools makes a directory there
    root = room / "work"
    root.mkdir()
    place = place_at(StoreAddress(room / "conversations", "conversation.store"), _workspace(root), root)
    note("You ask: {}", chosen.request)
    person: Prompter | None = None
    if not attached:
        note("There is no terminal to ask at, so a scripted person answers.")
        person = _ScriptedPerson(chosen.answers)
    note("")
    run = TurnRun(place=place, loaded=load_for(place, Flags(assignments=_configuration(chosen))), attached=True, prompter=person)
    runner = TurnRunner(run)
    with Held.new(place, chosen.request) as held:
        place.set_current(held.conversation)
        status = runner.run(held, TurnRequested(chosen.request))
        _show(chosen, place, held.conversation)
    return status


def _show(chosen: Play, place: Place, conversation: str) -> None:
    """Show what stands on disk now."""
    recorded = place.store.read_sync(conversation)
    say("\n$ midturn conversation show --inquiries")
    print_inquiries(recorded)
    if chosen is FORM:
        say("\n$ midturn conversation show")
        print_transcript(recorded.turns)
    else:
        say("\n$ git diff")
        say(block(_git(place.root, "diff", "--no-color") or "(nothing was changed)"))
    note("\nAll of this is in {}", place.root.parent)
    note("Every event is a line of {}", (place.files.directories.path(conversation) / NAME).relative_to(place.root.parent))
    note("\nNext: `midturn init` sets up a model, `midturn chat` starts the assistant, and docs/tutorial.md asks from a program of yours.")


def _workspace(root: Path) -> Workspace:
    """Make a git repository with a plan and a local command."""
    shutil.copy(HERE / "plan.md", root / "plan.md")
    tools = root / "tools"
    tools.mkdir()
    shutil.copy(HERE / "publish.py", tools / "publish.py")
    _git(root, "init", "--quiet")
    _git(root, "add", "plan.md", "tools")
    _git(root, "-c", "user.name=midturn", "-c", "user.email=demo@localhost", "commit", "--quiet", "--no-verify", "--message", "The plan")
    return Workspace.make(root)


def _configuration(chosen: Play) -> list[Assignment]:
    """Return the configuration of the demo: it is set like flags are, so that it needs no trust."""
    publish: dict[str, Json] = {
        "source": "local",
        "summary": "Publish a file.",
        "command": [sys.executable, "tools/publish.py"],
        "protocol": "outcome",
        "run": "unattended",
        "parameters": {"path": {"type": "string", "required": True}},
    }
    return [
        Assignment("assistant.model.id", f"scripted:{HERE / chosen.script}", DEMO),
        Assignment("conversation.tools.publish", publish, DEMO),
    ]


def _git(root: Path, *arguments: str) -> str:
    try:
        command_line = ["git", "-C", str(root), "-c", "commit.gpgSign=false", *arguments]
        finished = subprocess.run(command_line, check=True, capture_output=True, text=True, timeout=20)  # noqa: S603  ours alone
    except FileNotFoundError:
        raise ConfigError("The demo needs git, and there is none.") from None
    except subprocess.CalledProcessError as error:
        raise ConfigError(f"git {arguments[0]} failed: {error.stderr.strip()}") from error
    return finished.stdout.rstrip("\n")
