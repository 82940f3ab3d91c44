"""`midturn demo`: a complete turn with questions, and a scripted model."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import click
from msgspec import Struct

from midturn.cli.command_context import CommandContext, StoreAddress, environment, place_at
from midturn.cli.conversation.transcript import print_inquiries, print_transcript
from midturn.cli.loading import Flags, load_for
from midturn.cli.locked import ConversationLock, is_attached
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
from midturn.turn.inputs import TurnRequested

HERE = Path(__file__).parent
DEMO = "the demo"


class Play(Struct, frozen=True):
    """A demo: the model's script, the user's request, and the scripted user's answers."""

    script: str
    request: str
    answers: dict[str, Scripted]


class _ScriptedUser(ScriptedPrompter):
    """Replies with scripted answers, and prints them, because no terminal displays them."""

    async def prompt(self, prompt: Prompt) -> Reply:
        """Return the scripted reply, and print it."""
        reply = await super().prompt(prompt)
        place = f"[{prompt.index}/{prompt.total}] " if prompt.total > 1 else ""
        note(
            "  {} asks: {}{}  {}",
            prompt.asked_by,
            place,
            prompt.question.text,
            reply_text(prompt, reply),
        )
        return reply


RELEASE = Play(
    "play.toml",
    "Add a rollback step to the release plan, and publish it.",
    {"fs_modify_file.apply_changes": True, "ask_user.answer": "team", "publish.go_ahead": True},
)
FORM = Play(
    "forms.toml",
    "Plan the migration of the customers' database.",
    {  # at `why_not`, the user goes back twice and changes the answers
        "ask_user.migrate": [False, True],
        "ask_user.where": [["staging"], WentBack(), ["staging", "production"]],
        "ask_user.why_not": WentBack(),
        "ask_user.when": "Sunday, 6:00",
    },
)


@click.command
@click.option("--forms", is_flag=True, help="Show a form with dependent questions")
@with_non_interactive
def command(*, forms: bool, non_interactive: bool) -> ExitStatus:
    """Play a turn in which tools ask you questions

    Needs no API key and no network, and changes none of your files.
    """
    return play(
        FORM if forms else RELEASE,
        attached=is_attached(environment(), non_interactive=non_interactive),
    )


def play(chosen: Play, *, attached: bool) -> ExitStatus:
    """Create a workspace, run the turn, and show what was recorded."""
    base = Path(tempfile.mkdtemp(prefix="midturn-demo-"))
    os.environ["XDG_CACHE_HOME"] = str(base / "cache")  # the tool sandbox creates a directory there
    root = base / "work"
    root.mkdir()
    place = place_at(
        StoreAddress(base / "conversations", "conversation.store"), _workspace(root), root
    )
    note("You ask: {}", chosen.request)
    person: Prompter | None = None
    if not attached:
        note("No terminal is available, so a scripted user answers.")
        person = _ScriptedUser(chosen.answers)
    note("")
    run = TurnRun(
        place=place,
        loaded=load_for(place, Flags(assignments=_configuration(chosen))),
        attached=True,
        prompter=person,
    )
    runner = TurnRunner(run)
    with ConversationLock.new(place, chosen.request) as held:
        place.set_current(held.conversation)
        status = runner.run(held, TurnRequested(chosen.request))
        _show(chosen, place, held.conversation)
    return status


def _show(chosen: Play, place: CommandContext, conversation: str) -> None:
    """Show the recorded conversation and the changes."""
    recorded = place.store.read_sync(conversation)
    say("\n$ midturn conversation show --inquiries")
    print_inquiries(recorded)
    if chosen is FORM:
        say("\n$ midturn conversation show")
        print_transcript(recorded.turns)
    else:
        say("\n$ git diff")
        say(block(_git(place.root, "diff", "--no-color") or "(nothing was changed)"))
    note("\nThe files of the demo are in {}", place.root.parent)
    note(
        "All events are recorded in {}",
        (place.files.directories.path(conversation) / NAME).relative_to(place.root.parent),
    )
    note(
        "\nNext: run `midturn init` to configure a model and `midturn chat` to start the assistant,"
        " or read docs/start/quickstart.md."
    )


def _workspace(root: Path) -> Workspace:
    """Create a git repository with a plan and a local command."""
    shutil.copy(HERE / "plan.md", root / "plan.md")
    tools = root / "tools"
    tools.mkdir()
    shutil.copy(HERE / "publish.py", tools / "publish.py")
    _git(root, "init", "--quiet")
    _git(root, "add", "plan.md", "tools")
    _git(
        root,
        "-c",
        "user.name=midturn",
        "-c",
        "user.email=demo@localhost",
        "commit",
        "--quiet",
        "--no-verify",
        "--message",
        "The plan",
    )
    return Workspace.make(root)


def _configuration(chosen: Play) -> list[Assignment]:
    """Return the demo's configuration as flags, which need no approval."""
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
        finished = subprocess.run(  # noqa: S603  fixed arguments
            command_line, check=True, capture_output=True, text=True, timeout=20
        )
    except FileNotFoundError:
        raise ConfigError("The demo requires git, which is not installed.") from None
    except subprocess.CalledProcessError as error:
        raise ConfigError(f"git {arguments[0]} failed: {error.stderr.strip()}") from error
    return finished.stdout.rstrip("\n")
