"""`midturn hook AGENT`, with options: the command that the hooks of an agent run (`cli/hook_run.py`)."""

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
    """Return the command of one agent."""
    support = support_of(key)
    agent, deferring = support.hooks, support.deferring

    @click.command(key, help=f"A hook of {agent.name}: reads its JSON on stdin, asks, and prints the decision.")
    @click.option(
        "--wait", type=click.FloatRange(min=0), default=agent.wait, show_default=True, metavar="SECONDS", help="How long to wait."
    )
    @with_store
    def command(*, wait: float, store: StoreAddress | None, policy: str = WAIT) -> int:
        return run_hook(agent if policy == WAIT or deferring is None else deferring.hooks, wait, store)

    return with_policy(command) if deferring else command


def with_policy(command: _F) -> _F:
    """Add `--policy`: what an unattended run does where a person is needed."""
    help = "Without a terminal: wait for the answer to a question, or end the run at it, to be resumed later."  # noqa: A001  click's word
    return click.option("--policy", type=click.Choice((WAIT, POLICY)), default=WAIT, show_default=True, help=help)(command)
