"""`midturn inbox`: the open questions of all conversations."""

from __future__ import annotations

from pathlib import Path

import click

from midturn.cli.exit_status import ExitStatus
from midturn.cli.layout import moment, table
from midturn.cli.options import with_json, with_store
from midturn.cli.output import note, say, say_json
from midturn.cli.place import find_place
from midturn.cli.shown import Shown, line
from midturn.core.stream import OpenQuestion


@click.command
@with_json
@with_store
def command(*, as_json: bool, store: Path | None) -> ExitStatus:
    """List the open questions: who asks, what, since when, in which conversation."""
    questions = find_place(store).store.pending()
    if as_json:
        say_json([question.to_json() for question in questions])
        return ExitStatus.DONE
    for row in table([row for question in questions for row in _rows(question)]):
        say(row)
    if questions:
        note("Answer one with `midturn answer ID [VALUE]`; the beginning of an ID will do.")
    else:
        say("Nothing waits for an answer.")
    return ExitStatus.DONE


def _rows(question: OpenQuestion) -> list[tuple[Shown, Shown]]:
    form = line(" (a form of {} questions)", question.form.total) if question.form else line("")
    asked = line("{} asks: {}{}", question.source.header, question.question.text, form)
    where = line("in conversation {}, since {}", question.conversation, moment(question.asked_at))
    return [(line("{}", question.id), asked), (line(""), where)]
