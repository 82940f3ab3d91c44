"""`midturn workspace`: manage the stored conversations of workspaces."""

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
from midturn.security.authorization import require_human
from midturn.stores.directories import Directories
from midturn.stores.folder import reporting_os_errors
from midturn.stores.workspace import Known, Workspace, known_workspaces, move

command = lazy_group(
    "workspace",
    "Manage the stored conversations of workspaces",
    {
        "ls": CommandEntry(
            "midturn.cli.workspace:ls_command", "List workspaces with stored conversations"
        ),
        "mv": CommandEntry(
            "midturn.cli.workspace:mv_command", "Reassign conversations after a directory was moved"
        ),
        "rm": CommandEntry(
            "midturn.cli.workspace:rm_command", "Delete all conversations of a workspace"
        ),
    },
    {
        "list": "ls",
        **dict.fromkeys(("move", "rename"), "mv"),
        **dict.fromkeys(("delete", "remove"), "rm"),
    },
)


# --------------------------------------------------------------------------------------------------
# `midturn workspace ls`, and selecting a workspace by its directory


@click.command
@with_json
def ls_command(*, as_json: bool) -> ExitStatus:
    """List workspaces with stored conversations"""
    found = [(known, count(known)) for known in known_workspaces()]
    if as_json:
        say_json(
            [
                {
                    "directory": str(known.root),
                    "is_there": known.is_there,
                    "conversations": number,
                    "folder": str(known.folder),
                }
                for known, number in found
            ]
        )
        return ExitStatus.DONE
    for row in table(
        [
            (
                line("{}", shown(known.root)),
                _description(known, number),
                line("{}", shown(known.folder)),
            )
            for known, number in found
        ]
    ):
        say(row)
    if not found:
        say("No workspace has conversations yet.")
    return ExitStatus.DONE


def _description(known: Known, number: int) -> Shown:
    conversations = line("{} conversation{}", str(number), "" if number == 1 else "s")
    return (
        conversations
        if known.is_there
        else line("{} (the directory no longer exists)", conversations)
    )


def count(known: Known) -> int:
    """Return the number of conversations in a workspace."""
    return len(Directories(known.folder).ids())


def workspace_of(directory: str) -> Known:
    """Return the workspace of a directory, which may no longer exist.

    Raises:
        StoreError: The workspace has no conversations.
    """
    real = os.path.realpath(Path(directory).expanduser())
    found = next(
        (known for known in known_workspaces() if str(known.root) in {directory, real}), None
    )
    if found is None:
        raise StoreError(
            f"{directory} has no stored conversations. Run `midturn workspace ls` to list"
            " workspaces."
        )
    return found


# --------------------------------------------------------------------------------------------------
# `midturn workspace mv`


@click.command
@click.argument("old")
@click.argument("new", default=".")
def mv_command(old: str, new: str) -> ExitStatus:
    """Reassign the conversations of directory OLD to workspace NEW

    NEW defaults to this directory. OLD may no longer exist.
    """
    require_human("move conversations")
    known, root = workspace_of(old), Path(new)
    if (found := Workspace.find(root)) is None or not root.samefile(found.root):
        raise click.UsageError(f"{new} is not a workspace. Run `midturn init` in it to create one.")
    number = count(known)
    Directories(known.folder).check_free()
    say("{}", move(known, found.root))
    note(
        "midturn: reassigned {} conversations of {} to {}.",
        str(number),
        shown(known.root),
        shown(found.root),
    )
    return ExitStatus.DONE


# --------------------------------------------------------------------------------------------------
# `midturn workspace rm`


@click.command
@click.argument("directory")
@click.option("--yes", is_flag=True, help="Skip the confirmation")
def rm_command(directory: str, *, yes: bool) -> ExitStatus:
    """Delete all conversations of workspace DIRECTORY

    The directory may no longer exist. Files in it are not changed.
    """
    require_human("delete conversations")
    known = workspace_of(directory)
    what = f"Delete the {count(known)} conversations of {known.root} permanently?"
    if not yes and not confirmed(
        Question.boolean("remove", what), "To delete without confirmation, add `--yes`."
    ):
        note("midturn: nothing was deleted.")
        return ExitStatus.ERROR
    Directories(known.folder).check_free()
    with reporting_os_errors("remove", known.folder):
        shutil.rmtree(known.folder)
    note("midturn: the conversations of {} were deleted.", shown(known.root))
    return ExitStatus.DONE
