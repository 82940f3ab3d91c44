"""`midturn tools run`: one call without a model, routed like any other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

import click

from midturn.agent.result import result_of
from midturn.cli.asking import terminal
from midturn.cli.attachment import is_attached
from midturn.cli.completing import complete_tools
from midturn.cli.exit_status import ExitStatus
from midturn.cli.loading import Flags, load_for, report_ignored
from midturn.cli.options import with_non_interactive
from midturn.cli.output import note, say
from midturn.cli.place import environment, find_place
from midturn.cli.servers import connected
from midturn.cli.shown import block, line
from midturn.cli.signals import with_signals
from midturn.cli.tools.known import Known
from midturn.cli.turn_report import status_of
from midturn.compose.command_line import CommandLine, CommandParts
from midturn.compose.run_parts import RunParts
from midturn.config.assign import Assignment
from midturn.core.events import Event, ToolCallResponse
from midturn.core.json_text import NotJson, read_json
from midturn.core.json_value import Json
from midturn.core.turn.inputs import TurnRequested
from midturn.models.scripted import ScriptedModel
from midturn.runtime.driver import RunEnding
from midturn.store.memory_store import MemoryStore
from midturn.store.sync_forms import drive


@click.command
@click.argument("name", shell_complete=complete_tools)
@click.argument("arguments", nargs=-1, metavar="[KEY=VALUE]...")
@with_non_interactive
def command(name: str, arguments: tuple[str, ...], *, non_interactive: bool) -> ExitStatus:
    """Run the tool NAME once. Its arguments are KEY=VALUE (JSON, or else a string), or one JSON object.

    Its questions are routed as in a turn; nothing is recorded. The result goes to stdout.
    """
    place = find_place()
    attached = is_attached(environment(), non_interactive=non_interactive)
    given = read_arguments(arguments)
    loaded = load_for(place, Flags(assignments=[Assignment(f"conversation.tools.{name}.run", "unattended", "tools run")]))
    report_ignored(loaded, attached=attached)
    with connected(loaded.settings, place.root, attached=attached) as servers:
        Known(loaded.settings, servers.tools).named(name)
        parts = CommandParts(
            settings=loaded.settings, root=place.root, attached=attached, others=servers.tools, model=_calling(name, given)
        )
        return _call(name, parts)


def read_arguments(words: Sequence[str]) -> dict[str, Json]:
    """Read the arguments of a call.

    Raises:
        click.UsageError: They are neither KEY=VALUE nor an object.
    """
    if len(words) == 1 and words[0].lstrip().startswith("{"):
        try:
            return cast("dict[str, Json]", read_json(words[0]))
        except NotJson as error:
            raise click.UsageError(f"The arguments cannot be used: {error}.") from error
    return dict(map(_pair, words))


def _pair(word: str) -> tuple[str, Json]:
    key, equals, value = word.partition("=")
    if not equals or not key:
        raise click.UsageError(f"{word!r} is not an argument: write KEY=VALUE, or one JSON object.")
    try:
        return key, read_json(value)
    except NotJson:  # then it is a string
        return key, value


def _calling(name: str, arguments: dict[str, Json]) -> ScriptedModel:
    """Return a model that makes one call."""
    return ScriptedModel([{"calls": [{"name": name, "arguments": arguments}]}, {"text": "Done."}])


def _call(name: str, parts: CommandParts) -> ExitStatus:
    command_line = CommandLine(parts, RunParts(prompter=terminal(parts.settings) if parts.attached else None))
    journal = drive(MemoryStore().create(name))
    session = command_line.session(journal)

    async def run() -> RunEnding:
        return await session.run(TurnRequested(name))

    ending = asyncio.run(with_signals(run, session.interrupt))
    result = result_of(journal.conversation, session.window, ending)
    failed = _print(session.window)
    if result.status == "suspended":
        note("midturn: nobody was there to answer; run it at a terminal.")
        return ExitStatus.ERROR
    status = status_of(result)
    return ExitStatus.ERROR if failed and status == ExitStatus.DONE else status


def _print(turn: Sequence[Event]) -> bool:
    """Print what the model would read; say whether it is an error."""
    responses = [event for event in turn if isinstance(event, ToolCallResponse)]
    for response in responses:
        if response.is_error:
            note(line("midturn: {}", block(response.content)))
        else:
            say(block(response.content))
    return any(response.is_error for response in responses)
