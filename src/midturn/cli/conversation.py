"""`midturn conversation`: looks at conversations, and moves them in and out (spec 8.2)."""

from __future__ import annotations

from pathlib import Path

import click

from midturn.cli.audit_trail import print_inquiries, print_inquiries_json
from midturn.cli.exit_status import ExitStatus
from midturn.cli.output import cell, note, say, say_json
from midturn.cli.place import Place, find_place
from midturn.cli.transcript import print_transcript
from midturn.core.json_value import Json
from midturn.core.stream import open_turn
from midturn.store.conversation import Conversation
from midturn.store.import_jp import read_jp
from midturn.store.metadata import Metadata

_STORE = click.option("--store", type=click.Path(path_type=Path, file_okay=False), help="The directory of the conversations.")


@click.group
def command() -> None:
    """Look at conversations."""


def _read(place: Place, id: str | None) -> Conversation:
    """Read a conversation; what is wrong with its files is said, and the rest is shown."""
    conversation = place.store.read(place.conversation(id))
    for problem in conversation.problems:
        note(f"midturn: {problem}")
    return conversation


@command.command("ls")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
@_STORE
def ls(*, as_json: bool, store: Path | None) -> ExitStatus:
    """List the conversations, oldest first."""
    place = find_place(store)
    rows = [_row(place.store.read(number)) for number in place.store.ids()]
    if as_json:
        say_json(rows)
        return ExitStatus.DONE
    for row in rows:
        waits = f"  ({row['open']} open)" if row["open"] else "  (open turn)" if row["turn_open"] else ""
        say(f"{row['id']}  {cell(str(row['title']))}{waits}")
    if not rows:
        say("There is no conversation yet.")
    return ExitStatus.DONE


def _row(conversation: Conversation) -> dict[str, Json]:
    return {
        "id": conversation.id,
        "title": conversation.metadata.title,
        "created_at": conversation.metadata.created_at,
        "turns": len(conversation.turns),
        "turn_open": open_turn(conversation.events) is not None,
        "open": len(conversation.pending()),
    }


@command.command("show")
@click.argument("id", required=False)
@click.option("--inquiries", is_flag=True, help="Draw the audit trail: what was asked, who answered, and why.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@_STORE
def show(id: str | None, *, inquiries: bool, as_json: bool, store: Path | None) -> ExitStatus:
    """Show conversation ID (by default the current one)."""
    conversation = _read(find_place(store), id)
    match inquiries, as_json:
        case True, True:
            print_inquiries_json(conversation)
        case True, False:
            print_inquiries(conversation)
        case _, True:
            say_json([event.to_json() for event in conversation.events])
        case _:
            print_transcript(conversation)
    return ExitStatus.DONE


@command.command("path")
@click.argument("id", required=False)
@_STORE
def path(id: str | None, *, store: Path | None) -> ExitStatus:
    """Print the directory of conversation ID (by default the current one)."""
    place = find_place(store)
    say(str(place.store.path(place.conversation(id))))
    return ExitStatus.DONE


@command.command("use")
@click.argument("id")
def use(id: str) -> ExitStatus:
    """Make conversation ID the current one."""
    place = find_place()
    chosen = place.conversation(id)
    if place.workspace:
        place.workspace.set_current(chosen)
    note(f"midturn: the current conversation is {chosen}.")
    return ExitStatus.DONE


@command.command("import")
@click.argument("folder", type=click.Path(path_type=Path, exists=True, file_okay=False))
@_STORE
def import_(folder: Path, *, store: Path | None) -> ExitStatus:
    """Import the conversation that `jp` recorded in FOLDER."""
    place = find_place(store)
    recorded = read_jp(folder)
    number = place.store.add(recorded.lines, Metadata(title=recorded.title, others=recorded.metadata))
    note(f"midturn: imported as conversation {number}.")
    say(str(place.store.path(number)))
    return ExitStatus.DONE


@command.command("export")
@click.argument("id", required=False)
@click.option("--format", "form", type=click.Choice(["jsonl", "markdown", "jp"]), default="markdown", help="What to write.")
@click.option("--to", type=click.Path(path_type=Path), help="The file to write, or the directory for `jp` (by default stdout).")
@_STORE
def export(id: str | None, *, form: str, to: Path | None, store: Path | None) -> ExitStatus:
    """Export conversation ID (by default the current one)."""
    from midturn.cli.exporting import write_export

    place = find_place(store)
    return write_export(place.store, place.conversation(id), form, to)
