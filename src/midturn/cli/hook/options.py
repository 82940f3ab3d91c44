"""What the commands have in common that set hooks up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from midturn.cli.hook.where import WAIT
from midturn.foreign.agents import AGENTS
from midturn.foreign.claude_deferring import POLICY
from midturn.foreign.opencode import NAME as OPENCODE

_F = TypeVar("_F", bound=Callable[..., Any])


class _Agents(click.Choice[str]):
    """The agents that have hooks."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value == OPENCODE:
            self.fail("opencode has no hooks to install. Run `midturn hook opencode` beside it: that carries what it asks.", param, ctx)
        return super().convert(value, param, ctx)


_AGENT = _Agents(list(AGENTS))


def with_agent(command: _F) -> _F:
    """Add the argument AGENT, and where its settings are."""
    return _with_project(click.argument("agent", type=_AGENT, metavar="AGENT")(command))


def with_optional_agent(command: _F) -> _F:
    """Add the argument [AGENT], and where its settings are."""
    return _with_project(click.argument("agent", type=_AGENT, required=False, metavar="[AGENT]")(command))


def with_policy(command: _F) -> _F:
    """Add `--policy`: what a run does that nobody sits before, where a person is needed."""
    help = "Without a terminal: wait for the answer to a question, or end the run at it, to be resumed later."  # noqa: A001  click's word
    return click.option("--policy", type=click.Choice((WAIT, POLICY)), default=WAIT, show_default=True, help=help)(command)


def _with_project(command: _F) -> _F:
    help = "This project's settings, rather than yours."  # noqa: A001  click's word
    return click.option("--project", is_flag=True, help=help)(command)
