"""`midturn conversation edit`."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta
from typing import TYPE_CHECKING

import click
import msgspec

from midturn.cli.asking import confirmed
from midturn.cli.chat import fork
from midturn.cli.conversation.show import read_for_a_person
from midturn.cli.held import Held
from midturn.cli.options import Duration, with_conversation, with_conversations, with_store
from midturn.cli.output import ExitStatus, block, line, note, say, table
from midturn.cli.place import Place, StoreAddress, find_place
from midturn.config.places import configured_keep
from midturn.errors import StoreError
from midturn.question.question import Question
from midturn.sandbox.doors import for_people_only
from midturn.store.tail import NAME
from midturn.terminal.editor import NoEdit, editor_command

if TYPE_CHECKING:
    from midturn.record.open_question import OpenQuestion
    from midturn.store.pruning import Prunable


@click.command
@with_conversation
@click.option("--title", metavar="TEXT", help="What it is called from now on.")
@click.option("--label", "labels", multiple=True, metavar="TEXT", help="Its labels from now on; may be given several times.")
@click.option("--no-labels", is_flag=True, help="Take its labels away.")
@with_store
def edit_command(id: str | None, *, title: str | None, labels: tuple[str, ...], no_labels: bool, store: StoreAddress | None) -> ExitStatus:
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
    """Let the person edit the events; no other process writes meanwhile, and what cannot be read afterwards is said."""
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


# ----------------------------------------------------------------------------------------------------------------------
# `midturn conversation fork`


@click.command
@with_conversation
@click.option("--turns", type=click.IntRange(min=1), metavar="N", help="Copy the first N turns only.")
@with_store
def fork_command(id: str | None, *, turns: int | None, store: StoreAddress | None) -> ExitStatus:
    """Copy the finished turns of conversation ID (by default the current one) into a new one, and make that the current one."""
    place = find_place(store)
    source = place.conversation(id)
    made = fork(place, source, turns)
    note("midturn: conversation {} begins as {} does; `midturn query -c` goes on with it.", made, source)
    say("{}", made)
    return ExitStatus.DONE


# ----------------------------------------------------------------------------------------------------------------------
# `midturn conversation rm`


@click.command
@with_conversations
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_store
def rm_command(ids: tuple[str, ...], *, yes: bool, store: StoreAddress | None) -> ExitStatus:
    """Remove conversations for good, with their files."""
    place = find_place(store)
    chosen = list(dict.fromkeys(place.conversation(id) for id in ids))  # noqa: A001  the wire's word
    if not yes and not _agreed(place, chosen):
        note("midturn: nothing was removed.")
        return ExitStatus.ERROR
    for number in chosen:
        place.store.remove_sync(number)
        note("midturn: conversation {} was removed.", number)
    return ExitStatus.DONE


def _agreed(place: Place, chosen: list[str]) -> bool:
    waiting = {question.conversation for number in chosen for question in _asked(place, number)}
    for row in table([(line("{}", number), line("{}{}", *_described(place, number, waiting))) for number in chosen]):
        say(row)
    what = "this conversation" if len(chosen) == 1 else f"these {len(chosen)} conversations"
    return confirmed(Question.boolean("remove", f"Remove {what} for good?"), "Add `--yes` to remove without being asked.")


def _asked(place: Place, number: str) -> list[OpenQuestion]:
    try:
        return place.store.pending_sync(number)
    except StoreError:  # it is damaged, as below
        return []


def _described(place: Place, number: str, waiting: set[str]) -> tuple[str, str]:
    try:
        name = place.store.read_sync(number).title
    except StoreError:  # it is damaged, which is a reason to remove it
        name = place.files.path(number).name if place.is_on_disk else ""
    return name, " (waits for an answer)" if number in waiting else ""


# ----------------------------------------------------------------------------------------------------------------------
# `midturn conversation prune`


@click.command
@click.option("--older", type=Duration(), metavar="90d", help="How long ago the last word was said, at least.")
@click.option("--dry-run", is_flag=True, help="List what would be removed, and remove nothing.")
@with_store
def prune_command(*, older: timedelta | None, dry_run: bool, store: StoreAddress | None) -> ExitStatus:
    """Remove finished conversations in which nothing was said for long, and those that never began an hour after they were made.

    `conversation.keep` stands in for `--older`. One with an open turn is never removed, nor one that a process holds. Those of agents
    inside of tools go with the conversation around.
    """
    for_people_only("remove conversations")
    older = older or configured_keep(os.environ)
    if older is None:
        raise click.UsageError("Say how old they must be: `--older 90d`, or `conversation.keep` in your own configuration.")
    place = find_place(store)
    if dry_run:
        return _would_go(place.store.prunable_sync(older))
    pruned = place.store.prune_sync(older)
    for why in pruned.left.values():
        note(line("midturn: {}", block(why)))
    note("midturn: {}.", msgspec.structs.replace(pruned, left={}))
    return ExitStatus.ERROR if pruned.left else ExitStatus.DONE


def _would_go(found: list[Prunable]) -> ExitStatus:
    for row in table([(line("{}", one.id), line("{}", f"{one.last:%Y-%m-%d}"), line("{}", _named(one))) for one in found]):
        say(row)
    gone = sum(len(one.family) for one in found)
    note("midturn: {} would be removed.", f"{gone} conversation{'' if gone == 1 else 's'}")
    return ExitStatus.DONE


def _named(prunable: Prunable) -> str:
    inside = f" (and {len(prunable.family) - 1} inside of it)" if len(prunable.family) > 1 else ""
    return f"{prunable.title}{inside}" if prunable.why == "finished" else "(never began)"
