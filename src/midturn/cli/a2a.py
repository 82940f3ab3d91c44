"""`midturn a2a`: serve the assistant to A2A agents, or send a message to another agent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import click

from midturn.cli.command_context import StoreAddress, environment, place_in
from midturn.cli.lazy import CommandEntry, LazyGroup
from midturn.cli.loading import Flags
from midturn.cli.options import with_model, with_store
from midturn.cli.output import ExitStatus, say_json
from midturn.cli.token_server import announce, check_installed, read_token, status_of
from midturn.config.assign import Assignment
from midturn.config.places import own_name
from midturn.http import Listening
from midturn.security.authorization import require_human

DEFAULT_PORT = 7480
_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
_NAME = "midturn"
_DESCRIPTION = "An assistant that asks people before it acts."
Command = TypeVar("Command", bound=Callable[..., object])


class _Group(LazyGroup):
    sections: Mapping[str, Mapping[str, CommandEntry]] = {
        "Commands": {
            "serve": CommandEntry("midturn.cli.a2a:serve_command", "Serve the assistant"),
            "run": CommandEntry("midturn.cli.a2a_run:command", "Run a turn of a remote agent"),
            "card": CommandEntry("midturn.cli.a2a:card_command", "Print the agent card"),
        }
    }


@click.command("a2a", cls=_Group)
def command() -> None:
    """Connect agents that speak A2A, such as those of Google ADK"""


def _with_card(decorated: Command) -> Command:
    """Add the options that describe the agent card."""
    name = click.option(
        "--name", default=_NAME, show_default=True, metavar="NAME", help="Name in the agent card"
    )
    description = click.option(
        "--description",
        default=_DESCRIPTION,
        metavar="TEXT",
        help="Description in the agent card",
    )
    return name(description(decorated))


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
@click.option("--url", metavar="URL", help="Public URL in the agent card")
@_with_card
@click.option("--token-file", type=_FILE, metavar="FILE", help="File with the token of the clients")
@click.option("--user", metavar="NAME", help="Name recorded with tasks and answers")
@click.option(
    "--push-key-file",
    type=_FILE,
    metavar="FILE",
    help="Send push notifications; FILE has the key that encrypts webhooks in the store",
)
@click.option(
    "--push-private",
    is_flag=True,
    help="Send push notifications also without TLS and to private networks",
)
@click.option("--no-work", is_flag=True, help="Continue turns only when a client sends a request")
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
    url: str | None,
    name: str,
    description: str,
    token_file: Path | None,
    user: str | None,
    push_key_file: Path | None,
    push_private: bool,
    no_work: bool,
    tls_cert: Path | None,
    tls_key: Path | None,
    behind_proxy: bool,
    model: str | None,
    cfg: tuple[str, ...],
    store: StoreAddress | None,
) -> ExitStatus:
    """Serve the assistant to agents that speak A2A

    Clients answer the questions that are not reserved for people; people answer the others in the
    inbox. Prints the URL and a token that every request must contain.
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
    if behind_proxy and url is None:
        raise click.UsageError("`--behind-proxy` needs `--url` with the public URL.")
    if push_private and push_key_file is None:
        raise click.UsageError("`--push-private` needs `--push-key-file`.")
    check_installed("midturn.integrations.a2a")
    from midturn.cli.a2a_serving import ServeOptions, serve_assistant  # requires the extra

    assignments = [Assignment("assistant.model.id", model, "--model")] if model else []
    options = ServeOptions(
        listening=listening,
        token=None if token_file is None else read_token(token_file),
        user=user or own_name(environment()),
        name=name,
        description=description,
        url=url,
        works=not no_work,
        push_key=None if push_key_file is None else read_token(push_key_file),
        pushes_to_private_addresses=push_private,
    )
    place = place_in(Path.cwd(), store)
    flags = Flags(cfg=cfg, assignments=assignments, defer=True)

    def ready(address: str, token: str) -> None:
        announce(address, token if token_file is None else None)

    return status_of(asyncio.run(serve_assistant(place, flags, options, ready)))


@click.command("card")
@_with_card
@click.option(
    "--url",
    default=f"http://127.0.0.1:{DEFAULT_PORT}",
    show_default=True,
    metavar="URL",
    help="Public URL in the agent card",
)
def card_command(*, name: str, description: str, url: str) -> ExitStatus:
    """Print the agent card that `midturn a2a serve` serves"""
    check_installed("midturn.integrations.a2a")
    from midturn.integrations.a2a.card import card_json, token_card  # requires the extra

    say_json(card_json(token_card(name, description, url)))
    return ExitStatus.DONE
