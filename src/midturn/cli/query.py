"""`midturn query`: one turn."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click
from msgspec import Struct

from midturn.cli.attachment import is_attached
from midturn.cli.exit_status import ExitStatus
from midturn.cli.loading import Flags, load_for, report_ignored
from midturn.cli.open_turn import settle_open_turn
from midturn.cli.place import Place, environment, find_place
from midturn.cli.turn_display import OutputFormat
from midturn.cli.turn_run import TurnRun, run_turn
from midturn.compose.command_line import CommandParts
from midturn.config.assign import Assignment, static_answer
from midturn.config.load import Loaded
from midturn.config.places import state_directory
from midturn.core.events import ChatRequest
from midturn.core.json_value import JsonObject
from midturn.core.turn.inputs import TurnRequested
from midturn.store.store import ConversationJournal


class Query(Struct, frozen=True, kw_only=True):
    """What was asked on the command line; the fields are the flags of spec 8.2."""

    text: tuple[str, ...]
    continues: bool = False
    id: str | None = None
    model: str | None = None
    cfg: tuple[str, ...] = ()
    answer: tuple[str, ...] = ()
    non_interactive: bool = False
    defer: bool = False
    dry_run: bool = False
    local: bool = False
    store: Path | None = None
    output: OutputFormat = "text"
    max_cycles: int | None = None


@click.command(context_settings={"ignore_unknown_options": False})
@click.argument("text", nargs=-1)
@click.option("-c", "--continue", "continues", is_flag=True, help="Go on with the current conversation.")
@click.option("--id", metavar="ID", help="Go on with this conversation.")
@click.option("-m", "--model", metavar="MODEL", help="The model of this conversation: PROVIDER/MODEL, or scripted:FILE.")
@click.option("--cfg", multiple=True, metavar="KEY=VALUE|FILE", help="Set a key of the configuration, or read a file of keys.")
@click.option("--answer", multiple=True, metavar="TOOL.QUESTION=VALUE", help="Answer a question before it is asked.")
@click.option("--non-interactive", is_flag=True, help="Ask nobody; the detached policies decide.")
@click.option("--defer", is_flag=True, help="Ask nobody, and leave every question for somebody who comes by later.")
@click.option("--dry-run", is_flag=True, help="Print the request that would be sent, and send nothing.")
@click.option("--local", is_flag=True, help="Keep the conversation in your data directory, not in the workspace.")
@click.option("--store", type=click.Path(path_type=Path, file_okay=False), help="Keep the conversation in this directory.")
@click.option("--output", type=click.Choice(["text", "json", "jsonl"]), default="text", help="What stdout carries.")
@click.option("--max-cycles", type=click.IntRange(min=1), help="Call the model at most this often.")
def command(**given: object) -> ExitStatus:
    """Ask, and let the model answer with its tools. TEXT is what you ask; what is piped into stdin is added to it."""
    return run_query(Query(**given))  # type: ignore[arg-type]  # click has checked every field


def run_query(query: Query) -> ExitStatus:
    """Run one turn in a new conversation, or in the one that `-c` or `--id` names."""
    place = find_place(query.store, local=query.local)
    text = _request(query.text)
    attached = is_attached(environment(), non_interactive=query.non_interactive or query.defer)
    continued = place.conversation(query.id) if query.continues or query.id else None
    if continued:
        settled = settle_open_turn(place, continued, attached=attached)
        if settled is not None:
            return settled
    events = place.store.read(continued).events if continued else ()
    loaded = load_for(place, _flags(query), events)
    report_ignored(loaded, attached=attached)
    if query.dry_run:
        from midturn.cli.dry_run import print_request

        return print_request(CommandParts(settings=loaded.settings, root=place.root), events, ChatRequest(content=text))
    journal = _journal(place, continued, text)
    run = TurnRun(place=place, loaded=loaded, attached=attached, output=query.output)
    return run_turn(run, journal, TurnRequested(text, delta=_delta(loaded)))


def _request(words: Sequence[str]) -> str:
    """Return what is asked: the words, and what is piped into stdin."""
    piped = "" if sys.stdin is None or sys.stdin.isatty() else _piped()
    text = "\n\n".join(part for part in (" ".join(words), piped) if part.strip())
    if not text:
        raise click.UsageError('There is nothing to ask. Write `midturn query "…"`, or pipe text into it.')
    return text


def _piped() -> str:
    try:
        return sys.stdin.read()
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"stdin cannot be read as text: {error}.") from error


def _flags(query: Query) -> Flags:
    assignments = [static_answer(answer) for answer in query.answer]
    if query.model:
        assignments.append(Assignment("assistant.model.id", query.model, "--model"))
    if query.max_cycles:
        assignments.append(Assignment("limits.cycles", query.max_cycles, "--max-cycles"))
    return Flags(cfg=query.cfg, assignments=assignments, defer=query.defer)


def _delta(loaded: Loaded) -> JsonObject | None:
    return loaded.given.to_record(state_directory())


def _journal(place: Place, continued: str | None, text: str) -> ConversationJournal:
    """Hold the conversation; it becomes the current one before its first event is written (spec 7.1)."""
    journal = place.store.open(continued) if continued else place.store.create(text)
    if place.workspace:
        place.workspace.set_current(journal.conversation)
    return journal
