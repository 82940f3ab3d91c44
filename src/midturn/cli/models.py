"""`midturn models`: what is reachable with the keys and servers at hand."""

from __future__ import annotations

import click

from midturn.agent.assembly.models import providers_json
from midturn.cli.command_context import environment
from midturn.cli.loading import load_here, report_ignored
from midturn.cli.options import with_json
from midturn.cli.output import ExitStatus, line, note, say, say_json, table
from midturn.models.available import AtHand, providers_at_hand
from midturn.models.registry import Lookup


@click.command
@with_json
def command(*, as_json: bool) -> ExitStatus:
    """List the models that can be used here: those whose keys are set, and those of servers that answer."""
    loaded = load_here()
    report_ignored(loaded, attached=True)
    around = Lookup(providers=providers_json(loaded.settings.llm), environment=environment())
    found = providers_at_hand(around)
    chosen = loaded.settings.assistant.model.id
    if as_json:
        say_json({"model": chosen, "providers": [{field: getattr(one, field) for field in AtHand.__struct_fields__} for one in found]})
        return ExitStatus.DONE
    usable = [provider for provider in found if not provider.missing]
    for provider in usable:
        _print(provider, chosen)
    if not usable:
        note("midturn: no model is reachable. `midturn demo` needs none.")
    missing = [provider for provider in found if provider.missing]
    for row in table([(line("  {}", provider.provider), line("not usable: {}", provider.missing)) for provider in missing]):
        say(row)
    return ExitStatus.DONE


def _print(provider: AtHand, chosen: str | None) -> None:
    if not provider.configured:
        say("  {} answers at {}; to use it, set providers.llm.{}.base_url", provider.provider, provider.base_url, provider.provider)
    for model in provider.models:
        say("{} {}", "*" if model == chosen else " ", model)
    if not provider.models:
        say("  {} answers, and has no models", provider.provider)
