"""Runs a turn of a remote agent: `midturn agui run` and `midturn a2a run`."""

from __future__ import annotations

from msgspec import Struct

from midturn.cli.command_context import StoreAddress, environment
from midturn.cli.locked import is_attached
from midturn.cli.output import ExitStatus
from midturn.cli.query import Query, run_query
from midturn.cli.remote_agents import TOKEN_VARIABLE
from midturn.cli.turn_end import OutputFormat


class RemoteTurn(Struct, frozen=True, kw_only=True):
    """Options of `midturn agui run` and `midturn a2a run`.

    Args:
        prompt: Message for the agent; None to read it from stdin.
        token_env: Environment variable with the token for the agent.
        non_interactive: Whether to run without a person at the terminal.
        wait: Whether to wait until the questions are answered elsewhere.
        store: The store; None for the default.
        output: Format of the output.
    """

    prompt: str | None
    token_env: str | None
    non_interactive: bool
    wait: bool
    store: StoreAddress | None
    output: OutputFormat


def run_remote(protocol: str, url: str, given: RemoteTurn) -> ExitStatus:
    """Run a turn of a remote agent.

    Args:
        protocol: Beginning of the model ID, such as `agui:`.
        url: Address of the agent.
        given: Options of the command.

    Raises:
        ConfigError: The address is not valid.
    """
    from midturn.integrations.remote_http import check_url  # requires an extra

    check_url(url)
    attached = is_attached(environment(), non_interactive=given.non_interactive)
    is_here = attached and not given.wait
    parameters = (
        (f"assistant.model.parameters.{TOKEN_VARIABLE}={given.token_env}",)
        if given.token_env
        else ()
    )
    return run_query(
        Query(
            text=() if given.prompt is None else (given.prompt,),
            model=f"{protocol}{url}",
            cfg=parameters,
            defer=not is_here,
            wait=given.wait,
            store=given.store,
            output=given.output,
        )
    )
