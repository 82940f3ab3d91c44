"""What the commands have in common that set hooks up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from midturn.foreign.agents import AGENTS

_F = TypeVar("_F", bound=Callable[..., Any])
_AGENT = click.Choice(list(AGENTS))


def with_agent(command: _F) -> _F:
    """Add the argument AGENT, and where its settings are."""
    return _with_project(click.argument("agent", type=_AGENT, metavar="AGENT")(command))


def with_optional_agent(command: _F) -> _F:
    """Add the argument [AGENT], and where its settings are."""
    return _with_project(click.argument("agent", type=_AGENT, required=False, metavar="[AGENT]")(command))


def _with_project(command: _F) -> _F:
    help = "This project's settings, rather than yours."  # noqa: A001  click's word
    return click.option("--project", is_flag=True, help=help)(command)
