"""`midturn chat`: a loop of turns in one conversation."""

from __future__ import annotations

import click

from midturn.cli.attachment import is_attached
from midturn.cli.exit_status import ExitStatus
from midturn.cli.loading import Flags, load_for, model_to_be_trusted
from midturn.cli.options import LOCAL, with_id, with_model, with_store, without
from midturn.cli.output import note
from midturn.cli.place import StoreAddress, environment, find_place
from midturn.cli.query.command import Query
from midturn.cli.query.toggles import TogglingCommand, with_toggles
from midturn.core.enabling import Toggle


@click.command(cls=TogglingCommand)
@click.option("-c", "--continue", "continues", is_flag=True, help="Go on with the current conversation.")
@with_id("Go on with this conversation.")
@with_model
@with_toggles
@click.option("--cfg", multiple=True, metavar="KEY=VALUE|FILE", help="Set a key of the configuration, or read a file of keys.")
@without("--local", LOCAL)
@with_store
def command(
    *,
    continues: bool,
    id: str | None,
    model: str | None,
    toggles: tuple[Toggle, ...],
    cfg: tuple[str, ...],
    store: StoreAddress | None,
) -> ExitStatus:
    """Talk with the assistant, turn after turn. `/help` lists what else there is."""
    from midturn.cli.chat.line import is_there, line_here
    from midturn.cli.chat.loop import COMMANDS, Chat
    from midturn.cli.chat.offers import offers

    if not is_there() or not is_attached(environment(), non_interactive=False):
        raise click.UsageError('A chat needs a terminal. `midturn query "…"` asks without one.')
    if continues and id:
        raise click.UsageError("`--continue` is for the current conversation, `--id` for another: give one of them.")
    place = find_place(store)
    conversation = place.conversation(id) if continues or id else None
    loaded = load_for(place, Flags(cfg=cfg))
    words = line_here(loaded.settings.prompt.mode, place.root, COMMANDS, offers)
    note("midturn: /help lists the commands, Ctrl-D leaves.")
    if not (model or conversation or loaded.settings.assistant.model.id):
        note("midturn: {}", model_to_be_trusted(loaded) or "no model is set: `/model PROVIDER/MODEL` names one.")
    query = Query(text=(), model=model, toggles=toggles, cfg=cfg, store=store)
    return Chat(place, words, query, conversation).run()
