"""`midturn trust`: shows what the workspace's files enable, and lets their user approve it."""

from __future__ import annotations

import click

from midturn.cli.asking import confirmed, project_here
from midturn.cli.command_context import environment
from midturn.cli.config import print_standing
from midturn.cli.loading import load_here
from midturn.cli.output import ExitStatus, note, say, tell
from midturn.config.approvals import Approvals
from midturn.config.places import state_directory
from midturn.config.trust import FileTrust
from midturn.question.question import Question
from midturn.security.authorization import for_people_only


@click.command
@click.option("--yes", is_flag=True, help="Approve without asking.")
def command(*, yes: bool) -> ExitStatus:
    """Show what the files of this workspace enable, and approve them as they are now."""
    loaded = load_here()
    files = loaded.files
    for file in files:
        _show(file)
    waiting = [file for file in files if not file.approved]
    if not waiting:
        tell("Nothing waits for your approval.")
        print_standing(loaded.settings, project_here())
        return ExitStatus.DONE
    for_people_only("approve files")
    if not yes and not _agreed(len(waiting)):
        note("midturn: nothing was approved.")
        return ExitStatus.ERROR
    approvals = Approvals.of(state_directory(), environment())
    for file in waiting:
        approvals.approve(file.subject)
        tell("Approved {}. A change to it, or to a script that it runs, needs a new approval.", file.name)
    print_standing(load_here().settings, project_here())
    return ExitStatus.DONE


def _show(file: FileTrust) -> None:
    """Say what a file enables, under what that means."""
    say("{}{}", file.name, " (approved)" if file.approved else "")
    tell("  sha256 {}", file.subject.sha256)
    for script in file.subject.scripts:
        tell("  {}  {}", script.name, script.state)
    for why in dict.fromkeys(one.why for one in file.enables):
        tell("  {}:", why)
        for one in file.enables:
            if one.why == why:
                tell("    {} = {} ({})", one.key, one.value, one.place)


def _agreed(count: int) -> bool:
    question = Question.boolean("trust", f"Approve {'this file' if count == 1 else f'these {count} files'}?")
    return confirmed(question, "`midturn trust --yes` approves without asking.")
