"""`midturn conversation show`."""

from __future__ import annotations

import click

from midturn.cli.conversation.audit_trail import print_inquiries, print_inquiries_json
from midturn.cli.conversation.reading import read_for_a_person
from midturn.cli.conversation.transcript import print_transcript
from midturn.cli.conversation.usage import print_usage, print_usage_json
from midturn.cli.exit_status import ExitStatus
from midturn.cli.options import with_conversation, with_json, with_store
from midturn.cli.output import say_json
from midturn.cli.place import StoreAddress, find_place


@click.command
@with_conversation
@click.option("--inquiries", is_flag=True, help="Draw the audit trail: what was asked, who answered, and why.")
@click.option("--usage", is_flag=True, help="Count the tokens, turn by turn.")
@with_json
@with_store
def command(id: str | None, *, inquiries: bool, usage: bool, as_json: bool, store: StoreAddress | None) -> ExitStatus:
    """Show what was said and done in conversation ID (by default the current one)."""
    if inquiries and usage:
        raise click.UsageError("`--inquiries` and `--usage` are two views: choose one.")
    conversation = read_for_a_person(find_place(store), id)
    if inquiries:
        (print_inquiries_json if as_json else print_inquiries)(conversation)
    elif usage:
        (print_usage_json if as_json else print_usage)(conversation)
    elif as_json:
        say_json([event.to_json() for event in conversation.events])
    else:
        print_transcript(conversation)
    return ExitStatus.DONE
