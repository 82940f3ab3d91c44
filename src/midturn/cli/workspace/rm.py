"""`midturn workspace rm`."""

from __future__ import annotations

import shutil

import click

from midturn.cli.asking import confirmed
from midturn.cli.exit_status import ExitStatus
from midturn.cli.output import note
from midturn.cli.workspace.ls import count, meant
from midturn.config.places import shown
from midturn.core.question import Question
from midturn.sandbox.doors import for_people_only
from midturn.store.file_conversations import FileConversations
from midturn.store.folder import telling


@click.command
@click.argument("directory")
@click.option("--yes", is_flag=True, help="Do not ask.")
def command(directory: str, *, yes: bool) -> ExitStatus:
    """Remove all conversations of the workspace DIRECTORY, there or gone, for good. Nothing in the directory itself is touched."""
    for_people_only("remove conversations")
    known = meant(directory)
    what = f"Remove the {count(known)} conversations of {known.root} for good?"
    if not yes and not confirmed(Question.boolean("remove", what), "Add `--yes` to remove without being asked."):
        note("midturn: nothing was removed.")
        return ExitStatus.ERROR
    FileConversations(known.folder).check_free()
    with telling("remove", known.folder):
        shutil.rmtree(known.folder)
    note("midturn: the conversations of {} were removed.", shown(known.root))
    return ExitStatus.DONE
