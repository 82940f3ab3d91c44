"""`midturn agui run`: run a turn of a remote agent that speaks AG-UI."""

from __future__ import annotations

import click

from midturn.agent.assembly.models import AGUI
from midturn.cli.command_context import StoreAddress
from midturn.cli.options import with_non_interactive, with_output, with_store
from midturn.cli.output import ExitStatus
from midturn.cli.remote_run import RemoteTurn, run_remote
from midturn.cli.token_server import check_installed
from midturn.cli.turn_end import OutputFormat


@click.command("run")
@click.argument("url", metavar="URL")
@click.option("-p", "--prompt", metavar="TEXT", help="Message for the agent (default: stdin)")
@click.option(
    "--token-env",
    metavar="VARIABLE",
    help="Environment variable with the token for the agent",
)
@with_non_interactive
@click.option("--wait", is_flag=True, help="Wait until the questions are answered elsewhere")
@with_store
@with_output
def command(
    *,
    url: str,
    prompt: str | None,
    token_env: str | None,
    non_interactive: bool,
    wait: bool,
    store: StoreAddress | None,
    output: OutputFormat,
) -> ExitStatus:
    """Send a message to a remote agent and answer its questions

    The agent's questions are prompts. Without a terminal, and with `--wait`, they are in the inbox.
    `midturn resume` continues the turn after a crash.

    Example: midturn agui run https://agents.example.org/deploy -p "Deploy the docs"
    """
    check_installed("midturn.integrations.agui")
    given = RemoteTurn(
        prompt=prompt,
        token_env=token_env,
        non_interactive=non_interactive,
        wait=wait,
        store=store,
        output=output,
    )
    return run_remote(AGUI, url, given)
