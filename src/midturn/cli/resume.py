"""`midturn resume`: goes on with an open turn exactly where its events end (spec 7.4)."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path

import click
from msgspec import Struct

from midturn.cli.attachment import is_attached
from midturn.cli.exit_status import ExitStatus
from midturn.cli.loading import Flags, load_for, report_ignored
from midturn.cli.output import note
from midturn.cli.place import Place, environment, find_place
from midturn.cli.turn_display import OutputFormat
from midturn.cli.turn_run import TurnRun, run_turn
from midturn.compose.command_line import discard_turn


class Resume(Struct, frozen=True, kw_only=True):
    """What was asked on the command line."""

    id: str | None = None
    discard: bool = False
    non_interactive: bool = False
    store: Path | None = None
    output: OutputFormat = "text"


@click.command
@click.argument("id", required=False)
@click.option("--discard", is_flag=True, help="End the open turn instead.")
@click.option("--non-interactive", is_flag=True, help="Ask nobody; the detached policies decide.")
@click.option("--store", type=click.Path(path_type=Path, file_okay=False), help="The directory of the conversations.")
@click.option("--output", type=click.Choice(["text", "json", "jsonl"]), default="text", help="What stdout carries.")
def command(**given: object) -> ExitStatus:
    """Go on with the open turn of conversation ID (by default the current one)."""
    return run_resume(Resume(**given))  # type: ignore[arg-type]  # click has checked every field


def run_resume(resume: Resume) -> ExitStatus:
    """Resume or discard an open turn."""
    place = find_place(resume.store)
    conversation = place.conversation(resume.id)
    if resume.discard:
        return discard(place, conversation)
    attached = is_attached(environment(), non_interactive=resume.non_interactive)
    journal = place.store.open(conversation)
    try:
        loaded = load_for(place, Flags(), journal.events)
        report_ignored(loaded, attached=attached)
    except BaseException:
        journal.close()
        raise
    return run_turn(TurnRun(place=place, loaded=loaded, attached=attached, output=resume.output), journal, None)


def discard(place: Place, conversation: str) -> ExitStatus:
    """End an open turn as if the user had stopped it (spec 2.4)."""
    with closing(place.store.open(conversation)) as journal:
        asyncio.run(discard_turn(journal))
    note(f"midturn: the open turn of conversation {conversation} was ended.")
    return ExitStatus.DONE
