"""`midturn workspace`: whose conversations are in the user's data directory."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import click

from midturn.cli.asking import confirmed
from midturn.cli.lazy import CommandEntry, lazy_group
from midturn.cli.options import with_json
from midturn.cli.output import ExitStatus, Shown, line, note, say, say_json, table
from midturn.config.places import shown
from midturn.errors import StoreError
from midturn.question.question import Question
from midturn.security.authorization import for_people_only
from midturn.stores.directories import Directories
from midturn.stores.folder import telling
from midturn.stores.workspace import Known, Workspace, known_workspaces, move

command = lazy_group(
    "workspace",
    "Look after the conversations of every workspace: they are in your data directory, each workspace's in a folder of its own.",
    {
        "ls": CommandEntry("midturn.cli.workspace:ls_command", "List which directories have conversations, and where."),
        "mv": CommandEntry("midturn.cli.workspace:mv_command", "Bring conversations along where a directory was moved."),
        "rm": CommandEntry("midturn.cli.workspace:rm_command", "Remove all conversations of one for good."),
    },
    {
        "list": "ls",
        **dict.fromkeys(("move", "rename"), "mv"),
        **dict.fromkeys(("delete", "remove"), "rm"),
    },
)


# ----------------------------------------------------------------------------------------------------------------------
# `midturn workspace ls`, and how the other commands find the one that is meant


@click.command
@with_json
def ls_command(*, as_json: bool) -> ExitStatus:
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
    return len(Directories(known.folder).ids())


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


# ----------------------------------------------------------------------------------------------------------------------
# `midturn workspace mv`


@click.command
@click.argument("old")
@click.argument("new", default=".")
def mv_command(old: str, new: str) -> ExitStatus:
    """Make the conversations of the directory OLD, there or gone, those of the workspace NEW (by default this directory)."""
    for_people_only("move conversations")
    known, root = meant(old), Path(new)
    if (found := Workspace.find(root)) is None or not root.samefile(found.root):
        raise click.UsageError(f"{new} is no workspace. `midturn init` makes it one.")
    number = count(known)
    Directories(known.folder).check_free()
    say("{}", move(known, found.root))
    note("midturn: {} conversations of {} are those of {} now.", str(number), shown(known.root), shown(found.root))
    return ExitStatus.DONE


# ----------------------------------------------------------------------------------------------------------------------
# `midturn workspace rm`


@click.command
@click.argument("directory")
@click.option("--yes", is_flag=True, help="Do not ask.")
def rm_command(directory: str, *, yes: bool) -> ExitStatus:
    """Remove all conversations of the workspace DIRECTORY, there or gone, for good. Nothing in the directory itself is touched."""
    for_people_only("remove conversations")
    known = meant(directory)
    what = f"Remove the {count(known)} conversations of {known.root} for good?"
    if not yes and not confirmed(Question.boolean("remove", what), "Add `--yes` to remove without being asked."):
        note("midturn: nothing was removed.")
        return ExitStatus.ERROR
    Directories(known.folder).check_free()
    with telling("remove", known.folder):
        shutil.rmtree(known.folder)
    note("midturn: the conversations of {} were removed.", shown(known.root))
    return ExitStatus.DONE
