"""`midturn config show`."""

from __future__ import annotations

import sys

import click

from midturn.cli.config.toml import assignment, assignments
from midturn.cli.exit_status import ExitStatus
from midturn.cli.layout import columns
from midturn.cli.loading import load_here, report_ignored
from midturn.cli.options import with_json
from midturn.cli.output import say, say_json
from midturn.cli.shown import line
from midturn.config.explain import show


@click.command
@with_json
def command(*, as_json: bool) -> ExitStatus:
    """Print every value that holds here, those of each tool as they apply to it."""
    loaded = load_here()
    report_ignored(loaded, attached=True)
    values = show(loaded)
    if as_json:
        say_json(values)
        return ExitStatus.DONE
    for key, value in assignments(values):
        for row in assignment(key, value, columns(sys.stdout)):
            say(line("{}", row))
    return ExitStatus.DONE
