"""`midturn trust`: review and approve the files of a workspace."""

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
from midturn.security.authorization import require_human


@click.command
@click.option("--yes", is_flag=True, help="Approve without confirmation")
def command(*, yes: bool) -> ExitStatus:
    """Review and approve this workspace's configuration"""
    loaded = load_here()
    files = loaded.files
    for file in files:
        _show(file)
    unapproved = [file for file in files if not file.approved]
    if not unapproved:
        tell("Nothing needs your approval.")
        print_standing(loaded.settings, project_here())
        return ExitStatus.DONE
    require_human("approve files")
    if not yes and not _confirm(len(unapproved)):
        note("midturn: nothing was approved.")
        return ExitStatus.ERROR
    approvals = Approvals.of(state_directory(), environment())
    for file in unapproved:
        approvals.approve(file.subject)
        tell(
            "Approved {}. Changes to it, or to a script that it runs, require a new approval.",
            file.name,
        )
    print_standing(load_here().settings, project_here())
    return ExitStatus.DONE


def _show(file: FileTrust) -> None:
    """Print what a file enables, grouped by effect."""
    say("{}{}", file.name, " (approved)" if file.approved else "")
    tell("  sha256 {}", file.subject.sha256)
    for script in file.subject.scripts:
        tell("  {}  {}", script.name, script.state)
    for why in dict.fromkeys(setting.why for setting in file.enables):
        tell("  {}:", why)
        for setting in file.enables:
            if setting.why == why:
                tell("    {} = {} ({})", setting.key, setting.value, setting.place)


def _confirm(count: int) -> bool:
    question = Question.boolean(
        "trust", f"Approve {'this file' if count == 1 else f'these {count} files'}?"
    )
    return confirmed(question, "To approve without confirmation: `midturn trust --yes`")
