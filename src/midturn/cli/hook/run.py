"""`midturn hook AGENT` as a click command. `cli/hook_run.py` implements it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from midturn.cli.command_context import StoreAddress
from midturn.cli.hook_run import run_hook
from midturn.cli.options import with_store
from midturn.integrations.hooks.claude_deferring import POLICY
from midturn.integrations.hooks.clients import support_of

_F = TypeVar("_F", bound=Callable[..., Any])
WAIT: Final = "wait"


def command_of(key: str) -> click.Command:
    """Return the hook command of an agent."""
    support = support_of(key)
    agent, deferring = support.hooks, support.deferring

    @click.command(key, help=f"Hook for {agent.name} (reads JSON on stdin, prints the decision)")
    @click.option(
        "--wait",
        type=click.FloatRange(min=0),
        default=agent.wait,
        show_default=True,
        metavar="SECONDS",
        help="Maximum seconds to wait for an answer",
    )
    @with_store
    def command(*, wait: float, store: StoreAddress | None, policy: str = WAIT) -> int:
        return run_hook(
            agent if policy == WAIT or deferring is None else deferring.hooks, wait, store
        )

    return with_policy(command) if deferring else command


def with_policy(command: _F) -> _F:
    """Add `--policy`, the policy for questions in a run without a terminal."""
    help = "Without a terminal: wait for an answer, or end the run at the question"  # noqa: A001  click's name
    return click.option(
        "--policy", type=click.Choice((WAIT, POLICY)), default=WAIT, show_default=True, help=help
    )(command)
