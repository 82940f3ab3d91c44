"""`midturn inbox`: the open questions of all conversations (spec 7.5)."""

from __future__ import annotations

from pathlib import Path

import click

from midturn.cli.exit_status import ExitStatus
from midturn.cli.output import cell, say, say_json
from midturn.cli.place import find_place


@click.command
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
@click.option("--store", type=click.Path(path_type=Path, file_okay=False), help="The directory of the conversations.")
def command(*, as_json: bool, store: Path | None) -> ExitStatus:
    """List the open questions: who asks, what, since when, in which conversation."""
    questions = find_place(store).store.pending()
    if as_json:
        say_json([question.to_json() for question in questions])
        return ExitStatus.DONE
    for question in questions:
        say(f"{question.id}  {cell(question.source.header)} asks: {cell(question.question.text)}")
        say(f"{' ' * len(question.id)}  in conversation {question.conversation}, since {cell(question.asked_at)}")
    if not questions:
        say("Nothing waits for an answer.")
    return ExitStatus.DONE
