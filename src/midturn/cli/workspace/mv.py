"""`midturn workspace mv`."""

from __future__ import annotations

from pathlib import Path

import click

from midturn.cli.exit_status import ExitStatus
from midturn.cli.output import note, say
from midturn.cli.workspace.ls import count, meant
from midturn.config.places import shown
from midturn.sandbox.doors import for_people_only
from midturn.store.file_conversations import FileConversations
from midturn.store.workspace import Workspace, move


@click.command
@click.argument("old")
@click.argument("new", default=".")
def command(old: str, new: str) -> ExitStatus:
    """Make the conversations of the directory OLD, there or gone, those of the workspace NEW (by default this directory)."""
    for_people_only("move conversations")
    known, root = meant(old), Path(new)
    if (found := Workspace.find(root)) is None or not root.samefile(found.root):
        raise click.UsageError(f"{new} is no workspace. `midturn init` makes it one.")
    number = count(known)
    FileConversations(known.folder).check_free()
    say("{}", move(known, found.root))
    note("midturn: {} conversations of {} are those of {} now.", str(number), shown(known.root), shown(found.root))
    return ExitStatus.DONE
