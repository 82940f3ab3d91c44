"""`midturn tools ls`."""

from __future__ import annotations

import click

from midturn.cli.exit_status import ExitStatus
from midturn.cli.layout import table
from midturn.cli.options import with_json
from midturn.cli.output import say, say_json
from midturn.cli.shown import Shown, line
from midturn.cli.tools.known import Known, known_here
from midturn.config.settings import ToolSettings


@click.command
@with_json
def command(*, as_json: bool) -> ExitStatus:
    """List the tools: whether they are offered (`on`, `off`), whether their calls are asked about, and what they do."""
    with known_here() as known:
        if as_json:
            say_json([_json(known, tool) for tool in known.tools.values()])
            return ExitStatus.DONE
        for row in table([_row(known, tool) for tool in known.tools.values()]):
            say(row)
    return ExitStatus.DONE


def _json(known: Known, tool: ToolSettings) -> dict[str, str | bool | None]:
    return {
        "name": tool.name,
        "source": known.source(tool),
        "enabled": tool.enable.state,
        "allow_toggle": tool.enable.allow_toggle,
        "run": tool.policy.run,
        "result": tool.policy.result,
        "summary": _summary(known, tool),
    }


def _row(known: Known, tool: ToolSettings) -> list[Shown]:
    state = line("on" if tool.enable.state else "off")
    return [line("{}", tool.name), state, line("{}", tool.policy.run), line("{}", _summary(known, tool))]


def _summary(known: Known, tool: ToolSettings) -> str:
    """Return the first line of what a model is told."""
    return next(iter(known.definition(tool).description.splitlines()), "")
