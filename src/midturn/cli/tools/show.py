"""`midturn tools show`."""

from __future__ import annotations

import json
from collections.abc import Iterator

import click
import msgspec

from midturn.cli.completing import complete_tools
from midturn.cli.exit_status import ExitStatus
from midturn.cli.layout import indented, table
from midturn.cli.options import with_json
from midturn.cli.output import say, say_json
from midturn.cli.shown import Shown, block, line
from midturn.cli.tools.known import known_here
from midturn.config.settings import ToolSettings
from midturn.core.names import BUILT_IN_TOOLS


@click.command
@click.argument("name", shell_complete=complete_tools)
@with_json
def command(name: str, *, as_json: bool) -> ExitStatus:
    """Show what a model is told about the tool NAME, and what is configured for it."""
    with known_here() as known:
        tool = known.named(name)
        definition, source = known.definition(tool), known.source(tool)
    if as_json:
        say_json(msgspec.to_builtins(definition))
        return ExitStatus.DONE
    for row in table([(line("{}", what), shown) for what, shown in _facts(tool, source)]):
        say(row)
    gutter = line("  ")
    say("\nWhat a model is told:")
    for row in indented(block(definition.description), gutter):
        say(row)
    say("\nParameters:")
    for row in indented(block(json.dumps(definition.parameters, ensure_ascii=False, indent=2)), gutter):
        say(row)
    return ExitStatus.DONE


def _facts(tool: ToolSettings, source: str | None) -> Iterator[tuple[str, Shown]]:
    yield "name", line("{}", tool.name)
    yield "source", line("{}", source)
    yield "offered", line("{} (allow_toggle = {})", "yes" if tool.enable.state else "no", tool.enable.allow_toggle)
    yield "run", line("{}", tool.policy.run)
    yield "result", line("{}", tool.policy.result)
    detached = tool.policy.detached
    yield "detached", line("run {}, deliver {}, tool {}", detached.run, detached.deliver, detached.tool)
    if tool.command:
        yield "command", line("{}", " ".join(tool.command))
        yield "protocol", line("{}", tool.protocol)
    asks = [*BUILT_IN_TOOLS.get(tool.name, ()), *(question for question in tool.policy.questions if question != "*")]
    for question in dict.fromkeys(asks):
        yield "asks", line("{} (answered by {})", question, tool.policy.question(question).target.kind)
