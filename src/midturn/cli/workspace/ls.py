"""`midturn workspace ls`, and how the other commands find the one that is meant."""

from __future__ import annotations

import os
from pathlib import Path

import click

from midturn.cli.exit_status import ExitStatus
from midturn.cli.layout import table
from midturn.cli.options import with_json
from midturn.cli.output import say, say_json
from midturn.cli.shown import Shown, line
from midturn.config.places import shown
from midturn.errors import StoreError
from midturn.store.file_conversations import FileConversations
from midturn.store.workspace import Known, known_workspaces


@click.command
@with_json
def command(*, as_json: bool) -> ExitStatus:
    """List the directories whose conversations are here, how many those are, and where."""
    found = [(known, count(known)) for known in known_workspaces()]
    if as_json:
        say_json(
            [
                {"directory": str(known.root), "is_there": known.is_there, "conversations": number, "folder": str(known.folder)}
                for known, number in found
            ]
        )
        return ExitStatus.DONE
    for row in table([(line("{}", shown(known.root)), _said(known, number), line("{}", shown(known.folder))) for known, number in found]):
        say(row)
    if not found:
        say("No workspace has conversations yet.")
    return ExitStatus.DONE


def _said(known: Known, number: int) -> Shown:
    conversations = line("{} conversation{}", str(number), "" if number == 1 else "s")
    return conversations if known.is_there else line("{} (the directory is gone)", conversations)


def count(known: Known) -> int:
    """Return how many conversations a workspace has."""
    return len(FileConversations(known.folder).all_ids())


def meant(directory: str) -> Known:
    """Return the workspace of a directory, there or gone.

    Raises:
        StoreError: It has no conversations.
    """
    real = os.path.realpath(Path(directory).expanduser())
    found = next((known for known in known_workspaces() if str(known.root) in {directory, real}), None)
    if found is None:
        raise StoreError(f"There are no conversations of {directory}. `midturn workspace ls` lists those that have some.")
    return found
