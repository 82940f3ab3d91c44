"""`midturn conversation rm`."""

from __future__ import annotations

import click

from midturn.cli.asking import confirmed
from midturn.cli.exit_status import ExitStatus
from midturn.cli.layout import table
from midturn.cli.options import with_conversations, with_store
from midturn.cli.output import note, say
from midturn.cli.place import Place, StoreAddress, find_place
from midturn.cli.shown import line
from midturn.core.question import Question
from midturn.errors import StoreError


@click.command
@with_conversations
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_store
def command(ids: tuple[str, ...], *, yes: bool, store: StoreAddress | None) -> ExitStatus:
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
    waiting = {question.conversation for question in place.store.pending_sync()}
    for row in table([(line("{}", number), line("{}{}", *_described(place, number, waiting))) for number in chosen]):
        say(row)
    what = "this conversation" if len(chosen) == 1 else f"these {len(chosen)} conversations"
    return confirmed(Question.boolean("remove", f"Remove {what} for good?"), "Add `--yes` to remove without being asked.")


def _described(place: Place, number: str, waiting: set[str]) -> tuple[str, str]:
    try:
        name = place.store.read_sync(number).title
    except StoreError:  # it is damaged, which is a reason to remove it
        name = place.files.path(number).name if place.is_on_disk else ""
    return name, " (waits for an answer)" if number in waiting else ""
