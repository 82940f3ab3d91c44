"""`midturn agui`: serve the assistant to front ends that speak AG-UI, or run another agent."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import click

from midturn.cli.command_context import StoreAddress, environment, place_in
from midturn.cli.lazy import CommandEntry, LazyGroup
from midturn.cli.loading import Flags
from midturn.cli.options import with_model, with_store
from midturn.cli.output import ExitStatus
from midturn.cli.token_server import announce, check_installed, read_token, status_of
from midturn.config.assign import Assignment
from midturn.config.places import own_name
from midturn.http import Listening
from midturn.security.authorization import require_human

DEFAULT_PORT = 7479
_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


class _Group(LazyGroup):
    sections: Mapping[str, Mapping[str, CommandEntry]] = {
        "Commands": {
            "serve": CommandEntry("midturn.cli.agui:serve_command", "Serve the assistant"),
            "run": CommandEntry("midturn.cli.agui_run:command", "Run a turn of a remote agent"),
        }
    }


@click.command("agui", cls=_Group)
def command() -> None:
    """Connect chat front ends and agents that speak AG-UI"""


@click.command("serve")
@click.option(
    "--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address to listen on"
)
@click.option(
    "--port",
    default=DEFAULT_PORT,
    show_default=True,
    type=click.IntRange(0, 65535),
    metavar="PORT",
    help="Port to listen on",
)
@click.option("--token-file", type=_FILE, metavar="FILE", help="File with the token of the clients")
@click.option(
    "--origin",
    "origins",
    multiple=True,
    metavar="URL",
    help="Allow requests from pages of this origin",
)
@click.option("--user", metavar="NAME", help="Name recorded with answers")
@click.option("--secrets", is_flag=True, help="Let front ends send secrets")
@click.option("--context", is_flag=True, help="Add the front end's context to messages")
@click.option("--no-work", is_flag=True, help="Continue turns only when a front end sends a run")
@click.option(
    "--tls-cert", type=_FILE, metavar="FILE", help="TLS certificate, to listen on other addresses"
)
@click.option("--tls-key", type=_FILE, metavar="FILE", help="Private key of --tls-cert")
@click.option("--behind-proxy", is_flag=True, help="Serve behind a TLS proxy")
@with_model
@click.option(
    "--cfg",
    multiple=True,
    metavar="KEY=VALUE|FILE",
    help="Set a configuration key, or read keys from a file",
)
@with_store
def serve_command(  # noqa: PLR0913  the options of the command
    *,
    host: str,
    port: int,
    token_file: Path | None,
    origins: tuple[str, ...],
    user: str | None,
    secrets: bool,
    context: bool,
    no_work: bool,
    tls_cert: Path | None,
    tls_key: Path | None,
    behind_proxy: bool,
    model: str | None,
    cfg: tuple[str, ...],
    store: StoreAddress | None,
) -> ExitStatus:
    """Serve the assistant to front ends that speak AG-UI

    Questions appear in the front end and in the inbox; the first answer wins. Prints the URL and a
    token that every request must contain.
    """
    require_human("accept answers")
    listening = Listening(
        host=host,
        port=port,
        certificate=str(tls_cert) if tls_cert else None,
        key=str(tls_key) if tls_key else None,
        behind_proxy=behind_proxy,
    )
    if listening.refusal:
        raise click.UsageError(listening.refusal)
    if secrets and behind_proxy:
        raise click.UsageError(
            "`--secrets` cannot be combined with `--behind-proxy`, because the proxy could read the"
            " secrets. Answer them in the inbox instead."
        )
    _check_origins(origins)
    check_installed("midturn.integrations.agui")
    from midturn.cli.agui_serving import ServeOptions, serve_assistant  # requires the extra

    assignments = [Assignment("assistant.model.id", model, "--model")] if model else []
    options = ServeOptions(
        listening=listening,
        token=None if token_file is None else read_token(token_file),
        user=user or own_name(environment()),
        origins=origins,
        secrets=secrets,
        context=context,
        works=not no_work,
    )
    place = place_in(Path.cwd(), store)
    flags = Flags(cfg=cfg, assignments=assignments, defer=True)

    def ready(url: str, token: str) -> None:
        announce(url, token if token_file is None else None)

    return status_of(asyncio.run(serve_assistant(place, flags, options, ready)))


def _check_origins(origins: Sequence[str]) -> None:
    for origin in origins:
        parts = urlsplit(origin)
        if parts.scheme not in ("http", "https") or not parts.netloc or parts.path:
            raise click.UsageError(
                f"Invalid `--origin {origin}`. Expected the origin of a site, for example"
                " https://chat.example.org."
            )
