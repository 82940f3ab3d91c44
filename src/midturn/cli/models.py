"""`midturn models`: list the models that can be used with the available keys and servers."""

from __future__ import annotations

import click

from midturn.agent.assembly.models import providers_json
from midturn.cli.command_context import environment
from midturn.cli.loading import load_here, report_ignored
from midturn.cli.options import with_json
from midturn.cli.output import ExitStatus, line, note, say, say_json, table
from midturn.models.available import AvailableProvider, available_providers
from midturn.models.registry import Lookup


@click.command
@with_json
def command(*, as_json: bool) -> ExitStatus:
    """List available models

    These are the models of providers whose API key is set, and of local servers that respond.
    """
    loaded = load_here()
    report_ignored(loaded, attached=True)
    around = Lookup(providers=providers_json(loaded.settings.llm), environment=environment())
    found = available_providers(around)
    chosen = loaded.settings.assistant.model.id
    if as_json:
        say_json(
            {
                "model": chosen,
                "providers": [
                    {
                        field: getattr(provider, field)
                        for field in AvailableProvider.__struct_fields__
                    }
                    for provider in found
                ],
            }
        )
        return ExitStatus.DONE
    usable = [provider for provider in found if not provider.missing]
    for provider in usable:
        _print(provider, chosen)
    if not usable:
        note("midturn: no model is available. `midturn demo` works without one.")
    missing = [provider for provider in found if provider.missing]
    for row in table(
        [
            (line("  {}", provider.provider), line("not available: {}", provider.missing))
            for provider in missing
        ]
    ):
        say(row)
    return ExitStatus.DONE


def _print(provider: AvailableProvider, chosen: str | None) -> None:
    if not provider.configured:
        say(
            "  {} is running at {}; to use it, set providers.llm.{}.base_url",
            provider.provider,
            provider.base_url,
            provider.provider,
        )
    for model in provider.models:
        say("{} {}", "*" if model == chosen else " ", model)
    if not provider.models:
        say("  {} is running but has no models", provider.provider)
