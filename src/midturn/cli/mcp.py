"""`midturn mcp`: run an MCP server through which other agents ask the user."""

from __future__ import annotations

import asyncio
import importlib.util
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from midturn.cli.command_context import StoreAddress, environment, place_in
from midturn.cli.hook.setup import own_program, woken_agents
from midturn.cli.loading import rules_in
from midturn.cli.options import with_store
from midturn.cli.output import ExitStatus, block, note, say
from midturn.clock import SYSTEM
from midturn.errors import ConfigError
from midturn.extras import install_command
from midturn.http import Listening
from midturn.integrations.hooks.registering import AGENTS, registration

_DEFAULT_SLICE = 45.0
_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command
@click.option(
    "--slice",
    "seconds",
    type=click.FloatRange(min=0.1),
    default=_DEFAULT_SLICE,
    show_default=True,
    metavar="SECONDS",
    help="Maximum seconds one tool call waits",
)
@click.option(
    "--no-tasks",
    "holds",
    is_flag=True,
    help=(
        "Disable background tasks: the turn waits, and the client's dialog closes when you answer"
        " elsewhere"
    ),
)
@click.option(
    "--http", "address", metavar="[HOST:]PORT", help="Serve streamable HTTP instead of stdio"
)
@click.option("--tls-cert", type=_FILE, metavar="FILE", help="With --http: TLS certificate")
@click.option("--tls-key", type=_FILE, metavar="FILE", help="Private key of --tls-cert")
@click.option("--behind-proxy", is_flag=True, help="With --http: serve behind a TLS proxy")
@click.option(
    "--print-config",
    "agent",
    type=click.Choice(AGENTS),
    help="Print the client configuration for AGENT and exit",
)
@with_store
def command(
    *,
    seconds: float,
    holds: bool,
    address: str | None,
    agent: str | None,
    store: StoreAddress | None,
    **given: Any,
) -> ExitStatus | None:
    """Run an MCP server with the tool `ask_user`

    Questions appear in the inbox and, if the client supports it, in its own dialog. The first
    answer wins.
    """
    if agent:
        _print(
            agent,
            [*(["--no-tasks"] if holds else []), *(store.absolute().options if store else ())],
        )
        return None
    if importlib.util.find_spec("mcp") is None:
        raise ConfigError(
            f"The MCP server requires the extra `mcp`. To install it: {install_command('mcp')}"
        )
    if address is None and (sys.stdin is None or sys.stdout is None):
        raise click.UsageError(
            "An agent starts this command and talks to it over stdin and stdout, but one of them is"
            " closed."
        )
    listening = _listening(address, **given) if address is not None else None
    if listening is None:
        signal.signal(
            signal.SIGINT, signal.SIG_DFL
        )  # without this, the server would end only after the client's next message
    received = asyncio.run(_serve(seconds, listening, store, tasks=not holds))
    if received in (signal.SIGTERM, signal.SIGHUP):
        raise SystemExit(128 + received)
    return ExitStatus.DONE


def _listening(
    address: str, tls_cert: Path | None, tls_key: Path | None, *, behind_proxy: bool
) -> Listening:
    host, _, port = address.rpartition(":")
    if not port.isdecimal():
        raise click.UsageError(
            f"Invalid `--http {address}`. Expected [HOST:]PORT, for example 8765."
        )
    listening = Listening(
        host=host.strip("[]") or "127.0.0.1",
        port=int(port),
        certificate=str(tls_cert) if tls_cert else None,
        key=str(tls_key) if tls_key else None,
        behind_proxy=behind_proxy,
    )
    if listening.refusal:
        raise click.UsageError(listening.refusal)
    return listening


async def _serve(
    seconds: float, listening: Listening | None, store: StoreAddress | None, *, tasks: bool
) -> int:
    from midturn.integrations.mcp_server import asking, server as serving

    place = place_in(Path.cwd(), store)
    settings = asking.ServerWait(
        slice=seconds,
        woken=woken_agents(),
        shared=listening is not None,
        tasks=tasks,
        rules=rules_in(place),
    )
    server = serving.make_server(place.store, {} if listening else environment(), SYSTEM, settings)
    if listening is None:
        await serving.serve_stdio(server, environment())
        return 0
    return await serving.serve_http(
        server,
        listening,
        lambda url, token: note(
            "midturn: serving {}. Clients must send the header `Authorization: Bearer {}`.",
            url,
            token,
        ),
    )


def _print(agent: str, options: Sequence[str]) -> None:
    given = registration(agent, [*own_program(), "mcp", *options])
    note("For {}:", given.where)
    say(block(given.text))
    if given.advice:
        note(block(given.advice))
