"""`midturn config get`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import click

from midturn.cli.completing import complete_keys
from midturn.cli.config.toml import assignments, toml
from midturn.cli.exit_status import ExitStatus
from midturn.cli.loading import load_here, report_ignored
from midturn.cli.options import with_json
from midturn.cli.output import say, say_json
from midturn.cli.shown import line
from midturn.config.explain import get
from midturn.core.json_value import Json


@click.command
@click.argument("key", shell_complete=complete_keys)
@with_json
def command(key: str, *, as_json: bool) -> ExitStatus:
    """Print the value that holds for KEY: a string as it is, anything else as TOML, a table line by line."""
    loaded = load_here()
    report_ignored(loaded, attached=True)
    value = get(loaded, key)
    if as_json:
        say_json(value)
    elif isinstance(value, str):
        say("{}", value)
    elif isinstance(value, Mapping):
        for name, below in assignments(cast("Mapping[str, Json]", value)):
            say(line("{} = {}", name, below))
    else:
        say("{}", toml(value))
    return ExitStatus.DONE
