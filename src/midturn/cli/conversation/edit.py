"""`midturn conversation edit`."""

from __future__ import annotations

import os
import subprocess
import sys

import click

from midturn.cli.conversation.reading import read_for_a_person
from midturn.cli.exit_status import ExitStatus
from midturn.cli.held import Held
from midturn.cli.options import with_conversation, with_store
from midturn.cli.output import note
from midturn.cli.place import Place, StoreAddress, find_place
from midturn.errors import StoreError
from midturn.sandbox.doors import for_people_only
from midturn.store.tail import NAME


@click.command
@with_conversation
@click.option("--title", metavar="TEXT", help="What it is called from now on.")
@click.option("--label", "labels", multiple=True, metavar="TEXT", help="Its labels from now on; may be given several times.")
@click.option("--no-labels", is_flag=True, help="Take its labels away.")
@with_store
def command(id: str | None, *, title: str | None, labels: tuple[str, ...], no_labels: bool, store: StoreAddress | None) -> ExitStatus:
    """Change the title or the labels of conversation ID (by default the current one); with neither, open its file in your editor."""
    if labels and no_labels:
        raise click.UsageError("`--label` sets labels, `--no-labels` takes them away: choose one.")
    for_people_only("edit conversations")
    place = find_place(store)
    number = place.conversation(id)
    changes: dict[str, str | tuple[str, ...]] = {} if title is None else {"title": title}
    if labels or no_labels:
        changes["labels"] = labels
    if not changes:
        return _edit_file(place, number)
    place.run(place.store.port.describe(number, **changes))
    note("midturn: conversation {} was changed.", number)
    return ExitStatus.DONE


def _edit_file(place: Place, number: str) -> ExitStatus:
    """Let the person edit the events; nobody else writes meanwhile, and what cannot be read afterwards is said."""
    from midturn.terminal.editor import NoEdit, editor_command

    file = place.files.path(number) / NAME
    if not (os.environ.get("VISUAL") or os.environ.get("EDITOR") or (sys.stdin and sys.stdin.isatty())):
        raise click.UsageError("There is no terminal for an editor: set EDITOR to a command that needs none.")
    with Held.existing(place, number):
        try:
            command_line = [*editor_command(os.environ), str(file)]
            status = subprocess.run(command_line, check=False).returncode  # noqa: S603  the person's own editor
        except (NoEdit, OSError) as error:
            raise StoreError(f"The file cannot be edited: {error}") from error
    read_for_a_person(place, number)
    if status:
        raise StoreError(f"The editor ended with status {status}.")
    return ExitStatus.DONE
