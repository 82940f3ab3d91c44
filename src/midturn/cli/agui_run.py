"""`midturn agui run`: a turn of a remote agent that speaks AG-UI."""

from __future__ import annotations

import click

from midturn.agent.assembly.models import REMOTE
from midturn.cli.command_context import StoreAddress, environment
from midturn.cli.locked import is_attached
from midturn.cli.options import with_non_interactive, with_output, with_store
from midturn.cli.output import ExitStatus
from midturn.cli.query import Query, run_query
from midturn.cli.remote_agents import TOKEN_VARIABLE
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
    from midturn.integrations.remote_http import check_url  # requires the extra

    check_url(url)
    is_here = is_attached(environment(), non_interactive=non_interactive) and not wait
    parameters = (f"assistant.model.parameters.{TOKEN_VARIABLE}={token_env}",) if token_env else ()
    return run_query(
        Query(
            text=() if prompt is None else (prompt,),
            model=f"{REMOTE}{url}",
            cfg=parameters,
            defer=not is_here,
            wait=wait,
            store=store,
            output=output,
        )
    )
