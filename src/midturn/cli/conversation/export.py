"""`midturn conversation export`."""

from __future__ import annotations

from pathlib import Path

import click

from midturn.cli.conversation.exporting import write_export
from midturn.cli.exit_status import ExitStatus
from midturn.cli.options import with_conversation, with_store
from midturn.cli.place import StoreAddress, find_place


@click.command
@with_conversation
@click.option(
    "--format", "form", type=click.Choice(["markdown", "jsonl", "jp"]), default="markdown", show_default=True, help="What to write."
)
@click.option("--to", type=click.Path(path_type=Path), metavar="PATH", help="The file, or the directory for jp (by default stdout).")
@with_store
def command(id: str | None, *, form: str, to: Path | None, store: StoreAddress | None) -> ExitStatus:
    """Export conversation ID (by default the current one)."""
    place = find_place(store)
    return write_export(place.store, place.conversation(id), form, to)
