"""Who allows a tool to run, as a program says it: a typo must not let it run unasked."""

from __future__ import annotations

from typing import get_args

from midturn.core.routing.policy import RunPolicy
from midturn.core.suggestion import did_you_mean
from midturn.errors import ConfigError

RUN_POLICIES: tuple[RunPolicy, ...] = get_args(RunPolicy)


def check_run(tool: str, run: str) -> None:
    """Let a policy pass.

    Raises:
        ConfigError: There is no such policy.
    """
    if run not in RUN_POLICIES:
        known = ", ".join(map(repr, RUN_POLICIES))
        raise ConfigError(f"Tool `{tool}`: run={run!r} is not one of {known}.{did_you_mean(str(run), RUN_POLICIES)}")
